"""Defaults of resource.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json


def default_resource_claim(obj: Json) -> None:
    _default_devices(obj.setdefault("spec", {}))


def default_resource_claim_template(obj: Json) -> None:
    _default_devices(obj.setdefault("spec", {}).setdefault("spec", {}))


def _default_devices(spec: Json) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if asked is None:
                continue
            asked["allocationMode"] = asked.get("allocationMode") or "ExactCount"
            if asked["allocationMode"] == "ExactCount":
                asked["count"] = asked.get("count") or 1


def default_resource_slice(obj: Json) -> None:
    """Taints are dated; what maps a device's capacity to the node's counts once if it says nothing else."""
    for device in obj.setdefault("spec", {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", obj["metadata"].get("creationTimestamp"))
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            mapping.setdefault("allocationMultiplier", "1")


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.RESOURCE_CLAIMS: default_resource_claim,
    catalogue.RESOURCE_CLAIM_TEMPLATES: default_resource_claim_template,
    catalogue.RESOURCE_SLICES: default_resource_slice,
}
