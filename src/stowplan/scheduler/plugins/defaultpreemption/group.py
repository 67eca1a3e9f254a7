"""Preemption for a group: the units to evict from the whole cluster so that all members find a place.

All units of lower priority are removed, and the group is placed. If it finds a place then, units are put back
one by one as long as every member still fits on the node it got. Units that cannot be put back are evicted.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from stowplan.api.labels import Selector, SelectorError, compile_selector
from stowplan.scheduler.framework import (
    Code,
    Handle,
    PodInfo,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import (
    GroupCycle,
    GroupPreemption,
    GroupTrial,
    NotBuiltError,
    PluginError,
    PodGroupInfo,
    PodGroupPostFilterResult,
    ScheduleGroup,
    UnitOutcome,
)
from stowplan.scheduler.framework.nominations import nominated_pods
from stowplan.scheduler.framework.pod_groups.placement import ProposedAssignment, Waited
from stowplan.scheduler.framework.simulation import SimulatedRow, SimulatedRows
from stowplan.scheduler.plugins.defaultpreemption.importance import (
    STEP,
    reprieve_order,
    violations_in_steps,
    was_preempted,
)
from stowplan.scheduler.plugins.defaultpreemption.units import PodsOfRows, Unit, Units, UnknownNodeError
from stowplan.scheduler.table.podinfo import PodTemplate
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.terms import TermRole

PREFIX: Final = "pod group preemption: "
REASON_NEVER: Final = "not eligible due to preemptionPolicy=Never."
REASON_ONGOING: Final = "ongoing preemption on nominated nodes"
REASON_NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"

VICTIMS_TOLD: Final = 100
SPARED_TOLD: Final = 4
"""Number of units that are kept for explanations."""

_NEVER: Final = "Never"
_KNOWN_FILTERS: Final = frozenset(("InterPodAffinity", "PodTopologySpread", "VolumeRestrictions"))
"""Filters of which it is known what they look at in other rows."""


class KnownFailures:
    """Searches without success, by the shape and priority of the group; they hold while no pod or node
    changes."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._basis: tuple[int, ...] = ()
        self._results: dict[Hashable, PodGroupPostFilterResult] = {}

    def now(self) -> dict[Hashable, PodGroupPostFilterResult]:
        """Those that hold, and the place to put more."""
        table = self._table
        basis = (
            table.pods_version,
            table.node_log.position,
            table.lookups.groups_version,
            table.lookups.namespaces_version,
            table.groups.version,
        )
        if basis != self._basis:
            self._basis = basis
            self._results.clear()
        return self._results


class GroupSearch:
    """The search for victims for one group."""

    def __init__(
        self, cycle: GroupCycle, group: PodGroupInfo, handle: Handle, pods_of_rows: PodsOfRows
    ) -> None:
        table = self._table = cycle.table
        self._shape = None if cycle.shape is None else (cycle.shape, group.object.priority)
        self._pods_of_rows = pods_of_rows
        self._group = group
        self._units = Units(table)
        self._priority = group.object.priority
        self._policy_of_group = handle.gates["PodGroupPreemptionPolicy"]
        self._clock = None if handle.services is None else handle.services.clock

    def run(self, schedule: ScheduleGroup, failures: KnownFailures) -> Waited[PodGroupPostFilterResult]:
        """Find victims, unless it is known that there are none; the status is the result.

        Where units are incomplete it fails for every group, regardless of priority, as kube-scheduler does.
        """
        try:
            self._units.check_nodes()
        except UnknownNodeError as cause:
            return _result(error(f"failed to create domain: {cause}"))
        if self._never():
            return _result(unschedulable(REASON_NEVER))
        if self._is_ongoing():
            current = {pod.uid: pod.pod.status.nominated_node_name for pod in self._group.waiting_pods()}
            return _result(Status(Code.SUCCESS, (REASON_ONGOING,)))._replace(nominations=current)
        began = self._now()
        known = failures.now()
        if self._shape is not None and self._shape in known:
            return self._timed(known[self._shape], began)
        pods = yield from self._pods_of_rows.below(self._priority)
        units = yield from self._units.below(pods, self._priority)
        began = self._now()
        found, by_shape = yield from self._search(units, schedule)
        if by_shape and self._shape is not None:
            known[self._shape] = found
        return self._timed(found, began)

    def _search(
        self, units: Sequence[Unit], schedule: ScheduleGroup
    ) -> Waited[tuple[PodGroupPostFilterResult, bool]]:
        """Remove units, place the group, and put back those that can stay; also returns if the result depends
        on the shape alone.

        The table is frozen, so other tasks may run while pods are imagined away: none of them reads it.
        """
        if not units:
            return _result(unresolvable(REASON_NO_VICTIMS)), False
        with SimulatedRows(self._table) as rows:
            for number, unit in enumerate(units, 1):
                for info in unit.pods:
                    rows.remove_pod(info)
                if not number % STEP:
                    yield None
            trial = yield from schedule()
            status = trial.status
            if status.is_success:
                found = yield from self._reprieve(units, rows, trial)
            else:
                found = _result(status, candidates=len(units), without_victims=status.message)
            yield from rows.put_back()
            return found, trial.by_shape

    def _timed(self, found: PodGroupPostFilterResult, began: float) -> PodGroupPostFilterResult:
        """A result that tells how long the search took."""
        assert found.preemption is not None
        return found._replace(preemption=found.preemption._replace(seconds=self._now() - began))

    def _now(self) -> float:
        return 0.0 if self._clock is None else self._clock.monotonic()

    def _never(self) -> bool:
        if self._policy_of_group:
            return self._group.object.preemption_policy == _NEVER
        return any(pod.spec.preemption_policy == _NEVER for pod in self._group.waiting_pods())

    def _is_ongoing(self) -> bool:
        """True if victims of an earlier preemption are still terminating on nodes of members."""
        nodes = {pod.pod.status.nominated_node_name for pod in self._group.waiting_pods()}
        rows = [row for node in sorted(nodes) if node and (row := self._table.row_of(node)) is not None]
        return any(
            was_preempted(info.pod) and self._units.priority_of(info) < self._priority
            for row in rows
            for info in self._table.pods_on[row].values()
        )

    def _reprieve(
        self, units: Sequence[Unit], rows: SimulatedRows, trial: GroupTrial
    ) -> Waited[PodGroupPostFilterResult]:
        """Put back what can stay; the rest are the victims."""
        violations = yield from violations_in_steps([unit.pods for unit in units], self._table.budgets)
        found: dict[int, str] = {}
        with Reprieve(self._table, rows, trial.assignments) as reprieve:
            for position in reprieve_order(violations):
                found[position] = reprieve.why_not(units[position])
                yield None
        going = [position for position in range(len(units)) if found[position]]
        pods = tuple(info.pod for position in going for info in units[position].pods)
        text = f"found a placement for podgroup, preempting {len(pods)} victims"
        name_of = self._table.name_of
        return _result(Status(Code.SUCCESS, (text,)), **_told(units, violations, found))._replace(
            nominations={one.pod.uid: name_of(one.row) for one in trial.assignments}, victims=pods
        )


