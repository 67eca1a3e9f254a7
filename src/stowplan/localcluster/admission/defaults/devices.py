"""Defaults of resource.k8s.io."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json


def default_resource_claim(obj: Json) -> None:
    _default_devices(obj.setdefault("spec", {}))


def default_resource_claim_template(obj: Json) -> None:
    _default_devices(obj.setdefault("spec", {}).setdefault("spec", {}))


def _asked(request: Json) -> Iterator[Json]:
    """Parts of a request that ask for devices: the exact one, or the alternatives."""
    for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
        if asked is not None:
            yield asked


def _default_devices(spec: Json) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for asked in _asked(request):
            asked["allocationMode"] = asked.get("allocationMode") or "ExactCount"
            if asked["allocationMode"] == "ExactCount":
                asked["count"] = asked.get("count") or 1

        for toleration in (one for asked in _asked(request) for one in asked.get("tolerations") or ()):
            toleration["operator"] = toleration.get("operator") or "Equal"


def default_resource_slice(obj: Json) -> None:
    """A mapping of a device's capacity to the node's counts once by default."""
    for device in obj.setdefault("spec", {}).get("devices") or ():
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            mapping.setdefault("allocationMultiplier", "1")


def date_taints_of_slice(obj: Json, stamp: str) -> None:
    for device in (obj.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            _date(taint, stamp)


def date_taint_of_rule(obj: Json, stamp: str) -> None:
    _date((obj.get("spec") or {}).get("taint"), stamp)


def _date(taint: Json | None, stamp: str) -> None:
    if taint is not None and taint.get("timeAdded") is None:
        taint["timeAdded"] = stamp


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.RESOURCE_CLAIMS: default_resource_claim,
    catalogue.RESOURCE_CLAIM_TEMPLATES: default_resource_claim_template,
    catalogue.RESOURCE_SLICES: default_resource_slice,
}
DATED: Final[Mapping[Resource, Callable[[Json, str], None]]] = {
    catalogue.RESOURCE_SLICES: date_taints_of_slice,
    catalogue.DEVICE_TAINT_RULES: date_taint_of_rule,
}
"""Defaults that are the time of the request."""
