"""Defaults of the core group but for pods."""

import base64
from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.admission.defaults.podspec import (
    default_pod,
    default_pod_spec,
    default_volume_source,
    fill,
)

_CLIENT_IP_SECONDS: Final = 10800


def default_pod_template(obj: Json) -> None:
    default_pod_spec(obj.setdefault("template", {}).setdefault("spec", {}))


def default_node(obj: Json) -> None:
    obj.setdefault("spec", {})
    status = obj.get("status")
    if status and status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])


def default_namespace(obj: Json) -> None:
    metadata = obj["metadata"]
    labels = metadata["labels"] = dict(metadata.get("labels") or {})
    labels["kubernetes.io/metadata.name"] = metadata.get("name", "")


def default_service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    _default_affinity(spec)
    for port in spec.get("ports") or ():
        fill(port, {"protocol": "TCP", "targetPort": port.get("port", 0)}, zero=True)
    if spec["type"] == "ExternalName":
        return
    fill(spec, {"internalTrafficPolicy": "Cluster"})
    external = spec["type"] in ("NodePort", "LoadBalancer") or (
        spec["type"] == "ClusterIP" and spec.get("externalIPs")
    )
    if external:
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})


def _default_affinity(spec: Json) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _CLIENT_IP_SECONDS}}


def default_endpoints(obj: Json) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, {"protocol": "TCP"})


def default_secret(obj: Json) -> None:
    fill(obj, {"type": "Opaque"})
    written = obj.pop("stringData", None)
    if written:
        data = obj["data"] = dict(obj.get("data") or {})
        for key, value in written.items():
            data[key] = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()


def default_volume(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    default_volume_source(spec)
    reference = spec.get("claimRef")
    if reference is not None:
        fill(reference, {"kind": "PersistentVolumeClaim", "apiVersion": "v1"})


def default_claim(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"volumeMode": "Filesystem"})
    _default_sources(obj)


def _default_sources(claim: Json) -> None:
    """`dataSource` and `dataSourceRef` name the same object, unless it is in another namespace."""
    spec = claim["spec"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def default_limit_range(obj: Json) -> None:
    """Of containers: the default limit is the most allowed, the default request that limit or the least."""
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            if limits:
                item["default"] = limits
            if requests:
                item["defaultRequest"] = requests


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.PODS: default_pod,
    catalogue.POD_TEMPLATES: default_pod_template,
    catalogue.NODES: default_node,
    catalogue.NAMESPACES: default_namespace,
    catalogue.SERVICES: default_service,
    catalogue.ENDPOINTS: default_endpoints,
    catalogue.SECRETS: default_secret,
    catalogue.PERSISTENT_VOLUMES: default_volume,
    catalogue.PERSISTENT_VOLUME_CLAIMS: default_claim,
    catalogue.LIMIT_RANGES: default_limit_range,
}
