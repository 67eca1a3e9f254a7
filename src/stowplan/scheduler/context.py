"""What the parts of a scheduler share."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from stowplan.api.pod import Pod
from stowplan.client import Client
from stowplan.clock import Clock
from stowplan.extenders import Extender
from stowplan.framework.framework import Framework
from stowplan.framework.lifecycle import Lifecycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.points import Point
from stowplan.framework.waiting import WaitingPods
from stowplan.logs import Journal
from stowplan.metrics import SchedulerMetrics
from stowplan.queue.scheduling_queue import SchedulingQueue
from stowplan.reporting import EventRecorder
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.prebinding import PreBindingPods
from stowplan.scheduler.standstill import StandStill


class Profile:
    """One profile at work: its plugins where decisions are made, and where they are carried out."""

    def __init__(self, framework: Framework) -> None:
        self.name = framework.profile.scheduler_name
        self.framework = framework
        self.lifecycle = Lifecycle(framework)
        self.post_filters: Sequence[Plugin] = framework.at(Point.POST_FILTER)


class Tasks:
    """Work that goes on beside the scheduling of pods. What fails unexpectedly ends the scheduler."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[asyncio.Task[None], bool] = {}

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._running)

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Let tasks belong to a group from now on."""
        self._group = group

    def start(
        self, work: Coroutine[Any, Any, None], name: str, *, lasting: bool = False
    ) -> "asyncio.Task[None]":
        """Begin something. What is `lasting` goes on until it is cancelled; all else ends by itself."""
        if self._group is None:
            work.close()
            raise RuntimeError("the scheduler is not running")
        task = self._group.create_task(work, name=name)
        self._running[task] = lasting
        task.add_done_callback(self._running.pop)
        return task

    async def settled(self) -> None:
        """Come back when everything that ends by itself has ended."""
        while under_way := [task for task, lasting in self._running.items() if not lasting]:
            await asyncio.wait(under_way)

    def stop(self) -> None:
        """End all of them, and take no more."""
        self._group = None
        for task in self._running:
            task.cancel()


@dataclass(slots=True)
class Context:
    """The parts of one scheduler, as the others need them.

    `find` gives a pod as the API server last told of it, by `namespace/name`. `timer` measures how long
    things take; `clock` says what time it is. `stir` says that a pod may have become ready.
    """

    client: Client
    clock: Clock
    timer: Callable[[], float]
    rng: Random
    cache: Cache
    queue: SchedulingQueue
    waiting: WaitingPods
    metrics: SchedulerMetrics
    recorder: EventRecorder
    journal: Journal
    decisions: LastDecisions
    find: Callable[[str], Pod | None]
    stir: Callable[[], None]
    extenders: Sequence[Extender] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    still: StandStill = field(default_factory=StandStill)
    pre_binding: PreBindingPods = field(default_factory=PreBindingPods)
    tasks: Tasks = field(default_factory=Tasks)

    def event(self, pod: Pod, *, type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod in the name of its profile."""
        self.recorder.event(pod, type, reason, action, note, pod.spec.scheduler_name)
