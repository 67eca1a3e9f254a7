"""InterPodAffinity by walking all pods on all nodes."""

from collections import Counter
from collections.abc import Mapping, Sequence

from scheduler.plugins.naive.matching import Namespaces, means
from stowplan.api.node import Node
from stowplan.api.pod import Pod, PodAffinityTerm, WeightedPodAffinityTerm

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Pair = tuple[str, str]
"""A topology key and a value of it."""


def _required(pod: Pod, side: str) -> Sequence[PodAffinityTerm]:
    rules = getattr(pod.spec.affinity, side) if pod.spec.affinity else None
    return rules.required_during_scheduling_ignored_during_execution if rules else ()


def _preferred(pod: Pod, side: str) -> Sequence[WeightedPodAffinityTerm]:
    rules = getattr(pod.spec.affinity, side) if pod.spec.affinity else None
    return rules.preferred_during_scheduling_ignored_during_execution if rules else ()


class Neighbourhood:
    """The nodes, the pods on them and the labels of namespaces, seen by one incoming pod."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], namespaces: Namespaces, pod: Pod) -> None:
        self.nodes = nodes
        self.namespaces = namespaces
        self.pod = pod
        labels = {node.name: node.metadata.labels for node in nodes}
        self.placed = [
            (other, labels[other.spec.node_name]) for other in pods if other.spec.node_name in labels
        ]

    def _wants(self, term: PodAffinityTerm, other: Pod) -> bool:
        """Does a term of the incoming pod mean another pod?"""
        return means(term, self.pod, other, self.namespaces, incoming=True)

    def _wanted_by(self, term: PodAffinityTerm, other: Pod) -> bool:
        """Does a term of another pod mean the incoming one?"""
        return means(term, other, self.pod, self.namespaces, incoming=False)

    # Filter

    def verdicts(self) -> dict[str, str]:
        """Reason against each node, by its name; nodes that pass are left out."""
        affinity = _required(self.pod, "pod_affinity")
        joined, avoided, kept_off = self._joined(affinity), self._avoided(), self._kept_off()
        first = not joined and all(self._wants(term, self.pod) for term in affinity)
        found = {}
        for node in self.nodes:
            labels = node.metadata.labels
            pairs = set(labels.items())
            has_keys = all(term.topology_key in labels for term in affinity)
            together = all(
                (term.topology_key, labels.get(term.topology_key, "")) in joined for term in affinity
            )
            if affinity and not (has_keys and (together or first)):
                found[node.name] = AFFINITY
            elif pairs & avoided:
                found[node.name] = ANTI_AFFINITY
            elif pairs & kept_off:
                found[node.name] = EXISTING
        return found

    def _joined(self, terms: Sequence[PodAffinityTerm]) -> set[Pair]:
        """Where pods are that meet all required affinity terms at once."""
        return {
            (term.topology_key, labels[term.topology_key])
            for other, labels in self.placed
            if all(self._wants(entry, other) for entry in terms)
            for term in terms
            if term.topology_key in labels
        }

    def _avoided(self) -> set[Pair]:
        return {
            (term.topology_key, labels[term.topology_key])
            for other, labels in self.placed
            for term in _required(self.pod, "pod_anti_affinity")
            if term.topology_key in labels and self._wants(term, other)
        }

    def _kept_off(self) -> set[Pair]:
        return {
            (term.topology_key, labels[term.topology_key])
            for other, labels in self.placed
            for term in _required(other, "pod_anti_affinity")
            if term.topology_key in labels and self._wanted_by(term, other)
        }

    # Score

    def scores(
        self, feasible: set[str], *, hard_weight: int = 1, ignore_preferred: bool = False
    ) -> dict[str, int] | None:
        """Final scores of the feasible nodes, None if there is nothing to score."""
        has_wishes = any(_preferred(self.pod, side) for side in ("pod_affinity", "pod_anti_affinity"))
        if ignore_preferred and not has_wishes:
            return None
        sums: Counter[Pair] = Counter()
        for other, labels in self.placed:
            for pair, weight in self._contributions(other, labels, hard_weight):
                sums[pair] += weight
        if not sums:
            return None
        raw = {
            node.name: sum(sums.get(pair, 0) for pair in node.metadata.labels.items())
            for node in self.nodes
            if node.name in feasible
        }
        low, high = min(raw.values()), max(raw.values())
        return {
            name: 0 if low == high else int(100 * (float(score - low) / float(high - low)))
            for name, score in raw.items()
        }

    def _contributions(
        self, other: Pod, labels: Mapping[str, str], hard_weight: int
    ) -> list[tuple[Pair, int]]:
        """Amounts that one pod adds to the pairs of its node, by its own terms and by those of the incoming
        pod."""
        weighed: list[tuple[PodAffinityTerm, int, bool]] = []
        for side, sign in (("pod_affinity", 1), ("pod_anti_affinity", -1)):
            for wish in _preferred(self.pod, side):
                term = wish.pod_affinity_term
                weighed.append((term, sign * wish.weight, self._wants(term, other)))
            for wish in _preferred(other, side):
                term = wish.pod_affinity_term
                weighed.append((term, sign * wish.weight, self._wanted_by(term, other)))
        if hard_weight:
            for term in _required(other, "pod_affinity"):
                weighed.append((term, hard_weight, self._wanted_by(term, other)))
        return [
            ((term.topology_key, labels[term.topology_key]), weight)
            for term, weight, meant in weighed
            if meant and term.topology_key in labels
        ]
