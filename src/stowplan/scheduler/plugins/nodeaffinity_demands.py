"""Labels that a pod demands of its node, compared with those that nodes have: which of them no node has, the
value that was probably meant, and the changes that follow from it. Only for explanations."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan.api.labels import DOES_NOT_EXIST, GREATER_THAN, IN, LESS_THAN, NOT_IN
from stowplan.api.names import closest, similarity
from stowplan.api.node import Node
from stowplan.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.rules.nodeselector import compile_term
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.framework.advanced import Remedy

HOSTNAME: Final = "kubernetes.io/hostname"
_SHOWN: Final = 4
"""Values of a label that are listed."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class Demands:
    """Demands of a pod on the labels of its node, evaluated on all nodes of a cluster."""

    def __init__(self, pod: PodInfo, nodes: Sequence[Node | None]) -> None:
        self._nodes = [node for node in nodes if node is not None]
        self.selector = dict(pod.spec.node_selector or {})
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        self.terms: Sequence[NodeSelectorTerm] = () if required is None else required.node_selector_terms
        self._known: dict[str, Counter[str]] = {}
        self._nearest: dict[tuple[str, str], tuple[str, str] | None] = {}

    def values(self, key: str) -> Counter[str]:
        """The values of a label with the number of nodes that have each."""
        if key not in self._known:
            labels = (node.metadata.labels.get(key) for node in self._nodes)
            self._known[key] = Counter(value for value in labels if value is not None)
        return self._known[key]

    # In words

    def unmet(self) -> str:
        """Why no node meets the demands; "" if that is not known."""
        missing = {key: value for key, value in self.selector.items() if not self.values(key)[value]}
        if missing:
            return "; ".join(self._missing(key, value) for key, value in missing.items())
        if len(self.selector) > 1 and not self._having(self.selector):
            labels = " and ".join(f"{key}={value}" for key, value in sorted(self.selector.items()))
            return f"no node has both {labels}" if len(self.selector) == 2 else f"no node has all of {labels}"
        lines = [line for term in self.terms for line in [self._term(term)] if line]
        if self.terms and len(lines) == len(self.terms):
            return "; ".join(dict.fromkeys(lines))
        if self.terms and self.selector:
            labels = " and ".join(f"{key}={value}" for key, value in sorted(self.selector.items()))
            return f"no node with {labels} meets the node affinity"
        return ""

    def _missing(self, key: str, value: str) -> str:
        text = f"no node has {key}={value}"
        meant = self._meant(key, value)
        if meant is not None:
            count = self.values(meant[0])[meant[1]]
            return f"{text}; {count} {'has' if count == 1 else 'have'} {meant[0]}={meant[1]}"
        values = self.values(key)
        if values and len(values) <= _SHOWN:
            return f"{text}; the values of {key} are {_listed(sorted(values), 'and')}"
        return text

    def _meant(self, key: str, value: str) -> tuple[str, str] | None:
        """The label that was probably meant, looked for once."""
        if (key, value) not in self._nearest:
            self._nearest[key, value] = self._find_meant(key, value)
        return self._nearest[key, value]

    def _find_meant(self, key: str, value: str) -> tuple[str, str] | None:
        values = self.values(key)
        found = closest(value, values)
        if found:
            return key, found
        if values:
            return None
        keys = {name for node in self._nodes for name in node.metadata.labels}
        with_value = [name for name in keys if self.values(name)[value] and name != HOSTNAME]
        best = max(with_value, key=lambda name: (_last_word(key, name), similarity(key, name)), default=None)
        if best is None:
            best = closest(key, keys)
        if not best:
            return None
        return (best, value) if self.values(best)[value] else None

    def _term(self, term: NodeSelectorTerm) -> str:
        """Why no node meets a term of the node affinity; "" if some do."""
        compiled = compile_term(term)
        if compiled.errors:
            return f"the node affinity cannot be read: {compiled.errors[0]}"
        if any(compiled.matches(node.metadata.labels, node.name) for node in self._nodes):
            return ""
        for source, one in zip(term.match_expressions, compiled.expressions, strict=True):
            if not any(one.matches_value(node.metadata.labels.get(one.key)) for node in self._nodes):
                return self._expression(source)
        names = [value for one in term.match_fields for value in one.values]
        if names and not any(node.name in names for node in self._nodes):
            return f"there is no node {_listed(names, 'or')}"
        return f"no node meets all of the node affinity: {term_text(term)}"

    def _expression(self, one: NodeSelectorRequirement) -> str:
        values = self.values(one.key)
        if one.operator in (NOT_IN, DOES_NOT_EXIST):
            return f"all nodes have {one.key}{' ' + _listed(one.values, 'or') if one.values else ''}"
        if not values:
            wanted = f" ({_comparison(one)})" if one.values else ""
            return f"no node has the label {one.key}{wanted}"
        text = f"no node has {_comparison(one)}"
        meant = closest(one.values[0], values) if one.operator == IN and len(one.values) == 1 else ""
        if meant:
            return f"{text}; {values[meant]} {'has' if values[meant] == 1 else 'have'} {one.key}={meant}"
        if len(values) <= 2 * _SHOWN:
            return f"{text}; its values are {_listed(sorted(values), 'and')}"
        return text

    def _having(self, labels: Mapping[str, str]) -> list[Node]:
        pairs = labels.items()
        return [node for node in self._nodes if pairs <= node.metadata.labels.items()]

    # Changes of the pod

    def corrections(self) -> Iterator[Remedy]:
        """Labels that nodes have, in the place of those that none has."""
        missing = {key: value for key, value in self.selector.items() if not self.values(key)[value]}
        for key, value in missing.items():
            meant = self._meant(key, value)
            if meant is not None:
                size = 1 - similarity(f"{key}={value}", f"{meant[0]}={meant[1]}")
                yield _selector_change(key, value, *meant, size)
        if not missing and len(self.selector) > 1 and not self._having(self.selector):
            for key, value in self.selector.items():
                others = {one: other for one, other in self.selector.items() if one != key}
                for found in {node.metadata.labels.get(key) for node in self._having(others)} - {None}:
                    assert found is not None
                    yield _selector_change(key, value, key, found, 1 - similarity(value, found))
        yield from self._corrected_terms()

    def _corrected_terms(self) -> Iterator[Remedy]:
        """The node affinity with values that nodes have, if it is one term."""
        if len(self.terms) != 1 or not self._term(self.terms[0]):
            return
        [term] = self.terms
        for place, one in enumerate(term.match_expressions):
            values = self.values(one.key)
            if one.operator != IN or not values or any(values[value] for value in one.values):
                continue
            meant = closest(one.values[0], values) if len(one.values) == 1 else ""
            if not meant and len(values) > 2 * _SHOWN:
                continue
            chosen = (meant,) if meant else tuple(sorted(values))
            changed = replace(one, values=chosen)
            expressions = (*term.match_expressions[:place], changed, *term.match_expressions[place + 1 :])
            text = f"{one.key} {_listed(chosen, 'or')} (now {_listed(one.values, 'or')}) in the node affinity"
            patch = _affinity_patch([replace(term, match_expressions=expressions)])
            yield Remedy("nodeLabel", text, patch, 0.1 if meant else 0.5)

    # Changes of a node

    def labelled(self, node: Node) -> Iterator[Remedy]:
        """A node with the labels that no node has at all; those that tell nodes apart stay as they are."""
        wanted = {key: value for key, value in self.selector.items() if not self.values(key)}
        if len(self.terms) == 1:
            for one in self.terms[0].match_expressions:
                value = _value_for(one)
                if value is not None and not self.values(one.key):
                    wanted[one.key] = value
        if not wanted or HOSTNAME in wanted or any(self._meant(key, value) for key, value in wanted.items()):
            return
        labels = [f"{key}={value}" for key, value in wanted.items()]
        yield Remedy(
            "labelNode",
            f"label {node.name} {' '.join(labels)}",
            {},
            node_patch={"metadata": {"labels": wanted}},
        )


