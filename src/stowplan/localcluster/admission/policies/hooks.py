"""Policies with their bindings, compiled when they are written, and the params that bindings refer to.

This is what ValidatingAdmissionPolicy and MutatingAdmissionPolicy have in common.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from stowplan.api.catalogue import Resource
from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.admission.attributes import AdmissionAttributes
from stowplan.localcluster.admission.matching import Constraints
from stowplan.localcluster.store import Store, StoreChange
from stowplan.localcluster.store.conversion import in_version, stored_as

Compiled = TypeVar("Compiled")

FAIL: Final = "Fail"


class ConfigurationError(Exception):
    """A policy or binding that cannot be applied as it is."""


class Binding(NamedTuple):
    """A binding, with the requests to which it restricts its policy."""

    name: str
    spec: Json
    constraints: Constraints | None


class Policy(NamedTuple, Generic[Compiled]):
    """A policy that has bindings."""

    name: str
    spec: Json
    constraints: Constraints
    bindings: Sequence[Binding]
    compiled: Compiled

    @property
    def fails(self) -> bool:
        """True if requests are refused for which it cannot be evaluated."""
        return bool(self.spec.get("failurePolicy", FAIL) != "Ignore")


class Invocation(NamedTuple, Generic[Compiled]):
    """A policy that is to be evaluated for a request, with a binding of it and a param, if it has any."""

    policy: Policy[Compiled]
    binding: Binding
    matched: Resource
    params: Json | None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identity of the invocation within a request."""
        metadata = {} if self.params is None else self.params["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        return self.policy.name, self.binding.name, namespace, name


class Refused(NamedTuple, Generic[Compiled]):
    """A policy or binding that matches and cannot be applied, with the reason."""

    policy: Policy[Compiled]
    binding: Binding | None
    message: str


class PolicySource(Generic[Compiled]):
    """The policies of a kind in one store. Policies without bindings have no effect."""

    def __init__(
        self,
        store: Store,
        policies: Resource,
        bindings: Resource,
        compiler: Callable[[Json], Compiled],
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when `is_active` may have changed."""
        self._store = store
        self._on_change = on_change
        self._policies, self._bindings = policies, bindings
        self._compile = compiler
        self._compiled: dict[str, tuple[Json, Constraints, Compiled]] = {}
        self._current: Sequence[Policy[Compiled]] = ()
        self._is_dirty = True
        self.is_active = False
        """True if there are policies and bindings."""
        if all(resource in store.catalogue for resource in (policies, bindings)):
            for resource in (policies, bindings):
                store.watch(resource, self._changed)
            self.is_active = self._has_any()

    def _has_any(self) -> bool:
        return bool(self._store.count(self._policies) and self._store.count(self._bindings))

    def _changed(self, change: StoreChange) -> None:
        self._is_dirty = True
        self.is_active = self._has_any()
        self._on_change()

    def policies(self) -> Sequence[Policy[Compiled]]:
        """The policies that have bindings, by name."""
        if self._is_dirty:
            self._is_dirty = False
            self._current = [*self._bound()]
        return self._current

    def _bound(self) -> Iterator[Policy[Compiled]]:
        by_policy: dict[str, list[Json]] = {}
        for binding in self._store.all(self._bindings):
            by_policy.setdefault(binding["spec"]["policyName"], []).append(binding)
        for name in [name for name in self._compiled if name not in by_policy]:
            del self._compiled[name]
        for name, bindings in sorted(by_policy.items()):
            policy = self._store.find(self._policies, "", name)
            if policy is None:
                continue
            known = self._compiled.get(name)
            if known is None or known[0] != policy["spec"]:
                constraints = Constraints(policy["spec"].get("matchConstraints") or {}, needs_rules=True)
                known = self._compiled[name] = (
                    policy["spec"],
                    constraints,
                    self._compile(policy["spec"]),
                )
            ordered = sorted(bindings, key=lambda one: str(one["metadata"]["name"]))
            yield Policy(name, policy["spec"], known[1], [_binding(one) for one in ordered], known[2])

    def invocations(self, write: AdmissionAttributes) -> Iterator[Invocation[Compiled] | Refused[Compiled]]:
        """The policies that a request matches, by binding and param, and those that cannot be applied."""
        for policy in self.policies():
            try:
                matched = policy.constraints.match(write)
                if matched is None:
                    continue
                params = self._params_resource(policy.spec.get("paramKind"))
            except (ConfigurationError, ApiError) as error:
                yield Refused(policy, None, f"failed to configure policy: {error}")
                continue
            for binding in policy.bindings:
                try:
                    if binding.constraints is not None and binding.constraints.match(write) is None:
                        continue
                    found = self._params(params, binding.spec.get("paramRef"), write.namespace)
                except (ConfigurationError, ApiError) as error:
                    yield Refused(policy, binding, f"failed to configure binding: {error}")
                    continue
                for one in found:
                    yield Invocation(policy, binding, matched, one)

    def _params_resource(self, kind: Json | None) -> Resource | None:
        """The resource of a policy's params, None if it has no kind of them."""
        if kind is None:
            return None
        resource = self._store.catalogue.of_kind(kind.get("apiVersion") or "", kind.get("kind") or "")
        if resource is None:
            group, slash, version = str(kind.get("apiVersion") or "").rpartition("/")
            shown = f"{group}{slash or '/'}{version}, Kind={kind.get('kind')}"
            raise ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")
        return resource

    def _params(
        self, resource: Resource | None, reference: Json | None, namespace: str
    ) -> Sequence[Json | None]:
        """Params of a binding for an object in a namespace. Without any the policy is not evaluated."""
        if resource is None or reference is None:
            return [None]
        within = reference.get("namespace") or ""
        if resource.namespaced:
            within = within or namespace
            if not within:
                text = (
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
                raise ConfigurationError(text)
        elif within:
            text = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            raise ConfigurationError(text)
        found = self._selected(resource, reference, within)
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            text = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise ConfigurationError(text)
        stored, definitions = stored_as(resource), self._store.definitions
        return [
            {**in_version(one, stored, resource, definitions), "apiVersion": resource.api_version}
            for one in found
        ]

    def _selected(self, resource: Resource, reference: Json, namespace: str) -> Sequence[Json]:
        stored = stored_as(resource)
        if reference.get("name"):
            found = self._store.find(stored, namespace, reference["name"])
            return [] if found is None else [found]
        try:
            selector = compile_selector(msgspec.convert(reference.get("selector") or {}, LabelSelector))
        except (SelectorError, msgspec.ValidationError) as error:
            raise ConfigurationError(str(error)) from None
        listed = self._store.within(stored, namespace) if resource.namespaced else self._store.all(stored)
        chosen = [one for one in listed if selector.matches(one["metadata"].get("labels") or {})]
        return sorted(chosen, key=lambda one: str(one["metadata"]["name"]))


def _binding(binding: Json) -> Binding:
    spec, resources = binding["spec"], binding["spec"].get("matchResources")
    constraints = None if resources is None else Constraints(resources, needs_rules=False)
    return Binding(binding["metadata"]["name"], spec, constraints)
