"""PodTopologySpread by walking all nodes and all pods."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scheduler.plugins.naive.matching import keeps_off, node_suits, selects
from stowplan.api.meta import LabelSelector
from stowplan.api.node import Node
from stowplan.api.pod import Pod, TopologySpreadConstraint

HOSTNAME = "kubernetes.io/hostname"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED = "node(s) didn't match pod topology spread constraints"


class Rule(NamedTuple):
    """A constraint and the selectors that all hold for it, and the labels that matchLabelKeys demand."""

    constraint: TopologySpreadConstraint
    selectors: Sequence[LabelSelector | None]
    labels: Mapping[str, str]

    @property
    def key(self) -> str:
        return self.constraint.topology_key

    def selects(self, pod: Pod) -> bool:
        own = pod.metadata.labels
        if not all(selects(selector, own) for selector in self.selectors):
            return False
        return all(own.get(key) == value for key, value in self.labels.items())

    @property
    def is_empty(self) -> bool:
        return all(selector == LabelSelector() for selector in self.selectors) and not self.labels


class Cluster(NamedTuple):
    """All there is: nodes, and pods that stand on them."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]

    def matching_on(self, node: Node, rule: Rule, pod: Pod) -> int:
        """Pods of the group on a node: same namespace, not going away, selected; of everybody, none."""
        if rule.is_empty:
            return 0
        return sum(
            other.spec.node_name == node.name
            and other.namespace == pod.namespace
            and other.metadata.deletion_timestamp is None
            and rule.selects(other)
            for other in self.pods
        )


def rules_of(pod: Pod, action: str) -> list[Rule]:
    """A pod's own constraints with one action."""
    found = []
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable == action:
            labels = pod.metadata.labels
            narrowed = {key: labels[key] for key in constraint.match_label_keys if key in labels}
            found.append(Rule(constraint, (constraint.label_selector,), narrowed))
    return found


def default_rules(
    constraints: Iterable[TopologySpreadConstraint], action: str, selectors: Sequence[LabelSelector]
) -> list[Rule]:
    """Constraints for the group that services and the owner of a pod make up."""
    selectors = [selector for selector in selectors if selector != LabelSelector()]
    if not selectors:
        return []
    return [Rule(entry, selectors, {}) for entry in constraints if entry.when_unsatisfiable == action]


def _regards(rule: Rule, pod: Pod, node: Node) -> bool:
    policy = rule.constraint.node_affinity_policy
    if policy in (None, "Honor") and not node_suits(pod, node):
        return False
    return not (rule.constraint.node_taints_policy == "Honor" and keeps_off(pod, node))


def verdicts(cluster: Cluster, pod: Pod, rules: Sequence[Rule]) -> dict[str, str]:
    """Reason against each node, by its name; nodes that pass are left out."""
    sums: list[dict[str, int]] = []
    for rule in rules:
        per_domain: dict[str, int] = {}
        for node in cluster.nodes:
            labels = node.metadata.labels
            if all(other.key in labels for other in rules) and _regards(rule, pod, node):
                here = cluster.matching_on(node, rule, pod)
                per_domain[labels[rule.key]] = per_domain.get(labels[rule.key], 0) + here
        sums.append(per_domain)
    found = {}
    for node in cluster.nodes:
        for rule, per_domain in zip(rules, sums, strict=True):
            value = node.metadata.labels.get(rule.key)
            if value is None:
                found[node.name] = NO_LABEL
                break
            enough = len(per_domain) >= (rule.constraint.min_domains or 1)
            lowest = min(per_domain.values()) if per_domain and enough else 0
            if per_domain.get(value, 0) + rule.selects(pod) - lowest > rule.constraint.max_skew:
                found[node.name] = SKEWED
                break
    return found


def scores(
    cluster: Cluster, pod: Pod, rules: Sequence[Rule], feasible: set[str], *, requires_all: bool
) -> dict[str, int] | None:
    """Final scores of the feasible nodes, None if there is nothing to score."""
    if not rules:
        return None
    filtered = [node for node in cluster.nodes if node.name in feasible]
    ignored = {
        node.name
        for node in filtered
        if requires_all and any(rule.key not in node.metadata.labels for rule in rules)
    }
    raw = {node.name: 0.0 for node in filtered if node.name not in ignored}
    for rule in rules:
        counted = [node for node in filtered if node.name not in ignored]
        domains = {node.metadata.labels.get(rule.key, "") for node in counted}
        size = len(counted) if rule.key == HOSTNAME else len(domains)
        sums = _sums(cluster, pod, rules, rule, domains, requires_all=requires_all)
        for node in counted:
            value = node.metadata.labels.get(rule.key)
            if value is not None:
                by_host = rule.key == HOSTNAME
                count = cluster.matching_on(node, rule, pod) if by_host else sums[value]
                raw[node.name] += count * math.log(size + 2) + (rule.constraint.max_skew - 1)
    return _normalized({name: math.floor(score + 0.5) for name, score in raw.items()}, ignored)


def _sums(
    cluster: Cluster, pod: Pod, rules: Sequence[Rule], rule: Rule, domains: set[str], *, requires_all: bool
) -> dict[str, int]:
    """Pods of the group per domain, over all nodes that the rule regards; an absent label counts as empty."""
    sums = dict.fromkeys(domains, 0)
    for node in cluster.nodes:
        labels = node.metadata.labels
        if requires_all and any(other.key not in labels for other in rules):
            continue
        value = labels.get(rule.key, "")
        if value in sums and _regards(rule, pod, node):
            sums[value] += cluster.matching_on(node, rule, pod)
    return sums


def _normalized(raw: Mapping[str, int], ignored: set[str]) -> dict[str, int]:
    final = dict.fromkeys(ignored, 0)
    highest, lowest = max(raw.values(), default=0), min(raw.values(), default=0)
    for name, score in raw.items():
        final[name] = 100 if highest == 0 else 100 * (highest + lowest - score) // highest
    return final
