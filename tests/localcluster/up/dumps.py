"""Dumps of clusters, and random clusters that have come to rest, to compare them after they were loaded."""

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from stowplan.api.catalogue import EVENTS
from stowplan.api.requests import Json
from stowplan.localcluster.apply.managedfields import plain_json
from stowplan.localcluster.store import Store

PRETEND = "pretend.stowplan.io/"
MOVING = ("lastHeartbeatTime", "renewTime")
"""Fields that change in an idle cluster: the heartbeats of nodes."""
ABOUT_THE_SERVER = ("kube-root-ca.crt", "cluster-info", "extension-apiserver-authentication")
"""ConfigMaps with the address of the API server and its CA: a loaded cluster has another server."""


def dump(store: Store) -> list[Json]:
    """Every object, as kubectl would print it; events apart, which say what has happened."""
    kinds = [resource for resource in store.catalogue if resource != EVENTS]
    objects = [obj for resource in kinds for obj in store.list(resource).items]
    found: list[Json] = msgspec.json.decode(msgspec.json.encode(objects, enc_hook=plain_json))
    return found


def comparable(objects: list[Json]) -> dict[tuple[str, ...], Any]:
    """Objects by kind, namespace and name, without what may differ."""
    found: dict[tuple[str, ...], Any] = {}
    for obj in objects:
        metadata = obj["metadata"]
        key = (obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"])
        if metadata["name"] not in ABOUT_THE_SERVER:
            found[key] = _without_moving(obj)
    return found


def _without_moving(data: Any) -> Any:
    if isinstance(data, dict):
        left = {key: value for key, value in data.items() if key not in MOVING}
        if left.get("reason") == "Unschedulable":
            # The last attempt may be older than a taint; a loaded cluster tries every pod that waits.
            left.pop("message", None)
        if "resourceVersion" in left.get("metadata", {}) and "kind" in left:
            left["metadata"] = {k: v for k, v in left["metadata"].items() if k != "resourceVersion"}
        return {
            key: _without_times(value) if key == "managedFields" else _without_moving(value)
            for key, value in left.items()
        }
    return [_without_moving(one) for one in data] if isinstance(data, list | tuple) else data


def _without_times(managed: Any) -> Any:
    """Managed fields without heartbeats, and without the times of writes, which move with them."""
    kept = [{key: value for key, value in one.items() if key != "time"} for one in managed]
    for one in kept:
        one["fieldsV1"] = _without_heartbeats(one.get("fieldsV1"))
    return [one for one in kept if one["fieldsV1"]]


def _without_heartbeats(fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    left = {key: _without_heartbeats(value) for key, value in fields.items()}
    return {
        key: value
        for key, value in left.items()
        if key.removeprefix("f:") not in MOVING and (value or not fields[key])
    }


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Where two dumps differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from differences(one.get(key), other.get(key), f"{place}.{key}")
    elif one != other:
        yield f"{place}: {one!r} became {other!r}"


def _container(cpu: int) -> Json:
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{cpu}m"}}}


def _template(name: str, cpu: int, **spec: Any) -> Json:
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [_container(cpu)], **spec}}


def _set(kind: str, name: str, template: Json, **spec: Any) -> Json:
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "busy"},
        "spec": {"selector": selector, "template": template, **spec},
    }


@st.composite
def workloads(draw: DrawFn, number: int) -> list[Json]:
    """A workload that comes to rest, and what belongs to it."""
    name, cpu = f"w{number}", draw(st.sampled_from([50, 500, 3000, 50_000]))
    kind = draw(
        st.sampled_from(["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Pod", "PVC"])
    )
    replicas = draw(st.integers(0, 3))
    template = _template(name, cpu)
    if kind == "DaemonSet":
        return [_set(kind, name, template)]
    if kind == "StatefulSet":
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "made", "resources": _storage()},
        }
        return [
            _set(kind, name, template, replicas=replicas, serviceName=name, volumeClaimTemplates=[claim]),
            _service(name),
        ]
    if kind == "Job":
        template["spec"]["restartPolicy"] = draw(st.sampled_from(["Never", "OnFailure"]))
        if draw(st.booleans()):
            template["metadata"]["annotations"] = {f"{PRETEND}run-seconds": "1000000"}
        return [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name, "namespace": "busy"},
                "spec": {"template": template, "completions": replicas, "parallelism": 2},
            }
        ]
    if kind == "Pod":
        outcome = draw(st.sampled_from(["Succeeded", "Failed"]))
        template["metadata"] |= {
            "name": name,
            "namespace": "busy",
            "annotations": {f"{PRETEND}outcome": outcome},
        }
        template["spec"]["restartPolicy"] = "Never"
        return [{"apiVersion": "v1", "kind": "Pod", **template}]
    if kind == "PVC":
        return [_volume(name), _claim(name)]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "busy"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }
    return [_set(kind, name, template, replicas=replicas), _service(name), budget]


def _storage() -> Json:
    return {"requests": {"storage": "1Gi"}}


def _service(name: str) -> Json:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "busy"},
        "spec": spec,
    }


def _volume(name: str) -> Json:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "storageClassName": "manual",
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def _claim(name: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "resources": _storage()}
    metadata = {"name": name, "namespace": "busy"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


STORAGE_CLASS: Json = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "made"},
    "provisioner": "pretend.stowplan.io/volumes",
}


def manifests() -> SearchStrategy[list[Json]]:
    """Manifests to apply to a cluster."""

    def all_of(count: int) -> SearchStrategy[list[Json]]:
        made = st.tuples(*(workloads(number) for number in range(count)))
        return made.map(lambda lists: [STORAGE_CLASS, *(one for some in lists for one in some)])

    return st.integers(1, 5).flatmap(all_of)


FAILURES = st.sampled_from(["", "", "Silent", "NotReady", "MemoryPressure"])
"""How the first node of a cluster fails."""
