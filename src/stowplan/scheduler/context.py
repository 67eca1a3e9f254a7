"""What the parts of a scheduler share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from stowplan.api.pod import Pod
from stowplan.client import Client
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.runtime.logs.tracebacks import formatted
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.cycle.costs import CycleCosts
from stowplan.scheduler.cycle.instrument import Hooks
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.table_freeze import TableFreeze
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.events import EventRecorder
from stowplan.scheduler.extenders import Extender
from stowplan.scheduler.framework.held_pods import AwaitedDeletions
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.tasks import Tasks, TimeSlice

if TYPE_CHECKING:
    from stowplan.scheduler.api_dispatcher import ApiDispatcher
    from stowplan.scheduler.turns import ReplayLog


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
    freeze: TableFreeze = field(default_factory=TableFreeze)
    slice: TimeSlice = field(default_factory=TimeSlice)
    tasks: Tasks = field(default_factory=Tasks)
    deletions: AwaitedDeletions = field(default_factory=AwaitedDeletions)
    dispatcher: "ApiDispatcher | None" = None
    """Executes API calls about pods (feature gate SchedulerAsyncAPICalls)."""
    turns: "ReplayLog | None" = None
    """Records the order of everything that decisions depend on, or replays it."""
    hooks: Hooks = field(default_factory=Hooks)
    """What instruments are told."""

    def event(self, pod: Pod, *, type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod in the name of its profile."""
        self.recorder.event(pod, type, reason, action, note, pod.spec.scheduler_name)

    def unexpected(self, message: str, error: BaseException, *, source: str, **values: object) -> None:
        """Log an exception nobody expected, with its traceback, and count it. The scheduler goes on."""
        if self.hooks.unexpected is not None:
            self.hooks.unexpected(source)
        self.logger.error(message, err=describe(error), traceback=formatted(error), **values)


def describe(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {error}"
