"""Instruments: what follows a scheduler hangs on these hooks.

Metrics, decisions kept for explanations, log lines, batches, annotations, recordings and the checks of our
tests are instruments (scheduler/instruments, scheduler/recording). An instrument changes nothing about a
decision. A hook that no instrument has costs one comparison.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from stowplan.api.pod import Pod
from stowplan.scheduler.decisions import PreemptionRecord
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.decision import DecisionRecord
from stowplan.scheduler.framework.instrument import PluginInstrument, Probe, hook_of
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.pod_groups.extension_points import PlacementScores
from stowplan.scheduler.framework.pod_groups.placement import (
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
)
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.queue.instrument import Hooks as QueueHooks
from stowplan.scheduler.queue.instrument import QueueInstrument
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.podinfo import PodInfo

if TYPE_CHECKING:
    from stowplan.scheduler.cycle.assignment import Assignment
    from stowplan.scheduler.cycle.failure_handler import Failure
    from stowplan.scheduler.cycle.profile import Profile
    from stowplan.scheduler.cycle.schedule_result import ScheduleResult
    from stowplan.scheduler.pod_groups.result import GroupOutcome, GroupResult


class Instrument(QueueInstrument, PluginInstrument):
    """Follows a scheduler. Leave out what you do not need: only methods you override are called."""

    # The loop

    def popped(self, queued: QueuedPod) -> None:
        """A pod or group was taken from the queue; its scheduling cycle has not begun."""

    def cycle_ended(self) -> None:
        """The cycle of what was popped last is over, or put aside."""

    def flushing(self, what: int) -> None:
        """Pods whose time has come are about to be flushed from a part of the queue."""

    def scheduling_ended(self) -> None:
        """No more pods are scheduled: what happens from now on is not part of any decision."""

    # Watch events

    def assigned(self, pod: Pod) -> None:
        """The API server says that a pod has a node; the cache does not have it there yet."""

    # The scheduling cycle of a pod

    def searched(self, profile: "Profile", queued: QueuedPod, result: "ScheduleResult", began: float) -> None:
        """The search for a node is over, whether it found one or not; `began` is when the cycle did."""

    def search_ended(self, seconds: float) -> None:
        """The search is over with everything that belongs to it; `seconds` since the cycle began."""

    def put_aside(self, queued: QueuedPod) -> None:
        """A search takes long: the cycle is given up for now, and comes again when it is done."""

    def post_filter_begins(self, profile: "Profile") -> None:
        """No node can take a pod: PostFilter plugins are about to run."""

    def post_filter_ended(
        self, profile: "Profile", cycle: Cycle, pod: PodInfo, result: PostFilterResult, seconds: float
    ) -> None:
        """PostFilter plugins ran."""

    def decided(
        self,
        queued: QueuedPod,
        record: DecisionRecord | None,
        outcome: str,
        message: str,
        preempting: PreemptionRecord | None = None,
    ) -> None:
        """An attempt ended as `binding`, `unschedulable` or `error`; without a record it failed before the
        search."""

    def attempt_went_on(self, uid: str, outcome: str, message: str, seconds: float | None = None) -> None:
        """The outcome of the last attempt of a pod is another one by now."""

    def chosen(self, profile: "Profile", result: "ScheduleResult", row: int) -> None:
        """A node was chosen for a pod that is scheduled alone."""

    def assuming(self, pod: PodInfo, node: str) -> None:
        """A node was chosen for a pod; the cache does not have it there yet."""

    # Results

    def failed(self, queued: QueuedPod, failure: "Failure", seconds: float) -> None:
        """A pod could not be scheduled or bound, `seconds` after the attempt began; not requeued yet."""

    def bound(self, assignment: "Assignment", note: str, seconds: float, waited: float | None) -> None:
        """A pod was bound: its event, and the seconds since its cycle and since its first attempt began."""

    def unexpected(self, source: str) -> None:
        """An unexpected exception was caught."""

    # The cycle of a group of pods

    def group_trial_begins(self, root: PodGroupInfo) -> None:
        """A group is placed: one that was popped, or one for which preemption is tried."""

    def group_trial_ended(self, result: "GroupResult") -> None:
        """It was placed, or found no place."""

    def group_searched(self, seconds: float) -> None:
        """A popped group was placed or rejected, `seconds` after its cycle began."""

    def group_post_filter_ended(self, profile: str, status: Status, seconds: float) -> None:
        """PodGroupPostFilter plugins ran for a group."""

    def group_decided(self, result: "GroupResult", found: PodGroupPostFilterResult | None) -> None:
        """A group's cycle ended, with the result of PodGroupPostFilter if it ran."""

    def group_attempted(self, outcome: str, profile: str, seconds: float) -> None:
        """A group's cycle is over: `scheduled`, `unschedulable`, `error` or `waiting_on_preemption`."""

    def placements_generated(self, profile: str, count: int) -> None:
        """Placements of a PodGroup were generated."""

    def placement_evaluated(self, profile: str, feasible: bool, seconds: float) -> None:
        """A PodGroup was tried in a placement, or it was known how that would end."""

    # In detail. An instrument that has one of these sees every step: nothing is estimated then.

    def group_feasible(self, info: PodGroupInfo, progress: Progress, status: Status) -> None:
        """PlacementFeasible was asked: before the first member and after each one."""

    def member_evaluated(self, info: PodGroupInfo, pod: PodInfo, result: "ScheduleResult") -> None:
        """A member was evaluated; the results can be read until the next one is."""

    def group_tried(self, info: PodGroupInfo, placement: Placement, outcome: "GroupOutcome") -> None:
        """A group was tried in a placement."""

    def placements_scored(
        self,
        info: PodGroupInfo,
        placements: Sequence[PodGroupAssignments],
        scores: PlacementScores,
        best: Placement,
    ) -> None:
        """The placements that can take a group were scored, and one chosen."""


