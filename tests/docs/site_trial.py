"""Try the documentation site as a reader would, from the disk and without a network (`make docs-trial`).

Every link leads to a file and a heading that exist, and a search in a real browser finds pages.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

from playwright.sync_api import sync_playwright

PATIENCE = 120_000.0
SEARCHED = {
    "preemption": "reference/framework.html",
    "kubeadm": "docs/kubeadm.html",
    "drain": "docs/whatif.html",
}
"""Search terms, and a page that has to be among the results."""

_LINK = re.compile(r'<a\b[^>]*\bhref="([^"]*)"')
_ANCHOR = re.compile(r'\bid="([^"]+)"')


def broken(site: Path) -> list[str]:
    """Links within the site that lead nowhere."""
    anchors = {page: set(_ANCHOR.findall(page.read_text())) for page in site.rglob("*.html")}
    found = []
    for page in sorted(anchors):
        # The server may show the page of missing pages anywhere, so its links are absolute.
        for link in set(_LINK.findall(page.read_text())) if page.name != "404.html" else ():
            path, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", path):
                continue
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and target in anchors and anchor not in anchors[target]):
                found.append(f"{page.relative_to(site)}: {link}")
    return found


def searched(site: Path) -> list[str]:
    """Results of a search in a browser, for each of the words; fails if an expected one is missing."""
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        context = browser.new_context(offline=True)
        context.set_default_timeout(PATIENCE)
        failed: list[str] = []
        context.on("requestfailed", lambda request: failed.append(request.url))
        for word, page in SEARCHED.items():
            tab = context.new_page()
            tab.goto(site.joinpath("index.html").as_uri())
            tab.locator("input.md-search__input").press_sequentially(word)
            tab.locator(f'.md-search-result__link[href*="{page}"]').first.wait_for(state="attached")
            assert not failed, failed
            found.append(f"{word}: {tab.locator('.md-search-result__item').count()} pages")
        browser.close()
    return found


def main(site: Path) -> None:
    wrong = broken(site)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"all links lead somewhere; searching finds {', '.join(searched(site))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
