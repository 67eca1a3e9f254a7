"""A store, a client of it that can be made to fail, and a handler that checks its calls."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from stowplan.api import catalogue as c
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import GeneratorWatch, Listing, Reflector, WatchEvent
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock


def pod(name: str, **metadata: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "d", **metadata}, "spec": {"containers": [{"name": "c"}]}}


class Checked:
    """A handler that holds the reflector to its nomination: added once, then updated, then deleted."""

    def __init__(self) -> None:
        self.objects: dict[str, Pod] = {}
        self.told: list[str] = []

    def added(self, new: Pod) -> None:
        assert new.key not in self.objects, f"{new.key} added twice"
        self.objects[new.key] = new
        self.told.append(f"+{new.name}")

    def updated(self, old: Pod, new: Pod) -> None:
        assert self.objects.get(new.key) is old, f"{new.key} updated from what it was not"
        assert old.metadata.uid == new.metadata.uid, f"{new.key} updated into another object"
        self.objects[new.key] = new
        self.told.append(f"~{new.name}")

    def deleted(self, last: Pod) -> None:
        known = self.objects.pop(last.key, None)
        assert known is not None, f"{last.key} deleted though unknown"
        assert known.metadata.uid == last.metadata.uid, f"another {last.key} deleted"
        self.told.append(f"-{last.name}")


class Moody(InProcessClient):
    """A client that notes its requests and answers as scripted.

    `moods` are errors for the next requests, None for an answer. `hang_up` ends all watches in progress;
    `stop_after` ends every watch after that number of events.
    """

    def __init__(self, store: Store, clock: VirtualClock, **options: Any) -> None:
        super().__init__(store, **options)
        self.clock = clock
        self.asked: list[str] = []
        self.times: list[float] = []
        self.moods: deque[ApiError | None] = deque()
        self.open: list[Any] = []
        self.stop_after: int | None = None

    def _note(self, what: str) -> None:
        self.asked.append(what)
        self.times.append(self.clock.now())
        mood = self.moods.popleft() if self.moods else None
        if mood is not None:
            raise mood

    async def list(self, resource: c.Resource, cls: type[Any], **options: Any) -> Listing[Any]:
        self._note(f"list {options['not_older_than']}".strip())
        return await super().list(resource, cls, **options)

    def watch(self, resource: c.Resource, cls: type[Any], **options: Any) -> GeneratorWatch[Any]:  # type: ignore[override]
        return GeneratorWatch(self._events(resource, cls, **options))

    async def _events(  # a generator, so that a refusal is raised when the first event is read
        self, resource: c.Resource, cls: type[Any], **options: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        how = "stream" if options["initial_events"] else "watch"
        self._note(f"{how} {options['since']}".strip())
        watch = super().watch(resource, cls, **options)
        self.open.append(watch)
        seen = 0
        while seen != self.stop_after:
            event = await anext(watch, None)
            if event is None:
                return
            yield event
            seen += 1

    def hang_up(self) -> None:
        for watch in self.open:
            watch.end()
        self.open.clear()


class World:
    """Setup of a reflector test."""

    def __init__(
        self, clock: VirtualClock, *, stream: bool = False, without: str = "", **options: Any
    ) -> None:
        buffer = options.pop("buffer", 1000)
        self.clock = clock
        self.store = Store(clock, random.Random(1), **options)
        self.client = Moody(self.store, clock, buffer=buffer)
        self.handler = Checked()
        self.reports: list[str] = []
        self.informed: list[str] = []
        self.reflector = Reflector(
            self.client,
            c.PODS,
            Pod,
            self.handler,
            clock=clock,
            rng=random.Random(2),
            report=self.reports.append,
            stream=stream,
            without=without,
            inform=self.informed.append,
        )

    def check(self) -> None:
        """The picture is what the store has, and what the handler was told."""
        stored = {f"d/{obj['metadata']['name']}": obj for obj in self.store.list(c.PODS).items}
        assert self.reflector.objects.keys() == stored.keys()
        for key, obj in self.reflector.objects.items():
            assert obj.metadata.resource_version == stored[key]["metadata"]["resourceVersion"]
        assert self.handler.objects == dict(self.reflector.objects)


@asynccontextmanager
async def running(world: World) -> AsyncGenerator[World, None]:
    """Runs the reflector for as long as the block takes."""
    task = asyncio.create_task(world.reflector.run())
    try:
        await asyncio.sleep(0)
        yield world
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
