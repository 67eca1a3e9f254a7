"""PodTopologySpread: finds a pod's constraints, keeps counters for its class, filters and scores by them."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from msgspec.structs import replace

from stowplan.api.fielderrors import EnumText, Path, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.labels import SelectorError
from stowplan.api.names import label_key_problems
from stowplan.api.node import Node
from stowplan.api.pod import Pod, TopologySpreadConstraint
from stowplan.api.releases import Behaviour
from stowplan.api.rules.taints import same_taints
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
    Plugin,
    PodInfo,
    Reads,
    Resource,
    ScoreRange,
    Scores,
    Signs,
    Status,
    error,
    queue_if,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import (
    SKIP_CLASS,
    FeatureGates,
    HintError,
    HintFunction,
    Obstacle,
    Remedy,
    Shortfall,
    StaleRows,
    pod_resources,
)
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.nodeaffinity import node_demands
from stowplan.scheduler.plugins.podtopologyspread import filtering, scoring
from stowplan.scheduler.plugins.podtopologyspread.common import (
    HARD,
    HONOR,
    NO_CONSTRAINTS,
    SOFT,
    SYSTEM_DEFAULTS,
    ConstraintCounter,
    Constraints,
    RegardedRows,
    Skews,
    SpreadConstraint,
    constraint_counters,
    parse,
    with_selector,
)
from stowplan.scheduler.plugins.podtopologyspread.fewnodes import HardConstraints, SoftConstraints, first_rare
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.table import ClusterTable

REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = f"{REASON_SKEW} (missing required label)"

SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Spread constraints for pods that have none: built-in ones (`System`) or those listed (`List`)."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM_DEFAULTING

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        return replace(self, defaulting_type=self.defaulting_type or SYSTEM_DEFAULTING)

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = list(self._validate_type(path.child("defaultingType")))
        list_path = path.child("defaultConstraints")
        seen = set()
        for index, constraint in enumerate(self.default_constraints):
            errors += _constraint_errors(constraint, list_path.at(index))
            rule = f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}"
            if rule in seen:
                errors.append(duplicate(list_path.at(index), rule))
            seen.add(rule)
        return errors

    def _validate_type(self, path: Path) -> Iterator[str]:
        kind = EnumText(self.defaulting_type)
        if kind not in (SYSTEM_DEFAULTING, LIST_DEFAULTING):
            yield not_supported(path, kind, (SYSTEM_DEFAULTING, LIST_DEFAULTING))
        elif kind == SYSTEM_DEFAULTING and self.default_constraints:
            yield invalid(path, kind, "when .defaultConstraints are not empty")


def _constraint_errors(constraint: TopologySpreadConstraint, path: Path) -> Iterator[str]:
    if constraint.max_skew <= 0:
        yield invalid(path.child("maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
    key_path = path.child("topologyKey")
    if not constraint.topology_key:
        yield required(key_path, "can not be empty")
    else:
        for problem in label_key_problems(constraint.topology_key):
            yield invalid(key_path, constraint.topology_key, problem)
    action_path = path.child("whenUnsatisfiable")
    if not constraint.when_unsatisfiable:
        yield required(action_path, "can not be empty")
    elif constraint.when_unsatisfiable not in _ACTIONS:
        yield not_supported(action_path, EnumText(constraint.when_unsatisfiable), _ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(path.child("labelSelector"), detail)


@dataclass(slots=True)
class _Memo:
    """Counters of a class, and the last verdicts with the versions they were made from."""

    hard: tuple[ConstraintCounter, ...] = ()
    soft: tuple[ConstraintCounter, ...] = ()
    full: list[tuple[Any, Any]] = field(default_factory=list)
    shares: list[tuple[Any, scoring.DomainShare | None]] = field(default_factory=list)
    sizes: tuple[Any, tuple[int, ...]] = (None, ())
    having: tuple[int, BoolColumn | None] = (-1, None)
    many_hard: HardConstraints | None = None
    many_soft: SoftConstraints | None = None
    rare_keys: tuple[str, ...] = ()
    """Keys that make the nodes few which these look at."""
    keys_version: int | None = None
    """Where keys that no node has made constraints superfluous: the version of keys at which that was so."""


class PodTopologySpread(Plugin[PodTopologySpreadArgs]):
    """Counts matching pods per topology domain; the counts are kept, never taken by walking pods."""

    contract = Contract(
        reads=Reads.ANYTHING,
        reads_others=Reads.ANYTHING,
        signs=Signs.TEMPLATE,
        needs=("services", "replicationcontrollers", "replicasets", "statefulsets"),
        constant_normalize=True,
        skips_deferred_resizes=True,
    )

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._system = args.defaulting_type == SYSTEM_DEFAULTING
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._compare = handle.gates["TaintTolerationComparisonOperators"]
        self._label_keys = handle.gates["MatchLabelKeysInPodTopologySpread"]
        self._explained: tuple[Cycle, Skews] | None = None
        if not self._defaults:
            # Owners of pods matter only to default constraints.
            self.contract = dataclasses.replace(self.contract, needs=())

    @property
    def has_default_constraints(self) -> bool:
        """True if pods without constraints get default ones."""
        return bool(self._defaults)

    def sign(self, pod: PodInfo) -> Hashable:
        try:
            constraints = self._constraints(pod)
        except SelectorError as cause:
            return str(cause)
        if not constraints:
            return None
        every = (*constraints.hard, *constraints.soft)
        return (
            pod.namespace,
            constraints,
            node_demands(pod) if any(constraint.honors_affinity for constraint in every) else None,
            pod.spec.tolerations if any(constraint.honors_taints for constraint in every) else None,
        )

    def events(self) -> Sequence[EventRegistration]:
        return SpreadHints(self._hard_constraints, self.handle.behaviour).registrations()

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        memo = self._memo(cycle)
        if memo is None:
            try:
                memo = self._start(cycle, pod)
            except SelectorError as cause:
                return error(f"get constraints from pod: {cause}")
        if not memo.hard and memo.many_hard is None:
            return SKIP_CLASS
        topology = cycle.table.topology_version
        for position, counted in enumerate(memo.hard):
            version = (topology, counted.counter.counts.version)
            if memo.full[position][0] != version:
                full = filtering.full_domains(counted, memo.full[position][1])
                memo.full[position] = ((topology, counted.counter.counts.version), full)
        found = [full for _, full in memo.full]
        if cycle.simulated is not None:
            for position, counted in enumerate(memo.hard):
                shifts = filtering.shifts_of(counted, cycle.simulated, pod.namespace)
                if shifts:
                    found[position] = filtering.full_domains(counted, shifts=shifts)
        few = None if memo.many_hard is None else memo.many_hard.codes(cycle.simulated)
        cycle.write(self, filtering.FilterState(memo.hard, tuple(found), few))
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        state: filtering.FilterState | None = cycle.read(self)
        return None if state is None else filtering.codes(state, nodes)

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return filtering.code_of_row(cycle.read(self), row)

    def stale_filter_rows(self, cycle: Cycle, pod: PodInfo, before: Any, now: Any) -> StaleRows:
        return filtering.stale_rows(before, now, cycle.table.rows_in_use)

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        """Only the node's own domain loses pods: it is further from its limit then, or the emptiest."""
        return True

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        if code == filtering.NO_LABEL:
            return unresolvable(REASON_NO_LABEL)
        return unschedulable(REASON_SKEW)

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        for constraint in self._hard_constraints(pod):
            skew = self._skews(cycle, pod).on_row(constraint, row)
            if skew is None:
                return Shortfall("label", f"the node has no label {constraint.key}")
            if skew > constraint.max_skew:
                node = cycle.table.nodes[row]
                domain = "" if node is None else node.metadata.labels[constraint.key]
                text = f"{domain}: skew would be {skew}, allowed {constraint.max_skew}"
                return Shortfall(f"spread over {constraint.key}", text, 1 - constraint.max_skew / skew)
        return None

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        """The first constraint that the nearest of some nodes would violate."""
        for constraint in self._hard_constraints(pod):
            skew = self._skews(cycle, pod).on_row(constraint, int(rows[0]))
            if skew is None:
                nodes = (node for node in cycle.table.nodes if node is not None)
                if any(constraint.key in node.metadata.labels for node in nodes):
                    return Obstacle(f"no label {constraint.key} to spread over")
                text = f"no node has the label {constraint.key}, over which the pod is spread"
                return Obstacle(text, "cluster")
            if skew > constraint.max_skew:
                text = f"skew over {constraint.key} would be {skew} ({constraint.max_skew} allowed)"
                return Obstacle(text)
        return None

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        own = [one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == HARD]
        keys = [one.topology_key for one in pod.spec.topology_spread_constraints]
        for wanted, constraint in zip(own, self._hard_constraints(pod), strict=False):
            if keys.count(wanted.topology_key) > 1:
                continue
            change: dict[str, Any] = {"topologyKey": wanted.topology_key}
            skew = self._skews(cycle, pod).on_row(constraint, row)
            if skew is not None and skew <= constraint.max_skew:
                continue
            if not constraint.honors_taints and skew is not None:
                text = f"set nodeTaintsPolicy Honor in the spread over {constraint.key}"
                patch = {"spec": {"topologySpreadConstraints": [{**change, "nodeTaintsPolicy": HONOR}]}}
                yield Remedy("spreadTaints", text, patch)
            if skew is not None:
                text = f"allow maxSkew {skew} instead of {constraint.max_skew} over {constraint.key}"
                patch = {"spec": {"topologySpreadConstraints": [{**change, "maxSkew": skew}]}}
                yield Remedy("topologySpread", text, patch, skew - constraint.max_skew)
            text = f"spread over {constraint.key} only where possible (ScheduleAnyway)"
            patch = {"spec": {"topologySpreadConstraints": [{**change, "whenUnsatisfiable": SOFT}]}}
            yield Remedy("topologySpread", text, patch, 1000)

    def _skews(self, cycle: Cycle, pod: PodInfo) -> Skews:
        """Skews of the pod, counted once for all rows that are explained in a cycle."""
        if self._explained is None or self._explained[0] is not cycle:
            skews = Skews(cycle.table, pod, self._hard_constraints(pod), self._compare)
            self._explained = (cycle, skews)
        return self._explained[1]

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        memo = self._memo(cycle)
        if memo is None:
            memo = self._start(cycle, pod)
        if memo.many_soft is not None:
            assert cycle.feasible is not None
            few = memo.many_soft.raw_scores(cycle.feasible, cycle.feasible_version)
            cycle.write_score(self, scoring.ScoreState((), (), few=few))
            return None
        if not memo.soft:
            return SKIP_CLASS
        requires_all = self._constraints(pod).requires_all
        topology = cycle.table.topology_version
        if requires_all and memo.having[0] != topology:
            memo.having = (topology, scoring.rows_with_all_keys(memo.soft, cycle.table.rows_in_use))
        having = memo.having[1]
        basis = (topology, cycle.feasible_version)
        if memo.sizes[0] != basis:
            memo.sizes = (basis, scoring.domain_sizes(memo.soft, cycle, having))
        for position, (counted, size) in enumerate(zip(memo.soft, memo.sizes[1], strict=True)):
            version = (topology, counted.counter.counts.version, size)
            if memo.shares[position][0] != version:
                share = scoring.share(counted, size, requires_all)
                memo.shares[position] = ((topology, counted.counter.counts.version, size), share)
        shares = tuple(share for _, share in memo.shares if share is not None)
        cycle.write_score(self, scoring.ScoreState(memo.soft, shares, having))
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        state: scoring.ScoreState | None = cycle.read_score(self)
        return None if state is None else scoring.scores(state, nodes)

    def score_without_pods(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        """Raw scores as if the nodes themselves were empty, while the cluster is counted as it is."""
        state: scoring.ScoreState | None = cycle.read_score(self)
        return None if state is None else scoring.scores(state, nodes, without_pods=True)

    def stale_score_rows(self, cycle: Cycle, pod: PodInfo, before: Any, now: Any) -> StaleRows:
        return scoring.stale_rows(before, now, cycle.table.rows_in_use)

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return scoring.normalized(scores, extremes)

    def release(self, memo: _Memo) -> None:
        for counted in (*memo.hard, *memo.soft):
            counted.close()
        for many in (memo.many_hard, memo.many_soft):
            if many is not None:
                many.close()

    def _memo(self, cycle: Cycle) -> _Memo | None:
        """Memo of the class; None if there is none yet, or it has to be rebuilt."""
        memo: _Memo | None = cycle.memo(self)
        labels = cycle.table.labels
        if memo is None or (
            memo.keys_version in (None, labels.keys_version)
            and all(labels.few_with(key) is not None for key in memo.rare_keys)
        ):
            return memo
        self.release(memo)
        del cycle.memos[self.name]
        return None

    def _start(self, cycle: Cycle, pod: PodInfo) -> _Memo:
        """Begin counting for a class of pods."""
        constraints = self._constraints(pod)
        table = cycle.table
        memo = _Memo()
        if constraints.hard:
            self._start_hard(memo, table, pod, constraints.hard)
        if constraints.soft:
            self._start_soft(memo, table, pod, constraints.soft, requires_all=constraints.requires_all)
        cycle.remember(self, memo)
        return memo

    def _start_hard(
        self, memo: _Memo, table: ClusterTable, pod: PodInfo, constraints: tuple[SpreadConstraint, ...]
    ) -> None:
        rows = RegardedRows(table, pod, [constraint.key for constraint in constraints], self._compare)
        place = first_rare(table, constraints)
        if place is not None:
            memo.many_hard = HardConstraints(table, pod, constraints[place:], rows)
            memo.rare_keys += (constraints[place].key,)
        counted = constraints[:place]
        memo.hard = constraint_counters(table, pod, counted, rows, requires_all=True)
        memo.full = [(None, None)] * len(memo.hard)
        if len(memo.hard) < len(counted):
            memo.keys_version = table.labels.keys_version

    def _start_soft(
        self,
        memo: _Memo,
        table: ClusterTable,
        pod: PodInfo,
        constraints: tuple[SpreadConstraint, ...],
        *,
        requires_all: bool,
    ) -> None:
        keys = [constraint.key for constraint in constraints] if requires_all else []
        rows = RegardedRows(table, pod, keys, self._compare)
        place = first_rare(table, constraints) if requires_all else None
        if place is not None:
            memo.many_soft = SoftConstraints(table, pod, constraints, rows)
            memo.rare_keys += (constraints[place].key,)
            return
        memo.soft = constraint_counters(table, pod, constraints, rows, requires_all=requires_all)
        memo.shares = [(None, None)] * len(memo.soft)
        if len(memo.soft) < len(constraints):
            memo.keys_version = table.labels.keys_version

    def _hard_constraints(self, pod: PodInfo) -> tuple[SpreadConstraint, ...]:
        """The hard constraints, whether or not the soft ones can be read. Raises SelectorError."""
        try:
            return self._constraints(pod).hard
        except SelectorError:
            return parse(pod.spec.topology_spread_constraints, HARD, pod, label_keys=self._label_keys)

    def _constraints(self, pod: PodInfo) -> Constraints:
        """A pod's own constraints, or the defaults for its group where it has none. Raises SelectorError."""
        own = pod.spec.topology_spread_constraints
        if not own and not self._defaults:
            return NO_CONSTRAINTS
        version = self.handle.table.lookups.groups_version
        fact = f"{self.name}@{self.serial}"
        kept: Any = pod.template.facts.get(fact)
        if kept is not None and kept[0] == version:
            found: Constraints = kept[1]
            return found
        if own:
            found = Constraints(
                parse(own, HARD, pod, label_keys=self._label_keys),
                parse(own, SOFT, pod, label_keys=self._label_keys),
                True,
            )
        else:
            found = self._default_constraints(pod)
        pod.template.note(fact, (version, found))
        return found

    def _default_constraints(self, pod: PodInfo) -> Constraints:
        selector = self.handle.table.lookups.default_selector(pod.namespace, pod.labels, pod.owners)
        if selector.is_empty:
            return NO_CONSTRAINTS
        return Constraints(
            with_selector(self._defaults, HARD, selector, pod),
            with_selector(self._defaults, SOFT, selector, pod),
            not self._system,
        )


class SpreadHints:
    """The hints of PodTopologySpread; `hard` gives a pod's hard constraints."""

    def __init__(self, hard: Callable[[PodInfo], Sequence[SpreadConstraint]], behaviour: Behaviour) -> None:
        self._hard = hard
        self._pods = pod_resources(behaviour)

    def registrations(self) -> Sequence[EventRegistration]:
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        own = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        if self._pods.of_target is self._pods.of_assigned:
            of_pods = [ClusterEvent(self._pods.of_assigned, pods | own)]
        else:
            of_pods = [ClusterEvent(self._pods.of_assigned, pods), ClusterEvent(self._pods.of_target, own)]
        hints: list[tuple[ClusterEvent, HintFunction]]
        hints = [(event, self.after_pod_change) for event in of_pods]
        hints.append((ClusterEvent(Resource.NODE, nodes), self.after_node_change))
        return [
            EventRegistration(event, hint, by_template=True, ignores_labels=_ignores_labels)
            for event, hint in hints
        ]

    def after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        if any(changed is not None and not _counts_for(pod, changed) for changed in (old, new)):
            return Hint.SKIP
        constraints = self._constraints(pod)
        if old is not None and new is not None:
            return queue_if(_update_matters(pod, old, new, constraints))
        changed = new or old
        assert changed is not None
        return queue_if(any(entry.selector.matches(changed.metadata.labels) for entry in constraints))

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        constraints = self._constraints(pod)
        had_keys = old is not None and _has_all_keys(old, constraints)
        has_keys = new is not None and _has_all_keys(new, constraints)
        if old is None or new is None:
            return queue_if(had_keys or has_keys)
        if had_keys != has_keys:
            return Hint.QUEUE
        changed = not same_taints(old.spec.taints, new.spec.taints) or _moved(old, new, constraints)
        return queue_if(has_keys and changed)

    def _constraints(self, pod: PodInfo) -> Sequence[SpreadConstraint]:
        try:
            return self._hard(pod)
        except SelectorError as cause:
            raise HintError(f"obtaining pod's hard topology spread constraints: {cause}") from None


def _ignores_labels(pod: PodInfo, old: object, new: object) -> bool:
    """Labels of the waiting pod count where constraints name keys of them, and by default constraints."""
    own = pod.spec.topology_spread_constraints
    return bool(own) and not any(constraint.match_label_keys for constraint in own)


def _counts_for(pod: PodInfo, changed: Pod) -> bool:
    """True if a pod can count for a waiting one: it is that pod, or it is placed and in its namespace."""
    if changed.metadata.uid == pod.uid:
        return True
    return changed.is_placed and changed.namespace == pod.namespace


def _update_matters(pod: PodInfo, old: Pod, new: Pod, constraints: Sequence[SpreadConstraint]) -> bool:
    """True if a pod begins or ceases to count, or the waiting pod tolerates more nodes."""
    tolerates_more = pod.uid == new.metadata.uid and old.spec.tolerations != new.spec.tolerations
    if tolerates_more and any(entry.honors_taints for entry in constraints):
        return True
    before, now = old.metadata.labels, new.metadata.labels
    return any(entry.selector.matches(before) != entry.selector.matches(now) for entry in constraints)


def _has_all_keys(node: Node, constraints: Sequence[SpreadConstraint]) -> bool:
    return all(entry.key in node.metadata.labels for entry in constraints)


def _moved(old: Node, new: Node, constraints: Sequence[SpreadConstraint]) -> bool:
    """True if a node is in another domain than before."""
    before, now = old.metadata.labels, new.metadata.labels
    return any(before.get(entry.key) != now.get(entry.key) for entry in constraints)
