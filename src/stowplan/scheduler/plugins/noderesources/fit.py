"""NodeResourcesFit: filters by free resources, scores by how full a node would be."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from stowplan.api.fielderrors import Path, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.names import label_key_problems
from stowplan.api.rules.resources import is_extended, is_scalar
from stowplan.scheduler.framework import (
    Code,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Scores,
    Signs,
    Status,
)
from stowplan.scheduler.framework.advanced import (
    UNSIGNED,
    FeatureGates,
    GroupCycle,
    Obstacle,
    PodGroupAssignments,
    PodGroupInfo,
    Remedy,
    Shortfall,
    Unsigned,
)
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.noderesources.device_totals import DeviceTotals
from stowplan.scheduler.plugins.noderesources.fit_hints import FitHints
from stowplan.scheduler.plugins.noderesources.fit_remedies import (
    obstacle,
    relevance,
    remedies,
    renamed,
    shortfall,
    shortfall_sizes,
    too_large,
)
from stowplan.scheduler.plugins.noderesources.fit_request import (
    NOTHING_HELD,
    TOO_LARGE,
    TOO_MANY_PODS,
    FitRequest,
)
from stowplan.scheduler.plugins.noderesources.placement_scores import placement_scores
from stowplan.scheduler.plugins.noderesources.resource_allocation import (
    CPU_AND_MEMORY,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    ScoredResources,
    ScoringStrategy,
    complete_resources,
    scores_devices,
    strategy_scorers,
)
from stowplan.scheduler.plugins.noderesources.usage_columns import SmallScores, Usage, average_share
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import CORE_RESOURCES, IntArray

REASON_PODS = "Too many pods"
REASON_PREFIX = "Insufficient "

SAFE = 1 << 60
"""Sums and differences of a few numbers below this stay within 64 bits."""

_NO_NAMES: frozenset[str] = frozenset()


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Extended resources the filter does not look at (by name, by domain), and how nodes are scored."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type=LEAST_ALLOCATED, resources=CPU_AND_MEMORY)

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        strategy = self.scoring_strategy
        strategy = replace(strategy, resources=complete_resources(strategy.resources))
        return replace(self, scoring_strategy=strategy)

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        for index, name in enumerate(self.ignored_resources):
            errors += _label_key_errors(name, path.child("ignoredResources").at(index))
        for index, group in enumerate(self.ignored_resource_groups):
            where = path.child("ignoredResourceGroups").at(index)
            if "/" in group:
                errors.append(invalid(where, group, "resource group name can't contain '/'"))
            errors += _label_key_errors(group, where)
        return [*errors, *self.scoring_strategy.validate(path.child("scoringStrategy"))]


def _label_key_errors(name: str, path: Path) -> list[str]:
    return [invalid(path, name, problem) for problem in label_key_problems(name)]


class NodeResourcesFit(Plugin[NodeResourcesFitArgs]):
    """Filters by allocatable minus requested; scores by the configured strategy."""

    contract = Contract(
        reads=Reads.USAGE,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
        constant_pre_filter=True,
        constant_pre_score=True,
        scores_placements_by_count=True,
    )

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        self._with_devices = handle.gates["DRAExtendedResource"]
        self._resources = tuple(spec.name for spec in strategy.resources)
        self._weights = tuple(spec.weight for spec in strategy.resources)
        self._score, self._score_one = strategy_scorers(strategy)
        self._has_shares = strategy.type in (LEAST_ALLOCATED, MOST_ALLOCATED)
        self._scores_used = strategy.type == MOST_ALLOCATED
        self._usage = Usage(handle.table)
        self._totals = DeviceTotals(handle.table, handle.gates)
        self._resizes = handle.gates[RESIZE_PREEMPTION]
        for name in self._resources:
            handle.table.hold_resource(name)

    def sign(self, pod: PodInfo) -> Hashable | Unsigned:
        requests = pod.requests
        if self._resizes and pod.template.resize_deferred:
            return UNSIGNED
        if requests.scalars and scores_devices(self._totals, self._resources, self._for_scoring(pod)):
            return UNSIGNED
        return (
            requests.milli_cpu,
            requests.memory,
            requests.ephemeral_storage,
            frozenset(requests.scalars.items()),
            self._devices_for(pod),
            self._for_scoring(pod),
        )

    def events(self) -> Sequence[EventRegistration]:
        return FitHints(self.handle).registrations()

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> None:
        cycle.write(self, self._request(cycle, pod))

    # Does it fit? One rule, `_lacks`, in the forms it is needed in: many rows, one row, a row with nominated
    # pods, and for preemption what would be left over, which is negative where a request lacks room.

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        request = self._request(cycle, pod)
        table, rows = nodes.table, nodes.rows
        columns = None if request.missing else self._usage.of(request.lines.listed, nodes)
        if columns is not None and columns.has_room(table, [amount for _, amount, _, _ in request.listed]):
            return None
        crowded = table.pod_count[rows] >= table.allowed_pods[rows]
        if not request.wanted:
            return crowded.astype(np.int64) if crowded.any() else None
        allocatable = request.lines.of(table.allocatable, rows)
        # No amount is negative, so the difference cannot overflow; `filter_row` has the same rule.
        lacking = allocatable - request.lines.of(table.requested, rows) < request.amounts[:, None]
        if not (request.missing or lacking.any() or crowded.any()):
            return None
        codes = crowded.astype(np.int64)
        request.add_lacking(codes, lacking, allocatable)
        return codes

    def filter_row(
        self, cycle: Cycle, pod: PodInfo, row: int, more_pods: int = 0, more: Mapping[int, int] = NOTHING_HELD
    ) -> int:
        """The code of a row, with `more_pods` on it than the table says that request `more` by line."""
        request: FitRequest = cycle.read(self)
        table = cycle.table
        if request.version != table.resources.version:
            request.find_lines(table.resources)
        code = int(table.pod_count.item(row) + more_pods >= table.allowed_pods.item(row))
        failing: list[int] = []
        all_allocatable, all_requested = table.allocatable, table.requested
        for line, wanted, mark, by_devices in request.listed:
            allocatable, requested = all_allocatable.item(line, row), all_requested.item(line, row)
            if more:
                requested += more.get(line, 0)
            if wanted > allocatable - requested and (allocatable or not by_devices):
                failing.append(mark)
                if wanted + request.held_lines.get(line, 0) > allocatable:
                    code |= TOO_LARGE
        return code | (request.code_with_missing(failing) if failing else request.elsewhere)

    def filter_row_with_pods(self, cycle: Cycle, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> int:
        """Result of `filter_row` with the nominated pods `others` on the row."""
        taken: dict[int, int] = {}
        for other in others:
            for line, amount in cycle.table.taken_by(other.template):
                taken[line] = taken.get(line, 0) + amount
        return self.filter_row(cycle, pod, row, len(others), taken)

    def filter_copies(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Scores | None:
        """Number of pods like this one that find room on each row."""
        if not self.is_room_alone(cycle):
            return None
        request = self._request(cycle, pod)
        left = self.left_over(cycle, rows)
        amounts = np.concatenate(([1], request.amounts))[:, None].astype(left.dtype)
        counts: Scores = np.maximum((left // amounts + 1).min(axis=0), 0).astype(np.int64)
        return counts

    def is_room_alone(self, cycle: Cycle) -> bool:
        """True if a row that rejects the pod lacks room, and nothing else: no devices, no whole resource."""
        request = self._request(cycle, cycle.pod)
        return not (request.devices_for or request.missing)

    def left_over(self, cycle: Cycle, rows: Rows) -> IntArray:
        """Amounts that rows would have left with the pod on them: of the number of pods, then of each limited
        line.

        The pod fits if nothing is negative. Where 64 bits might overflow the answer has Python's numbers
        (dtype object), and so have all sums that are made with it.
        """
        request = self._request(cycle, cycle.pod)
        table = cycle.table
        allocatable = request.lines.of(table.allocatable, rows)
        requested = request.lines.of(table.requested, rows)
        amounts = request.amounts[:, None]
        if max(int(some.max(initial=0)) for some in (allocatable, requested, amounts)) >= SAFE:
            allocatable, amounts = allocatable.astype(object), amounts.astype(object)
            exact = [[table.exactly_requested(line, row) for row in rows] for line in request.lines.listed]
            requested = np.array(exact, dtype=object)
        left = np.empty((1 + len(request.lines), len(rows)), dtype=amounts.dtype)
        left[0] = table.allowed_pods[rows] - table.pod_count[rows] - 1
        left[1:] = allocatable - requested - amounts
        if request.devices_for:
            left[1:][request.by_devices & (allocatable == 0)] = 0
        return left

    def codes_for(self, cycle: Cycle, rows: Rows, left: IntArray) -> Codes:
        """Codes of `filter` for rows with these amounts left over."""
        request = self._request(cycle, cycle.pod)
        codes: Codes = (left[0] < 0).astype(np.int64)
        request.add_lacking(codes, left[1:] < 0, request.lines.of(cycle.table.allocatable, rows))
        return codes

    def asked_for(self, cycle: Cycle) -> Hashable:
        """The same for all pods that this filter cannot tell apart."""
        request: FitRequest = cycle.read(self)
        return (request.wanted, request.devices_for) if request.has_bits and not request.held else request

    def limited_lines(self, cycle: Cycle) -> list[int]:
        """The lines of the resource columns that the pod asks for some of."""
        return list(self._request(cycle, cycle.pod).lines.listed)

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        return True

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        request = self._request(cycle, pod)
        reasons = [REASON_PODS] if code & TOO_MANY_PODS else []
        reasons += [REASON_PREFIX + request.names[place] for place in request.failing(code)]
        kind = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if code & TOO_LARGE else Code.UNSCHEDULABLE
        return Status(kind, tuple(reasons))

    # Shortfalls, and smaller pods that would fit

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        return shortfall(cycle.table, self._request(cycle, pod), row)

    def shortfall_sizes(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> "npt.NDArray[np.float64]":
        return shortfall_sizes(cycle.table, self._request(cycle, pod), rows)

    def relevance(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> IntArray:
        return relevance(cycle.table, self._request(cycle, pod), rows)

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        return obstacle(cycle.table, self._request(cycle, pod), pod.pod, rows)

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        request = self._request(cycle, pod)
        yield from renamed(cycle.table, request, pod.pod)
        yield from remedies(cycle.table, request, pod.pod, row)

    def too_large(self, cycle: Cycle) -> list[tuple[str, int, int]]:
        """Requests that no node covers even if it is empty: resource, amount, and the largest there is."""
        return too_large(cycle.table, self._request(cycle, cycle.pod))

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> None:
        cycle.write_score(self, self._scored(cycle, pod))

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | SmallScores:
        resources: ScoredResources | None = cycle.read_score(self)
        if resources is None:
            resources = self._scored(cycle, pod)
        columns = self._usage.scored(resources, nodes) if self._has_shares else None
        if columns is None:
            return self._score(resources.look(nodes, with_defaults=True))
        weights = [self._weights[index] for index in resources.which]
        scores = average_share(columns, resources.wanted, weights, most=self._scores_used)
        if len(columns.odd):
            odd = NodeRows(nodes.table, columns.odd)
            scores[columns.odd] = self._score(resources.look(odd, with_defaults=True))
        return scores

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        resources: ScoredResources = cycle.read_score(self)
        return self._score_one(resources.look_at(cycle.table, row, True))

    def score_placements(
        self, cycle: GroupCycle, group: PodGroupInfo, placements: Sequence[PodGroupAssignments]
    ) -> Scores:
        return placement_scores(
            cycle.table, self.args.scoring_strategy.resources, placements, self._for_scoring
        )

    def _scored(self, cycle: Cycle, pod: PodInfo) -> ScoredResources:
        return ScoredResources(cycle.table, self._resources, self._for_scoring(pod), self._totals)

    def _for_scoring(self, pod: PodInfo) -> tuple[int, ...]:
        return pod.template.asked(self._resources, non_zero=True, pod_level=False)

    def _request(self, cycle: Cycle, pod: PodInfo) -> FitRequest:
        """Requests of the pod, computed once for its class: codes may refer to it."""
        request: FitRequest | None = cycle.read(self) or cycle.memo(self)
        if request is None:
            wanted, held = self._wanted(pod), self._held(cycle, pod)
            if held:
                wanted = [each for each in wanted if not is_scalar(each[0]) or each[1] > held.get(each[0], 0)]
            request = FitRequest(wanted, self._devices_for(pod), held)
            cycle.remember(self, request)
        request.find_lines(cycle.table.resources)
        return request

    def _wanted(self, pod: PodInfo) -> list[tuple[str, int]]:
        """Core resources come first; extended ones are reported in the order of their names."""
        requests = pod.requests
        core = zip(
            CORE_RESOURCES, (requests.milli_cpu, requests.memory, requests.ephemeral_storage), strict=True
        )
        scalars = [entry for entry in sorted(requests.scalars.items()) if not self._is_ignored(entry[0])]
        return [(name, amount) for name, amount in (*core, *scalars) if amount]

    def _held(self, cycle: Cycle, pod: PodInfo) -> Mapping[str, int] | None:
        """Part of its requests that a pod which waits for a resize has already: it is counted on its node.

        Its node is the only one that is looked at.
        """
        if not (self._resizes and pod.template.resize_deferred):
            return None
        known = cycle.table.pods.get(pod.uid)
        if known is None or known.pod.spec.node_name != pod.spec.node_name:
            return None
        counted = known.template.accounted.amounts()
        return {name: min(whole, counted.get(name, 0)) for name, whole in self._wanted(pod)}

    def _devices_for(self, pod: PodInfo) -> frozenset[str]:
        """The resources a pod requests that mean devices where a node does not have them."""
        if not self._with_devices or not pod.requests.scalars:
            return _NO_NAMES
        return self.handle.table.devices.classes.resources.intersection(pod.requests.scalars)

    def _is_ignored(self, name: str) -> bool:
        if not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups
