"""Shared context of the scheduler's parts that do I/O, in addition to the one of its cycles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from stowplan.client import Client
from stowplan.scheduler.cycle.context import CycleContext
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.events import EventRecorder
from stowplan.scheduler.extenders import Extender
from stowplan.scheduler.framework.held_pods import AwaitedDeletions
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.tasks import Tasks, TimeSlice

if TYPE_CHECKING:
    from stowplan.scheduler.api_dispatcher import ApiDispatcher
    from stowplan.scheduler.turns import ReplayLog


@dataclass(slots=True, kw_only=True)
class Context(CycleContext):
    """The parts of one scheduler, for those that write, wait or start tasks.

    `may_schedule` says whether pods may be scheduled and bound at this moment: not if another instance may
    lead by now.
    """

    client: Client
    rng: Random
    metrics: SchedulerMetrics
    recorder: EventRecorder
    decisions: LastDecisions
    may_schedule: Callable[[], bool] = lambda: True
    extenders: Sequence[Extender] = ()
    slice: TimeSlice = field(default_factory=TimeSlice)
    tasks: Tasks = field(default_factory=Tasks)
    deletions: AwaitedDeletions = field(default_factory=AwaitedDeletions)
    dispatcher: "ApiDispatcher | None" = None
    """Executes API calls about pods (feature gate SchedulerAsyncAPICalls)."""
    turns: "ReplayLog | None" = None
    """Records the order of everything that decisions depend on, or replays it."""
