"""SelectorSpread: keeps pods of one service or controller apart, over nodes and over zones.

The priorities SelectorSpreadPriority and ServiceSpreadingPriority; in Kubernetes 1.18 the plugin was called
DefaultPodTopologySpread. Today PodTopologySpread does this by its default constraints.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stowplan.api.labels import Selector
from stowplan.scheduler.framework import (
    SKIP,
    Contract,
    Cycle,
    Handle,
    NodeRows,
    PodInfo,
    Reads,
    Scores,
    Signs,
    Status,
)
from stowplan.scheduler.framework.advanced import ALL_ROWS, StaleRows
from stowplan.scheduler.plugins.legacy.base import LegacyPlugin, PriorityArgs, Siblings
from stowplan.scheduler.table.changes import NO_ROWS
from stowplan.scheduler.table.columns import IdColumn, IntArray
from stowplan.scheduler.table.table import ClusterTable

ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")

REGION_LABELS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
"""The beta labels take precedence, even empty ones."""

ZONE_WEIGHT: Final = 2.0 / 3.0
"""Share of the zone in a score, where a node is in one."""


class SelectorSpreadArgs(PriorityArgs, frozen=True):
    """Definition of a pod's siblings.

    `services_only` leaves controllers out. With `any_selector`, as up to Kubernetes 1.11, a pod is a sibling
    if any service or controller that selects the new pod selects it too, regardless of its owner; otherwise
    all of the pod's services and its own controller must.
    """

    services_only: bool = False
    any_selector: bool = False


class Zones:
    """By row the number of its zone, 0 for nodes that are in none. Made anew when that changes."""

    __slots__ = ("ids", "size")

    def __init__(self, ids: IdColumn) -> None:
        self.ids = ids
        self.size = int(ids.max(initial=0)) + 1

    def rows_of(self, chosen: Sequence[int] | IdColumn, rows_in_use: int) -> IdColumn:
        """The rows of some zones."""
        wanted = np.zeros(self.size, dtype=np.bool_)
        wanted[chosen] = True
        return np.flatnonzero(wanted[self.ids[:rows_in_use]])


class ZoneColumn:
    """The zones of a table, looked at again only after labels or the set of nodes changed."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._version = -1
        self._zones = Zones(np.zeros(0, dtype=np.intp))

    def current(self) -> Zones:
        """The zones as they are; the same object as before if nothing about them changed."""
        table = self._table
        if self._version != table.topology_version or len(self._zones.ids) != table.capacity:
            self._version = table.topology_version
            ids = self._numbered()
            if not np.array_equal(ids, self._zones.ids):
                self._zones = Zones(ids)
        return self._zones

    def _numbered(self) -> IdColumn:
        texts: dict[str, int] = {"": 0}
        zones = self._texts(ZONE_LABELS, texts)
        regions = self._texts(REGION_LABELS, texts)
        pairs = regions * len(texts) + zones
        distinct, numbers = np.unique(pairs, return_inverse=True)
        ids: IdColumn = numbers.astype(np.intp).reshape(-1)
        # No region and no zone is the lowest pair where any row has it; otherwise 0 stays free.
        return ids if len(distinct) and distinct[0] == 0 else ids + 1

    def _texts(self, labels: Sequence[str], texts: dict[str, int]) -> IdColumn:
        """By row the number of the text that the first of some labels has."""
        found: IdColumn = np.zeros(self._table.capacity, dtype=np.intp)
        for label in reversed(labels):
            column = self._table.label_column(label)
            numbers = [texts.setdefault(value or "", len(texts)) for value in column.values]
            found = np.where(column.ids != 0, np.array(numbers, dtype=np.intp)[column.ids], found)
        return found


class _Spread(NamedTuple):
    """How a group's pods are spread over the feasible nodes."""

    most: int
    zones: Zones
    by_zone: IntArray
    most_by_zone: int


