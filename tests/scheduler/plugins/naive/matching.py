"""Matching: labels, namespaces, node affinity and tolerations, tested one object at a time."""

from collections.abc import Mapping, Sequence

from stowplan.api.meta import LabelSelector
from stowplan.api.node import Node
from stowplan.api.pod import NodeSelectorTerm, Pod, PodAffinityTerm, Toleration

Namespaces = Mapping[str, Mapping[str, str]]
"""Names of namespaces and their labels."""


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """No selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(
        _meets(labels, entry.key, entry.operator, entry.values) for entry in selector.match_expressions
    )


def _meets(labels: Mapping[str, str], key: str, operator: str, values: Sequence[str]) -> bool:
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if key not in labels:
        return False
    number, bound = int(labels[key]), int(values[0])
    return number > bound if operator == "Gt" else number < bound


def node_suits(pod: Pod, node: Node) -> bool:
    """`nodeSelector` and required node affinity."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    rules = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = rules.required_during_scheduling_ignored_during_execution if rules else None
    return required is None or any(_term_suits(term, node) for term in required.node_selector_terms)


def _term_suits(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels
    if not all(_meets(labels, entry.key, entry.operator, entry.values) for entry in term.match_expressions):
        return False
    return all((node.name in entry.values) == (entry.operator == "In") for entry in term.match_fields)


def keeps_off(pod: Pod, node: Node) -> bool:
    """Does a taint that forbids to schedule or to run keep the pod off the node?"""
    return any(
        taint.effect in ("NoSchedule", "NoExecute")
        and not any(
            _tolerates(toleration, taint.key, taint.value, taint.effect)
            for toleration in pod.spec.tolerations
        )
        for taint in node.spec.taints
    )


def _tolerates(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    if toleration.effect not in ("", effect) or toleration.key not in ("", key):
        return False
    return toleration.operator == "Exists" or toleration.value == value


def means(term: PodAffinityTerm, owner: Pod, other: Pod, namespaces: Namespaces, *, incoming: bool) -> bool:
    """Does an affinity term of one pod mean another?

    The namespace selector of a pod that stands somewhere is tested with the labels of the other's namespace.
    That of an incoming pod chooses among the namespaces that exist (since 1.37); an empty one means all.
    """
    if not selects(term.label_selector, other.metadata.labels):
        return False
    if not term.namespaces and term.namespace_selector is None:
        return other.namespace == owner.namespace
    if other.namespace in term.namespaces:
        return True
    if term.namespace_selector is None:
        return False
    if not incoming:
        return selects(term.namespace_selector, namespaces.get(other.namespace, {}))
    if not term.namespace_selector.match_labels and not term.namespace_selector.match_expressions:
        return True
    exists = other.namespace in namespaces
    return exists and selects(term.namespace_selector, namespaces[other.namespace])
