"""Cases at the limits of what kube-apiserver admits: depth, exponents and sizes.

kube-apiserver reads JSON up to 10,000 levels deep, an exponent of a quantity may have any number of digits,
all annotations of an object may have 256 KiB together, and etcd takes 1.5 MiB. The embedded API server stops
at 100 levels: deep objects go to a scheduler over the wire.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.lab.fuzz.cases import ROOM, FuzzStep, node, pod
from stowplan.lab.fuzz.extremes import MOST_ANNOTATIONS, NAMESPACES, Json

DEEP: Final = 2_000
DEEPEST: Final = 9_000
"""Levels; kube-apiserver's decoder refuses more than 10,000."""

EXPONENT: Final = 10_000_000
"""Ten to the power of this takes seconds to build, and minutes to write in decimals."""

_LARGE: Final = 2_000_000
"""The exponents of cases with several: kube-apiserver takes eight seconds to admit one of ten million."""

LARGEST: Final = 1_450_000
"""Bytes of an object that etcd still takes with what the API server adds to it."""

_FUZZ: Final = NAMESPACES[0]
DRIVER: Final = "fuzz.example.com"


def nested(depth: int, opening: bytes = b'{"f:a":', innermost: bytes = b"{}") -> msgspec.Raw:
    """A JSON object in an object in an object, as text: encoders do not go so deep."""
    return msgspec.Raw(opening * depth + innermost + b"}" * depth)


def managed(resource: Resource, depth: int) -> list[Json]:
    """managedFields of an object whose fields are so deep."""
    return [
        {
            "manager": "fuzz",
            "operation": "Update",
            "apiVersion": resource.api_version,
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": nested(depth),
        }
    ]


def asking(name: str, *amounts: dict[str, str], **spec: Any) -> Json:
    """A pod whose containers request these amounts."""
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"requests": requests}}
        for number, requests in enumerate(amounts)
    ]
    return pod(name, containers=containers, **spec)


# Depth


def deep_pod(size: int) -> Iterable[FuzzStep]:
    """One pod of 16 KB: what manages its fields is 2,000 levels deep."""
    body = pod("deep")
    body["metadata"]["managedFields"] = managed(catalogue.PODS, DEEP)
    yield FuzzStep("create", catalogue.PODS, body, "metadata.managedFields")


def wide_fields(size: int) -> Iterable[FuzzStep]:
    """Pods as large as etcd takes them, in nothing but managedFields."""
    for number in range(2):
        body = pod(f"wide-{number}")
        entries = LARGEST // (8 * 90 + 150)
        body["metadata"]["managedFields"] = managed(catalogue.PODS, 90) * entries
        yield FuzzStep("create", catalogue.PODS, body, "metadata.managedFields (1.45 MB)")


WATCHED: Final[tuple[tuple[Resource, Json], ...]] = (
    (catalogue.NAMESPACES, {}),
    (catalogue.NODES, {"spec": {}, "status": {"capacity": ROOM, "allocatable": ROOM}}),
    (catalogue.PODS, {"spec": pod("")["spec"]}),
    (
        catalogue.PERSISTENT_VOLUMES,
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
            }
        },
    ),
    (
        catalogue.PERSISTENT_VOLUME_CLAIMS,
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    (catalogue.STORAGE_CLASSES, {"provisioner": "csi.example.com"}),
    (catalogue.CSI_DRIVERS, {"spec": {}}),
    (catalogue.CSI_NODES, {"spec": {"drivers": []}}),
    (catalogue.CSI_STORAGE_CAPACITIES, {"storageClassName": "class-0"}),
    (catalogue.POD_DISRUPTION_BUDGETS, {"spec": {"maxUnavailable": 1}}),
    (catalogue.SERVICES, {"spec": {"clusterIP": "None"}}),
    (
        catalogue.REPLICA_SETS,
        {
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "deep"}},
                "template": {
                    "metadata": {"labels": {"app": "deep"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            }
        },
    ),
    (catalogue.RESOURCE_CLAIMS, {"spec": {"devices": {}}}),
    (
        catalogue.RESOURCE_SLICES,
        {
            "spec": {
                "driver": DRIVER,
                "nodeName": "node-1",
                "pool": {"name": "deep", "generation": 1, "resourceSliceCount": 1},
                "devices": [],
            }
        },
    ),
    (catalogue.DEVICE_CLASSES, {"spec": {}}),
    (catalogue.POD_GROUPS, {"spec": {"schedulingPolicy": {"basic": {}}}}),
)
"""A small object of every kind that a scheduler watches."""