class SelectorSpread(LegacyPlugin):
    """The fewer siblings a node and its zone have, compared with the most that any has, the better.

    Pods with spread constraints of their own get nothing from it.
    """

    args_type = SelectorSpreadArgs
    args: SelectorSpreadArgs
    contract = Contract(
        reads=Reads.ANYTHING,
        reads_others=Reads.ANYTHING,
        signs=Signs.TEMPLATE,
        needs=("services", "replicationcontrollers", "replicasets", "statefulsets"),
        constant_pre_score=True,
    )

    def __init__(self, args: SelectorSpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._zones = ZoneColumn(handle.table)

    def sign(self, pod: PodInfo) -> Hashable:
        if pod.spec.topology_spread_constraints:
            return "spreads itself"
        selectors = self._selectors(pod)
        return (pod.namespace, selectors) if selectors else None

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return SKIP if pod.spec.topology_spread_constraints else None

    def score_basis(self, cycle: Cycle, pod: PodInfo) -> _Spread:
        return self._spread(cycle, self._siblings(cycle, pod))

    def stale_score_rows(self, cycle: Cycle, pod: PodInfo, before: _Spread, now: _Spread) -> StaleRows:
        if before is now:
            return NO_ROWS
        if (before.most, before.zones, before.most_by_zone) != (now.most, now.zones, now.most_by_zone):
            return ALL_ROWS
        return now.zones.rows_of(np.flatnonzero(before.by_zone != now.by_zone), cycle.table.rows_in_use)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        if pod.spec.topology_spread_constraints:
            return None
        siblings = self._siblings(cycle, pod)
        spread = self._spread(cycle, siblings)
        top = float(self.args.max_priority)
        points = np.full(nodes.count, top)
        if spread.most:
            points = top * ((spread.most - siblings.on(nodes)) / spread.most)
        zones = spread.zones.ids[nodes.rows]
        by_zone = np.full(nodes.count, top)
        if spread.most_by_zone:
            by_zone = top * ((spread.most_by_zone - spread.by_zone[zones]) / spread.most_by_zone)
        mixed = points * (1.0 - ZONE_WEIGHT) + ZONE_WEIGHT * by_zone
        return np.where(zones != 0, mixed, points).astype(np.int64) * self.args.unit

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        if pod.spec.topology_spread_constraints:
            return 0
        siblings = self._siblings(cycle, pod)
        spread = self._spread(cycle, siblings)
        top = float(self.args.max_priority)
        points = top
        if spread.most:
            points = top * ((spread.most - siblings.on_row(row)) / spread.most)
        zone = spread.zones.ids.item(row)
        if zone:
            by_zone = top
            if spread.most_by_zone:
                here = spread.by_zone.item(zone)
                by_zone = top * ((spread.most_by_zone - here) / spread.most_by_zone)
            points = points * (1.0 - ZONE_WEIGHT) + ZONE_WEIGHT * by_zone
        return int(points) * self.args.unit

    def release(self, memo: Siblings) -> None:
        memo.close()

    def _siblings(self, cycle: Cycle, pod: PodInfo) -> Siblings:
        kept: Siblings | None = cycle.memo(self)
        if kept is not None:
            return kept
        clauses = tuple((frozenset((pod.namespace,)), selector) for selector in self._selectors(pod))
        matcher = None
        if clauses:
            table = cycle.table
            matcher = table.matchers.acquire(clauses, dying_too=False, any_clause=self.args.any_selector)
        kept = Siblings(cycle.table, matcher)
        cycle.remember(self, kept)
        return kept

    def _spread(self, cycle: Cycle, siblings: Siblings) -> _Spread:
        version = siblings.version(cycle)
        if siblings.found[0] == version:
            found: _Spread = siblings.found[1]
            return found
        here = siblings.on_feasible(cycle)
        zones = self._zones.current()
        by_zone = np.bincount(zones.ids[: len(here)], weights=here, minlength=zones.size).astype(np.int64)
        by_zone[0] = 0
        found = _Spread(int(here.max(initial=0)), zones, by_zone, int(by_zone.max()))
        siblings.found = (version, found)
        return found

    def _selectors(self, pod: PodInfo) -> tuple[Selector, ...]:
        """Selectors of the siblings of a pod; none if it has none."""
        lookups = self.handle.table.lookups
        fact = f"{self.name}@{self.serial}"
        kept: Any = pod.template.facts.get(fact)
        if kept is not None and kept[0] == lookups.groups_version:
            selectors: tuple[Selector, ...] = kept[1]
            return selectors
        services_only = self.args.services_only
        if self.args.any_selector:
            selectors = lookups.selectors_of(pod.namespace, pod.labels, services_only=services_only)
        else:
            owners = () if services_only else pod.owners
            selector = lookups.default_selector(pod.namespace, pod.labels, owners)
            selectors = () if selector.is_empty else (selector,)
        pod.template.note(fact, (lookups.groups_version, selectors))
        return selectors
