"""What the parts of a scheduler share."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final

from stowplan.api.pod import Pod
from stowplan.client import Client
from stowplan.runtime.clock import Clock
from stowplan.runtime.clock.virtual import VirtualTimeLoop
from stowplan.runtime.logs import Logger
from stowplan.runtime.logs.tracebacks import formatted
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.cycle_costs import CycleCosts
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.events import EventRecorder
from stowplan.scheduler.extenders import Extender
from stowplan.scheduler.framework.budget import Step
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.held_pods import AwaitedDeletions
from stowplan.scheduler.framework.interface import ExtensionPoint, Plugin
from stowplan.scheduler.framework.protocols import PreemptionPlugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.table.podinfo import PodInfo

if TYPE_CHECKING:
    from stowplan.scheduler.api_dispatcher import ApiDispatcher
    from stowplan.scheduler.batching import Batch
    from stowplan.scheduler.failure_handler import Failure
    from stowplan.scheduler.result_annotations import ResultAnnotations
    from stowplan.scheduler.turns import Turns

SLICE: Final = 0.01
"""Seconds that the scheduling loop may work before everybody else gets a turn of the event loop."""

PATIENCE: Final = 0.2
"""Seconds that other pods wait for the long search of one; then it is put aside (long_searches.py)."""


class Profile:
    """One profile at work: its plugins where decisions are made, and where they are carried out."""

    def __init__(self, framework: Framework) -> None:
        self.name = framework.profile.scheduler_name
        self.framework = framework
        self.lifecycle = Lifecycle(framework)
        self.post_filters: Sequence[Plugin] = framework.at(ExtensionPoint.POST_FILTER)
        self.preemption = next((one for one in self.post_filters if isinstance(one, PreemptionPlugin)), None)
        """The PostFilter plugin whose victims are evicted, if there is one."""
        self.batch: Batch | None = None
        """Follows the rules of opportunistic batching, if its gate is on."""

    @property
    def preemption_name(self) -> str:
        """What logs and events call that plugin."""
        return self.preemption.name if isinstance(self.preemption, Plugin) else ""


class SchedulingObserver:
    """Hooks for who looks over a scheduler's shoulder, as tests of invariants do. Override what you need."""

    def popped(self, queued: QueuedPod) -> None:
        """A pod was taken from the queue; its scheduling cycle has not begun."""

    def assuming(self, pod: PodInfo, node: str) -> None:
        """A node was chosen for a pod; the cache does not have it there yet."""

    def failed(self, queued: QueuedPod, failure: "Failure") -> None:
        """A pod could not be scheduled or bound; nothing was done about it yet."""

    def assigned(self, pod: Pod) -> None:
        """The API server says that a pod has a node; the cache does not have it there yet."""


class Tasks:
    """Work that goes on beside the scheduling loop. What fails unexpectedly ends the scheduler."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[asyncio.Task[None], bool] = {}

    def __len__(self) -> int:
        """How many are running."""
        return len(self._running)

    @property
    def is_running(self) -> bool:
        """Whether tasks can be started."""
        return self._group is not None

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Let tasks belong to a group from now on."""
        self._group = group

    def start(
        self, work: Coroutine[Any, Any, None], name: str, *, lasting: bool = False
    ) -> "asyncio.Task[None]":
        """Start a task. One that is `lasting` runs until it is cancelled; all others end by themselves."""
        if self._group is None:
            work.close()
            raise RuntimeError("the scheduler is not running")
        task = self._group.create_task(work, name=name)
        self._running[task] = lasting
        task.add_done_callback(self._running.pop)
        return task

    async def settled(self) -> None:
        """Wait for everything that ends by itself."""
        while unfinished := [task for task, lasting in self._running.items() if not lasting]:
            await asyncio.wait(unfinished)

    def stop(self) -> None:
        """Cancel all of them, and accept no more."""
        self._group = None
        for task in self._running:
            task.cancel()