def deep_kinds(size: int) -> Iterable[FuzzStep]:
    """An object of every kind that a scheduler watches with managedFields 9,000 levels deep."""
    for resource, body in WATCHED:
        metadata: Json = {"name": "deep", "managedFields": managed(resource, DEEPEST)}
        if resource.namespaced:
            metadata["namespace"] = _FUZZ
        yield FuzzStep("create", resource, {**body, "metadata": metadata}, "metadata.managedFields")


def deep_parameters(size: int) -> Iterable[FuzzStep]:
    """Parameters of a driver, opaque to everything else, as deep as 10 KiB allow."""
    parameters = nested(2_000, b'{"":')
    config = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
    field = "spec.config[].opaque.parameters"
    yield FuzzStep(
        "create", catalogue.DEVICE_CLASSES, {"metadata": {"name": "deep"}, "spec": {"config": config}}, field
    )
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "deep", "allocationMode": "ExactCount", "count": 1},
    }
    claim: Json = {
        "metadata": {"name": "deep", "namespace": _FUZZ},
        "spec": {"devices": {"requests": [request], "config": config}},
    }
    yield FuzzStep("create", catalogue.RESOURCE_CLAIMS, claim, field)
    using = pod("deep", resourceClaims=[{"name": "c", "resourceClaimName": "deep"}])
    yield FuzzStep("create", catalogue.PODS, using)


# Objects that no API server sends, except a faulty one


_POISON: Final[dict[str, Any]] = {
    "a number for a name": {"metadata": {"name": 7}},
    "a text for a spec": {"metadata": {"name": "poison"}, "spec": "none"},
    "a list for metadata": {"metadata": []},
    "labels that are numbers": {"metadata": {"name": "poison", "labels": {"a": 1}}},
    "a number without end": {"metadata": {"name": "poison", "generation": msgspec.Raw(b"9" * 10_000)}},
    "half a surrogate": {"metadata": {"name": msgspec.Raw(rb'"\ud800"')}},
    "annotations without end": {"metadata": {"name": "poison", "annotations": nested(DEEPEST)}},
}


def poison(size: int) -> Iterable[FuzzStep]:
    """Objects of every kind that cannot be read, each in its way, among one that can."""
    for resource, ordinary in WATCHED:
        if resource == catalogue.NODES:
            continue
        for number, (what, body) in enumerate(_POISON.items()):
            metadata = body["metadata"]
            if isinstance(metadata, dict) and resource.namespaced:
                metadata = {"namespace": _FUZZ, **metadata}
            step = {**ordinary, **body, "metadata": metadata}
            yield FuzzStep("create", resource, step, f"{what} ({number})")


# Numbers


def one_exponent(size: int) -> Iterable[FuzzStep]:
    """One pod that asks for ten to the power of ten million CPUs."""
    body = asking("vast", {"cpu": f"1e{EXPONENT}"})
    yield FuzzStep("create", catalogue.PODS, body, "spec.containers[].resources (large exponent)")


def eight_exponents(size: int) -> Iterable[FuzzStep]:
    """Eight such pods, each with another exponent, so that none is known from before."""
    for number in range(8):
        body = asking(f"vast-{number}", {"cpu": f"1e{_LARGE + number}", "memory": f"7e{_LARGE + number}"})
        yield FuzzStep("create", catalogue.PODS, body, "spec.containers[].resources (large exponent)")


def small_exponents(size: int) -> Iterable[FuzzStep]:
    """Amounts so small that they round up to one of the smallest unit, or to nothing."""
    for number, text in enumerate((f"1e-{_LARGE}", f"0.{'0' * 50_000}1", f"{'1' * 50_000}e-50000")):
        body = asking(f"tiny-{number}", {"cpu": text, "memory": text})
        yield FuzzStep("create", catalogue.PODS, body, "spec.containers[].resources (negative exponent)")


def summed_exponents(size: int) -> Iterable[FuzzStep]:
    """Two containers, one of which asks for more digits than the other can be added to."""
    body = asking("sum", {"cpu": "1e100000"}, {"cpu": "1"}, {"cpu": "1e-9"})
    yield FuzzStep("create", catalogue.PODS, body, "spec.containers[].resources (large exponent)")


