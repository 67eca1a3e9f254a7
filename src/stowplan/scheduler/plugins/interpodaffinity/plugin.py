"""InterPodAffinity: required terms filter, preferred ones score; terms count from both sides."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

import msgspec
import numpy as np

from stowplan.api.fielderrors import Path, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.labels import SelectorError
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.releases import Behaviour
from stowplan.scheduler.framework import (
    MAX_NODE_SCORE,
    SKIP,
    Action,
    ClusterEvent,
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
    ScoreRange,
    Scores,
    Signs,
    Status,
    queue_if,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import (
    ALL_ROWS,
    EventKeys,
    FeatureGates,
    HintError,
    Obstacle,
    Remedy,
    Shortfall,
    StaleRows,
    pod_resources,
)
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.interpodaffinity.counts import (
    OwnTerms,
    Sums,
    TermCounter,
    changed_rows,
    groups_of,
    sums_by_key,
)
from stowplan.scheduler.plugins.interpodaffinity.explanation import Company
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.labelsets import needed_pairs
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.terms import Term, TermGroup, TermRole, terms_of

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_AFFINITY, _ANTI_AFFINITY, _EXISTING = 1, 2, 3
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRING = (TermRole.REQUIRED_AFFINITY, TermRole.PREFERRED_AFFINITY, TermRole.PREFERRED_ANTI_AFFINITY)


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """Weight of the required affinity of placed pods towards a pod, and the use of their preferences."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        weight = self.hard_pod_affinity_weight
        if 0 <= weight <= 100:
            return []
        return [invalid(path.child("hardPodAffinityWeight"), weight, "not in valid range [0, 100]")]


class _FilterSums(NamedTuple):
    """Which domains have matching pods, by rule and key."""

    affinity: tuple[Sums, ...]
    anti_affinity: tuple[Sums, ...]
    existing: tuple[Sums, ...]
    all: tuple[Sums, ...]
    """The above together."""

    @classmethod
    def of(
        cls,
        affinity: tuple[Sums, ...],
        anti_affinity: tuple[Sums, ...],
        existing: tuple[Sums, ...],
    ) -> Self:
        return cls(affinity, anti_affinity, existing, (*affinity, *anti_affinity, *existing))


class _FilterState(NamedTuple):
    """State of the filter, and the position of its logs. `alone`: the first of pods that want each other."""

    sums: _FilterSums
    positions: tuple[int, ...]
    alone: bool


class _ScoreState(NamedTuple):
    sums: tuple[Sums, ...]
    positions: tuple[int, ...]


@dataclass(slots=True)
class _Memo:
    """Counters of a class, and the version of others' terms that the sums were made for."""

    own: OwnTerms
    filter_sums: _FilterSums | None = None
    filter_version: int = -1
    score_sums: tuple[Sums, ...] = ()
    score_version: int = -1
    examples: dict[tuple[int, ...], str] = field(default_factory=dict)
    """Uids of pods that were named as being in the way, by rule and domains."""


