"""Fixtures of the page in a real browser."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from explain.web.browsing import BUSY
from localcluster.up.clusters import Up, up


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("page")
    manifest = folder / "busy.yaml"
    manifest.write_text(BUSY)
    with up(folder, "--load", str(manifest), "--nodes", "3") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def page(cluster: Up, browser: Browser) -> Iterator[Page]:
    """The page, signed in by the printed address, with every error of the console collected."""
    said = [cluster.line() for _ in range(2)]
    [address] = re.findall(r"http://127\.0\.0\.1:\d+/stowplan/\?token=\S+", "".join(said))
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    problems: list[str] = []

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            problems.append(message.text)

    opened.on("console", console)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    requests: set[str] = set()
    opened.on("request", lambda request: requests.add(request.url.split("/")[2]))
    opened.goto(address)
    expect(opened.locator("#status")).to_contain_text("waiting", timeout=20_000)
    yield opened
    assert problems == []
    assert requests == {opened.url.split("/")[2]}, "nothing is asked of anybody else"
    context.close()


@pytest.fixture
def go(page: Page) -> Callable[[str], None]:
    def there(place: str) -> None:
        page.goto(f"{page.url.split('#')[0]}#/{place}")

    return there
