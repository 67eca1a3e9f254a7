"""The plugin: finds a pod's service, keeps counters for its class, and asks them.

The predicate CheckServiceAffinity and the priority ServiceAntiAffinityPriority.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

from stowplan.api.labels import Selector, selector_from_labels
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.events import EventRegistration
from stowplan.framework.interface import Codes, Handle, Reads, Scores, StaleRows
from stowplan.framework.status import Status, unschedulable
from stowplan.plugins.args import ServiceAffinityArgs
from stowplan.plugins.legacy.base import LegacyPlugin
from stowplan.plugins.legacy.serviceaffinity import filtering, scoring
from stowplan.plugins.legacy.serviceaffinity.anchor import Anchor
from stowplan.plugins.legacy.serviceaffinity.hints import ServiceHints
from stowplan.plugins.legacy.siblings import Siblings

REASON: Final = "node(s) didn't match service affinity"


class _Memo(NamedTuple):
    """For a class of pods: where pods with at least its labels are, and those of its first service."""

    anchor: Anchor | None
    siblings: Siblings


class ServiceAffinity(LegacyPlugin):
    """Which service is a pod's first is decided by name."""

    args_type = ServiceAffinityArgs
    args: ServiceAffinityArgs
    reads = Reads.ANYTHING
    row_local = False
    signs_template = True

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
        return ServiceHints(self.args.affinity_labels).registrations()

    # Together

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> None:
        cycle.write(self, self._demands(cycle, pod))

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        return filtering.codes(self._found(cycle, pod), nodes)

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return filtering.code_of_row(self._found(cycle, pod), cycle.table, row)

    def stale_filter_rows(self, cycle: Cycle, pod: PodInfo, before: Any, now: Any) -> StaleRows:
        return filtering.stale_rows(before, now)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unschedulable(REASON)

    def _found(self, cycle: Cycle, pod: PodInfo) -> filtering.Demands:
        found: filtering.Demands | None = cycle.read(self)
        return self._demands(cycle, pod) if found is None else found

    def _demands(self, cycle: Cycle, pod: PodInfo) -> filtering.Demands:
        labels = self.args.affinity_labels
        if not labels:
            return ()
        anchor = self._memo(cycle, pod).anchor
        return filtering.demands(pod, labels, cycle.table, None if anchor is None else anchor.row())

    # Apart

    def score_basis(self, cycle: Cycle, pod: PodInfo) -> scoring.Shares:
        return scoring.shares(cycle, self._memo(cycle, pod).siblings, self._columns)

    def stale_score_rows(self, cycle: Cycle, pod: PodInfo, before: Any, now: Any) -> StaleRows:
        return scoring.stale_rows(cycle.table, self._columns, before, now)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        if not self._columns:
            return None
        found = self.score_basis(cycle, pod)
        points = scoring.points(found, self._columns, nodes, float(self.args.max_priority))
        return points * self.args.unit

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        found = self.score_basis(cycle, pod)
        points = scoring.points_of_row(found, self._columns, row, float(self.args.max_priority))
        return points * self.args.unit

    # What is kept

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