class InterPodAffinity(Plugin[InterPodAffinityArgs]):
    """Counts per topology domain are kept as pods come and go; no pod is ever walked."""

    contract = Contract(
        reads=Reads.NODE,
        reads_others=Reads.ANYTHING,
        signs=Signs.TEMPLATE,
        constant_normalize=True,
        skips_deferred_resizes=True,
    )

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._explained: tuple[Cycle, Company] | None = None

    def sign(self, pod: PodInfo) -> Hashable:
        seen = pod.template.seen_label_set
        return (seen.namespace, frozenset(seen.labels.items()), pod.template.terms)

    def events(self) -> Sequence[EventRegistration]:
        return AffinityHints(self.handle.behaviour).registrations()

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        terms = pod.template.terms
        if terms.error is not None:
            return unresolvable(f"parsing pod: {terms.error}")
        label_set = pod.template.seen_label_set
        if not terms.terms and not label_set.term_groups:
            return SKIP
        memo = self._memo(cycle, pod)
        if memo.filter_sums is None or memo.filter_version != label_set.version:
            memo.filter_sums = self._filter_sums(cycle, memo.own, pod)
            memo.filter_version = label_set.version
        own, sums = memo.own, memo.filter_sums
        everything = sums.all
        for entry in everything:
            entry.sync()
        requires = terms.terms and terms.requires
        if not requires and not (sums.existing and any(entry.any for entry in sums.existing)):
            return SKIP
        alone = own.matches_itself and not any(entry.any for entry in sums.affinity)
        cycle.write(self, _FilterState(sums, tuple(entry.position for entry in everything), alone))
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        state: _FilterState | None = cycle.read(self)
        if state is None:
            return None
        sums = state.sums
        codes = np.zeros(nodes.count, dtype=np.int64)
        rejects = bool(sums.affinity)
        for entries, code in ((sums.existing, _EXISTING), (sums.anti_affinity, _ANTI_AFFINITY)):
            for entry in entries:
                there = entry.by_row(nodes)
                if isinstance(there, dict):
                    for row in there:
                        codes[row] = code
                else:
                    codes[there > 0] = code
                rejects = rejects or len(there) > 0
        for entry in sums.affinity:
            ids = entry.column.ids[nodes.rows]
            codes[(ids == 0) if state.alone else (entry.values[ids] <= 0)] = _AFFINITY
        return codes if rejects else None

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        state: _FilterState = cycle.read(self)
        sums = state.sums
        for entry in sums.affinity:
            domain = entry.column.ids.item(row)
            if not domain or (not state.alone and entry.values.item(domain) <= 0):
                return _AFFINITY
        for entry in sums.anti_affinity:
            if entry.values.item(entry.column.ids.item(row)) > 0:
                return _ANTI_AFFINITY
        for entry in sums.existing:
            if entry.values.item(entry.column.ids.item(row)) > 0:
                return _EXISTING
        return 0

    def stale_filter_rows(
        self, cycle: Cycle, pod: PodInfo, before: _FilterState | None, now: _FilterState
    ) -> StaleRows:
        if before is None or before.sums is not now.sums or before.alone != now.alone:
            return ALL_ROWS
        if before.positions == now.positions:
            return NO_ROWS
        return changed_rows(now.sums.all, before.positions, now.positions, cycle.table.rows_in_use)

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        """Yes, unless the pod wants to be near others: it may be their company that made a node pass."""
        return not pod.template.terms.of(TermRole.REQUIRED_AFFINITY)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        if code == _AFFINITY:
            return unresolvable(REASON_AFFINITY)
        return unschedulable(REASON_ANTI_AFFINITY if code == _ANTI_AFFINITY else REASON_EXISTING)

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        code = 0 if cycle.read(self) is None else self.filter_row(cycle, pod, row)
        if code == _AFFINITY:
            keys = [term.topology_key for term in pod.template.terms.of(TermRole.REQUIRED_AFFINITY)]
            return Shortfall("affinity", f"no pod that it wants to be near in the same {' and '.join(keys)}")
        if code == _ANTI_AFFINITY:
            there = self._example(cycle, pod, row, code)
            return Shortfall("anti-affinity", f"{there or 'a pod it keeps away from'} is there")
        if code == _EXISTING:
            there = self._example(cycle, pod, row, code)
            return Shortfall("anti-affinity", f"{there or 'a pod there'} keeps it away")
        return None

    def _example(self, cycle: Cycle, pod: PodInfo, row: int, code: int) -> str | None:
        """A pod that is in the way on a row.

        To find it pods are walked, so it is remembered for the other rows of its domains.
        """
        table, state, memo = cycle.table, cycle.read(self), self._memo(cycle, pod)
        sums = state.sums.anti_affinity if code == _ANTI_AFFINITY else state.sums.existing
        domains = (code, *(entry.column.ids.item(row) for entry in sums))
        known = table.pods.get(memo.examples.get(domains, ""))
        if known is None or (code, *(entry.column.ids.item(known.row) for entry in sums)) != domains:
            pods = _pods_kept_from if code == _ANTI_AFFINITY else _pods_keeping_away
            known = next(pods(cycle, pod, row), None)
            if known is None:
                return None
            memo.examples[domains] = known.uid
        return known.key

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        """The pods that are missing, or those in the way; of several rows one is an example."""
        row = int(rows[0])
        code = 0 if cycle.read(self) is None else self.filter_row(cycle, pod, row)
        if code == _AFFINITY:
            missing = self._company(cycle, pod).missing()
            if missing:
                return Obstacle(missing, "cluster")
            terms = pod.template.terms.of(TermRole.REQUIRED_AFFINITY)
            wanted = " and ".join(f"{term.selector} in the same {term.topology_key}" for term in terms)
            return Obstacle(f"no pod with {wanted}")
        if not code:
            return None
        there = self._example(cycle, pod, row, code)
        whose = "anti-affinity to" if code == _ANTI_AFFINITY else "anti-affinity of"
        others = " and others" if len(rows) > 1 else ""
        return Obstacle(f"{whose} {there or 'pods there'}{others if there else ''}")

    def _company(self, cycle: Cycle, pod: PodInfo) -> Company:
        """The pods that a pod wants to be near, counted once for all rows that are explained in a cycle."""
        if self._explained is None or self._explained[0] is not cycle:
            self._explained = (cycle, Company(cycle.table, pod))
        return self._explained[1]

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        affinity = pod.spec.affinity
        code = 0 if cycle.read(self) is None else self.filter_row(cycle, pod, row)
        if affinity is None or code not in (_AFFINITY, _ANTI_AFFINITY):
            return
        if code == _AFFINITY:
            yield from self._company(cycle, pod).corrections()
        field = "podAffinity" if code == _AFFINITY else "podAntiAffinity"
        rules = affinity.pod_affinity if code == _AFFINITY else affinity.pod_anti_affinity
        terms = () if rules is None else rules.required_during_scheduling_ignored_during_execution
        for place, term in enumerate(terms):
            left = [msgspec.to_builtins(other) for other in (*terms[:place], *terms[place + 1 :])]
            kind = "affinity" if code == _AFFINITY else "anti-affinity"
            text = f"drop the required pod {kind} over {term.topology_key}"
            patch = {"spec": {"affinity": {field: {_REQUIRED: left or None}}}}
            yield Remedy(field, text, patch)

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not pod.template.terms.terms and not pod.template.seen_label_set.term_groups:
            return SKIP
        memo = self._memo(cycle, pod)
        own = memo.own
        prefers = own.preferred or own.rare_preferred is not None
        if self.args.ignore_preferred_terms_of_existing_pods and not prefers:
            return SKIP
        label_set = pod.template.seen_label_set
        if memo.score_version != label_set.version:
            memo.score_sums = self._score_sums(cycle, own, pod)
            memo.score_version = label_set.version
        if not memo.score_sums:
            return SKIP
        for entry in memo.score_sums:
            entry.sync()
        if not any(entry.counted for entry in memo.score_sums):
            return SKIP
        cycle.write_score(self, _ScoreState(memo.score_sums, tuple(e.position for e in memo.score_sums)))
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        state: _ScoreState | None = cycle.read_score(self)
        if state is None:
            return None
        scores = np.zeros(nodes.count, dtype=np.int64)
        for entry in state.sums:
            there = entry.by_row(nodes)
            if isinstance(there, dict):
                for row, score in there.items():
                    scores[row] += score
            else:
                scores += there
        return scores

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        state: _ScoreState = cycle.read_score(self)
        return sum(entry.values.item(entry.column.ids.item(row)) for entry in state.sums)

    def stale_score_rows(
        self, cycle: Cycle, pod: PodInfo, before: _ScoreState | None, now: _ScoreState
    ) -> StaleRows:
        if before is None or before.sums is not now.sums:
            return ALL_ROWS
        if before.positions == now.positions:
            return NO_ROWS
        return changed_rows(now.sums, before.positions, now.positions, cycle.table.rows_in_use)

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        low, high = extremes
        if high == low:
            return np.zeros(len(scores), dtype=np.int64)
        shares = (scores - low) / (high - low)
        shares *= MAX_NODE_SCORE
        return shares.astype(np.int64)

    def release(self, memo: _Memo) -> None:
        memo.own.close()

    def _memo(self, cycle: Cycle, pod: PodInfo) -> _Memo:
        """Memo of the class, replaced when namespaces changed, or keys that count for it."""
        memo: _Memo | None = cycle.memo(self)
        if memo is not None and (not pod.template.terms.terms or memo.own.holds):
            return memo
        fresh = _Memo(OwnTerms(cycle.table, pod))
        if memo is not None:
            memo.own.close()
        cycle.remember(self, fresh)
        return fresh

    @staticmethod
    def _filter_sums(cycle: Cycle, own: OwnTerms, pod: PodInfo) -> _FilterSums:
        table = cycle.table
        existing = groups_of(pod.template.seen_label_set, TermRole.REQUIRED_ANTI_AFFINITY)
        rare = () if own.rare_anti_affinity is None else (own.rare_anti_affinity,)
        return _FilterSums.of(
            sums_by_key(table, [(entry, 1) for entry in own.affinity], only_presence=True),
            (*sums_by_key(table, [(entry, 1) for entry in own.anti_affinity], only_presence=True), *rare),
            sums_by_key(table, [(group, 1) for group in existing], only_presence=True),
        )

    def _score_sums(self, cycle: Cycle, own: OwnTerms, pod: PodInfo) -> tuple[Sums, ...]:
        others = groups_of(pod.template.seen_label_set, *_PREFERRING)
        if not self.args.hard_pod_affinity_weight:
            others = [group for group in others if group.term.role is not TermRole.REQUIRED_AFFINITY]
        parts: list[TermCounter | TermGroup] = [*own.preferred, *others]
        sums = sums_by_key(cycle.table, [(part, self._weight(part)) for part in parts], only_presence=False)
        return sums if own.rare_preferred is None else (*sums, own.rare_preferred)

    def _weight(self, part: TermCounter | TermGroup) -> int:
        """Weight of one pod: from its own term, or from a term that selects the incoming pod."""
        if isinstance(part, TermCounter):
            return part.weight
        role = part.term.role
        if role is TermRole.REQUIRED_AFFINITY:
            weight: int = self.args.hard_pod_affinity_weight
            return weight
        return -part.term.weight if role is TermRole.PREFERRED_ANTI_AFFINITY else part.term.weight


