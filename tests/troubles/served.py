"""The page over HTTP, for clusters in virtual time that take turns: what it shows is that of the latest.

A cluster takes a tenth of a second to make, a process with one takes ten times that. The server keeps real
time, because a browser does; requests for documents are answered in the cluster's.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import Any, TypeVar

from stowplan.explain.web.access import EVERYTHING, Viewer
from stowplan.explain.web.http import PageServer
from stowplan.explain.web.routes import PREFIX, Answer, Query
from stowplan.explain.web.stream import event
from troubles.corpus import Instance
from troubles.world import World, world

T = TypeVar("T")

_EVERY = 1.0
"""Seconds between two signs of life."""


class ServedWorlds:
    """Routes that are those of one world after another. Everything in a world happens in one thread."""

    def __init__(self) -> None:
        self._worlds = ThreadPoolExecutor(1, "world")
        self._world: World | None = None
        self._left: Any = None
        self._ended = asyncio.Event()
        self.url = ""

    # For tests

    def enter(self, instance: Instance) -> None:
        """Make a cluster and show it in place of the one before."""
        self.leave()
        self._left = world(instance)
        self._world = self.do(self._left.__enter__)

    def leave(self) -> None:
        left, self._left, self._world = self._left, None, None
        if left is not None:
            self.do(lambda: left.__exit__(None, None, None))

    def ask(self, question: Callable[[World], T]) -> T:
        """What a function says of the cluster."""
        found = self._world
        assert found is not None
        return self.do(partial(question, found))

    def do(self, work: Callable[[], T]) -> T:
        return self._worlds.submit(work).result()

    # As the server sees it

    async def answer(self, path: str, query: Query, viewer: Viewer) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._worlds, self._answer, path, query)

    def _answer(self, path: str, query: Query) -> Answer:
        if self._world is None:
            return Answer(503, {"message": "no cluster"})
        return self._world.run(self._world.cluster.routes.answer(path, query, EVERYTHING))

    @property
    def inspection(self) -> "ServedWorlds":
        return self

    @property
    def feed(self) -> "ServedWorlds":
        return self

    async def events(self, viewer: Viewer, about: str = "") -> AsyncIterator[bytes]:
        """Signs of life: nothing changes while somebody looks."""
        while not self._ended.is_set():
            yield event("hello", (await self.answer(PREFIX, {}, viewer)).document)
            await asyncio.wait({asyncio.ensure_future(self._ended.wait())}, timeout=_EVERY)

    def close(self) -> None:
        self._ended.set()


@contextmanager
def served_worlds() -> Iterator[ServedWorlds]:
    """A server for worlds, in a thread."""
    worlds = ServedWorlds()
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="page server")
    thread.start()
    server = PageServer(worlds)  # type: ignore[arg-type]

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        run(server.__aenter__())
        worlds.url = server.url
        try:
            yield worlds
        finally:
            run(server.__aexit__())
    finally:
        worlds.leave()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