class TableFreeze:
    """Keeps the table unchanged while a scheduling cycle waits, for an extender or to let others run.

    A scheduling cycle looks at the live table. As long as it does not wait nothing can change under it; when
    it has to, everything that would change the table waits for its end.
    """

    def __init__(self) -> None:
        self.held = False
        self._deferred: deque[Callable[[], None]] = deque()
        self._released: asyncio.Event | None = None

    def defer(self, change: Callable[[], None]) -> None:
        """Make a change as soon as the table is released, in order."""
        self._deferred.append(change)

    async def free(self) -> None:
        """Wait until the table is released."""
        while self.held:
            if self._released is None:
                self._released = asyncio.Event()
            await self._released.wait()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Freeze the table for as long as the block takes. Does nothing within another such block."""
        if self.held:
            yield
            return
        self.held = True
        try:
            yield
        finally:
            self.held = False
            released, self._released = self._released, None
            try:
                while self._deferred:
                    self._deferred.popleft()()
            finally:
                if released is not None:
                    released.set()


class TimeSlice:
    """Says when a long computation has to let others run. Virtual time stands still meanwhile: then never."""

    def __init__(self, seconds: float = SLICE) -> None:
        self._seconds = seconds
        self._end = 0.0
        self._patience = inf
        self._time: Callable[[], float] = lambda: inf
        self.paused = 0.0
        """Seconds that others had so far, while a computation paused for them."""

    def another(self) -> "TimeSlice":
        """One of the same kind, for somebody else."""
        return type(self)(self._seconds)

    def begin(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._end = self._time() + self._seconds

    @property
    def is_over(self) -> bool:
        return self._time() >= self._end

    async def pause_if_over(self) -> None:
        """Let others run if it is time for that."""
        if self.is_over:
            began = self._time()
            await asyncio.sleep(0)
            self.begin()
            if began < inf:
                self.paused += self._end - self._seconds - began

    async def take(self, step: Step) -> None:
        """Do a step of a search, and let others run if it is time for that."""
        if step is not None:
            await self.compute(step)
        await self.pause_if_over()

    async def compute(self, step: Callable[[], None]) -> None:
        """Do a long computation in another thread, which leaves the interpreter to others again and again."""
        if isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
            step()
        else:
            await asyncio.to_thread(step)
            self.begin()

    def begin_patience(self) -> None:
        """From now on other pods wait for a search."""
        self._patience = self._time() + PATIENCE

    @property
    def is_out_of_patience(self) -> bool:
        """True if other pods have waited long enough."""
        return self._time() >= self._patience


@dataclass(slots=True)
class Context:
    """The parts of one scheduler, as the others need them.

    `find` gives a pod as the informer last saw it, by `namespace/name`. `timer` measures how long things
    take; `clock` says what time it is. `wake` says that a pod may have become ready. `may_schedule` says
    whether pods may be scheduled and bound at this moment: not if another instance may lead by now.
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
    logger: Logger
    decisions: LastDecisions
    costs: CycleCosts
    find: Callable[[str], Pod | None]
    wake: Callable[[], None]
    may_schedule: Callable[[], bool] = lambda: True
    extenders: Sequence[Extender] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    observer: SchedulingObserver | None = None
    freeze: TableFreeze = field(default_factory=TableFreeze)
    slice: TimeSlice = field(default_factory=TimeSlice)
    tasks: Tasks = field(default_factory=Tasks)
    deletions: AwaitedDeletions = field(default_factory=AwaitedDeletions)
    results: "ResultAnnotations | None" = None
    """Writes the results of scheduling cycles to bound pods, if that is wanted."""
    dispatcher: "ApiDispatcher | None" = None
    """Executes API calls about pods (feature gate SchedulerAsyncAPICalls)."""
    turns: "Turns | None" = None
    """Records the order of everything that decisions depend on, or replays it."""

    def event(self, pod: Pod, *, type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod in the name of its profile."""
        self.recorder.event(pod, type, reason, action, note, pod.spec.scheduler_name)

    def unexpected(self, message: str, error: BaseException, *, source: str, **values: object) -> None:
        """Log an exception nobody expected, with its traceback, and count it. The scheduler goes on."""
        self.metrics.unexpected(source)
        self.logger.error(message, err=describe(error), traceback=formatted(error), **values)


def describe(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {error}"
