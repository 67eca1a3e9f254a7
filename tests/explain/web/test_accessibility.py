"""The page for everybody: contrast, colour-blindness, screen readers, the keyboard, reduced motion.

Chromium computes the colours and the accessibility tree; the cluster is in virtual time.
"""

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Literal

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from stowplan.explain.report.page import FOLDER
from troubles.corpus import Instance, named
from troubles.served import served_worlds
from waiting import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
VIEWS = (
    "cluster",
    "cluster?by=pool&fill=cpu",
    "cluster?pod=shop%2Fweb",
    "pending?cause=shop%2Fweb",
    "groups",
    "queue",
    "decisions",
    "try",
    "pending~pod/shop/web",
    "cluster~node/infer-0",
    "pending~deployment/shop/base",
    "pending~pod/shop/nobody",
)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with served_worlds() as worlds, sync_playwright() as playwright:
        worlds.enter(Instance.of([named("cpu-of-a-full-pool")], "few"))
        worlds.ask(lambda world: world.kubectl("kubectl cordon general-0"))
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        opened = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        opened.goto(worlds.url)
        yield opened
        browser.close()


def go(page: Page, view: str) -> None:
    page.goto(f"{page.url.split('#')[0]}#/{view}")
    expect(page.locator("main > .inner > *").first).to_be_attached()
    expect(page.locator("main")).not_to_contain_text("Loading")
    expect(page.locator(".attention", has_text="finding out")).to_have_count(0)
    if "~" in view:
        expect(page.locator("aside h1")).to_be_visible()


# Contrast

TOO_FAINT = r"""() => {
  const parsed = (text) => {
    const parts = text.match(/[\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts[3] ?? 1 };
  };
  const over = (one, alpha, below) => one.map((value, place) => alpha * value + (1 - alpha) * below[place]);
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      layers.push(parsed(getComputedStyle(at).backgroundColor));
      if (layers.at(-1).alpha === 1) break;
    }
    return layers.reverse().reduce((below, one) => over(one.rgb, one.alpha, below), [255, 255, 255]);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const grounds = [behind(node)];
    // Words of a funnel stand on a bar that is half transparent.
    const bar = node.closest(".words")?.previousElementSibling;
    if (bar) {
      const look = getComputedStyle(bar);
      grounds.push(over(parsed(look.backgroundColor).rgb, Number(look.opacity), grounds[0]));
    }
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const colour = parsed(node.closest("svg") ? style.fill : style.color);
    for (const ground of grounds) {
      const ratio = contrast(over(colour.rgb, colour.alpha, ground), ground);
      if (ratio < (large ? 3 : 4.5)) found.set(`${ratio.toFixed(2)} ${text.data.trim().slice(0, 40)}`, true);
    }
  }
  return [...found.keys()];
}"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_all_text_has_the_contrast_of_wcag_aa(page: Page, scheme: Scheme) -> None:
    page.emulate_media(color_scheme=scheme)
    faint = {}
    for view in VIEWS:
        go(page, view)
        faint[view] = page.evaluate(TOO_FAINT)
    assert {view: some for view, some in faint.items() if some} == {}


# Colours of the tiles

STATES = ("tile", "fill", "fill-high", "fill-full", "good")
"""Empty, below 80 %, above, full, would take the pod."""
Colour = tuple[float, ...]
Matrix = tuple[Colour, Colour, Colour]
SIGHTS: dict[str, Matrix] = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.1523, 1.0526, -0.2049), (0.1145, 0.7863, 0.0992), (-0.0039, -0.0481, 1.0520)),
    "deuteranopia": ((0.3673, 0.8606, -0.2280), (0.2801, 0.6725, 0.0474), (-0.0118, 0.0429, 0.9689)),
    "tritanopia": ((1.2555, -0.0767, -0.1788), (-0.0784, 0.9308, 0.1476), (0.0047, 0.6914, 0.3039)),
}
"""Machado, Oliveira and Fernandes (2009), of linear RGB."""
APART = 15
"""Distance in CIELAB; 2.3 is just noticeable, side by side."""


def _colours(scheme: Scheme) -> dict[str, Colour]:
    """The colours of the states as linear RGB, as the style sheet has them."""
    light, _, dark = FOLDER.joinpath("base.css").read_text().partition("@media (prefers-color-scheme: dark)")
    text = light if scheme == "light" else dark
    found = {}
    for state in STATES:
        match = re.search(rf"--{state}: #(\w\w)(\w\w)(\w\w)", text)
        assert match is not None, state
        parts = [int(part, 16) / 255 for part in match.groups()]
        found[state] = tuple(
            one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
        )
    return found


def _seen(colour: Colour, sight: Matrix) -> Colour:
    return tuple(min(1.0, max(0.0, sum(a * b for a, b in zip(row, colour, strict=True)))) for row in sight)


def _luminance(colour: Colour) -> float:
    return sum(part * of for part, of in zip((0.2126, 0.7152, 0.0722), colour, strict=True))


def _lab(colour: Colour) -> Colour:
    red, green, blue = colour
    axes = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        _luminance(colour),
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.0888,
    )
    x, y, z = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in axes)
    return (116 * y - 16, 500 * (x - y), 200 * (y - z))


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_states_of_tiles_are_told_apart_by_everybody(scheme: Scheme, sight: str) -> None:
    seen = {state: _lab(_seen(colour, SIGHTS[sight])) for state, colour in _colours(scheme).items()}
    for one, other in combinations(STATES, 2):
        distance = sum((a - b) ** 2 for a, b in zip(seen[one], seen[other], strict=True)) ** 0.5
        assert distance >= APART, (one, other, distance)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_filling_stands_out_from_its_tile(scheme: Scheme) -> None:
    colours = _colours(scheme)
    for state in STATES[1:]:
        low, high = sorted((_luminance(colours["tile"]), _luminance(colours[state])))
        assert (high + 0.05) / (low + 0.05) >= 3, state


# Screen readers

FRAME = """
- banner:
  - navigation "Places":
    - link "stowplan"
    - link "Cluster"
    - link "Pending"
    - link "Groups"
    - link "Queue"
    - link "Decisions"
    - link "Try it"
  - search:
    - searchbox "Search pods, workloads, groups, nodes, labels, causes"
  - button "Share"
  - button "Keys"
  - status