class Hooks(QueueHooks):
    """The hooks of the instruments of one scheduler: None for a hook without an implementation, else a
    callable."""

    __slots__ = (
        "assigned",
        "assuming",
        "attempt_went_on",
        "bound",
        "chosen",
        "cycle_ended",
        "decided",
        "failed",
        "flushing",
        "group_attempted",
        "group_decided",
        "group_feasible",
        "group_post_filter_ended",
        "group_searched",
        "group_trial_begins",
        "group_trial_ended",
        "group_tried",
        "installed",
        "member_evaluated",
        "placement_evaluated",
        "placements_generated",
        "placements_scored",
        "popped",
        "post_filter_begins",
        "post_filter_ended",
        "put_aside",
        "scheduling_ended",
        "search_ended",
        "searched",
        "sees_details",
        "unexpected",
    )

    def __init__(self, *instruments: object) -> None:
        super().__init__(*instruments)
        self.installed = instruments
        self.popped = hook_of(Instrument, "popped", instruments)
        self.cycle_ended = hook_of(Instrument, "cycle_ended", instruments)
        self.flushing = hook_of(Instrument, "flushing", instruments)
        self.scheduling_ended = hook_of(Instrument, "scheduling_ended", instruments)
        self.assigned = hook_of(Instrument, "assigned", instruments)
        self.searched = hook_of(Instrument, "searched", instruments)
        self.search_ended = hook_of(Instrument, "search_ended", instruments)
        self.put_aside = hook_of(Instrument, "put_aside", instruments)
        self.post_filter_begins = hook_of(Instrument, "post_filter_begins", instruments)
        self.post_filter_ended = hook_of(Instrument, "post_filter_ended", instruments)
        self.decided = hook_of(Instrument, "decided", instruments)
        self.attempt_went_on = hook_of(Instrument, "attempt_went_on", instruments)
        self.chosen = hook_of(Instrument, "chosen", instruments)
        self.assuming = hook_of(Instrument, "assuming", instruments)
        self.failed = hook_of(Instrument, "failed", instruments)
        self.bound = hook_of(Instrument, "bound", instruments)
        self.unexpected = hook_of(Instrument, "unexpected", instruments)
        self.group_trial_begins = hook_of(Instrument, "group_trial_begins", instruments)
        self.group_trial_ended = hook_of(Instrument, "group_trial_ended", instruments)
        self.group_searched = hook_of(Instrument, "group_searched", instruments)
        self.group_post_filter_ended = hook_of(Instrument, "group_post_filter_ended", instruments)
        self.group_decided = hook_of(Instrument, "group_decided", instruments)
        self.group_attempted = hook_of(Instrument, "group_attempted", instruments)
        self.placements_generated = hook_of(Instrument, "placements_generated", instruments)
        self.placement_evaluated = hook_of(Instrument, "placement_evaluated", instruments)
        self.group_feasible = hook_of(Instrument, "group_feasible", instruments)
        self.member_evaluated = hook_of(Instrument, "member_evaluated", instruments)
        self.group_tried = hook_of(Instrument, "group_tried", instruments)
        self.placements_scored = hook_of(Instrument, "placements_scored", instruments)
        self.sees_details = any(
            hook is not None
            for hook in (self.group_feasible, self.member_evaluated, self.group_tried, self.placements_scored)
        )
        """True if groups have to be placed without shortcuts, since an instrument observes every step."""

    def install(self, instrument: Instrument) -> None:
        """Have one more instrument follow the scheduler. Raises ValueError if it comes too late."""
        late = [name for name in _FROM_THE_BEGINNING if hook_of(Instrument, name, (instrument,)) is not None]
        if late:
            raise ValueError(f"an instrument with {late[0]} has to be there from the beginning")
        Hooks.__init__(self, *self.installed, instrument)

    def probe(self, profile: str, timer: Callable[[], float]) -> Probe | None:
        """Hooks about the plugins of a profile; None if there are none."""
        wanted = (hook_of(PluginInstrument, name, self.installed) for name in _OF_PLUGINS)
        return Probe(self.installed, profile, timer) if any(wanted) else None


_OF_PLUGINS: Final = ("evaluation_begins", "plugin_called", "point_timer", "call_counter")
_FROM_THE_BEGINNING: Final = (*_OF_PLUGINS, "in_flight")
"""Hooks that are resolved once, when the parts of a scheduler are made."""