class Reprieve:
    """Members on the nodes they would get, while units are put back.

    A unit whose pods are on other nodes than members cannot be in the way, unless some filter of a member
    looks at other nodes, too (`coupled`).
    """

    def __init__(
        self, table: ClusterTable, rows: SimulatedRows, assignments: Sequence[ProposedAssignment]
    ) -> None:
        self._table = table
        self._rows = rows
        self._stack = ExitStack()
        self._members = [_Member(table, assignment, self._stack) for assignment in assignments]
        self._coupled = any(member.coupled for member in self._members)
        self._relevance = _Relevance(self._members)
        self._by_row: dict[int, list[_Member]] = {}
        for member in self._members:
            self._by_row.setdefault(member.row, []).append(member)
        self._back: dict[int, SimulatedRow] = {}
        """By row, the pods that were put back: pods that came, for filters that look at other rows."""

    def __enter__(self) -> "Reprieve":
        self._stack.enter_context(self._table.term_groups.lingering())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def why_not(self, unit: Unit) -> str:
        """Put a unit back; if a member does not fit then, take it out again and say why."""
        touched = {self._rows.row_of(info) for info in unit.pods}
        if not self._coupled and not touched & self._by_row.keys():
            return ""
        coupled = self._coupled and self._relevance.concerns_anybody(unit.pods)
        if not coupled and not touched & self._by_row.keys():
            for info in unit.pods:
                self._put_back(info)
            return ""
        for info in unit.pods:
            self._put_back(info)
        members = self._members if coupled else [m for row in touched for m in self._on(row)]
        problem = self._problem(members, touched, coupled)
        if problem:
            for info in unit.pods:
                self._back[info.row].added.remove(info)
                self._rows.remove_pod(info)
        return problem

    def _on(self, row: int) -> "list[_Member]":
        return self._by_row.get(row, [])

    def _put_back(self, info: PodInfo) -> None:
        self._rows.restore_pod(info)
        back = self._back.get(info.row)
        if back is None:
            back = self._back[info.row] = SimulatedRow(self._table, info.row)
        back.added.append(info)

    def _problem(self, members: "Sequence[_Member]", touched: set[int], coupled: bool) -> str:
        """First member that does not fit any more, and why; empty if all do.

        `coupled`: filters that look at other rows run, too. Then all members are looked at.
        """
        placed: list[PodInfo] = []
        try:
            for member in members:
                if (coupled and member.coupled) or member.row in touched:
                    status = self._verdict(member, coupled)
                    if status is not None:
                        node = self._table.name_of(member.row)
                        return f"{member.pod.key} would not fit on {node}: {', '.join(status.reasons)}"
                standing = PodInfo(member.pod.pod, member.pod.template)
                self._table.put_on(standing, member.row)
                placed.append(standing)
        finally:
            for standing in reversed(placed):
                self._table.take_off(standing)
        return ""

    def _verdict(self, member: "_Member", coupled: bool) -> Status | None:
        """The first rejection of a member on its row as it is now; the error of a plugin is one, too."""
        imagined = SimulatedRow(self._table, member.row)
        if coupled and member.coupled:
            here = self._back.get(member.row)
            if here is not None:
                imagined.added = list(here.added)
            imagined.others = tuple(back for row, back in self._back.items() if row != member.row)
        try:
            return member.verdict(imagined, coupled)
        except NotBuiltError:
            raise
        except PluginError as failure:
            return error(failure.message)


