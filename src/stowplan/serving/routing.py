"""Which page answers which path."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from aiohttp import web

Page: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""Answers requests that were let in. It sees every method and may read `request.path` and `request.query`."""

Pages: TypeAlias = Mapping[str, Page]
"""Pages by path. A path that ends in "/" also stands for everything below it."""


class Router:
    """Finds the page for a path: the path itself, else the longest prefix; nothing is cleaned or guessed."""

    def __init__(self, pages: Pages) -> None:
        for path in pages:
            if not path.startswith("/"):
                raise ValueError(f"pages: {path!r} does not begin with a slash")
        self._pages = dict(pages)
        prefixes = [path for path in pages if path.endswith("/")]
        self._prefixes = sorted(prefixes, key=len, reverse=True)

    def page(self, path: str) -> Page | None:
        found = self._pages.get(path)
        if found is not None:
            return found
        prefix = next((prefix for prefix in self._prefixes if path.startswith(prefix)), None)
        return None if prefix is None else self._pages[prefix]