def exponents_elsewhere(size: int) -> Iterable[FuzzStep]:
    """Large exponents in every quantity that a scheduler reads."""
    vast = f"1e{_LARGE}"
    wide = node("wide")
    wide["status"] = {"capacity": {**ROOM, "cpu": vast}, "allocatable": {**ROOM, "cpu": vast, "memory": vast}}
    wide["spec"]["taints"] = [{"key": "wide", "effect": "NoSchedule"}]
    yield FuzzStep("create", catalogue.NODES, wide, "status.allocatable (large exponent)")
    tolerating = {"tolerations": [{"key": "wide", "operator": "Exists"}]}
    yield FuzzStep("create", catalogue.PODS, asking("on-wide", {"cpu": f"1e{_LARGE - 1}"}, **tolerating))
    volume = {"name": "scratch", "emptyDir": {"sizeLimit": vast}}
    yield FuzzStep("create", catalogue.PODS, pod("scratch", volumes=[volume]), "spec.volumes[].emptyDir")
    extended = {"example.com/thing": "1e30"}
    container = {"name": "c", "image": "i", "resources": {"limits": extended, "requests": extended}}
    yield FuzzStep("create", catalogue.PODS, pod("extended", containers=[container]), "extended resources")
    level = pod("level", containers=[{"name": "c", "image": "i"}])
    level["spec"]["resources"] = {"requests": {"memory": vast}}
    yield FuzzStep("create", catalogue.PODS, level, "spec.resources (large exponent)")


def vast_claims(size: int) -> Iterable[FuzzStep]:
    """Claims for volumes of ten to the power of two million bytes, and volumes of as many."""
    storage_class = {
        "metadata": {"name": "vast"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    yield FuzzStep("create", catalogue.STORAGE_CLASSES, storage_class)
    yield FuzzStep(
        "create",
        catalogue.CSI_DRIVERS,
        {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}},
    )
    capacity = {
        "metadata": {"name": "vast", "namespace": _FUZZ},
        "storageClassName": "vast",
        "capacity": f"1e{_LARGE}",
        "maximumVolumeSize": f"1e{_LARGE}",
        "nodeTopology": {},
    }
    yield FuzzStep("create", catalogue.CSI_STORAGE_CAPACITIES, capacity, "capacity (large exponent)")
    for number in range(3):
        storage = {"storage": f"1e{_LARGE + number}"}
        volume = {
            "metadata": {"name": f"vast-{number}"},
            "spec": {
                "capacity": storage,
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "vast",
                "hostPath": {"path": "/x"},
            },
        }
        yield FuzzStep("create", catalogue.PERSISTENT_VOLUMES, volume, "spec.capacity (large exponent)")
        claim = {
            "metadata": {"name": f"vast-{number}", "namespace": _FUZZ},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "vast",
                "resources": {"requests": {"storage": f"1e{_LARGE + 7 - number}"}},
            },
        }
        yield FuzzStep("create", catalogue.PERSISTENT_VOLUME_CLAIMS, claim, "spec.resources (large exponent)")
        mounted = {"name": "v", "persistentVolumeClaim": {"claimName": f"vast-{number}"}}
        yield FuzzStep("create", catalogue.PODS, pod(f"claims-{number}", volumes=[mounted]))


# Sizes


def full_annotations(size: int) -> Iterable[FuzzStep]:
    """Pods and a node whose annotations are as large as they may be together."""
    text = "\u202e" + "x" * (MOST_ANNOTATIONS - 64)
    for number in range(max(2, size // 500)):
        body = pod(f"annotated-{number}")
        body["metadata"]["annotations"] = {"note": text}
        yield FuzzStep("create", catalogue.PODS, body, "metadata.annotations (256 KiB)")
    for number in range(max(2, size // 500)):
        annotated = {"metadata": {"name": "node-1", "annotations": {"note": f"{number}{text}"}}}
        yield FuzzStep("patch", catalogue.NODES, annotated, "metadata.annotations (256 KiB)")


def full_objects(size: int) -> Iterable[FuzzStep]:
    """Pods as large as etcd takes them, in what no scheduler reads."""
    for number in range(max(2, size // 1000)):
        env = [{"name": f"E{one}", "value": "x" * 30_000} for one in range(LARGEST // 30_100)]
        body = pod(f"large-{number}", containers=[{"name": "c", "image": "i", "env": env}])
        yield FuzzStep("create", catalogue.PODS, body, "spec.containers[].env (1.45 MB)")
