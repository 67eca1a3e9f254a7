"""Every trouble of the corpus on the page, as somebody sees it who opens it: two clicks to the true cause."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect, sync_playwright

from troubles.corpus import NAMESPACE, Instance, Trouble, troubles
from troubles.judging import Answer
from troubles.served import ServedWorlds, served_worlds
from troubles.test_answers import instance_of
from waiting import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def worlds() -> Iterator[ServedWorlds]:
    with served_worlds() as found:
        yield found


@pytest.fixture(scope="module")
def page(worlds: ServedWorlds) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        opened = browser.new_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
        opened.goto(worlds.url)
        yield opened
        browser.close()


@pytest.mark.parametrize("trouble", troubles(), ids=lambda one: one.name)
def test_cause_and_remedy_are_two_clicks_away(trouble: Trouble, worlds: ServedWorlds, page: Page) -> None:
    instance = instance_of(trouble, "few")
    worlds.enter(instance)
    answer = worlds.ask(Answer.of)
    # Another query is another view: it is loaded again.
    page.goto(f"{page.url.split('#')[0]}#/pending?trouble={trouble.name}")
    expect(page.locator("main h1")).not_to_have_text("Pending")
    if _is_listed(answer, instance):
        page.locator(".causes .line", has_text=_name(instance)).first.click()
        _offers(page.locator(".causes .cause"), answer, most=3)
        page.locator(".causes .cause").get_by_role("button", name="Explain").click()
    else:
        _search(page, instance)
    pane = page.locator("aside")
    expect(pane.locator("h1")).to_have_text(_name(instance))
    headline = pane.locator(".headline")
    for words in instance.filled(trouble.headline.has):
        expect(headline).to_contain_text(str(words), ignore_case=True)
    for words in instance.filled(trouble.headline.lacks):
        expect(headline).not_to_contain_text(str(words), ignore_case=True)
    _offers(pane, answer)
    for command in [one["command"] for one in answer.changes if one.get("command")]:
        offered = pane.locator(".command", has=page.get_by_text(command, exact=True)).first
        offered.get_by_role("button").click()
        expect(offered.get_by_role("button")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == command


def _name(instance: Instance) -> str:
    return f"{NAMESPACE}/{instance.ask.partition('/')[2]}"


def _is_listed(answer: Answer, instance: Instance) -> bool:
    """True if Pending has a row about what is asked for; its pods may be listed by their names instead."""
    rows = [
        cause for part in ("causes", "elsewhere", "notStarted", "notCreated") for cause in answer.causes[part]
    ]
    kind = instance.ask.partition("/")[0]
    own = [row for row in rows if kind in ("pod", "podgroup") or row.get("workload")]
    return any(row["name"] == _name(instance) for row in own)


def _search(page: Page, instance: Instance) -> None:
    """Open what is asked for by a search for its name."""
    kind, _, name = instance.ask.partition("/")
    page.locator("#search-text").fill(name)
    said = re.compile("^Pod$|-[0-9]$" if kind == "pod" else f"^{kind}$", re.IGNORECASE)
    found = page.locator("#search-results li", has_text=_name(instance))
    found.filter(has=page.get_by_text(said)).first.click()


def _offers(place: Locator, answer: Answer, most: int = 100) -> None:
    """The place has the changes of the document, or its advice."""
    if not answer.changes:
        expect(place).to_contain_text(answer.remedy)
    for one in answer.changes[:most]:
        expect(place.get_by_label("Changes that would help").first).to_contain_text(one["text"])
