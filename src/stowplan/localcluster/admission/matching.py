"""Rules that select requests: those of webhooks, and the match constraints of policies and bindings.

`Constraints` is a list of rules with its selectors, compiled once. It returns the version of the resource in
which a rule matched: with `matchPolicy: Equivalent` an object may be written in one version and matched in
another one.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import NAMESPACES, Resource
from stowplan.api.labels import Selector as LabelsSelector
from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.requests import Json
from stowplan.localcluster.store.conversion import versions_of
from stowplan.localcluster.store.registry import Lookup

ADMISSION_GROUP: Final = "admissionregistration.k8s.io"
"""Webhooks and policies never apply to their own configuration: nobody could repair it."""

_EVERYTHING: Final = frozenset("*")


class MatchedRequest(Protocol):
    """A request as rules see it. Of a Namespace, `namespace` is its own name."""

    @property
    def lookup(self) -> Lookup: ...

    @property
    def operation(self) -> str: ...

    @property
    def resource(self) -> Resource: ...

    @property
    def subresource(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def object(self) -> Json | None: ...

    @property
    def old(self) -> Json | None: ...


class Rule:
    """A rule: operations on resources, of names if any are given."""

    __slots__ = ("groups", "names", "operations", "resources", "scope", "versions")

    def __init__(self, rule: Json) -> None:
        self.operations = frozenset(rule.get("operations") or ())
        self.groups = frozenset(rule.get("apiGroups") or ())
        self.versions = frozenset(rule.get("apiVersions") or ())
        self.resources = tuple(_parts(text) for text in rule.get("resources") or ())
        self.scope = rule.get("scope") or "*"
        self.names = frozenset(rule.get("resourceNames") or ())

    def matches(self, request: MatchedRequest, resource: Resource) -> bool:
        """True if the rule applies to a request, taken as one for `resource`."""
        return (
            _listed(self.operations, request.operation)
            and _listed(self.groups, resource.group)
            and _listed(self.versions, resource.version)
            and any(
                plural in ("*", resource.plural) and part in ("*", request.subresource)
                for plural, part in self.resources
            )
            and (self.scope == "*" or (self.scope == "Namespaced") is _is_namespaced(request, resource))
            and (not self.names or request.name in self.names)
        )


def _parts(resource: str) -> tuple[str, str]:
    plural, _, subresource = resource.partition("/")
    return plural, subresource


def _listed(items: frozenset[str], wanted: str) -> bool:
    return wanted in items or not items.isdisjoint(_EVERYTHING)


def _is_namespaced(request: MatchedRequest, resource: Resource) -> bool:
    return resource != NAMESPACES and bool(request.namespace)


class Constraints:
    """Rules with their exceptions and selectors.

    `needs_rules`: without rules nothing matches, as with webhooks; a binding without rules matches everything
    that its policy matches.
    """

    def __init__(self, given: Json, *, needs_rules: bool) -> None:
        self._rules = tuple(Rule(rule) for rule in given.get("resourceRules") or ())
        self._excluded = tuple(Rule(rule) for rule in given.get("excludeResourceRules") or ())
        self._any_version = given.get("matchPolicy", "Equivalent") == "Equivalent"
        self._of_namespace = _Selected(given.get("namespaceSelector"))
        self._of_object = _Selected(given.get("objectSelector"))
        self._needs_rules = needs_rules

    def match(self, request: MatchedRequest) -> Resource | None:
        """The resource as which a request matches, None if it does not match.

        Raises `ApiError` if that cannot be said: the namespace does not exist, or a selector is wrong.
        """
        if self._excluded and self._by_rules(self._excluded, request) is not None:
            return None
        if self._rules or self._needs_rules:
            matched = self._by_rules(self._rules, request)
        else:
            matched = request.resource
        if matched is None or not self._of_object.selects_any(request.object, request.old):
            return None
        return matched if self._selects_namespace(request) else None

    def _by_rules(self, rules: Sequence[Rule], request: MatchedRequest) -> Resource | None:
        resource = request.resource
        for rule in rules:
            if rule.matches(request, resource):
                return resource
        if self._any_version:
            for rule in rules:
                for other in versions_of(resource, request.lookup.definitions):
                    if rule.matches(request, other):
                        return other
        return None

    def _selects_namespace(self, request: MatchedRequest) -> bool:
        if self._of_namespace.is_empty:
            return True
        if request.resource == NAMESPACES:
            if request.object is not None and not request.subresource:
                return self._of_namespace.selects(request.object)
        elif not request.namespace:
            return True
        namespace = request.lookup.find(NAMESPACES, "", request.namespace)
        if namespace is None:
            raise status.not_found(NAMESPACES, request.namespace)
        return self._of_namespace.selects(namespace)


class _Selected:
    """A label selector over objects. One that cannot be read is an error of every request."""

    def __init__(self, given: Json | None) -> None:
        self._error = ""
        self._selector: LabelsSelector | None = None
        self.is_empty = not given or not (given.get("matchLabels") or given.get("matchExpressions"))
        if not self.is_empty:
            try:
                self._selector = compile_selector(msgspec.convert(given, LabelSelector))
            except (SelectorError, msgspec.ValidationError) as error:
                self._error = str(error)

    def selects(self, obj: Json) -> bool:
        if self._error:
            raise status.internal_error(self._error)
        labels = obj["metadata"].get("labels") or {}
        return self._selector is None or self._selector.matches(labels)

    def selects_any(self, *objects: Json | None) -> bool:
        """True if it selects the object or the one it replaces."""
        return self.is_empty or any(obj is not None and self.selects(obj) for obj in objects)


def is_exempt(resource: Resource) -> bool:
    """True for kinds that no policy and no webhook may be about."""
    return resource.group == ADMISSION_GROUP
