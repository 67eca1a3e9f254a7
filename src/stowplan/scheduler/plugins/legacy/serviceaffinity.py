"""ServiceAffinity: pods of a service together where some label has one value, or spread over its values.

The predicate CheckServiceAffinity and the priority ServiceAntiAffinityPriority.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stowplan.api.labels import Selector, selector_from_labels
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.workloads import Service
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    Hint,
    NodeRows,
    PodInfo,
    Reads,
    Resource,
    Scores,
    Signs,
    Status,
    queue_if,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import ALL_ROWS, StaleRows, pod_resources
from stowplan.scheduler.plugins.legacy.base import LegacyPlugin, PriorityArgs, Siblings
from stowplan.scheduler.table.changes import NO_ROWS, merge_rows
from stowplan.scheduler.table.columns import IntArray
from stowplan.scheduler.table.matchers import PodMatcher
from stowplan.scheduler.table.nodelabels import LabelColumn
from stowplan.scheduler.table.table import ClusterTable

REASON: Final = "node(s) didn't match service affinity"

SERVICES: Final = "services.v1."
"""Name of services in events, which are none of the kinds that today's plugins register for."""


class ServiceAffinityArgs(PriorityArgs, frozen=True):
    """Labels of nodes: those that all pods of a service share, and those over which they are spread."""

    affinity_labels: tuple[str, ...] = ()
    anti_affinity_labels_preference: tuple[str, ...] = ()


class Anchor:
    """Of the rows that have pods of a selection, the one whose node comes first by name.

    kube-scheduler took the first pod it came across, in no order to rely on. As long as the rule was kept
    from the start, all of them have the same labels anyway.
    """

    __slots__ = ("_matcher", "_row", "_seen", "_table", "_topology")

    def __init__(self, table: ClusterTable, matcher: PodMatcher) -> None:
        self._table = table
        self._matcher = matcher
        self._seen = -1
        self._topology = -1
        self._row: int | None = None

    def row(self) -> int | None:
        """The row, None while there is no such pod."""
        counts = self._matcher.rows
        if self._topology == self._table.topology_version:
            if self._seen == counts.version:
                return self._row
            changed = counts.changed_since(self._seen)
        else:
            changed = None
        if changed is None or (self._row is not None and not counts.get(self._row)):
            chosen = counts.to_array(self._table.capacity).nonzero()[0].tolist()
        else:
            chosen = [row for row in changed if counts.get(row)]
            if self._row is not None:
                chosen.append(self._row)
        self._row = min(chosen, key=self._table.name_of, default=None)
        self._seen, self._topology = counts.version, self._table.topology_version
        return self._row

    def close(self) -> None:
        self._table.matchers.release(self._matcher)


RequiredLabels = tuple[tuple[str, str], ...]
"""Labels and values that a node must have."""


class Shares(NamedTuple):
    """A service's pods on the feasible nodes: all of them, and by label and value."""

    total: int
    by_label: tuple[IntArray, ...]


class _Memo(NamedTuple):
    """For a class of pods: where pods with at least its labels are, and those of its first service."""

    anchor: Anchor | None
    siblings: Siblings


