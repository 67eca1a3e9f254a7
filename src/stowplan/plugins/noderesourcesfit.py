"""NodeResourcesFit: does what the pod asks for fit, and how full would the node be."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.api.resources import is_extended
from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import FIRST_SCALAR, BoolColumn, Lines
from stowplan.cluster.counts import IntArray
from stowplan.cluster.podinfo import PodInfo, request_lines
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle import Cycle
from stowplan.framework.events import EventRegistration
from stowplan.framework.plugin import Codes, Handle, Plugin, Reads, Scores
from stowplan.framework.status import Code, Status
from stowplan.plugins.allocation import ScoredResources, strategy_scorers
from stowplan.plugins.args import NodeResourcesFitArgs
from stowplan.plugins.noderesourcesfit_hints import FitHints

REASON_PODS = "Too many pods"
REASON_PREFIX = "Insufficient "

# Codes are bit sets: too many pods, a failing resource larger than the whole node, then one bit per request.
_PODS, _TOO_LARGE, _FIRST_REQUEST = 1, 2, 2
_MOST_REQUESTS = 60


class _Request(NamedTuple):
    """The requests a filter has to look at: lines of the resource columns, amounts, and their bits."""

    lines: Lines
    amounts: IntArray
    bits: IntArray
    listed: tuple[tuple[int, int, int], ...]
    """The same as (line, amount, bit) each."""


def _add_lacking(codes: Codes, request: _Request, lacking: BoolColumn, allocatable: IntArray) -> None:
    """Note in codes which requests each row cannot meet, and whether it never could."""
    if lacking.any():
        codes += (lacking * request.bits[:, None]).sum(axis=0)
        codes[(lacking & (request.amounts[:, None] > allocatable)).any(axis=0)] |= _TOO_LARGE


class NodeResourcesFit(Plugin):
    """Filters by allocatable minus requested; scores by the configured strategy."""

    args_type = NodeResourcesFitArgs
    reads = Reads.USAGE
    signs_template = True
    constant_pre_filter = True
    constant_pre_score = True

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        self._resources = tuple(spec.name for spec in strategy.resources)
        self._score, self._score_one = strategy_scorers(strategy)

    def sign(self, pod: PodInfo) -> Hashable:
        requests = pod.requests
        return (
            requests.milli_cpu,
            requests.memory,
            requests.ephemeral_storage,
            frozenset(requests.scalars.items()),
            self._for_scoring(pod),
        )

    def events(self) -> Sequence[EventRegistration]:
        return FitHints(self.handle).registrations()

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> None:
        cycle.write(self, self._request(cycle.table, pod))

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes:
        request: _Request | None = cycle.read(self)
        if request is None:
            request = self._request(cycle.table, pod)
        table, rows = nodes.table, nodes.rows
        codes = (table.pod_count[rows] >= table.allowed_pods[rows]).astype(np.int64)
        if not len(request.lines):
            return codes
        allocatable = request.lines.of(table.allocatable, rows)
        lacking = request.amounts[:, None] > allocatable - request.lines.of(table.requested, rows)
        _add_lacking(codes, request, lacking, allocatable)
        return codes

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        request: _Request = cycle.read(self)
        table = cycle.table
        code = int(table.pod_count.item(row) >= table.allowed_pods.item(row))
        for line, wanted, bit in request.listed:
            allocatable = table.allocatable.item(line, row)
            if wanted > allocatable - table.requested.item(line, row):
                code |= bit
                if wanted > allocatable:
                    code |= _TOO_LARGE
        return code

    def filter_beside(self, cycle: Cycle, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> int:
        """What `filter_row` would say if other pods stood on the row as well."""
        request: _Request = cycle.read(self)
        table = cycle.table
        taken = Counter[int]()
        for other in others:
            for line, amount in other.template.taken:
                taken[line] += amount
        code = int(table.pod_count.item(row) + len(others) >= table.allowed_pods.item(row))
        for line, wanted, bit in request.listed:
            allocatable = table.allocatable.item(line, row)
            if wanted > allocatable - table.requested.item(line, row) - taken[line]:
                code |= bit
                if wanted > allocatable:
                    code |= _TOO_LARGE
        return code

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        return True

    # For preemption, which takes pods away and puts them back in numbers only

    def asked_for(self, cycle: Cycle) -> Hashable:
        """The same for all pods that this filter cannot tell apart."""
        request: _Request = cycle.read(self)
        return request.listed

    def limited_lines(self, cycle: Cycle) -> list[int]:
        """The lines of the resource columns that the pod asks for some of."""
        request: _Request = cycle.read(self)
        return list(request.lines.listed)

    def left_over(self, cycle: Cycle, rows: Rows) -> IntArray:
        """What each row would have left beside the pod: of the number of pods, then of each limited line.

        Where nothing is negative, the pod fits.
        """
        request: _Request = cycle.read(self)
        table = cycle.table
        left = np.empty((1 + len(request.lines), len(rows)), dtype=np.int64)
        left[0] = table.allowed_pods[rows] - table.pod_count[rows] - 1
        left[1:] = request.lines.of(table.allocatable, rows) - request.lines.of(table.requested, rows)
        left[1:] -= request.amounts[:, None]
        return left

    def codes_for(self, cycle: Cycle, rows: Rows, left: IntArray) -> Codes:
        """What `filter` would say of rows that had so much left over."""
        request: _Request = cycle.read(self)
        codes: Codes = (left[0] < 0).astype(np.int64)
        _add_lacking(codes, request, left[1:] < 0, request.lines.of(cycle.table.allocatable, rows))
        return codes

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        request: _Request | None = cycle.read(self)
        if request is None:
            request = self._request(cycle.table, pod)
        reasons = [REASON_PODS] if code & _PODS else []
        reasons += [
            REASON_PREFIX + cycle.table.resources.names[line] for line, _, bit in request.listed if code & bit
        ]
        kind = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if code & _TOO_LARGE else Code.UNSCHEDULABLE
        return Status(kind, tuple(reasons))

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> None:
        cycle.write_score(self, ScoredResources(cycle.table, self._resources, self._for_scoring(pod)))

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        resources: ScoredResources | None = cycle.read_score(self)
        if resources is None:
            resources = ScoredResources(cycle.table, self._resources, self._for_scoring(pod))
        return self._score(resources.look(nodes, with_defaults=True))

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        resources: ScoredResources = cycle.read_score(self)
        return self._score_one(resources.look_at(cycle.table, row, True))

    def _for_scoring(self, pod: PodInfo) -> tuple[int, ...]:
        return pod.template.asked(self._resources, non_zero=True, pod_level=False)

    def _request(self, table: ClusterTable, pod: PodInfo) -> _Request:
        names = table.resources.names
        kept = [
            (line, amount)
            for line, amount in request_lines(pod.requests, table.resources)
            if line < FIRST_SCALAR or not self._is_ignored(names[line])
        ]
        # Core resources come first; extended ones are reported in the order of their names.
        kept.sort(
            key=lambda entry: (entry[0], "") if entry[0] < FIRST_SCALAR else (FIRST_SCALAR, names[entry[0]])
        )
        if len(kept) > _MOST_REQUESTS:
            raise ValueError(
                f"a pod can request at most {_MOST_REQUESTS} kinds of resources, not {len(kept)}"
            )
        listed = tuple(
            (line, amount, 1 << (_FIRST_REQUEST + position)) for position, (line, amount) in enumerate(kept)
        )
        return _Request(
            Lines([line for line, _, _ in listed]),
            np.array([amount for _, amount, _ in listed], dtype=np.int64),
            np.array([bit for _, _, bit in listed], dtype=np.int64),
            listed,
        )

    def _is_ignored(self, name: str) -> bool:
        if not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups
