"""Why a pod does not get near the pods it wants, and what would help. Only for explanations."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from stowplan.api.labels import Selector
from stowplan.api.meta import LabelSelector
from stowplan.api.names import closest
from stowplan.api.pod import PodAffinityTerm
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.framework.advanced import Remedy
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.terms import Term, TermRole

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SHOWN: Final = 3
"""Namespaces that are listed."""


class Company:
    """The pods that a pod wants to be near, by namespace, counted on all nodes."""

    def __init__(self, table: ClusterTable, pod: PodInfo) -> None:
        self._table = table
        self._pod = pod
        self.terms = pod.template.terms.of(TermRole.REQUIRED_AFFINITY)
        self._known: dict[Selector, Counter[str]] = {}

    def found(self, term: Term) -> Counter[str]:
        """Pods on nodes with the labels of a term, in all namespaces."""
        if term.selector not in self._known:
            alike = Counter((info.namespace, id(info.template)) for info in self._table.pods.values())
            examples = {id(info.template): info for info in self._table.pods.values()}
            counts: Counter[str] = Counter()
            for (namespace, template), count in alike.items():
                if term.selector.matches(examples[template].labels):
                    counts[namespace] += count
            self._known[term.selector] = counts
        return self._known[term.selector]

    def missing(self) -> str:
        """Why there is no pod of a term at all; "" if there are some, elsewhere."""
        lines = [self._missing(term) for term in self.terms]
        return "; ".join(line for line in lines if line)

    def _missing(self, term: Term) -> str:
        lookups = self._table.lookups
        found = self.found(term)
        inside = [name for name in found if self._is_inside(term, name)]
        if inside:
            return ""
        by_labels = str(term.namespace_selector)
        if (
            by_labels
            and not term.namespaces
            and not any(term.namespace_selector.matches(labels) for labels in lookups.namespaces.values())
        ):
            text = f"no namespace has {by_labels}"
            meant = self._meant_namespaces(term)
            return f"{text}; {meant[0]} has {_shown(meant[1])}" if meant is not None else text
        where = f"no pod of {_namespaces(sorted(term.namespaces))}" if term.namespaces else "no pod"
        text = f"{where} has {term.selector}"
        others = [f"{count} of namespace {name}" for name, count in found.most_common(_SHOWN)]
        return f"{text}, but {' and '.join(others)}" if others else text

    def _is_inside(self, term: Term, namespace: str) -> bool:
        labels = self._table.lookups.namespace_labels(namespace)
        return namespace in term.namespaces or term.namespace_selector.matches(labels)

    def _meant_namespaces(self, term: Term) -> tuple[str, dict[str, str]] | None:
        """A namespace with pods of a term and the labels that were probably meant to select it."""
        spec = self._source(term)
        wanted = (
            None if spec is None or spec.namespace_selector is None else spec.namespace_selector.match_labels
        )
        for name in self.found(term):
            labels = self._table.lookups.namespace_labels(name)
            meant = {key: closest(value, [labels.get(key, "")]) for key, value in (wanted or {}).items()}
            if meant and all(meant.values()):
                return name, meant
        return None

    def _source(self, term: Term) -> PodAffinityTerm | None:
        """The term as the pod has it."""
        place = self.terms.index(term)
        return self._sources[place] if place < len(self._sources) else None

    @property
    def _sources(self) -> Sequence[PodAffinityTerm]:
        affinity = self._pod.spec.affinity
        rules = None if affinity is None else affinity.pod_affinity
        return () if rules is None else rules.required_during_scheduling_ignored_during_execution

    def corrections(self) -> Iterator[Remedy]:
        """Terms that look where there are such pods."""
        for place, (term, source) in enumerate(zip(self.terms, self._sources, strict=True)):
            if not self._missing(term):
                continue
            meant = self._meant_namespaces(term)
            if meant is not None and source.namespace_selector is not None:
                changed = replace(source, namespace_selector=LabelSelector(match_labels=meant[1]))
                text = f"namespaceSelector {_shown(meant[1])} (now {term.namespace_selector})"
                yield self._changed(place, changed, f"{text} in the pod affinity")
            for name in [one for one, _ in self.found(term).most_common(_SHOWN)]:
                changed = replace(
                    source, namespaces=(*sorted(term.namespaces), name), namespace_selector=None
                )
                yield self._changed(place, changed, f"look in namespace {name} too in the pod affinity")

    def _changed(self, place: int, term: PodAffinityTerm, text: str) -> Remedy:
        terms = [*self._sources]
        terms[place] = term
        left = [msgspec.to_builtins(one) for one in terms]
        patch = {"spec": {"affinity": {"podAffinity": {_REQUIRED: left}}}}
        return Remedy("affinityNamespace", text, patch, 0.1 if "Selector" in text else 0.5)


def _namespaces(names: Sequence[str]) -> str:
    return f"namespace {names[0]}" if len(names) == 1 else f"namespaces {', '.join(names)}"


def _shown(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