class ServiceAffinity(LegacyPlugin):
    """Which service is a pod's first is decided by name."""

    args_type = ServiceAffinityArgs
    args: ServiceAffinityArgs
    contract = Contract(
        reads=Reads.ANYTHING,
        reads_others=Reads.ANYTHING,
        signs=Signs.TEMPLATE,
        needs=("services", "replicationcontrollers", "replicasets", "statefulsets"),
    )

    def __init__(self, args: ServiceAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        preferred = self.args.anti_affinity_labels_preference
        self._columns = tuple(handle.table.labels.acquire(label) for label in preferred)

    def sign(self, pod: PodInfo) -> Hashable:
        own = pod.spec.node_selector or {}
        demanded = tuple(own.get(label) for label in self.args.affinity_labels)
        service = self._first_service(pod)
        if service is None:
            return demanded
        return demanded, service, pod.namespace, frozenset(pod.labels.items())

    def events(self) -> Sequence[EventRegistration]:
        return ServiceHints(
            self.args.affinity_labels, pod_resources(self.handle.behaviour).of_assigned
        ).registrations()

    # Filter: together

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> None:
        cycle.write(self, self._required(cycle, pod))

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        return _filter_codes(self._found(cycle, pod), nodes)

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return _filter_code_of_row(self._found(cycle, pod), cycle.table, row)

    def stale_filter_rows(self, cycle: Cycle, pod: PodInfo, before: Any, now: Any) -> StaleRows:
        return _stale_filter_rows(before, now)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unschedulable(REASON)

    def _found(self, cycle: Cycle, pod: PodInfo) -> RequiredLabels:
        found: RequiredLabels | None = cycle.read(self)
        return self._required(cycle, pod) if found is None else found

    def _required(self, cycle: Cycle, pod: PodInfo) -> RequiredLabels:
        labels = self.args.affinity_labels
        if not labels:
            return ()
        anchor = self._memo(cycle, pod).anchor
        return _required_labels(pod, labels, cycle.table, None if anchor is None else anchor.row())

    # Score: apart

    def score_basis(self, cycle: Cycle, pod: PodInfo) -> Shares:
        return _shares(cycle, self._memo(cycle, pod).siblings, self._columns)

    def stale_score_rows(self, cycle: Cycle, pod: PodInfo, before: Any, now: Any) -> StaleRows:
        return _stale_score_rows(cycle.table, self._columns, before, now)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        if not self._columns:
            return None
        found = self.score_basis(cycle, pod)
        points = _points(found, self._columns, nodes, float(self.args.max_priority))
        return points * self.args.unit

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        found = self.score_basis(cycle, pod)
        points = _points_of_row(found, self._columns, row, float(self.args.max_priority))
        return points * self.args.unit

    # State

    def close(self) -> None:
        for column in self._columns:
            self.handle.table.labels.release(column)

    def release(self, memo: _Memo) -> None:
        memo.siblings.close()
        if memo.anchor is not None:
            memo.anchor.close()

    def _memo(self, cycle: Cycle, pod: PodInfo) -> _Memo:
        kept: _Memo | None = cycle.memo(self)
        if kept is not None:
            return kept
        matchers, here = cycle.table.matchers, frozenset((pod.namespace,))
        service = self._first_service(pod)
        anchor = pods = None
        if service is not None and self.args.affinity_labels:
            alike = selector_from_labels(pod.labels)
            anchor = Anchor(cycle.table, matchers.acquire(((here, alike),), dying_too=True))
        if service is not None and self._columns:
            pods = matchers.acquire(((here, service),), dying_too=False)
        kept = _Memo(anchor, Siblings(cycle.table, pods))
        cycle.remember(self, kept)
        return kept

    def _first_service(self, pod: PodInfo) -> Selector | None:
        """The selector of the first service that selects a pod."""
        lookups = self.handle.table.lookups
        fact = f"{self.name}@{self.serial}"
        kept: Any = pod.template.facts.get(fact)
        if kept is None or kept[0] != lookups.groups_version:
            services = lookups.services_of(pod.namespace, pod.labels)
            selector = selector_from_labels(services[0].spec.selector or {}) if services else None
            kept = (lookups.groups_version, selector)
            pod.template.note(fact, kept)
        found: Selector | None = kept[1]
        return found


# Filter


def _required_labels(
    pod: PodInfo, labels: Sequence[str], table: ClusterTable, anchor: int | None
) -> RequiredLabels:
    """Labels of the pod's own selector, and for the others the labels of its siblings' node."""
    own = pod.spec.node_selector or {}
    found = {label: own[label] for label in labels if label in own}
    if anchor is not None:
        node = table.nodes[anchor]
        assert node is not None
        there = node.metadata.labels
        found |= {label: there[label] for label in labels if label in there and label not in found}
    return tuple(found.items())


def _filter_codes(wanted: RequiredLabels, nodes: NodeRows) -> Codes | None:
    if not wanted:
        return None
    result = np.zeros(nodes.count, dtype=np.int64)
    for label, value in wanted:
        known = nodes.table.label_column(label).index.get(value, -1)
        result[nodes.labels(label) != known] = 1
    return result


def _filter_code_of_row(wanted: RequiredLabels, table: ClusterTable, row: int) -> int:
    for label, value in wanted:
        column = table.label_column(label)
        if column.ids.item(row) != column.index.get(value, -1):
            return 1
    return 0


def _stale_filter_rows(before: RequiredLabels | None, now: RequiredLabels | None) -> StaleRows:
    return NO_ROWS if before == now and now is not None else ALL_ROWS


# Score


def _shares(cycle: Cycle, siblings: Siblings, columns: Sequence[LabelColumn]) -> Shares:
    """The shares as they are; the same object as before if nothing they rest on changed."""
    version = siblings.version(cycle)
    if siblings.found[0] == version:
        found: Shares = siblings.found[1]
        return found
    here = siblings.on_feasible(cycle)
    counts = tuple(
        np.bincount(column.ids[: len(here)], weights=here, minlength=column.size).astype(np.int64)
        for column in columns
    )
    found = Shares(int(here.sum()), counts)
    siblings.found = (version, found)
    return found


def _points(found: Shares, columns: Sequence[LabelColumn], nodes: NodeRows, top: float) -> Scores:
    """Points by row; a label that a node does not have adds nothing."""
    sums = np.zeros(nodes.count)
    for column, by_value in zip(columns, found.by_label, strict=True):
        ids = column.ids[nodes.rows]
        worth = np.full(nodes.count, top)
        if found.total:
            worth = top * ((found.total - by_value[ids]) / found.total)
        sums += np.where(ids != 0, worth / len(columns), 0.0)
    return sums.astype(np.int64)


def _points_of_row(found: Shares, columns: Sequence[LabelColumn], row: int, top: float) -> int:
    total = 0.0
    for column, by_value in zip(columns, found.by_label, strict=True):
        value = column.ids.item(row)
        if value:
            here = by_value.item(value)
            worth = top * ((found.total - here) / found.total) if found.total else top
            total += worth / len(columns)
    return int(total)


def _stale_score_rows(
    table: ClusterTable, columns: Sequence[LabelColumn], before: Shares, now: Shares
) -> StaleRows:
    """Rows whose value of a label has more or fewer pods than before; all rows if there are more in all."""
    if before is now:
        return NO_ROWS
    if before.total != now.total:
        return ALL_ROWS
    rows = NO_ROWS
    for column, was, is_now in zip(columns, before.by_label, now.by_label, strict=True):
        if len(was) != len(is_now):
            return ALL_ROWS
        changed = np.flatnonzero(was != is_now)
        rows = merge_rows(rows, column.rows_of(changed[changed != 0], table.rows_in_use))
    return rows


# Queueing hints


class ServiceHints:
    """The hints of ServiceAffinity for some labels."""

    def __init__(self, labels: Sequence[str], pods: Resource) -> None:
        self._labels = labels
        self._pods = pods

    def registrations(self) -> Sequence[EventRegistration]:
        pods = ClusterEvent(self._pods, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL)
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL)
        services = ClusterEvent(SERVICES, Action.ADD | Action.DELETE | Action.UPDATE)
        return (
            EventRegistration(pods, after_pod_change, by_template=True),
            EventRegistration(nodes, self.after_node_change, by_template=True),
            EventRegistration(services, after_service_change, by_template=True),
        )

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        """Another node to go to, or the pods of the service are elsewhere now."""
        if old is None or new is None:
            return Hint.QUEUE
        was, now = old.metadata.labels, new.metadata.labels
        return queue_if(any(was.get(label) != now.get(label) for label in self._labels))


def after_pod_change(pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
    """A pod that counts came, went, or began or ceased to count."""
    if new is not None and new.metadata.uid == pod.uid:
        return Hint.QUEUE
    counted = [changed is not None and _counts_for(pod, changed) for changed in (old, new)]
    return queue_if(counted[0] != counted[1])


def _counts_for(pod: PodInfo, changed: Pod) -> bool:
    return (
        changed.is_placed
        and changed.namespace == pod.namespace
        and selector_from_labels(pod.labels).matches(changed.metadata.labels)
    )


def after_service_change(pod: PodInfo, old: Service | None, new: Service | None) -> Hint:
    """A service has the pod now, or no longer."""
    selected = [service is not None and _selects(service, pod) for service in (old, new)]
    return queue_if(selected[0] != selected[1])


def _selects(service: Service, pod: PodInfo) -> bool:
    wanted = service.spec.selector
    if not wanted or service.namespace != pod.namespace:
        return False
    return selector_from_labels(wanted).matches(pod.labels)