- main
"""
POD = """
- complementary "Details":
  - heading "shop/web" [level=1]
  - button "Close"
  - paragraph: /shop/web is pending/
  - heading /Any one of these/ [level=2]
  - list "Changes that would help"
  - list "How far it came"
  - heading "Nodes ruled out" [level=2]
  - heading "What happened" [level=2]
  - img /attempt/
  - table "What happened"
"""
CAUSE = """
- main:
  - heading /1 pod waits/ [level=1]
  - combobox "Namespace"
  - searchbox "Filter"
  - list "Causes":
    - listitem:
      - button /shop.web/ [expanded]
      - list "Changes that would help"
"""


def test_a_screen_reader_is_told_places_details_and_changes(page: Page) -> None:
    go(page, "cluster")
    expect(page.locator("body")).to_match_aria_snapshot(FRAME)
    canvas = page.get_by_role("img", name="Nodes of the cluster as tiles")
    expect(canvas).to_have_accessible_name(re.compile("the table below has the same numbers"))
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("table", name="Requested by group")).to_be_visible()
    expect(page.get_by_role("link", name="Cluster", exact=True)).to_have_attribute("aria-current", "page")
    go(page, "pending?cause=shop%2Fweb")
    expect(page.locator("body")).to_match_aria_snapshot(CAUSE)
    go(page, "pending~pod/shop/web")
    expect(page.locator("body")).to_match_aria_snapshot(POD)
    # What changes by itself is announced, what is wrong at once.
    assert page.locator("#status").get_attribute("aria-live") == "polite"
    assert page.locator("#lost").get_attribute("role") == "alert"


def test_everything_that_can_be_pressed_has_a_name(page: Page) -> None:
    nameless = """() => [...document.querySelectorAll("button, a, input, select, summary, [role=button]")]
      .filter((one) => one.checkVisibility())
      .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length))
      .map((one) => one.outerHTML)"""
    for view in VIEWS:
        go(page, view)
        assert page.evaluate(nameless) == [], view


# The keyboard


def test_the_keyboard_reaches_the_remedy_and_comes_back(page: Page) -> None:
    go(page, "cluster")
    page.keyboard.press("2")
    expect(page.locator(".causes .line").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    copy = page.locator(".causes .cause .copy").first
    expect(copy).to_be_visible()
    for _ in range(4):
        page.keyboard.press("Tab")
        if copy.evaluate("(one) => one === document.activeElement"):
            break
    expect(copy).to_be_focused()
    assert copy.evaluate("(one) => getComputedStyle(one).outlineStyle") == "solid"


def test_focus_goes_through_all_there_is_in_its_order(page: Page) -> None:
    go(page, "pending~pod/shop/web")
    page.locator(".brand").focus()
    seen = ["header"]
    for _ in range(60):
        page.keyboard.press("Tab")
        place = page.evaluate("document.activeElement.closest('header, main, aside')?.localName ?? ''")
        if not place:
            break
        if seen[-1] != place:
            seen.append(place)
    assert seen == ["header", "main", "aside"]


# Motion


def test_nothing_moves(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    for view in VIEWS:
        go(page, view)
        assert page.evaluate("document.getAnimations().length") == 0, view
    page.emulate_media(reduced_motion="no-preference")
