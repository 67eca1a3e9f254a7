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
            if asked.setdefault("allocationMode", "ExactCount") == "ExactCount":
                asked.setdefault("count", 1)


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.RESOURCE_CLAIMS: default_resource_claim,
    catalogue.RESOURCE_CLAIM_TEMPLATES: default_resource_claim_template,
}
