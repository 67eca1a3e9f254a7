"""SelectorSpread: keeps pods of one service or controller apart, over nodes and over zones.

The priorities SelectorSpreadPriority and ServiceSpreadingPriority; in Kubernetes 1.18 the plugin was called
DefaultPodTopologySpread. Today PodTopologySpread does this by its default constraints.
"""

from collections.abc import Hashable
from typing import Any, Final, NamedTuple

import numpy as np

from stowplan.api.labels import Selector
from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.columns import IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.interface import ALL_ROWS, Handle, Reads, Scores, StaleRows
from stowplan.framework.status import SKIP, Status
from stowplan.plugins.args import SelectorSpreadArgs
from stowplan.plugins.legacy.base import LegacyPlugin
from stowplan.plugins.legacy.siblings import Siblings
from stowplan.plugins.legacy.zones import ZoneColumn, Zones

ZONE_WEIGHT: Final = 2.0 / 3.0
"""How much of a score the zone makes, where a node is in one."""


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
    reads = Reads.ANYTHING
    row_local = False
    signs_template = True
    constant_pre_score = True

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
        """What chooses the siblings of a pod; nothing if it has none."""
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
