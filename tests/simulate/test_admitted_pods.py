"""A pod as the simulator sees it is the pod that the API server stores."""

import asyncio
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from simulate.real_clusters import RESOURCES, World, done_for_real
from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PODS
from stowplan.api.decode import convert, convert_any
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.api.storage import PersistentVolumeClaim
from stowplan.simulate import Cluster
from stowplan.simulate.creation.manifests import ManifestReader
from stowplan.simulate.creation.pods import PodSource
from stowplan.simulate.snapshot.places import Place

CPU = st.sampled_from(["100m", "250m", "1", "3"])
ITEMS: list[Json] = [
    {"type": "Container", "default": {"cpu": "1"}},
    {"type": "Container", "default": {"cpu": "3", "memory": "1Gi"}, "defaultRequest": {"cpu": "250m"}},
    {"type": "Container", "max": {"cpu": "2"}},
    {"type": "Container", "min": {"cpu": "200m"}},
    {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
    {"type": "Pod", "max": {"cpu": "4"}},
    {"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}},
]
limit_ranges = st.lists(st.sampled_from(ITEMS), max_size=2, unique_by=lambda one: one["type"])
hard = st.dictionaries(
    st.sampled_from(["requests.cpu", "limits.cpu", "pods", "persistentvolumeclaims", "count/jobs.batch"]),
    st.sampled_from(["1", "2", "3", "5"]),
    max_size=2,
)
scopes = st.sampled_from([[], [], ["NotBestEffort"], ["NotTerminating"]])
overheads = st.sampled_from([{}, {"podFixed": {"cpu": "500m"}}, {"podFixed": {"cpu": "2", "memory": "64Mi"}}])
scheduling = st.sampled_from(
    [{}, {"nodeSelector": {"kata": "yes"}}, {"tolerations": [{"key": "kata", "operator": "Exists"}]}]
)


@st.composite
def surroundings(draw: st.DrawFn) -> list[Json]:
    """Objects that admission reads."""
    found: list[Json] = []
    for number, items in enumerate(draw(st.lists(limit_ranges, max_size=2))):
        if items:
            found.append(_object("v1", "LimitRange", f"limits-{number}", spec={"limits": items}))
    for number, amounts in enumerate(draw(st.lists(hard, max_size=2))):
        chosen = draw(scopes) if set(amounts) <= {"requests.cpu", "limits.cpu", "pods"} else []
        spec = {"hard": amounts, **({"scopes": chosen} if chosen else {})}
        found.append(_object("v1", "ResourceQuota", f"quota-{number}", spec=spec))
    kata: Json = {"handler": "kata", "overhead": draw(overheads), "scheduling": draw(scheduling)}
    found.append(_object("node.k8s.io/v1", "RuntimeClass", "kata", **{k: v for k, v in kata.items() if v}))
    gold: Json = {"value": 1000, "globalDefault": draw(st.booleans())}
    if draw(st.booleans()):
        gold["preemptionPolicy"] = "Never"
    found.append(_object("scheduling.k8s.io/v1", "PriorityClass", "gold", **gold))
    fast = _object("storage.k8s.io/v1", "StorageClass", "fast", provisioner="x")
    if draw(st.booleans()):
        fast["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return [*found, fast]


def _object(version: str, kind: str, name: str, **fields: Any) -> Json:
    metadata: Json = {"name": name}
    if RESOURCES[kind].namespaced:
        metadata["namespace"] = "default"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


@st.composite
def templates(draw: st.DrawFn) -> Json:
    container: Json = {"name": "c", "image": "c:1"}
    parts = draw(st.sampled_from([(), ("requests",), ("limits",), ("requests", "limits")]))
    if parts:
        amount = draw(CPU)
        container["resources"] = {part: {"cpu": amount} for part in parts}
    spec: Json = {"containers": [container]}
    if draw(st.booleans()):
        spec["initContainers"] = [{"name": "i", "image": "i:1"}]
    if draw(st.booleans()):
        spec["runtimeClassName"] = "kata"
    name = draw(st.sampled_from(["", "", "gold", "system-node-critical", "missing"]))
    if name:
        spec["priorityClassName"] = name
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    if draw(st.booleans()):
        claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        spec["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}]
    return {"metadata": {"labels": {"app": "web"}}, "spec": spec}


@st.composite
def workloads(draw: st.DrawFn) -> Json:
    template, replicas = draw(templates()), draw(st.integers(1, 4))
    selector = {"matchLabels": {"app": "web"}}
    kind = draw(st.sampled_from(["Pod", "Deployment", "ReplicaSet", "StatefulSet", "Job"]))
    if kind == "Pod":
        return {
            **_object("v1", "Pod", "web"),
            **template,
            "metadata": {"name": "web", "labels": {"app": "web"}},
        }
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec: Json = {"parallelism": replicas, "completions": replicas, "template": template}
        if draw(st.booleans()):
            spec["completionMode"] = "Indexed"
        return _object("batch/v1", kind, "web", spec=spec)
    spec = {"replicas": replicas, "selector": selector, "template": template}
    if kind == "StatefulSet":
        spec |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
        if draw(st.booleans()):
            size = draw(st.sampled_from(["1Gi", "9Gi"]))
            claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
            spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return _object("apps/v1", kind, "web", spec=spec)


def stored(around: list[Json], workload: Json) -> World:
    """Result of controllers and API server; no scheduler."""

    async def story(world: World) -> None:
        world.create(*around)
        await asyncio.sleep(2.0)
        try:
            world.create(workload)
        except ApiError as error:
            world.refusal = error.message
        await asyncio.sleep(8.0)

    return done_for_real([], story, None)


def simulated(around: list[Json], workload: Json) -> tuple[Cluster, list[Pod], str]:
    objects: list[Object] = []
    for body in around:
        obj = convert_any(body)
        assert obj is not None
        objects.append(obj)
    cluster = Cluster(objects)
    reader = ManifestReader()
    assert reader.take_in(workload, Place("app.yaml", ""))
    source = PodSource(cluster, reader.found.workloads[0])
    return cluster, source.create(reader.found.workloads[0].replicas), source.refusal


def comparable(pod: Pod) -> bytes:
    """A pod without what a random number or the clock decides."""
    owners = tuple(replace(one, uid="") for one in pod.metadata.owner_references)
    labels = {key: value for key, value in pod.metadata.labels.items() if "controller-uid" not in key}
    volumes = tuple(one for one in pod.spec.volumes if not one.name.startswith("kube-api-access-"))
    metadata = replace(
        pod.metadata,
        name="",
        generate_name="",
        uid="",
        resource_version="",
        creation_timestamp="",
        owner_references=owners,
        labels=labels,
    )
    assert len(pod.spec.volumes) - len(volumes) == 1
    return msgspec.json.encode(
        replace(pod, metadata=metadata, spec=replace(pod.spec, volumes=volumes)), order="deterministic"
    )


_CLAIM: Json = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
CLAIMS_OF_TWO_KINDS: Json = _object(
    "apps/v1",
    "StatefulSet",
    "web",
    spec={
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "serviceName": "web",
        "podManagementPolicy": "Parallel",
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "c", "image": "c:1"}],
                "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": _CLAIM}}],
            },
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, **_CLAIM}],
    },
)
"""Its own claims come before those that other controllers make for its pods."""
TWO_CLAIMS: Json = _object("v1", "ResourceQuota", "quota", spec={"hard": {"persistentvolumeclaims": "2"}})
ONE_JOB: Json = _object("v1", "ResourceQuota", "quota", spec={"hard": {"count/jobs.batch": "1"}})
A_JOB: Json = _object(
    "batch/v1",
    "Job",
    "web",
    spec={
        "parallelism": 1,
        "completions": 1,
        "template": {"spec": {"containers": [{"name": "c", "image": "c:1"}], "restartPolicy": "Never"}},
    },
)
"""Snapshots have no Jobs to count."""


@settings(max_examples=25, deadline=None)
@given(around=surroundings(), workload=workloads())
@example(around=[TWO_CLAIMS], workload=CLAIMS_OF_TWO_KINDS)
@example(around=[ONE_JOB], workload=A_JOB)
def test_a_pod_of_the_simulator_is_the_pod_that_the_api_server_stores(
    around: list[Json], workload: Json
) -> None:
    world = stored(around, workload)
    cluster, pods, refusal = simulated(around, workload)
    there = [convert(body, Pod) for body in world.store.list(PODS).items]
    assert sorted(map(comparable, pods)) == sorted(map(comparable, there))
    assert bool(refusal) == bool(world.refusal or world.events("FailedCreate"))
    claims = {
        obj.name.partition("-")[0]: (obj.spec.storage_class_name, obj.spec.access_modes)
        for obj in cluster.objects.values()
        if isinstance(obj, PersistentVolumeClaim)
    }
    assert claims == {
        body["metadata"]["name"].partition("-")[0]: (
            body["spec"].get("storageClassName"),
            tuple(body["spec"]["accessModes"]),
        )
        for body in world.store.list(PERSISTENT_VOLUME_CLAIMS).items
    }
