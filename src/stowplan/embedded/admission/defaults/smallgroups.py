"""Defaults of groups with few kinds: storage, scheduling, RBAC, resource."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import RBAC, Resource
from stowplan.api.requests import Json


def default_storage_class(obj: Json) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def default_priority_class(obj: Json) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_role_binding(obj: Json) -> None:
    obj.setdefault("roleRef", {}).setdefault("apiGroup", RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", RBAC)


def default_resource_claim(obj: Json) -> None:
    _default_devices(obj.setdefault("spec", {}))


def default_resource_claim_template(obj: Json) -> None:
    _default_devices(obj.setdefault("spec", {}).setdefault("spec", {}))


def _default_devices(spec: Json) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if asked is None:
                continue
            if asked.setdefault("allocationMode", "ExactCount") == "ExactCount":
                asked.setdefault("count", 1)


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.STORAGE_CLASSES: default_storage_class,
    catalogue.PRIORITY_CLASSES: default_priority_class,
    catalogue.ROLE_BINDINGS: default_role_binding,
    catalogue.CLUSTER_ROLE_BINDINGS: default_role_binding,
    catalogue.RESOURCE_CLAIMS: default_resource_claim,
    catalogue.RESOURCE_CLAIM_TEMPLATES: default_resource_claim_template,
}
