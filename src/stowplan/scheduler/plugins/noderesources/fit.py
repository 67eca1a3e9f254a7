"""NodeResourcesFit: does what the pod asks for fit, and how full would the node be."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from stowplan.api.devices import DeviceClass
from stowplan.api.fielderrors import Path, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.names import label_key_problems
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.rules.amounts import shown_amount, smaller_requests
from stowplan.api.rules.resources import accounted_requests, is_extended, is_scalar, pod_requests
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    Code,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    Hint,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    Scores,
    Signs,
    Status,
    queue_if,
)
from stowplan.scheduler.framework.advanced import (
    UNSIGNED,
    FeatureGates,
    GroupCycle,
    PodGroupAssignments,
    PodGroupInfo,
    Remedy,
    Shortfall,
    Unsigned,
    ignoring_labels,
    pod_resources,
)
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.noderesources.device_totals import DeviceTotals
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
from stowplan.scheduler.table.columns import CORE_RESOURCES, BoolColumn, IntArray, ResourceLines, lines_of
from stowplan.scheduler.table.table import allocatable_amounts

REASON_PODS = "Too many pods"
REASON_PREFIX = "Insufficient "

# The lowest bits of a code: too many pods, a failing resource larger than the whole node. The rest says which
# requests fail: a bit for each where they are few, else the number of a set that was met before.
_PODS, _TOO_LARGE, _FIRST_REQUEST = 1, 2, 2
_MOST_BITS = 60

SAFE = 1 << 60
"""Sums and differences of a few numbers below this stay within 64 bits."""

_NOTHING: Mapping[int, int] = {}
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


class _Request:
    """The requests a filter has to look at, in the order in which they are reported.

    `lines`, `amounts` and `places` are those of resources that have a line; `places` are positions among all
    requests. Of the others no node has anything: what is said of those, of every node, is `elsewhere`. Lines
    change as nodes come and go that offer a resource, so whoever reads them calls `find_lines` first.

    `devices_for` names resources that nodes which do not have them may answer with devices: there the filter
    passes, and DynamicResources decides. `held` is what the pod has on its node already, of what it requests,
    if it waits there for a resize: of `amounts` only the rest is left.
    """

    __slots__ = (
        "_amounts",
        "_numbers",
        "_sets",
        "devices_for",
        "elsewhere",
        "has_bits",
        "held",
        "held_lines",
        "lines",
        "listed",
        "missing",
        "names",
        "version",
        "wanted",
    )

    def __init__(
        self,
        wanted: Sequence[tuple[str, int]],
        devices_for: frozenset[str],
        held: Mapping[str, int] | None = None,
    ) -> None:
        self.wanted = tuple(wanted)
        self.held = held or {}
        self.held_lines: Mapping[int, int] = _NOTHING
        self.devices_for = devices_for
        self.names = tuple(name for name, _ in wanted)
        self.has_bits = len(wanted) <= _MOST_BITS
        self.version = -1
        self._sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self.lines = lines_of(())
        self._amounts: IntArray | None = None
        self.listed: tuple[tuple[int, int, int, bool], ...] = ()
        self.missing: tuple[int, ...] = ()
        self.elsewhere = 0

    def find_lines(self, resources: ResourceLines) -> None:
        """Look up the lines of the resources, unless that has been done."""
        if self.version == resources.version:
            return
        self.version = resources.version
        found, missing = [], []
        held: dict[int, int] = {}
        for place, (name, amount) in enumerate(self.wanted):
            line = resources.find(name)
            if line is not None:
                mark = 1 << (_FIRST_REQUEST + place) if self.has_bits else place
                if self.held:
                    held[line] = self.held.get(name, 0)
                    amount -= held[line]
                found.append((line, amount, mark, name in self.devices_for))
            elif name not in self.devices_for:
                missing.append(place)
        self.lines = lines_of(tuple([line for line, _, _, _ in found]))
        self._amounts = None
        self.held_lines = held if held else _NOTHING
        self.missing = tuple(missing)
        self.elsewhere = self.code_of(self.missing) | _TOO_LARGE if missing else 0
        self.listed = tuple(found)

    @property
    def amounts(self) -> IntArray:
        """What each line is asked for."""
        if self._amounts is None:
            self._amounts = np.array([amount for _, amount, _, _ in self.listed], dtype=np.int64)
        return self._amounts

    @property
    def by_devices(self) -> BoolColumn:
        """For each line, whether devices may answer the request, one below the other."""
        return np.array([by_devices for _, _, _, by_devices in self.listed], dtype=np.bool_)[:, None]

    @property
    def bits(self) -> IntArray:
        """What each line adds to a code that has a bit for every request, one below the other."""
        return np.array([bit for _, _, bit, _ in self.listed], dtype=np.int64)[:, None]

    def code_of(self, places: tuple[int, ...]) -> int:
        """What a code has for requests that fail, given their places in ascending order."""
        if self.has_bits:
            return sum(1 << (_FIRST_REQUEST + place) for place in places)
        number = self._numbers.get(places)
        if number is None:
            number = self._numbers[places] = len(self._sets)
            self._sets.append(places)
        return number << _FIRST_REQUEST

    def failing(self, code: int) -> Iterable[int]:
        """The places of the requests that fail according to a code."""
        if not self.has_bits:
            return self._sets[code >> _FIRST_REQUEST]
        return (place for place in range(len(self.wanted)) if code >> (_FIRST_REQUEST + place) & 1)

    def add_lacking(self, codes: Codes, lacking: BoolColumn, allocatable: IntArray) -> None:
        """Note in codes which requests each row cannot meet, and whether it never could."""
        if self.devices_for:
            lacking = lacking & ~(self.by_devices & (allocatable == 0))
        if not self.has_bits:
            self._add_sets(codes, lacking)
        if lacking.any():
            if self.has_bits:
                codes += (lacking * self.bits).sum(axis=0)
            codes[(lacking & (self._whole()[:, None] > allocatable)).any(axis=0)] |= _TOO_LARGE
        if self.missing:
            codes |= self.elsewhere if self.has_bits else _TOO_LARGE

    def _whole(self) -> IntArray:
        """What the pod requests of each line, with what it holds of it already."""
        if not self.held_lines:
            return self.amounts
        return self.amounts + np.array([self.held_lines[line] for line in self.lines.listed], dtype=np.int64)

    def _add_sets(self, codes: Codes, lacking: BoolColumn) -> None:
        """The same where requests are too many for a bit each: rows that fail alike are looked at once."""
        packed = np.ascontiguousarray(np.packbits(lacking, axis=0).T)
        alike: dict[bytes, int] = {}
        for row, key in enumerate(map(bytes, packed)):
            code = alike.get(key)
            if code is None:
                marks = [self.listed[index][2] for index in np.flatnonzero(lacking[:, row]).tolist()]
                code = alike[key] = self.code_with_missing(marks)
            codes[row] |= code

    def code_with_missing(self, marks: Iterable[int]) -> int:
        """The code of rows that fail some of the requests in `listed`, by their marks there."""
        if self.has_bits:
            return sum(marks) | self.elsewhere
        code = self.code_of(tuple(sorted((*self.missing, *marks))))
        return code | _TOO_LARGE if self.missing else code


class NodeResourcesFit(Plugin):
    """Filters by allocatable minus requested; scores by the configured strategy."""

    args_type = NodeResourcesFitArgs
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
        self, cycle: Cycle, pod: PodInfo, row: int, more_pods: int = 0, more: Mapping[int, int] = _NOTHING
    ) -> int:
        """The code of a row, with `more_pods` on it than the table says that request `more` by line."""
        request: _Request = cycle.read(self)
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
                    code |= _TOO_LARGE
        return code | (request.code_with_missing(failing) if failing else request.elsewhere)

    def filter_row_with_pods(self, cycle: Cycle, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> int:
        """What `filter_row` would say with the nominated pods `others` on the row."""
        taken: dict[int, int] = {}
        for other in others:
            for line, amount in cycle.table.taken_by(other.template):
                taken[line] = taken.get(line, 0) + amount
        return self.filter_row(cycle, pod, row, len(others), taken)

    def filter_copies(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Scores | None:
        """How many pods like this one find room on each row."""
        if not self.is_room_alone(cycle):
            return None
        request = self._request(cycle, pod)
        left = self.left_over(cycle, rows)
        amounts = np.concatenate(([1], request.amounts))[:, None].astype(left.dtype)
        counts: Scores = np.maximum((left // amounts + 1).min(axis=0), 0).astype(np.int64)
        return counts

    def is_room_alone(self, cycle: Cycle) -> bool:
        """Whether a row that rejects the pod lacks room, and nothing else: no devices, no resource at all."""
        request = self._request(cycle, cycle.pod)
        return not (request.devices_for or request.missing)

    def left_over(self, cycle: Cycle, rows: Rows) -> IntArray:
        """What rows would have left with the pod on them: of the number of pods, then of each limited line.

        Where nothing is negative, the pod fits. Where 64 bits might not do the answer has Python's numbers
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
        """What `filter` would say of rows that had so much left over."""
        request = self._request(cycle, cycle.pod)
        codes: Codes = (left[0] < 0).astype(np.int64)
        request.add_lacking(codes, left[1:] < 0, request.lines.of(cycle.table.allocatable, rows))
        return codes

    def asked_for(self, cycle: Cycle) -> Hashable:
        """The same for all pods that this filter cannot tell apart."""
        request: _Request = cycle.read(self)
        return (request.wanted, request.devices_for) if request.has_bits and not request.held else request

    def limited_lines(self, cycle: Cycle) -> list[int]:
        """The lines of the resource columns that the pod asks for some of."""
        return list(self._request(cycle, cycle.pod).lines.listed)

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        return True

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        request = self._request(cycle, pod)
        reasons = [REASON_PODS] if code & _PODS else []
        reasons += [REASON_PREFIX + request.names[place] for place in request.failing(code)]
        kind = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if code & _TOO_LARGE else Code.UNSCHEDULABLE
        return Status(kind, tuple(reasons))

    # What is missing, and what a smaller pod would be

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        table = cycle.table
        if table.pod_count.item(row) >= table.allowed_pods.item(row):
            return Shortfall("pods", f"all {table.allowed_pods.item(row)} pods of the node are taken")
        lacking = self._lacking(cycle, pod, row)
        if not lacking:
            return None
        short = [f"{shown_amount(one.name, one.wanted - one.free)} {one.name} short" for one in lacking]
        return Shortfall(
            ", ".join(short), "; ".join(map(_free_text, lacking)), max(one.share for one in lacking)
        )

    def shortfall_sizes(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> "npt.NDArray[np.float64]":
        table, sizes = cycle.table, np.zeros(len(rows))
        request = self._request(cycle, pod)
        for name, wanted in request.wanted:
            line = table.resources.find(name)
            if line is None:
                return np.ones(len(rows))
            free = table.allocatable[line, rows].astype(np.float64) - table.requested[line, rows]
            free += request.held.get(name, 0)
            if wanted:
                sizes = np.maximum(sizes, (wanted - np.maximum(free, 0)) / wanted)
        sizes[table.pod_count[rows] >= table.allowed_pods[rows]] = 1.0
        return sizes

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        lacking = self._lacking(cycle, pod, row)
        if not lacking or any(one.free <= 0 for one in lacking):
            return
        patch = smaller_requests(pod.pod, {one.name: one.wanted - one.free for one in lacking})
        if patch is not None:
            wishes = ", ".join(
                f"{shown_amount(one.name, one.free)} {one.name} (now {shown_amount(one.name, one.wanted)})"
                for one in lacking
            )
            yield Remedy("requests", f"request {wishes}", patch, sum(one.share for one in lacking))

    def too_large(self, cycle: Cycle) -> list[tuple[str, int, int]]:
        """Requests that no node covers even if it is empty: resource, amount, and the largest there is."""
        table = cycle.table
        found = []
        for name, wanted in self._request(cycle, cycle.pod).wanted:
            line = table.resources.find(name)
            largest = 0 if line is None else int(table.allocatable[line, table.valid].max(initial=0))
            if wanted > largest:
                found.append((name, wanted, largest))
        return found

    def _lacking(self, cycle: Cycle, pod: PodInfo, row: int) -> "list[_Lacking]":
        """The requests that the free part of a node does not cover."""
        table, request = cycle.table, self._request(cycle, pod)
        found = []
        for name, wanted in request.wanted:
            line = table.resources.find(name)
            allocatable = 0 if line is None else table.allocatable.item(line, row)
            if not allocatable and name in request.devices_for:
                continue
            free = 0 if line is None else allocatable - table.exactly_requested(line, row)
            free += request.held.get(name, 0)
            if wanted > free:
                found.append(_Lacking(name, wanted, max(free, 0), allocatable))
        return found

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

    def _request(self, cycle: Cycle, pod: PodInfo) -> _Request:
        """What the pod asks for, worked out once for its class: codes may refer to it."""
        request: _Request | None = cycle.read(self) or cycle.memo(self)
        if request is None:
            wanted, held = self._wanted(pod), self._held(cycle, pod)
            if held:
                wanted = [each for each in wanted if not is_scalar(each[0]) or each[1] > held.get(each[0], 0)]
            request = _Request(wanted, self._devices_for(pod), held)
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
        """What a pod that waits for a resize has of what it requests: it is counted on its node already.

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


class _Lacking(NamedTuple):
    """A request that a node has too little free of."""

    name: str
    wanted: int
    free: int
    allocatable: int

    @property
    def share(self) -> float:
        """How much of the request is missing: 0 nearly nothing, 1 all of it."""
        return (self.wanted - self.free) / self.wanted


def _free_text(lacking: _Lacking) -> str:
    name = lacking.name
    wanted, free = shown_amount(name, lacking.wanted), shown_amount(name, lacking.free)
    if not lacking.allocatable:
        return f"wants {wanted}, the node has none"
    return f"wants {wanted}, {free} of {shown_amount(name, lacking.allocatable)} free"


Amounts = Mapping[str, int]


class FitHints:
    """The hints of NodeResourcesFit.

    They take the pod's requests as they are, also those the profile tells the filter to ignore; that is how
    Kubernetes does it.
    """

    def __init__(self, handle: Handle) -> None:
        self._with_devices = handle.gates["DRAExtendedResource"]
        self._resizes = handle.gates[RESIZE_PREEMPTION]
        self._classes = handle.table.devices.classes
        self._pods = pod_resources(handle.behaviour)
        self._accounting = handle.behaviour.rules.resize_accounting

    def registrations(self) -> Sequence[EventRegistration]:
        deleted, shrunk = Action.DELETE, Action.UPDATE_POD_SCALE_DOWN
        if self._pods.of_target is self._pods.of_assigned:
            pods = [ClusterEvent(self._pods.of_assigned, deleted | shrunk)]
        else:
            assigned, own = self._pods.of_assigned, self._pods.of_target
            pods = [
                ClusterEvent(assigned, deleted),
                ClusterEvent(assigned, shrunk),
                ClusterEvent(own, shrunk),
            ]
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        classes = ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
        if self._resizes:
            found = self._for_resizes(pods, nodes)
        else:
            found = [ignoring_labels(event, self.after_pod_change) for event in pods]
            found.append(ignoring_labels(nodes, self.after_node_change))
        if self._with_devices:
            found.append(ignoring_labels(classes, after_class_change))
        return found

    def _for_resizes(self, pods: Sequence[ClusterEvent], nodes: ClusterEvent) -> list[EventRegistration]:
        """The same where deferred resizes are scheduled: what happens on other nodes does not help them. If
        anything on theirs grows they may have to preempt others."""

        def after_pod_change(pod: PodInfo, old: Pod, new: Pod | None) -> Hint:
            changed = old if new is None else new
            if pod.template.resize_deferred and changed.spec.node_name != pod.spec.node_name:
                return Hint.SKIP
            return self.after_pod_change(pod, old, new)

        def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
            if pod.template.resize_deferred and new.name != pod.spec.node_name:
                return Hint.SKIP
            return self.after_node_change(pod, old, new)

        def after_growth(pod: PodInfo, old: Pod, new: Pod) -> Hint:
            return queue_if(pod.template.resize_deferred and new.spec.node_name == pod.spec.node_name)

        growth = [
            ClusterEvent(resource, Action.UPDATE_POD_SCALE_UP)
            for resource in (self._pods.of_assigned, self._pods.of_target)
        ]
        return [
            *(EventRegistration(event, after_pod_change) for event in pods),
            *(EventRegistration(event, after_growth) for event in growth),
            EventRegistration(nodes, after_node_change),
        ]

    def after_pod_change(self, pod: PodInfo, old: Pod, new: Pod | None) -> Hint:
        if new is None:
            return queue_if(old.is_placed)
        if not new.spec.node_name:
            return queue_if(new.metadata.uid == pod.uid)
        before = accounted_requests(old, self._accounting).amounts()
        now = accounted_requests(new, self._accounting).amounts()
        wanted = pod.template.accounted.amounts()
        return queue_if(any(before.get(name, 0) > now.get(name, 0) for name in wanted))

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        wanted, offered = pod.requests.amounts(), allocatable_amounts(new)
        if not self._fits(wanted, offered):
            return Hint.SKIP
        return queue_if(old is None or self._offers_more(wanted, allocatable_amounts(old), offered))

    def _fits(self, wanted: Amounts, offered: Amounts) -> bool:
        """Whether a node could take the pod if it were empty."""
        return offered.get("pods", 0) >= 1 and all(
            amount <= offered.get(name, 0) or self._by_devices(name, offered)
            for name, amount in wanted.items()
        )

    def _offers_more(self, wanted: Amounts, before: Amounts, now: Amounts) -> bool:
        """Whether a node has more room than before for something the pod wants."""
        return any(now.get(name, 0) > before.get(name, 0) for name in ("pods", *wanted)) or any(
            self._by_devices(name, now) for name in wanted
        )

    def _by_devices(self, name: str, offered: Amounts) -> bool:
        """Whether a resource the node itself does not have can come as devices."""
        return (
            self._with_devices
            and is_scalar(name)
            and not offered.get(name, 0)
            and name in self._classes.resources
        )


def after_class_change(pod: PodInfo, old: DeviceClass | None, new: DeviceClass) -> Hint:
    """A class of devices that now stands for a resource the pod asks for."""
    given = new.spec.extended_resource_name
    if old is None:
        names: Sequence[str] = new.resource_names
    elif given is None or (old.spec.extended_resource_name or "") == given:
        names = ()
    else:
        names = (given,)
    wanted = pod_requests(pod.pod, use_status=False)
    return queue_if(any(name in wanted for name in names))
