"""Defaults of pods and of the pod specs in templates.

An empty text or a zero counts as left out where upstream's type cannot tell the two apart.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from stowplan.api.quantity import ZERO, Quantity, quantity_of
from stowplan.api.requests import Json

_POD_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MODE: Final = {"defaultMode": 420}
_VOLUMES: Final[Mapping[str, Mapping[str, Any]]] = {
    "secret": _MODE,
    "configMap": _MODE,
    "projected": _MODE,
    "downwardAPI": _MODE,
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
"""Defaults of volume sources, both of pods and of PersistentVolumes."""


def fill(obj: Json, defaults: Mapping[str, Any], *, zero: bool = False) -> None:
    """Set what is left out. `zero`: a number 0 counts as left out."""
    for field, value in defaults.items():
        given = obj.get(field)
        if given is None or given == "" or (zero and given == 0):
            obj[field] = value


_MAX_REMEMBERED: Final = 1000
_MAX_REMEMBERED_BYTES: Final = 16_384
_specs: dict[bytes, Json] = {}


def default_pod(pod: Json) -> None:
    """Defaults of a pod itself; those in templates get less.

    Most pods are made from a template, so the result for a spec is remembered. Pods with equal specs share
    their parts: later changes, as of admission plugins, must replace them.
    """
    text = msgspec.msgpack.encode(pod.get("spec"))
    known = _specs.get(text)
    if known is not None:
        pod["spec"] = {**known}
        return
    spec = pod.setdefault("spec", {})
    _default_own_spec(spec)
    if len(text) <= _MAX_REMEMBERED_BYTES:
        if len(_specs) >= _MAX_REMEMBERED:
            _specs.clear()
        _specs[text] = {**spec}


def _default_own_spec(spec: Json) -> None:
    default_pod_spec(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    host_network = spec.get("hostNetwork")
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container["resources"]
            if resources:
                _default_requests(resources)
            if host_network:
                for port in container.get("ports") or ():
                    fill(port, {"hostPort": port.get("containerPort")}, zero=True)
    if spec.get("resources"):
        _default_pod_resources(spec)


def _default_requests(resources: Json) -> None:
    """A limit without a request is the default of the request."""
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _default_pod_resources(spec: Json) -> None:
    """Requests of the pod as a whole: what its containers request, else the pod's limits."""
    limits = spec["resources"].get("limits")
    if not limits:
        return
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        for name, amount in (container["resources"].get("requests") or {}).items():
            total[name] = total.get(name, ZERO).add(quantity_of(amount))
    summed = {name: str(amount) for name, amount in total.items() if name in ("cpu", "memory")}
    spec["resources"]["requests"] = {**limits, **summed, **(spec["resources"].get("requests") or {})}


def default_pod_spec(spec: Json) -> None:
    """Defaults of a pod's spec, also of one in a template."""
    fill(spec, _POD_SPEC)
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def containers_of(spec: Json) -> Iterator[Json]:
    """All containers, those that only prepare or look included."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _default_container(container: Json) -> None:
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    if container.get("resources") is None:
        container["resources"] = {}
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    for port in container.get("ports") or ():
        fill(port, {"protocol": "TCP"})
    for variable in container.get("env") or ():
        _default_field((variable.get("valueFrom") or {}).get("fieldRef"))
    for name in _PROBES:
        if container.get(name) is not None:
            fill(container[name], _PROBE, zero=True)
            _default_handler(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_handler(handler)


def _pull_policy(image: str) -> str:
    """Pull always what may have changed under its name."""
    last = image.rpartition("/")[2]
    fixed = "@" in last or (":" in last and not last.endswith(":latest"))
    return "IfNotPresent" if fixed else "Always"


def _default_field(reference: Json | None) -> None:
    if reference is not None:
        fill(reference, {"apiVersion": "v1"})


def _default_handler(handler: Json) -> None:
    if handler.get("httpGet") is not None:
        fill(handler["httpGet"], {"path": "/", "scheme": "HTTP"})
    if handler.get("grpc") is not None:
        handler["grpc"].setdefault("service", "")


def _default_volume(volume: Json) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
        return
    default_volume_source(volume)
    for item in _items(volume.get("downwardAPI")):
        _default_field(item.get("fieldRef"))
    for part in (volume.get("projected") or {}).get("sources") or ():
        if part.get("serviceAccountToken") is not None:
            fill(part["serviceAccountToken"], {"expirationSeconds": 3600})
        for item in _items(part.get("downwardAPI")):
            _default_field(item.get("fieldRef"))
    if volume.get("image") is not None:
        reference = volume["image"].get("reference") or ""
        fill(volume["image"], {"pullPolicy": _pull_policy(reference)})
    claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
    if claim is not None:
        fill(claim, {"volumeMode": "Filesystem"})


def default_volume_source(volume: Json) -> None:
    for source in _VOLUMES.keys() & volume.keys():
        if volume[source] is not None:
            fill(volume[source], _VOLUMES[source])


def _items(source: Json | None) -> Iterable[Json]:
    return (source or {}).get("items") or ()
