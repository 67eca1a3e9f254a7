"""Defaults of the core group, and of the pod templates of all others."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

_POD_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_VOLUMES_WITH_MODE: Final = ("secret", "configMap", "projected", "downwardAPI")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_DEFAULT_MODE: Final = 420


def default_pod(pod: Json) -> None:
    """Defaults of a pod itself."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers_of(spec):
        resources = container["resources"]
        limits = resources.get("limits")
        if limits:
            requests = resources.setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)


def default_pod_spec(spec: Json) -> None:
    """Defaults of a pod's spec, also of one in a template."""
    for field, value in _POD_SPEC.items():
        spec.setdefault(field, value)
    spec.setdefault("securityContext", {})
    host_network = bool(spec.get("hostNetwork"))
    for container in containers_of(spec):
        _default_container(container, host_network)
    for volume in spec.get("volumes") or ():
        _default_volume_source(volume)


def containers_of(spec: Json) -> Iterator[Json]:
    """All containers, those that only prepare included."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _default_container(container: Json, host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if container.get(name):
            _default_probe(container[name])


def _pull_policy(image: str) -> str:
    """Pull always what may have changed under its name."""
    last = image.rpartition("/")[2]
    fixed = "@" in last or (":" in last and not last.endswith(":latest"))
    return "IfNotPresent" if fixed else "Always"


def _default_probe(probe: Json) -> None:
    for field, value in _PROBE.items():
        probe.setdefault(field, value)
    asked = probe.get("httpGet")
    if asked is not None:
        asked.setdefault("path", "/")
        asked.setdefault("scheme", "HTTP")
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_volume_source(volume: Json) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in _VOLUMES_WITH_MODE:
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    for part in _parts((volume.get("projected") or {}).get("sources")):
        token = part.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", 3600)
    claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
    if claim is not None:
        claim.setdefault("volumeMode", "Filesystem")


def _parts(found: Any) -> Iterable[Json]:
    return found or ()


def default_pod_template(obj: Json) -> None:
    default_pod_spec(obj.setdefault("template", {}).setdefault("spec", {}))


_SERVICE_SPEC: Final = {"type": "ClusterIP", "sessionAffinity": "None"}


def default_node(obj: Json) -> None:
    obj.setdefault("spec", {})
    status = obj.get("status")
    if status and status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def default_namespace(obj: Json) -> None:
    metadata = obj["metadata"]
    labels = metadata["labels"] = dict(metadata.get("labels") or {})
    labels["kubernetes.io/metadata.name"] = metadata.get("name", "")


def default_service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    for field, value in _SERVICE_SPEC.items():
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


def default_endpoints(obj: Json) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def default_secret(obj: Json) -> None:
    obj.setdefault("type", "Opaque")
    written = obj.pop("stringData", None)
    if written:
        data = obj["data"] = dict(obj.get("data") or {})
        for key, value in written.items():
            data[key] = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()


def default_volume(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")


def default_claim(obj: Json) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


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
}
