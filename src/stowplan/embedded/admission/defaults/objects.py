"""Defaults of everything that is not a pod and makes none."""

import base64
from typing import Final

from stowplan.api.catalogue import RBAC
from stowplan.api.requests import Json

_SERVICE: Final = {"type": "ClusterIP", "sessionAffinity": "None"}


def fill_in_node(obj: Json) -> None:
    obj.setdefault("spec", {})
    told = obj.get("status")
    if told and told.get("capacity") and "allocatable" not in told:
        told["allocatable"] = dict(told["capacity"])


def fill_in_namespace(obj: Json) -> None:
    metadata = obj["metadata"]
    labels = metadata["labels"] = dict(metadata.get("labels") or {})
    labels["kubernetes.io/metadata.name"] = metadata.get("name", "")


def fill_in_service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    for field, value in _SERVICE.items():
        spec.setdefault(field, value)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def fill_in_endpoints(obj: Json) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def fill_in_secret(obj: Json) -> None:
    obj.setdefault("type", "Opaque")
    written = obj.pop("stringData", None)
    if written:
        data = obj["data"] = dict(obj.get("data") or {})
        for key, value in written.items():
            data[key] = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()


def fill_in_volume(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")


def fill_in_claim(obj: Json) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def fill_in_storage_class(obj: Json) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def fill_in_priority_class(obj: Json) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def fill_in_role_binding(obj: Json) -> None:
    obj.setdefault("roleRef", {}).setdefault("apiGroup", RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", RBAC)


def fill_in_resource_claim(obj: Json) -> None:
    _fill_in_devices(obj.setdefault("spec", {}))


def fill_in_resource_claim_template(obj: Json) -> None:
    _fill_in_devices(obj.setdefault("spec", {}).setdefault("spec", {}))


def _fill_in_devices(spec: Json) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if asked is None:
                continue
            if asked.setdefault("allocationMode", "ExactCount") == "ExactCount":
                asked.setdefault("count", 1)
