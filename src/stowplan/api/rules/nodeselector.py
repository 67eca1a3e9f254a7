"""Node selectors, compiled: `nodeSelector`, required and preferred node affinity, a volume's node affinity.

Terms are ORed, what stands in a term is ANDed. A term that cannot be read matches no node; its error
matters only where no other term matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan.api.fielderrors import aggregate, child, invalid, not_supported
from stowplan.api.labels import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER_THAN,
    IN,
    LESS_THAN,
    NOT_IN,
    Requirement,
    Selector,
    SelectorError,
    is_usable,
    requirement_errors,
    selector_from_labels,
    sorted_requirement,
)
from stowplan.api.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
)

NODE_NAME_FIELD: Final = "metadata.name"

_LABEL_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GREATER_THAN, LESS_THAN)
_FIELD_OPERATORS: Final = (IN, NOT_IN)


class FieldRequirement(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A requirement on a field of the node. Only `metadata.name` exists; any other field is empty."""

    key: str
    operator: str
    value: str

    def matches_name(self, node_name: str) -> bool:
        actual = node_name if self.key == NODE_NAME_FIELD else ""
        return (actual == self.value) == (self.operator == IN)


class Term(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One compiled term. With errors, or without any requirement, it matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        """Why the term cannot be read, None if it can."""
        return aggregate(self.errors) if self.errors else None

    @property
    def is_empty(self) -> bool:
        return not (self.expressions or self.fields or self.errors)

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        if self.errors or self.is_empty:
            return False
        for expression in self.expressions:
            if not expression.matches_value(labels.get(expression.key)):
                return False
        # A node without a name has no fields, so field requirements do not apply to it.
        return not node_name or all(field.matches_name(node_name) for field in self.fields)


class CompiledNodeSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Terms that are ORed, one per term of the source and in its order."""

    terms: tuple[Term, ...] = ()

    @property
    def parse_error(self) -> str | None:
        """The errors of all terms, None if every term can be read."""
        errors = [error for term in self.terms for error in term.errors]
        return aggregate(errors) if errors else None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        return any(term.matches(labels, node_name) for term in self.terms)

    def error_for(self, labels: Mapping[str, str], node_name: str) -> str | None:
        """The errors that matter for a node: those met where no term matches it."""
        return None if self.matches(labels, node_name) else self.parse_error


class RequiredNodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Node requirements of a pod: `nodeSelector` and required node affinity, ANDed; None is no
    requirement."""

    labels: Selector | None = None
    affinity: CompiledNodeSelector | None = None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        if self.labels is not None and not self.labels.matches(labels):
            return False
        return self.affinity is None or self.affinity.matches(labels, node_name)

    def error_for(self, labels: Mapping[str, str], node_name: str) -> str | None:
        if self.affinity is None or (self.labels is not None and not self.labels.matches(labels)):
            return None
        return self.affinity.error_for(labels, node_name)


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """Weighted terms; terms without weight or without requirements are left out."""

    terms: tuple[tuple[int, Term], ...] = ()

    def score(self, labels: Mapping[str, str], node_name: str) -> int:
        """The sum of the weights of the terms a node matches."""
        return sum(weight for weight, term in self.terms if term.matches(labels, node_name))


def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    return CompiledNodeSelector(
        tuple(
            compile_term(term, f"nodeSelectorTerms[{i}]")
            for i, term in enumerate(selector.node_selector_terms)
        )
    )


def required_node_affinity(spec: PodSpec) -> RequiredNodeAffinity:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return RequiredNodeAffinity(
        selector_from_labels(spec.node_selector) if spec.node_selector else None,
        None if required is None else compile_node_selector(required),
    )


def compile_preferred(terms: Sequence[PreferredSchedulingTerm]) -> PreferredTerms:
    """Compile preferred terms. One that cannot be read spoils all: raises `SelectorError`."""
    compiled = [
        (term.weight, compile_term(term.preference, f"[{i}]")) for i, term in enumerate(terms) if term.weight
    ]
    errors = [error for _, term in compiled for error in term.errors]
    if errors:
        raise SelectorError(aggregate(errors))
    return PreferredTerms(tuple((weight, term) for weight, term in compiled if not term.is_empty))


def compile_term(term: NodeSelectorTerm, path: str = "") -> Term:
    if not term.match_fields:
        usable = _usable_expressions(term.match_expressions)
        if usable is not None:
            return Term(usable)
    expressions, errors = _compile_expressions(term.match_expressions, child(path, "matchExpressions"))
    fields, field_errors = _compile_fields(term.match_fields, child(path, "matchFields"))
    errors += field_errors
    return Term((), (), tuple(map(str, errors))) if errors else Term(tuple(expressions), tuple(fields))


def _usable_expressions(expressions: Sequence[NodeSelectorRequirement]) -> tuple[Requirement, ...] | None:
    """The requirements of a term, the usual case; None if something is wrong with one of them."""
    found: list[Requirement] = []
    for expression in expressions:
        key, operator, values = expression.key, expression.operator, expression.values
        if operator not in _LABEL_OPERATORS or not is_usable(key, operator, values):
            return None
        found.append(sorted_requirement(key, operator, values))
    return tuple(found)


def _compile_expressions(
    expressions: Sequence[NodeSelectorRequirement], path: str
) -> tuple[list[Requirement], list[str]]:
    found: list[Requirement] = []
    errors: list[str] = []
    for i, expression in enumerate(expressions):
        key, operator, values = expression.key, expression.operator, expression.values
        if operator in _LABEL_OPERATORS:
            if not is_usable(key, operator, values):
                errors += requirement_errors(key, operator, values, f"{path}[{i}]")
            found.append(sorted_requirement(key, operator, values))
        else:
            errors.append(not_supported(f"{path}[{i}].operator", operator, _LABEL_OPERATORS))
    return found, errors


def _compile_fields(
    fields: Sequence[NodeSelectorRequirement], path: str
) -> tuple[list[FieldRequirement], list[str]]:
    found: list[FieldRequirement] = []
    errors: list[str] = []
    for i, field in enumerate(fields):
        if field.operator not in _FIELD_OPERATORS:
            errors.append(not_supported(f"{path}[{i}].operator", field.operator, _FIELD_OPERATORS))
        elif len(field.values) != 1:
            errors.append(invalid(f"{path}[{i}].values", field.values, "must have one element"))
        else:
            found.append(FieldRequirement(field.key, field.operator, field.values[0]))
    return found, errors