Terms = Sequence[Term]


class AffinityHints:
    """The hints of InterPodAffinity. They see namespaces as terms name them.

    Namespace selectors of terms are not resolved, as in Kubernetes: a pod in a namespace that is only
    selected by its labels requeues no pod.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self._pods = pod_resources(behaviour)
        all_terms = behaviour.queueing.anti_affinity_hint_terms == "all"
        self._kept_away = _chosen_by_all if all_terms else _chosen_by_any

    def registrations(self) -> Sequence[EventRegistration]:
        changes = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        pods = ClusterEvent(self._pods.of_assigned, changes)
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        found = [
            self._of_pods(pods),
            EventRegistration(nodes, after_node_change, by_template=True, ignores_labels=True),
        ]
        if self._pods.of_target is not self._pods.of_assigned:
            own = ClusterEvent(self._pods.of_target, Action.UPDATE_POD_LABEL)
            found.append(self._of_pods(own))
        return found

    def _of_pods(self, event: ClusterEvent) -> EventRegistration:
        return EventRegistration(
            event, self.after_pod_change, by_template=True, ignores_labels=_ignores_labels, keys=_BY_LABEL
        )

    def after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        if old is not None and new is not None and new.metadata.uid == pod.uid:
            return Hint.QUEUE
        if any(changed is not None and not changed.is_placed for changed in (old, new)):
            return Hint.SKIP
        near = _required(pod, TermRole.REQUIRED_AFFINITY)
        away = _required(pod, TermRole.REQUIRED_ANTI_AFFINITY)
        kept_away = self._kept_away
        if new is None:
            assert old is not None
            return queue_if(kept_away(away, old) or kept_away(_anti_affinity_of(old), pod.pod))
        if old is None:
            return queue_if(_chosen_by_all(near, new))
        drawn = _chosen_by_all(near, new) and not _chosen_by_all(near, old)
        freed = kept_away(away, old) and not kept_away(away, new)
        return queue_if(drawn or freed)


def _ignores_labels(pod: PodInfo, old: Pod | None, new: Pod | None) -> bool:
    """Labels of the waiting pod count if a pod is gone that may have kept it away."""
    return old is None or new is not None or not _keeps_others_away(old)


def _keeps_others_away(pod: Pod) -> bool:
    return pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None


def _looked_for(pod: PodInfo) -> Sequence[Hashable] | None:
    """The labels of which a pod needs one that comes near to a waiting one, or that goes away."""
    terms = pod.template.terms
    if terms.error is not None:
        return None
    found: list[Hashable] = []
    near = terms.of(TermRole.REQUIRED_AFFINITY)
    lists = [(True, [term.selector for term in near])] if near else []
    lists += [(False, [term.selector]) for term in terms.of(TermRole.REQUIRED_ANTI_AFFINITY)]
    for comes, selectors in lists:
        pairs = needed_pairs(selectors)
        if pairs is None:
            return None
        found += [(comes, pair) for pair in pairs]
    return found


def _shown(old: Pod | None, new: Pod | None) -> Sequence[Hashable] | None:
    """The labels that come with a pod or with its change, and those that are gone."""
    if old is not None and new is None and _keeps_others_away(old):
        return None
    gone = () if old is None else old.metadata.labels.items()
    here = () if new is None else new.metadata.labels.items()
    return [*((True, pair) for pair in here), *((False, pair) for pair in gone)]


_BY_LABEL: Final = EventKeys(_looked_for, _shown)


def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    now = new.metadata.labels
    before = None if old is None else old.metadata.labels
    if any(_joined(term.topology_key, before, now) for term in _required(pod, TermRole.REQUIRED_AFFINITY)):
        return Hint.QUEUE
    away = _required(pod, TermRole.REQUIRED_ANTI_AFFINITY)
    return queue_if(any(_left(term.topology_key, before, now) for term in away))


def _pods_kept_from(cycle: Cycle, pod: PodInfo, row: int) -> Iterator[PodInfo]:
    """Pods in the domains of a row that an anti-affinity term of the pod names."""
    for term in pod.template.terms.of(TermRole.REQUIRED_ANTI_AFFINITY):
        for other in _pods_in_domain(cycle.table, row, term.topology_key):
            labels = cycle.table.lookups.namespace_labels(other.namespace)
            if term.selects(other.namespace, other.labels, labels):
                yield other


def _pods_keeping_away(cycle: Cycle, pod: PodInfo, row: int) -> Iterator[PodInfo]:
    """Pods in the domains of a row whose own anti-affinity names the pod."""
    labels = cycle.table.lookups.namespace_labels(pod.namespace)
    keys = {
        group.term.topology_key
        for group in groups_of(pod.template.label_set, TermRole.REQUIRED_ANTI_AFFINITY)
    }
    for key in keys:
        for other in _pods_in_domain(cycle.table, row, key):
            terms = other.template.terms.of(TermRole.REQUIRED_ANTI_AFFINITY)
            if any(
                term.topology_key == key and term.selects(pod.namespace, pod.labels, labels) for term in terms
            ):
                yield other


def _pods_in_domain(table: ClusterTable, row: int, key: str) -> Iterator[PodInfo]:
    column = table.labels.acquire(key)
    try:
        domain = column.ids.item(row)
        rows = np.flatnonzero(column.ids == domain).tolist() if domain else []
    finally:
        table.labels.release(column)
    for place in rows:
        yield from table.pods_on[place].values()


def _required(pod: PodInfo, role: TermRole) -> Terms:
    """The pod's terms with one role. Raises HintError if they cannot be read."""
    terms = pod.template.terms
    if terms.error is None:
        return terms.of(role)
    try:
        return terms_of(role, pod.namespace, pod.spec.affinity)
    except SelectorError as cause:
        raise HintError(str(cause)) from None


def _anti_affinity_of(pod: Pod) -> Terms:
    try:
        return terms_of(TermRole.REQUIRED_ANTI_AFFINITY, pod.namespace, pod.spec.affinity)
    except SelectorError as cause:
        raise HintError(str(cause)) from None


def _chosen_by_all(terms: Terms, pod: Pod) -> bool:
    """True if there are terms and all of them select a pod."""
    return bool(terms) and all(term.selects(pod.namespace, pod.metadata.labels) for term in terms)


def _chosen_by_any(terms: Terms, pod: Pod) -> bool:
    return any(term.selects(pod.namespace, pod.metadata.labels) for term in terms)


def _joined(key: str, before: Mapping[str, str] | None, now: Mapping[str, str]) -> bool:
    """True if a node is new in a domain of a topology key."""
    return key in now and (before is None or before.get(key) != now[key])


def _left(key: str, before: Mapping[str, str] | None, now: Mapping[str, str]) -> bool:
    """True if a node is new, or left a domain of a topology key."""
    return before is None or (key in before and before[key] != now.get(key))
