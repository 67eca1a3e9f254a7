"""Defaults of pods and of the templates pods are made from."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from stowplan.api.requests import Json

_POD: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_MODES: Final = ("secret", "configMap", "projected", "downwardAPI")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_DEFAULT_MODE: Final = 420


def fill_in_pod(pod: Json) -> None:
    """Defaults of a pod itself."""
    spec = pod.setdefault("spec", {})
    fill_in_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers_of(spec):
        resources = container["resources"]
        limits = resources.get("limits")
        if limits:
            requests = resources.setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)


def fill_in_pod_spec(spec: Json) -> None:
    """Defaults of a pod's spec, also of one in a template."""
    for field, value in _POD.items():
        spec.setdefault(field, value)
    spec.setdefault("securityContext", {})
    host_network = bool(spec.get("hostNetwork"))
    for container in containers_of(spec):
        _fill_in_container(container, host_network)
    for volume in spec.get("volumes") or ():
        _fill_in_volume(volume)


def containers_of(spec: Json) -> Iterator[Json]:
    """All containers, those that only prepare included."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _fill_in_container(container: Json, host_network: bool) -> None:
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
            _fill_in_probe(container[name])


def _pull_policy(image: str) -> str:
    """Pull always what may have changed under its name."""
    last = image.rpartition("/")[2]
    fixed = "@" in last or (":" in last and not last.endswith(":latest"))
    return "IfNotPresent" if fixed else "Always"


def _fill_in_probe(probe: Json) -> None:
    for field, value in _PROBE.items():
        probe.setdefault(field, value)
    asked = probe.get("httpGet")
    if asked is not None:
        asked.setdefault("path", "/")
        asked.setdefault("scheme", "HTTP")
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _fill_in_volume(volume: Json) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in _MODES:
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
