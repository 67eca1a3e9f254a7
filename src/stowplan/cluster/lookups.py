"""Objects that plugins look up by name or owner: namespaces, services, controllers, classes of devices."""

from collections.abc import Mapping
from typing import TypeVar

from stowplan.api.devices import DeviceClass
from stowplan.api.labels import NOTHING, Selector, SelectorError, compile_selector, selector_from_labels
from stowplan.api.meta import Namespace, Object, OwnerReference
from stowplan.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

_NO_LABELS: Mapping[str, str] = {}
_OWNER_VERSIONS = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}

Owner = ReplicationController | ReplicaSet | StatefulSet

K = TypeVar("K")
G = TypeVar("G", Service, Owner)


class Lookups:
    """What is known of the objects around pods.

    `namespaces_version` changes with the labels of namespaces, `groups_version` with what groups pods: the
    selectors of services and controllers. An update that changes neither (a ReplicaSet's status, say) changes
    no version, so nothing that was worked out is thrown away for it.
    """

    __slots__ = (
        "_device_classes",
        "_owners",
        "_services",
        "groups_version",
        "namespaces",
        "namespaces_version",
    )

    def __init__(self) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._services: dict[str, dict[str, Service]] = {}
        self._owners: dict[tuple[str, str, str], Owner] = {}
        self._device_classes: dict[str, DeviceClass] = {}
        self.groups_version = 0
        self.namespaces_version = 0

    def sizes(self) -> dict[str, int]:
        return {
            "namespaces": len(self.namespaces),
            "namespaces with services": len(self._services),
            "controllers": len(self._owners),
            "device classes": len(self._device_classes),
        }

    def put(self, obj: Object) -> None:
        """Add or replace an object."""
        match obj:
            case Namespace():
                if self.namespaces.get(obj.name) != obj.metadata.labels:
                    self.namespaces[obj.name] = obj.metadata.labels
                    self.namespaces_version += 1
            case Service():
                services = self._services.setdefault(obj.namespace, {})
                self._replace(services, obj.name, obj)
            case ReplicationController() | ReplicaSet() | StatefulSet():
                self._replace(self._owners, (type(obj).__name__, obj.namespace, obj.name), obj)
            case DeviceClass():
                self._device_classes[obj.name] = obj

    def remove(self, obj: Object) -> None:
        match obj:
            case Namespace():
                if self.namespaces.pop(obj.name, None) is not None:
                    self.namespaces_version += 1
            case Service():
                services = self._services.get(obj.namespace, {})
                if services.pop(obj.name, None) is not None:
                    self.groups_version += 1
                    if not services:
                        del self._services[obj.namespace]
            case ReplicationController() | ReplicaSet() | StatefulSet():
                if self._owners.pop((type(obj).__name__, obj.namespace, obj.name), None) is not None:
                    self.groups_version += 1
            case DeviceClass():
                self._device_classes.pop(obj.name, None)

    def _replace(self, known: dict[K, G], key: K, obj: G) -> None:
        old = known.get(key)
        known[key] = obj
        if old is None or old.spec.selector != obj.spec.selector:
            self.groups_version += 1

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace, empty for one we have not heard of."""
        return self.namespaces.get(name, _NO_LABELS)

    def means_devices(self, resource: str) -> bool:
        """Whether an extended resource stands for a class of devices."""
        return any(resource in known.resource_names for known in self._device_classes.values())

    def default_selector(
        self, namespace: str, labels: Mapping[str, str], owners: tuple[OwnerReference, ...]
    ) -> Selector:
        """What groups a pod with its siblings: the services that select it and its controller's selector.

        Empty when there is nothing that groups it.
        """
        merged: dict[str, str] = {}
        for service in self._services.get(namespace, {}).values():
            wanted = service.spec.selector
            if wanted and _selects(wanted, labels):
                merged.update(wanted)
        owner = self._controller(namespace, owners)
        if isinstance(owner, ReplicationController):
            merged.update(owner.spec.selector or {})
        selector = selector_from_labels(merged)
        if isinstance(owner, ReplicaSet | StatefulSet):
            try:
                return selector.adding(compile_selector(owner.spec.selector))
            except SelectorError:
                return selector
        return selector

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> list[Service]:
        """The services that select a pod, by name."""
        known = self._services.get(namespace, {})
        return [known[name] for name in sorted(known) if _selects(known[name].spec.selector, labels)]

    def selectors_of(
        self, namespace: str, labels: Mapping[str, str], *, services_only: bool
    ) -> tuple[Selector, ...]:
        """The selectors of all services and controllers that select a pod, whoever owns it.

        Looks at every controller there is: for rules of earlier releases, which did not go by owner.
        """
        services = self.services_of(namespace, labels)
        found = {selector_from_labels(service.spec.selector or {}): None for service in services}
        for key in () if services_only else sorted(self._owners):
            owner = self._owners[key]
            selector = _selector_of(owner) if owner.namespace == namespace else NOTHING
            if not selector.is_empty and selector.matches(labels):
                found[selector] = None
        return tuple(found)

    def _controller(self, namespace: str, owners: tuple[OwnerReference, ...]) -> Owner | None:
        for reference in owners:
            if reference.controller:
                if _OWNER_VERSIONS.get(reference.kind) != reference.api_version:
                    return None
                return self._owners.get((reference.kind, namespace, reference.name))
        return None


def _selects(wanted: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector of a service chooses labels; one that demands nothing chooses none."""
    return bool(wanted) and all(labels.get(key) == value for key, value in (wanted or {}).items())


def _selector_of(owner: Owner) -> Selector:
    """The selector of a controller; one that cannot be read selects nothing."""
    if isinstance(owner, ReplicationController):
        return selector_from_labels(owner.spec.selector or {})
    try:
        return compile_selector(owner.spec.selector)
    except SelectorError:
        return NOTHING