class _Member:
    """A member and the row it would get."""

    def __init__(self, table: ClusterTable, assignment: ProposedAssignment, stack: ExitStack) -> None:
        evaluation = assignment.evaluation
        assert evaluation is not None
        self._table = table
        self.pod = assignment.pod
        self.row = assignment.row
        self._simulations = stack.enter_context(evaluation.simulations())
        filters = self._simulations.filters
        by_pods = [column for column in filters if column.plugin.contract.filters_by_pods]
        self._passed = {column.plugin.name for column in filters if column not in by_pods}
        self.coupled = frozenset(
            column.plugin.name for column in by_pods if column.traits.watches and not column.traits.row_local
        )
        """The filters that look at other rows, too."""
        self._alone = self._passed | self.coupled
        self._nominated = nominated_pods(evaluation.nominations, self.row, evaluation.cycle.pod)

    def verdict(self, imagined: SimulatedRow, coupled: bool) -> Status | None:
        """Filter verdict on the row, with pods nominated to it and without.

        Unless `coupled`, those that look at other rows do not run: their results still hold.
        """
        passed = self._passed if coupled else self._alone
        guests = [PodInfo(other.pod, other.template) for other in self._nominated]
        if guests:
            for guest in guests:
                self._table.put_on(guest, self.row)
            imagined.added += guests
            try:
                status = self._simulations.ask(imagined, passed)
            finally:
                for guest in guests:
                    self._table.take_off(guest)
            if status is not None:
                return status
            del imagined.added[-len(guests) :]
        return self._simulations.ask(imagined, passed)


class _Relevance:
    """Pods that can change the result of members' filters that look at other rows.

    For in-tree filters those are pods with affinity terms or volumes, and pods that a term or a constraint of
    a member selects. Nothing is known about other filters.
    """

    def __init__(self, members: "Sequence[_Member]") -> None:
        coupled = [member for member in members if member.coupled]
        self._always = any(not member.coupled <= _KNOWN_FILTERS for member in coupled)
        self._members = list({member.pod.template: member.pod for member in coupled}.values())
        self._known: dict[PodTemplate, bool] = {}
        self._selectors: list[Selector] = []
        try:
            for pod in self._members:
                self._selectors += _selectors_of(pod)
        except SelectorError:
            self._always = True

    def concerns_anybody(self, pods: Sequence[PodInfo]) -> bool:
        return self._always or any(self._concerns(info) for info in pods)

    def _concerns(self, info: PodInfo) -> bool:
        known = self._known.get(info.template)
        if known is None:
            template = info.template
            known = self._known[template] = bool(
                template.carries_terms
                or template.volumes
                or any(selector.matches(info.labels) for selector in self._selectors)
            )
        return known


def _selectors_of(pod: PodInfo) -> Iterator[Selector]:
    """Selectors of a pod's affinity, anti-affinity and spread constraints. Raises SelectorError."""
    terms = pod.template.terms
    for role in (TermRole.REQUIRED_AFFINITY, TermRole.REQUIRED_ANTI_AFFINITY):
        for term in terms.of(role):
            yield term.selector
    for constraint in pod.spec.topology_spread_constraints:
        yield compile_selector(constraint.label_selector)


def _told(units: Sequence[Unit], violations: Sequence[int], problems: Mapping[int, str]) -> dict[str, Any]:
    """Summary of a search that found victims."""
    going = [position for position in range(len(units)) if problems[position]]
    staying = [position for position in range(len(units)) if not problems[position]]

    def outcomes(positions: Sequence[int]) -> tuple[UnitOutcome, ...]:
        return tuple(
            UnitOutcome(
                units[position].name,
                units[position].priority,
                len(units[position].pods),
                violations[position],
                problems[position],
            )
            for position in positions
        )

    return {
        "candidates": len(units),
        "victims": outcomes(going[:VICTIMS_TOLD]),
        "victim_units": len(going),
        "spared": outcomes(staying[:SPARED_TOLD]),
        "violations": sum(violations[position] for position in going),
        "disruptions": sum(units[position].is_group for position in going),
    }


def _result(status: Status, **told: Any) -> PodGroupPostFilterResult:
    """A result whose text names preemption as its source, and the summary of the search."""
    text = status.message
    said = Status(status.code, (PREFIX + text,)) if text else status
    return PodGroupPostFilterResult(said, preemption=GroupPreemption(status.code.label, **told))
