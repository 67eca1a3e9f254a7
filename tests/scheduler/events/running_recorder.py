"""A recorder at work in virtual time."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from scheduler.events.collected_events import Desk, Written, pod
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.runtime.clock import Clock, VirtualClock, run
from stowplan.scheduler.events import EventRecorder

MINUTE = 60.0


class Office:
    """A recorder at work, what it wrote and what it complained about."""

    def __init__(
        self,
        clock: VirtualClock,
        *answers: ApiError | None,
        seconds: float = 0.0,
        gather: float = 0.0,
        dated_by: Clock | None = None,
    ) -> None:
        self.others_wait = False
        self.clock = clock
        self.began = clock.now()
        self.complaints: list[str] = []
        self.desk = Desk(clock, *answers, seconds=seconds)
        self.recorder = EventRecorder(
            self.desk,
            dated_by or clock,
            random.Random(1),
            "vm",
            self.complaints.append,
            others_wait=lambda: self.others_wait,
            gather=gather,
        )

    @property
    def written(self) -> list[Written]:
        return self.desk.written

    @property
    def times(self) -> list[float]:
        return [each.at - self.began for each in self.written]

    def fail(self, about: Pod | None = None, note: str = "no", type: str = "Warning") -> None:
        self.recorder.event(
            about or pod(),
            type=type,
            reason="FailedScheduling",
            action="Scheduling",
            note=note,
            controller="mine",
        )

    async def sleep_until(self, time: float) -> None:
        await asyncio.sleep(self.began + time - self.clock.now())


def at_work(
    main: Callable[[Office], Awaitable[None]],
    *answers: ApiError | None,
    seconds: float = 0.0,
    gather: float = 0.0,
) -> Office:
    """Run the recorder in virtual time concurrently with `main`."""

    async def begin(clock: VirtualClock) -> Office:
        office = Office(clock, *answers, seconds=seconds, gather=gather)
        running = asyncio.create_task(office.recorder.run())
        await main(office)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return office

    return run(begin)


class Nothing(list[Written]):
    def append(self, written: Written) -> None:
        """Keep nothing."""