def _value_for(one: NodeSelectorRequirement) -> str | None:
    """A value that meets a requirement."""
    if one.operator == IN:
        return one.values[0]
    if one.operator in (GREATER_THAN, LESS_THAN):
        return str(int(one.values[0]) + (1 if one.operator == GREATER_THAN else -1))
    return "true" if one.operator == "Exists" else None


def _selector_change(key: str, value: str, new_key: str, new_value: str, size: float) -> Remedy:
    patch: dict[str, str | None] = {new_key: new_value} if key == new_key else {key: None, new_key: new_value}
    text = f"nodeSelector {new_key}={new_value} (now {key}={value})"
    return Remedy("nodeLabel", text, {"spec": {"nodeSelector": patch}}, size)


def _affinity_patch(terms: Sequence[NodeSelectorTerm]) -> Mapping[str, Any]:
    required = {"nodeSelectorTerms": [msgspec.to_builtins(term) for term in terms]}
    return {"spec": {"affinity": {"nodeAffinity": {_REQUIRED: required}}}}


def _last_word(one: str, other: str) -> bool:
    """True if one key ends like the other: `node-pool` and `pool`."""
    last = one.rpartition("/")[2].split("-")[-1]
    return other.rpartition("/")[2].split("-")[-1] == last


def _comparison(one: NodeSelectorRequirement) -> str:
    if one.operator == IN and len(one.values) == 1:
        return f"{one.key}={one.values[0]}"
    signs = {GREATER_THAN: ">", LESS_THAN: "<", IN: "in"}
    return f"{one.key} {signs.get(one.operator, one.operator)} {', '.join(one.values)}".rstrip()


def term_text(term: NodeSelectorTerm) -> str:
    """A term as people write it."""
    return " and ".join(
        f"{one.key} {one.operator}{f' [{chr(44).join(one.values)}]' if one.values else ''}"
        for one in (*term.match_expressions, *term.match_fields)
    )


def _listed(values: Sequence[str], word: str) -> str:
    if len(values) < 2:
        return "".join(values)
    return f"{', '.join(values[:-1])} {word} {values[-1]}"
