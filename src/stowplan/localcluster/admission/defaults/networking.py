"""Defaults of networking.k8s.io and discovery.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json


def default_network_policy(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def default_ingress_class(obj: Json) -> None:
    parameters = obj.setdefault("spec", {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def default_endpoint_slice(obj: Json) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.NETWORK_POLICIES: default_network_policy,
    catalogue.INGRESS_CLASSES: default_ingress_class,
    catalogue.ENDPOINT_SLICES: default_endpoint_slice,
}
