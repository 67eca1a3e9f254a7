"""Recording a cluster from outside, with any scheduler: watch events of everything that decisions depend
on."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from stowplan import __version__
from stowplan.api.meta import Object
from stowplan.api.requests import EVERY_OBJECT
from stowplan.client import Reader, Reflector
from stowplan.runtime.clock import Clock
from stowplan.scheduler.informers import UNFINISHED
from stowplan.scheduler.recording.files import Header
from stowplan.scheduler.recording.recorder import EntryWriter
from stowplan.scheduler.recording.segments import Recording
from stowplan.scheduler.watched import AROUND_PODS, DEVICES, NODES, PODS, STORAGE, Watched

WATCHED: tuple[Watched, ...] = (*AROUND_PODS, *STORAGE, *DEVICES, NODES, PODS)


class ClusterRecorder:
    """Watches a cluster and records what happens in it. Entered by `run`, until cancelled."""

    def __init__(
        self,
        recording: Recording,
        reader: Reader,
        *,
        clock: Clock,
        source: str,
        report: Callable[[str], None],
    ) -> None:
        header = Header(
            recording="",
            number=0,
            session=recording.new_session(),
            wall=clock.now(),
            monotonic=clock.monotonic(),
            resources=[],
            source=source,
            written_by=__version__,
        )
        self._writer = EntryWriter(recording, header, clock, report)
        self.events = 0
        self.bindings = 0
        self._reflectors: list[Reflector[Any]] = [
            Reflector(
                reader,
                kind.served,
                kind.cls,
                self._writer.handler(kind.served.dotted, _Counter(self)),
                clock=clock,
                rng=Random(),
                report=report,
                selection=UNFINISHED if kind is PODS else EVERY_OBJECT,
                stream=reader.streams(kind.served),
                without=kind.without,
            )
            for kind in WATCHED
        ]

    async def run(self) -> None:
        """Record until cancelled. Raises OSError if nothing can be written."""
        self._writer.begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writer.run())
            group.create_task(self._rotate())
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Wait until everything that exists was heard of, but for kinds that the server does not give."""
        for reflector in self._reflectors:
            await reflector.wait_settled()

    async def _rotate(self) -> None:
        while True:
            await asyncio.sleep(1)
            if self._writer.is_full:
                objects = {one.resource.dotted: list(one.objects.values()) for one in self._reflectors}
                self._writer.go_on(objects, None)


class _Counter:
    """Counts what is recorded."""

    def __init__(self, recorder: ClusterRecorder) -> None:
        self._recorder = recorder

    def added(self, new: Object) -> None:
        self._recorder.events += 1

    def updated(self, old: Object, new: Object) -> None:
        self._recorder.events += 1
        spec = getattr(new, "spec", None)
        if getattr(spec, "node_name", "") and not getattr(old.spec, "node_name", ""):  # type: ignore[attr-defined]
            self._recorder.bindings += 1

    def deleted(self, last: Object) -> None:
        self._recorder.events += 1
