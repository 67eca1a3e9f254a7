"""The extension points, typed: the signature of every method a plugin may have.

A plugin need not name these: it takes part in an extension point by having its method, and type checkers
compare that with the protocol (see `Plugin`).

*Stable*: changes only with a major version, after a release in which both forms work. *Provisional*: may
change with a minor version; the changelog describes how.
"""

from collections.abc import Awaitable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.runtime.logs import Logger
from stowplan.scheduler.framework.events import EventRegistration
from stowplan.scheduler.framework.interface import (
    AnyCodes,
    AnyScores,
    PostFilterResult,
    PreFilterResult,
    ScoreRange,
    Scores,
    StaleRows,
    Steps,
    Victims,
    Wait,
)
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupCycle,
    GroupSteps,
    Placement,
    PlacementCycle,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
    ScheduleGroup,
)
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.view import NodeRow, NodeRows

if TYPE_CHECKING:
    from stowplan.scheduler.framework.cycle_state import Cycle
    from stowplan.scheduler.framework.evaluation import Evaluation


# In the queue


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Keeps pods out of the active queue. Stable."""

    def pre_enqueue(self, pod: PodInfo, /) -> Status | None:
        """None: the pod may be scheduled; a rejection keeps it gated until an event the plugin registered
        for.
        """
        ...


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Orders the active queue; exactly one is enabled. Stable."""

    def sort_key(self, queued: Any, /) -> Any:
        """A comparable value: smaller comes first.

        `queued` has `pod`, `priority`, `timestamp` and `attempts`. A group of pods is sorted as one entity:
        it has its own priority, and `pod` is one of its members.
        """
        ...


@runtime_checkable
class EventsToRegister(Protocol):
    """Says which cluster events may make pods schedulable that the plugin rejected. Stable.

    Without it a rejected pod is requeued after any event; with an empty answer, only after five minutes.
    """

    def events(self) -> Sequence[EventRegistration]: ...


# In the scheduling cycle


@runtime_checkable
class PreFilterPlugin(Protocol):
    """Looks at the pod before any node. Stable."""

    def pre_filter(self, cycle: "Cycle", pod: PodInfo, /) -> Status | PreFilterResult | None:
        """SKIP: the plugin's filter is not asked for this pod; a rejection ends the cycle; a PreFilterResult
        names the only nodes to look at."""
        ...


@runtime_checkable
class FilterPlugin(Protocol):
    """Filters many nodes in one call. Stable."""

    def filter(self, cycle: "Cycle", pod: PodInfo, nodes: NodeRows, /) -> AnyCodes | None:
        """0 for every node that passes, else a number that `reason` explains; None: all pass."""
        ...

    def reason(self, cycle: "Cycle", pod: PodInfo, code: int, /) -> Status: ...


@runtime_checkable
class FilterNodePlugin(Protocol):
    """Filters one node at a time. Stable."""

    def filter_node(self, cycle: "Cycle", pod: PodInfo, node: NodeRow, /) -> Status | None: ...


@runtime_checkable
class FilterRowPlugin(Protocol):
    """The rule of `filter` for a single row: faster where few rows changed. Both must agree. Stable."""

    def filter_row(self, cycle: "Cycle", pod: PodInfo, row: int, /) -> int: ...


@runtime_checkable
class FilterWithNominatedPlugin(Protocol):
    """The rule of `filter` for a row as if other pods were on it, too. Provisional.

    Without it the runtime adds them to the table and asks, which takes longer.
    """

    def filter_row_with_pods(
        self, cycle: "Cycle", pod: PodInfo, row: int, others: Sequence[PodInfo], /
    ) -> int: ...


@runtime_checkable
class FilterCopiesPlugin(Protocol):
    """Computes how many copies of a pod fit on a row, as far as the plugin is concerned. Provisional.

    For a filter whose result changes with the pods of a row this allows many members of a group to be judged
    at once, instead of one after the other.
    """

    def filter_copies(self, cycle: "Cycle", pod: PodInfo, rows: Rows, /) -> Scores | None:
        """By row, how many pods like this one it passes one after the other; None: that cannot be told."""
        ...


