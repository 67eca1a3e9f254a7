"""Reading objects: one, many, and what changes."""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from stowplan.api import status
from stowplan.api.requests import FieldTerm, Json, Selection
from stowplan.embedded.apiserver.answers import answer
from stowplan.embedded.apiserver.negotiation import wanted
from stowplan.embedded.apiserver.options import ListOptions, continue_token, list_options
from stowplan.embedded.apiserver.paths import Target
from stowplan.embedded.apiserver.views import View, Views, encode
from stowplan.embedded.apiserver.watches import HEADERS, HttpWatch
from stowplan.embedded.store import Store, Watcher
from stowplan.embedded.store.paging import Page

LONGEST_WATCH: Final = 1800.0
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You must start a new "
    "list without the continue parameter."
)


class Reading:
    """The verbs that change nothing."""

    def __init__(self, store: Store, views: Views, rng: random.Random, watch_limit: int) -> None:
        self._store = store
        self._views = views
        self._rng = rng
        self._watch_limit = watch_limit
        self._watches: dict[HttpWatch, Watcher] = {}

    def get(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        wire = self._views.wire(target.resource)
        obj = self._store.get(wire.stored, target.namespace, target.name)
        return answer(self._view(request, target, query).raw(obj))

    async def list(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str]
    ) -> web.StreamResponse:
        """A list, or the watch of it."""
        options = list_options(query)
        if options.watch:
            return await self._watch(request, target, query, options)
        if options.version is not None and options.version > self._store.version:
            raise status.too_large_version(options.version, self._store.version)
        page = self._page(target, options)
        metadata: Json = {"resourceVersion": str(page.version)}
        if page.last is not None:
            metadata["continue"] = continue_token(page.version, page.last)
            if page.remaining is not None and options.selection.is_empty:
                metadata["remainingItemCount"] = page.remaining
        return answer(self._view(request, target, query).listing(page.items, metadata))

    def end_watches(self) -> None:
        """End all watches, as a server does that stops."""
        for watch in list(self._watches):
            watch.end()

    def _page(self, target: Target, options: ListOptions) -> Page:
        wire = self._views.wire(target.resource)
        try:
            return self._store.page(
                wire.stored, target.namespace, wire.selection(options.selection), options.place
            )
        except status.ApiError as error:
            if error.is_expired and options.place.after is not None:
                raise status.expired(_TOO_OLD) from None
            raise

    async def _watch(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str], options: ListOptions
    ) -> web.StreamResponse:
        wire = self._views.wire(target.resource)
        view = self._view(request, target, query)
        watch = HttpWatch(view, self._store.settled, self._watch_limit)
        selection = wire.selection(options.selection)
        if target.name:
            selection = by_name(selection, target.name)
        any_version = options.version is None
        try:
            watcher = self._store.watch(
                wire.stored,
                watch.tell,
                namespace=target.namespace,
                selection=selection,
                since=options.version,
                initial_events=options.initial_events or any_version,
                bookmarks=options.bookmarks,
            )
        except status.ApiError as error:
            if not error.is_expired:
                raise
            return await _ended_with(request, error)
        backlog = list(watcher.backlog)
        watcher.backlog = ()
        if any_version and not options.initial_events:
            backlog.pop()
        self._watches[watch] = watcher
        seconds = options.timeout or LONGEST_WATCH * (1 + self._rng.random())
        try:
            return await watch.serve(request, backlog, asyncio.get_running_loop().time() + seconds)
        finally:
            del self._watches[watch]
            watcher.close()

    def _view(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> View:
        form = wanted(request.headers.get("Accept", ""))
        return self._views.view(target.resource, form, query.get("includeObject", ""))


async def _ended_with(request: web.BaseRequest, error: status.ApiError) -> web.StreamResponse:
    """A watch that says only why there is nothing to watch."""
    response = web.StreamResponse(headers=HEADERS)
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(b'{"type":"ERROR","object":' + encode(error.status()) + b"}\n")
    await response.write_eof()
    return response


def by_name(selection: Selection, name: str) -> Selection:
    """The selection, of one object only."""
    return Selection(selection.labels, (*selection.fields, FieldTerm("metadata.name", name)))
