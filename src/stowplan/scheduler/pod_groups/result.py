"""Results of placing a group: of the whole tree, of every group in it and of every member.

A status of a group is an object that several groups of a tree may share: a change for one then holds for all
of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stowplan.scheduler.cycle.failure_handler import Failure
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.decision import DecisionRecord
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupTrial,
    PlacementCycle,
    PodGroupInfo,
    ProposedAssignment,
)
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.table.podinfo import PodInfo

UNSCHEDULABLE_GROUP: Final = "pod group is unschedulable"


class GroupStatus:
    """Status of a group: a code, reasons, and the error behind it, if there is one."""

    __slots__ = ("code", "error", "reasons")

    def __init__(self, code: Code, reasons: Sequence[str] = (), error: str = "") -> None:
        self.code = code
        self.reasons = list(reasons)
        self.error = error

    def __repr__(self) -> str:
        return f"GroupStatus({self.code.label}, {self.message!r})"

    @classmethod
    def of(cls, status: Status) -> "GroupStatus":
        """The status of a plugin as that of a group; of an error the text is the error."""
        if status.code is Code.ERROR:
            return cls.failed(status.message)
        return cls(status.code, status.reasons)

    @classmethod
    def failed(cls, message: str) -> "GroupStatus":
        return cls(Code.ERROR, (), message)

    @classmethod
    def unschedulable(cls, *reasons: str) -> "GroupStatus":
        return cls(Code.UNSCHEDULABLE, reasons, UNSCHEDULABLE_GROUP)

    @property
    def message(self) -> str:
        return ", ".join([self.error, *self.reasons] if self.error else self.reasons)

    @property
    def as_error(self) -> str:
        """The error alone if there is one, else the message."""
        return self.error or self.message

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    def clone(self) -> "GroupStatus":
        return GroupStatus(self.code, self.reasons, self.error)

    def status(self) -> Status:
        """The same as a plugin would say it."""
        return Status(self.code, (self.error, *self.reasons) if self.error else tuple(self.reasons))


@dataclass(slots=True, eq=False)
class PodResult:
    """Result of one member: the row it would get, or why it gets none.

    `assumed` is the pod as it stands on the row. `feasible` is the number of nodes that could take it, of
    `nodes`.
    """

    pod: PodInfo
    cycle: Cycle | None = None
    evaluation: Evaluation | None = None
    row: int | None = None
    failure: Failure | None = None
    record: DecisionRecord | None = None
    assumed: PodInfo | None = None
    feasible: int = 0
    nodes: int = 0
    seconds: float = 0.0
    nominated_node: str | None = None
    """Node that preemption nominates it to; None leaves its nomination as it is."""

    def reject_also_for(self, plugins: frozenset[str]) -> None:
        """Add plugins whose events requeue the member; not if any event does, because none rejected it."""
        failure = self.failure
        if failure is not None and failure.rejected and failure.rejectors.unschedulable:
            known = failure.rejectors
            rejectors = known._replace(unschedulable=known.unschedulable | plugins)
            self.failure = replace(failure, rejectors=rejectors)

    def nominate(self, node: str) -> None:
        """Nominate the member to a node, "" to none, whether it would fit or not."""
        self.nominated_node = node
        if self.failure is not None and self.failure.rejected:
            self.failure = replace(self.failure, nominated_node=node)


@dataclass(frozen=True, slots=True)
class PlacementTrial:
    """How far a group came in a placement."""

    placement: str
    nodes: int
    scheduled: int
    status: Status
    stopped_by: str = ""
    """The first member that found no node (`namespace/name`)."""
    why: str = ""


@dataclass(slots=True, eq=False)
class GroupOutcome:
    """Result of one group of a tree.

    `pods` are results of members in order; those after the last were not tried. `trials` has every placement
    that the group was tried in.
    """

    info: PodGroupInfo
    status: GroupStatus
    pods: list[PodResult] = field(default_factory=list)
    any_scheduled: bool = False
    cycle: PlacementCycle | None = None
    waits_for_preemption: bool = False
    trials: list[PlacementTrial] = field(default_factory=list)

    @property
    def assignments(self) -> list[ProposedAssignment]:
        return [
            ProposedAssignment(result.assumed or result.pod, result.row, result.cycle, result.evaluation)
            for result in self.pods
            if result.row is not None
        ]


Outcomes = dict[str, GroupOutcome]
"""By the key of the group."""


def members_of(outcomes: Outcomes) -> Iterator[PodResult]:
    for outcome in outcomes.values():
        yield from outcome.pods


def add_rejectors(rejectors: dict[str, frozenset[str]], outcomes: Outcomes) -> None:
    """Add the plugins that rejected members, by the member's uid."""
    for result in members_of(outcomes):
        if result.failure is not None and result.failure.rejected:
            known = rejectors.get(result.pod.uid, frozenset())
            rejectors[result.pod.uid] = known | result.failure.rejectors.unschedulable


@dataclass(slots=True)
class GroupResult:
    """Result of a whole tree. Groups that were not reached have no outcome (until `complete`)."""

    root: PodGroupInfo
    outcomes: Outcomes

    @property
    def status(self) -> GroupStatus:
        return self.outcomes[self.root.key].status

    def complete(self) -> None:
        """Give every group an outcome and every member a result.

        Parts of a group that failed take its status itself, not a copy.
        """
        for group in self.root.walk():
            self._hand_down(group)
        for leaf in self.root.leaves():
            outcome = self.outcomes[leaf.key]
            for pod in leaf.pods[len(outcome.pods) :]:
                outcome.pods.append(PodResult(pod, failure=_not_tried(outcome.status)))

    def _hand_down(self, info: PodGroupInfo) -> None:
        """Have a group share the fate of the one above it, which has its outcome already."""
        if info.parent is None:
            return
        outcome, above = self.outcomes.get(info.key), self.outcomes[info.parent.key]
        if outcome is None or (not above.status.is_success and outcome.status.is_success):
            trials = [] if outcome is None else outcome.trials
            self.outcomes[info.key] = GroupOutcome(info, above.status, trials=trials)

    def trial(self) -> GroupTrial:
        """The same for plugins: who would get which node, and the verdict on the root."""
        found = [
            assignment
            for leaf in self.root.leaves()
            if leaf.key in self.outcomes
            for assignment in self.outcomes[leaf.key].assignments
        ]
        return GroupTrial(found, self.status.status())


def _not_tried(status: GroupStatus) -> Failure:
    """The failure of a member that was not tried: what is said of the group later is not said of it."""
    by_group = status.error == UNSCHEDULABLE_GROUP
    return Failure(status.message, status.code is not Code.ERROR, nominated_node=None, by_group=by_group)