@runtime_checkable
class GroupMemberPlugin(Protocol):
    """Receives the result of every member of a group that is placed together. Provisional."""

    def member_filtered(self, cycle: "Cycle", evaluation: "Evaluation", /) -> None:
        """All filters ran for a member. `cycle.group` is where to note what the group's PostFilter needs: the
        evaluation is not there any more by then."""
        ...


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Called when no node passed: may make room for a later cycle. Stable."""

    def post_filter(self, cycle: "Cycle", pod: PodInfo, /) -> Status | PostFilterResult | Steps:
        """`cycle.evaluation` has the rejections. A search that takes long is written as a generator."""
        ...


@runtime_checkable
class PreemptionPlugin(Protocol):
    """A PostFilter plugin whose victims the scheduler evicts. Provisional.

    The scheduler reports the progress, so that the plugin's `pre_enqueue` can keep the preemptor gated. That
    is a pod, or the topmost group of a tree: a PodGroup or a CompositePodGroup.
    """

    def preemption_started(self, preemptor: Object, /) -> None: ...

    def preemption_waits_for(self, preemptor: Object, victim: Pod, /) -> None:
        """Only the last victim is left to be evicted."""
        ...

    def preemption_ended(self, preemptor: Object, /) -> None: ...

    def among_candidates(self, victims: Mapping[str, Victims], /) -> PostFilterResult:
        """The best of the candidates that extenders left over, by node."""
        ...


@runtime_checkable
class PreScorePlugin(Protocol):
    """Looks at the pod before nodes are scored; `cycle.feasible` has them. Stable."""

    def pre_score(self, cycle: "Cycle", pod: PodInfo, /) -> Status | None:
        """SKIP: the plugin's score is not asked for this pod."""
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Scores many nodes in one call. Stable."""

    def score(self, cycle: "Cycle", pod: PodInfo, nodes: NodeRows, /) -> AnyScores | None:
        """0 to 100 for every node unless `normalize` brings it there; None: 0 for all."""
        ...


@runtime_checkable
class ScoreNodePlugin(Protocol):
    """Scores one node at a time. Stable."""

    def score_node(self, cycle: "Cycle", pod: PodInfo, node: NodeRow, /) -> int: ...


@runtime_checkable
class ScoreRowPlugin(Protocol):
    """The rule of `score` for a single row: faster where few rows changed. Both must agree. Stable."""

    def score_row(self, cycle: "Cycle", pod: PodInfo, row: int, /) -> int: ...


@runtime_checkable
class NormalizeScore(Protocol):
    """Brings raw scores into the range from 0 to 100. Stable."""

    def normalize(
        self, cycle: "Cycle", pod: PodInfo, scores: Scores, extremes: ScoreRange, /
    ) -> AnyScores: ...


@runtime_checkable
class EmptyNodeScorer(Protocol):
    """Can score nodes as if no pod were on them, as an extender sends them back. Provisional."""

    def score_without_pods(self, cycle: "Cycle", pod: PodInfo, nodes: NodeRows, /) -> Scores | None: ...


@runtime_checkable
class RejectionLogger(Protocol):
    """Writes its own log lines about the nodes its filter rejected. Provisional."""

    def log_rejection(self, logger: Logger, component: str, pod: PodInfo, node: Node, /) -> None:
        """Called for each node the plugin was the first to reject, at verbosity 4 and above."""
        ...


@runtime_checkable
class CoupledFilterPlugin(Protocol):
    """A filter whose answer for a row depends on other rows (`Contract.reads_others`). Provisional."""

    def stale_filter_rows(self, cycle: "Cycle", pod: PodInfo, then: Any, now: Any, /) -> StaleRows:
        """The rows whose answer may have changed between two states that `pre_filter` wrote."""
        ...


@runtime_checkable
class CoupledScorePlugin(Protocol):
    """The same for scores; `score_basis`, if there is one, gives the state instead of `pre_score`."""

    def stale_score_rows(self, cycle: "Cycle", pod: PodInfo, then: Any, now: Any, /) -> StaleRows: ...


@runtime_checkable
class SignaturePlugin(Protocol):
    """Says what it reads of a pod, so that results can be reused for pods with equal signatures. Stable."""

    def sign(self, pod: PodInfo, /) -> Hashable: ...


@runtime_checkable
class AssumePlugin(Protocol):
    """Changes the status of a pod as soon as it is assumed on a node (`changes_assumed_pods`).

    Provisional.
    """

    def assumed_pod(self, cycle: "Cycle", pod: PodInfo, node: str, /) -> Pod | None:
        """The pod as it counts on its node from now on; None: as it is."""
        ...


@runtime_checkable
class ReservePlugin(Protocol):
    """Takes what a pod needs besides room on its node, and gives it back. Stable."""

    def reserve(self, cycle: "Cycle", pod: PodInfo, node: str, /) -> Status | None: ...

    def unreserve(self, cycle: "Cycle", pod: PodInfo, node: str, /) -> None:
        """Called on every Reserve plugin in reverse order, also on those whose `reserve` was not reached."""
        ...


@runtime_checkable
class PermitPlugin(Protocol):
    """Lets a pod be bound, rejects it, or has it wait. Stable."""

    def permit(self, cycle: "Cycle", pod: PodInfo, node: str, /) -> Status | Wait | None: ...


# In the scheduling cycle of a group of pods (1.37)


@runtime_checkable
class PlacementGeneratePlugin(Protocol):
    """Says where a group may be placed as a whole; a profile has at most one. Provisional."""

    def generate_placements(
        self, cycle: GroupCycle, group: PodGroupInfo, parent: Placement, /
    ) -> Status | Sequence[Placement]:
        """The placements to try, each a part of `parent`; a rejection is that of the group."""
        ...


@runtime_checkable
class PlacementFeasiblePlugin(Protocol):
    """Decides if a placement is feasible for a group. Provisional.

    Not a point of configurations: it runs if the plugin is in the profile at all.
    """

    def placement_feasible(
        self, cycle: PlacementCycle, group: PodGroupInfo, progress: Progress, /
    ) -> Status | None:
        """Asked before the first member and after each: success, WAIT if more members have to be placed
        first, a rejection if that can no longer be."""
        ...


@runtime_checkable
class PlacementScorePlugin(Protocol):
    """Scores all placements that can take a group in one call. Provisional."""

    def score_placements(
        self, cycle: GroupCycle, group: PodGroupInfo, placements: Sequence[PodGroupAssignments], /
    ) -> Scores:
        """0 to 100 for every placement unless `normalize_placement_scores` brings it there."""
        ...


@runtime_checkable
class PlacementScoreOnePlugin(Protocol):
    """Scores one placement at a time. Provisional."""

    def score_placement(
        self, cycle: PlacementCycle, group: PodGroupInfo, placement: PodGroupAssignments, /
    ) -> int: ...


@runtime_checkable
class PlacementScoreExtensions(Protocol):
    """Brings raw scores of placements into the range from 0 to 100. Provisional."""

    def normalize_placement_scores(
        self, cycle: GroupCycle, group: PodGroupInfo, scores: Scores, /
    ) -> Scores: ...


@runtime_checkable
class PodGroupPostFilterPlugin(Protocol):
    """Called when a group found no place: may make room for a later cycle. Provisional."""

    def pod_group_post_filter(
        self, cycle: GroupCycle, group: PodGroupInfo, schedule: ScheduleGroup, /
    ) -> Status | PodGroupPostFilterResult | GroupSteps:
        """`schedule` places the group as the table is at that moment. A search that takes long is written as
        a generator."""
        ...


# In the binding cycle: coroutines may wait, plain functions must not


@runtime_checkable
class PreBindPlugin(Protocol):
    """Prepares what a pod needs before it is bound. Stable."""

    def pre_bind(
        self, cycle: "Cycle", pod: PodInfo, node: str, /
    ) -> Status | Awaitable[Status | None] | None: ...


@runtime_checkable
class PreBindPreFlightPlugin(Protocol):
    """Says beforehand whether `pre_bind` has anything to do. Stable."""

    def pre_bind_pre_flight(self, cycle: "Cycle", pod: PodInfo, node: str, /) -> Status | None:
        """SKIP: `pre_bind` has nothing to do for this pod."""
        ...


@runtime_checkable
class BindPlugin(Protocol):
    """Binds pods. Stable."""

    def bind(self, cycle: "Cycle", pod: PodInfo, node: str, /) -> Status | Awaitable[Status | None] | None:
        """SKIP: the next Bind plugin runs."""
        ...


@runtime_checkable
class PostBindPlugin(Protocol):
    """Called after a pod is bound. Stable."""

    def post_bind(self, cycle: "Cycle", pod: PodInfo, node: str, /) -> Awaitable[None] | None: ...
