"""NodeAffinity: nodeSelector and node affinity, required and preferred."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stowplan.api.fielderrors import Path
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.labels import SelectorError
from stowplan.api.node import Node
from stowplan.api.pod import NodeAffinity as NodeAffinityRules
from stowplan.api.pod import NodeSelectorTerm
from stowplan.api.rules.nodeselector import (
    PreferredTerms,
    RequiredNodeAffinity,
    compile_node_selector,
    compile_preferred,
    compile_term,
    required_node_affinity,
)
from stowplan.scheduler.framework import (
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
    PreFilterResult,
    Reads,
    Resource,
    ScoreRange,
    Scores,
    Signs,
    Status,
    error,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import (
    FeatureGates,
    HintError,
    Obstacle,
    ProfileError,
    Relevance,
    Remedy,
    Shortfall,
)
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.nodeaffinity_demands import Demands, term_text
from stowplan.scheduler.plugins.normalize import by_highest
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.selection import matching_affinity, matching_selector, preference_scores

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"

_ENFORCED, _POD = 1, 2
_FACT = "required node affinity"


class NodeAffinityArgs(PluginArgs, frozen=True):
    """A node affinity that every pod of the profile has in addition to its own."""

    added_affinity: NodeAffinityRules | None = None

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        if self.added_affinity is None:
            return []
        errors: list[str] = []
        where = path.child("addedAffinity")
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            list_path = where.child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
            for index, term in enumerate(required.node_selector_terms):
                errors += compile_term(term, list_path.at(index)).errors
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        list_path = where.child("preferredDuringSchedulingIgnoredDuringExecution")
        for index, weighted in enumerate(preferred or ()):
            if weighted.weight:
                errors += compile_term(weighted.preference, list_path.at(index)).errors
        return errors


class NodeAffinity(Plugin[NodeAffinityArgs]):
    """The pod's own demands, and those the profile adds to every pod (`addedAffinity`)."""

    contract = Contract(
        reads=Reads.NODE,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
        constant_pre_filter=True,
        constant_pre_score=True,
        constant_normalize=True,
        skips_deferred_resizes=True,
    )

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._explained: tuple[Cycle, Demands] | None = None
        added = args.added_affinity or NodeAffinityRules()
        required = added.required_during_scheduling_ignored_during_execution
        self._added = None if required is None else compile_node_selector(required)
        preferred = added.preferred_during_scheduling_ignored_during_execution
        try:
            self._added_preferred = compile_preferred(preferred) if preferred else None
        except SelectorError as cause:
            field = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
            raise ProfileError(f"parsing {field}: {cause}") from None

    def sign(self, pod: PodInfo) -> Hashable:
        return node_demands(pod)

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (EventRegistration(nodes, self._after_node_change, by_template=True, ignores_labels=True),)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        if self._added is not None and not self._added.matches(new.metadata.labels, new.name):
            return Hint.SKIP
        affinity = _affinity(pod)
        if not _matches(affinity, new):
            return Hint.SKIP
        return queue_if(old is None or not _matches(affinity, old))

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | PreFilterResult | None:
        required = _required(pod)
        if required is None and self._added is None and pod.spec.node_selector is None:
            return SKIP
        cycle.write(self, _affinity(pod))
        if required is None or not required.node_selector_terms:
            return None
        names = _only_names(required.node_selector_terms)
        if names is None:
            return None
        return PreFilterResult(names) if names else unresolvable(REASON_CONFLICT)

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        state: RequiredNodeAffinity | None = cycle.read(self)
        affinity = _affinity(pod) if state is None else state
        codes = np.where(matching_affinity(affinity, nodes), 0, _POD).astype(np.int64)
        if self._added is not None:
            codes[~matching_selector(self._added, nodes)] = _ENFORCED
        return codes

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON_ENFORCED if code == _ENFORCED else REASON_POD)

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        node = cycle.table.nodes[row]
        if node is None:
            return None
        labels = node.metadata.labels
        if self._added is not None and not self._added.matches(labels, node.name):
            return Shortfall("affinity", "addedAffinity of the scheduler's profile")
        missing = _unmet_labels(pod, labels)
        if missing:
            wanted = ", ".join(f"{key}={value}" for key, value in missing.items())
            return Shortfall("label", wanted, len(missing) / (len(missing) + 1))
        return Shortfall("affinity", _terms_text(_required(pod)))

    def shortfall_sizes(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> "npt.NDArray[np.float64]":
        nodes = NodeRows(cycle.table, rows)
        missing = np.zeros(len(rows))
        for key, value in (pod.spec.node_selector or {}).items():
            number = cycle.table.label_column(key).index.get(value)
            missing += 1.0 if number is None else nodes.labels(key) != number
        return np.where(missing > 0, missing / (missing + 1), 1.0)

    def relevance(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Codes:
        return np.full(len(rows), Relevance.PLACE, dtype=np.int64)

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        table = cycle.table
        if self._added is None and len(rows) == table.node_count:
            text = self._demands(cycle, pod).unmet()
            return Obstacle(text, "cluster") if text else None
        for row in rows[:1].tolist():
            node = table.nodes[row]
            missing = {} if node is None else _unmet_labels(pod, node.metadata.labels)
            if missing:
                return Obstacle(f"no {' or '.join(f'{key}={value}' for key, value in missing.items())}")
        return Obstacle("the node affinity does not allow it")

    def _demands(self, cycle: Cycle, pod: PodInfo) -> Demands:
        """The demands of a pod, compared with all nodes once for all rows that are explained in a cycle."""
        if self._explained is None or self._explained[0] is not cycle:
            self._explained = (cycle, Demands(pod, cycle.table.nodes))
        return self._explained[1]

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        node = cycle.table.nodes[row]
        if node is None:
            return
        demands = self._demands(cycle, pod)
        yield from demands.corrections()
        yield from demands.labelled(node)
        missing = _unmet_labels(pod, node.metadata.labels)
        if missing:
            text = f"drop nodeSelector {', '.join(f'{key}={value}' for key, value in missing.items())}"
            patch = {"spec": {"nodeSelector": dict.fromkeys(missing)}}
            yield Remedy("nodeSelector", text, patch, len(missing))
        if demands.terms:
            field = "requiredDuringSchedulingIgnoredDuringExecution"
            patch = {"spec": {"affinity": {"nodeAffinity": {field: None}}}}
            yield Remedy("nodeAffinity", "drop the required node affinity", patch, 10)

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        own = _preferred(pod)
        try:
            terms = None if own is None else compile_preferred(own)
        except SelectorError as cause:
            return error(str(cause))
        if terms is None and self._added_preferred is None:
            return SKIP
        cycle.write_score(self, terms or PreferredTerms())
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        state: PreferredTerms | None = cycle.read_score(self)
        if state is None:
            state = compile_preferred(_preferred(pod) or ())
        added = self._added_preferred.terms if self._added_preferred else ()
        return preference_scores((*added, *state.terms), nodes)

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return by_highest(scores, extremes, reverse=False)


def node_demands(pod: PodInfo) -> Hashable:
    """All that a pod says about the labels of its node, as one hashable thing."""
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    selector = None if spec.node_selector is None else frozenset(spec.node_selector.items())
    return (selector, affinity)


def _affinity(pod: PodInfo) -> RequiredNodeAffinity:
    """Node requirements of a pod, compiled once for its template."""
    kept = pod.template.facts.get(_FACT)
    if not isinstance(kept, RequiredNodeAffinity):
        kept = required_node_affinity(pod.spec)
        pod.template.note(_FACT, kept)
    return kept


def _matches(affinity: RequiredNodeAffinity, node: Node) -> bool:
    """True if a node meets a pod's requirements. Raises HintError if that depends on one that cannot be
    read."""
    labels = node.metadata.labels
    error_met = affinity.error_for(labels, node.name)
    if error_met is not None:
        raise HintError(error_met)
    return affinity.matches(labels, node.name)


def _unmet_labels(pod: PodInfo, labels: Mapping[str, str]) -> dict[str, str]:
    """Labels of the pod's nodeSelector that a node with these labels does not have."""
    selector = pod.spec.node_selector or {}
    return {key: value for key, value in selector.items() if labels.get(key) != value}


def _terms_text(required: Any) -> str:
    """Required terms as people write them: alternatives separated by `or`."""
    terms = [] if required is None else required.node_selector_terms
    return " or ".join(text for text in map(term_text, terms) if text) or "no term matches any node"


def _required(pod: PodInfo) -> Any:
    affinity = pod.spec.affinity
    rules = affinity.node_affinity if affinity else None
    return rules.required_during_scheduling_ignored_during_execution if rules else None


def _preferred(pod: PodInfo) -> Any:
    affinity = pod.spec.affinity
    rules = affinity.node_affinity if affinity else None
    return rules.preferred_during_scheduling_ignored_during_execution if rules else None


def _only_names(terms: tuple[NodeSelectorTerm, ...]) -> frozenset[str] | None:
    """The only nodes that terms can match, where every term names its nodes; else None."""
    names: set[str] = set()
    for term in terms:
        named: frozenset[str] | None = None
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                values = frozenset(field.values)
                named = values if named is None else named & values
        if named is None:
            return None
        names |= named
    return frozenset(names)
