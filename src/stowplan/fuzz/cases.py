"""Cases: what is written to the API server, in which order. Random ones by seed, and a named corpus.

The corpus holds what has once brought a scheduler down or fooled it; it always runs.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.fuzz.extremes import (
    APPS,
    EXTREMES,
    LARGEST_OBJECT,
    NAMESPACES,
    PRIORITIES,
    Extreme,
    Json,
    extremes_of,
)
from stowplan.testing.builders import HOSTNAME, ZONE

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ROOM: Final = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}


class Step(NamedTuple):
    """One write. `verb` is create, recreate, reuse-uid, patch, status, delete or wait (for the scheduler)."""

    verb: str
    resource: Resource = catalogue.PODS
    body: Json = {}  # noqa: RUF012 - a field of a tuple, never changed
    field: str = ""

    @property
    def key(self) -> tuple[str, str]:
        metadata = self.body["metadata"]
        return metadata.get("namespace", ""), metadata["name"]

    def __str__(self) -> str:
        if self.verb == "wait":
            return "wait"
        text = f"{self.verb} {self.resource.plural} {self.body['metadata']['name']}"
        return f"{text}, {self.field}" if self.field else text


class Case(NamedTuple):
    """Writes under one name. What they create is deleted afterwards."""

    name: str
    steps: tuple[Step, ...]

    @property
    def fields(self) -> str:
        """The extremes in it, for reports."""
        found = dict.fromkeys(f"{one.resource.kind} {one.field}" for one in self.steps if one.field)
        return ", ".join(found) or "nothing extreme"


def node(name: str, **labels: str) -> Json:
    """An ordinary node."""
    number = sum(map(ord, name))
    own = {HOSTNAME: name, ZONE: f"zone-{number % 3}", "disk": "ssd" if number % 2 else "hdd", **labels}
    status = {"capacity": _ROOM, "allocatable": _ROOM}
    return {"metadata": {"name": name, "labels": own}, "spec": {}, "status": status}


def pod(name: str, namespace: str = NAMESPACES[0], app: str = "a", **spec: Any) -> Json:
    """An ordinary pod."""
    container = {"name": "main", "image": "image-1", "resources": {"requests": {"cpu": "10m"}}}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def ordinary(resource: Resource, rng: Random, number: int) -> Json:
    """An object of a kind without anything extreme about it."""
    body = _ORDINARY[resource](rng, number)
    body.setdefault("metadata", {}).setdefault("name", f"{resource.plural}-{number}")
    if resource.namespaced:
        body["metadata"].setdefault("namespace", rng.choice(NAMESPACES))
    return body


_TEMPLATE: Final = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}
_CLASS: Final = {"provisioner": "csi.example.com", "reclaimPolicy": "Delete"}
_ORDINARY: Final[dict[Resource, Callable[[Random, int], Json]]] = {
    catalogue.PODS: lambda rng, n: pod(f"pod-{n}", rng.choice(NAMESPACES), rng.choice(APPS)),
    catalogue.NODES: lambda rng, n: node(f"extra-{n}"),
    catalogue.PERSISTENT_VOLUMES: lambda rng, n: {
        "metadata": {"name": f"volume-{n % 3}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": f"class-{n % 3}",
            "hostPath": {"path": "/"},
        },
    },
    catalogue.PERSISTENT_VOLUME_CLAIMS: lambda rng, n: {
        "metadata": {"name": f"claim-{n % 3}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"class-{n % 3}",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    },
    catalogue.STORAGE_CLASSES: lambda rng, n: {
        "metadata": {"name": f"class-{n % 3}"},
        "volumeBindingMode": rng.choice(("WaitForFirstConsumer", "Immediate")),
        **_CLASS,
    },
    catalogue.CSI_NODES: lambda rng, n: {"metadata": {"name": f"node-{n % 3}"}, "spec": {"drivers": []}},
    catalogue.CSI_DRIVERS: lambda rng, n: {"metadata": {"name": "csi.example.com"}, "spec": {}},
    catalogue.CSI_STORAGE_CAPACITIES: lambda rng, n: {"storageClassName": f"class-{n % 3}"},
    catalogue.POD_DISRUPTION_BUDGETS: lambda rng, n: {
        "spec": {"selector": {"matchLabels": {"app": rng.choice(APPS)}}, "maxUnavailable": 0}
    },
    catalogue.SERVICES: lambda rng, n: {"spec": {"clusterIP": "None", "selector": {"app": rng.choice(APPS)}}},
    catalogue.REPLICATION_CONTROLLERS: lambda rng, n: {
        "spec": {"replicas": 0, "selector": {"app": "a"}, "template": _TEMPLATE}
    },
    catalogue.REPLICA_SETS: lambda rng, n: {
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": _TEMPLATE}
    },
    catalogue.STATEFUL_SETS: lambda rng, n: {
        "spec": {
            "replicas": 0,
            "serviceName": "s",
            "selector": {"matchLabels": {"app": "a"}},
            "template": _TEMPLATE,
        }
    },
    catalogue.NAMESPACES: lambda rng, n: {"metadata": {"name": f"ns-{n}"}},
    catalogue.PRIORITY_CLASSES: lambda rng, n: {"value": rng.choice((-(2**31), 1_000_000_000))},
}


def base(nodes: int) -> Iterable[tuple[Resource, Json]]:
    """The objects of every run, in which cases then happen."""
    for name in NAMESPACES:
        yield catalogue.NAMESPACES, {"metadata": {"name": name}}
    for name, value in PRIORITIES.items():
        yield catalogue.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value}
    for number in range(nodes):
        yield catalogue.NODES, node(f"node-{number}", generation=str(number % 5))


# Random cases


def random_case(seed: int, size: int, nodes: int) -> Case:
    """The case of a seed: extreme objects in any order, then changes to them."""
    return Case(f"seed {seed}", _RandomCase(Random(f"case {seed}"), size, nodes).steps())


class _RandomCase:
    def __init__(self, rng: Random, size: int, nodes: int) -> None:
        self._rng = rng
        self._size = size
        self._nodes = nodes
        self._known: dict[tuple[Resource, str, str], Step] = {}

    def steps(self) -> tuple[Step, ...]:
        rng = self._rng
        steps = [self._create(number) for number in range(rng.randrange(4, 12))]
        steps += [Step("create", catalogue.PODS, ordinary(catalogue.PODS, rng, 100 + n)) for n in range(3)]
        rng.shuffle(steps)
        for _ in range(rng.randrange(2, 8)):
            steps += [Step("wait"), self._change()]
        return (*steps, Step("wait"))

    def _create(self, number: int) -> Step:
        rng = self._rng
        first = rng.choice(EXTREMES) if rng.random() < 0.5 else rng.choice(extremes_of(catalogue.PODS))
        body = ordinary(first.resource, rng, number)
        fields = [self._apply(body, first)]
        while rng.random() < 0.4:
            fields.append(self._apply(body, rng.choice(extremes_of(first.resource))))
        if first.resource == catalogue.PODS and rng.random() < 0.2:
            body["spec"]["nodeName"] = self._node()
        step = Step("create", first.resource, body, " and ".join(field for field in fields if field))
        self._known[first.resource, *step.key] = step
        return step

    def _apply(self, body: Json, extreme: Extreme) -> str:
        """Change a field, unless the object would become larger than an API server takes."""
        before = msgspec.json.decode(msgspec.json.encode(body))
        extreme.change(self._rng, self._size, body)
        if len(msgspec.json.encode(body)) <= LARGEST_OBJECT:
            return extreme.field
        body.clear()
        body.update(before)
        return ""

    def _change(self) -> Step:
        rng = self._rng
        kind = rng.randrange(8)
        if kind == 0:
            return self._shrink()
        if kind == 1:
            name = self._node()
            return Step("recreate", catalogue.NODES, node(name, disk="hdd"), "the same name again")
        step = rng.choice(list(self._known.values()))
        if kind == 2:
            return Step("delete", step.resource, step.body)
        if kind == 3:
            return Step("recreate", step.resource, step.body, "the same name again")
        if kind == 4 and step.resource == catalogue.PODS:
            return Step("reuse-uid", step.resource, step.body, "the same uid again")
        if kind < 6:
            return self._relabel(step)
        return self._create(rng.randrange(20, 40))

    def _shrink(self) -> Step:
        allocatable = {"cpu": self._rng.choice(("0", "1n", "1m")), "memory": "1", "pods": "1"}
        body = {"metadata": {"name": self._node()}, "status": {"allocatable": allocatable}}
        return Step("status", catalogue.NODES, body, "status.allocatable shrinks")

    def _relabel(self, step: Step) -> Step:
        labels = {"app": self._rng.choice(APPS), f"l{self._rng.getrandbits(16)}": "x"}
        metadata = {**dict(zip(("namespace", "name"), step.key, strict=True)), "labels": labels}
        return Step("patch", step.resource, {"metadata": metadata}, "metadata.labels change")

    def _node(self) -> str:
        return f"node-{self._rng.randrange(min(self._nodes, 10))}"


# The corpus


def _wrapping_sums(size: int) -> Iterable[Step]:
    """Requests on two nodes exceed an int64 together; pods may run on those two nodes only."""
    huge = {"name": "main", "image": "i", "resources": {"requests": {"memory": "7Ei"}}}
    for name in ("node-1", "node-2"):
        for number in range(2):
            body = pod(f"huge-{name}-{number}", nodeName=name, containers=[huge])
            yield Step("create", catalogue.PODS, body, "spec.containers[].resources that wrap in a sum")
    yield Step("wait")
    wanted = {"key": HOSTNAME, "operator": "In", "values": ["node-1", "node-2"]}
    required = {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    empty = {"name": "main", "image": "i"}
    for number in range(4):
        yield Step(
            "create",
            catalogue.PODS,
            pod(f"small-{number}", affinity={"nodeAffinity": required}, containers=[empty]),
        )


def _node_selector_keys(size: int) -> Iterable[Step]:
    """One pod with 10,000 node selector keys that no node has."""
    selector = {f"key-{number}": "x" for number in range(size)}
    yield Step("create", catalogue.PODS, pod("keys", nodeSelector=selector), "spec.nodeSelector")


def _node_affinity_keys(size: int) -> Iterable[Step]:
    """The same as one node affinity term each."""
    terms = [{"matchExpressions": [{"key": f"key-{number}", "operator": "Exists"}]} for number in range(size)]
    affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    yield Step("create", catalogue.PODS, pod("terms", affinity=affinity), "spec.affinity.nodeAffinity")


def _resource_names(size: int) -> Iterable[Step]:
    """One pod with 20,000 extended resources, which only waits."""
    amounts = {f"example.com/r{number}": "1" for number in range(2 * size)}
    container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    field = "spec.containers[].resources (extended resources)"
    yield Step("create", catalogue.PODS, pod("resources", containers=[container]), field)


def _resource_kinds(size: int) -> Iterable[Step]:
    """A pod with more kinds of resources than bits in a word, that one node offers."""
    amounts = {f"example.com/kind-{number}": "1" for number in range(70)}
    offering = node("offering")
    offering["status"]["allocatable"] = {**_ROOM, **amounts}
    container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    field = "spec.containers[].resources (70 kinds)"
    yield Step("create", catalogue.NODES, offering)
    yield Step("create", catalogue.PODS, pod("kinds", containers=[container]), field)


def _taint_values(size: int) -> Iterable[Step]:
    """An autoscaler writes the time into a taint, again and again."""
    for number in range(size):
        taint = {"key": "autoscaler", "value": f"{number}", "effect": "PreferNoSchedule"}
        body = {"metadata": {"name": "node-1"}, "spec": {"taints": [taint]}}
        yield Step("patch", catalogue.NODES, body, "spec.taints")
        if number % 500 == 499:
            yield Step("wait")
    yield Step("create", catalogue.PODS, pod("after-taints", app="b"))


def _label_values(size: int) -> Iterable[Step]:
    """A label that pods are spread over gets a new value all the time."""
    constraint = {
        "topologyKey": "rack",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    yield Step("create", catalogue.PODS, pod("spread", topologySpreadConstraints=[constraint]))
    for number in range(size):
        body = {"metadata": {"name": "node-1", "labels": {"rack": f"r{number}"}}}
        yield Step("patch", catalogue.NODES, body, "metadata.labels")
        if number % 500 == 499:
            yield Step("wait")


def _anti_affinity_terms(size: int) -> Iterable[Step]:
    """Many anti-affinity terms with a topology key of their own each."""
    terms = [
        {"topologyKey": f"key-{number}", "labelSelector": {"matchLabels": {"app": f"x{number}"}}}
        for number in range(size)
    ]
    body = pod("anti", affinity={"podAntiAffinity": {_REQUIRED: terms}})
    yield Step("create", catalogue.PODS, body, "spec.affinity.podAntiAffinity")
    yield Step("create", catalogue.PODS, pod("beside"))


def _disk_monitors(size: int) -> Iterable[Step]:
    """Many in-tree disks with many monitors each, as large as an object may be."""
    each = max(size // 50, 10)
    monitors = [f"10.0.0.{number}:6789" for number in range(each)]
    volumes = [
        {"name": f"v{number}", "rbd": {"monitors": monitors, "image": f"i{number}"}}
        for number in range(max(1, min(size, LARGEST_OBJECT // (each * 20))))
    ]
    field = "spec.volumes[].rbd.monitors"
    yield Step("create", catalogue.PODS, pod("disks", volumes=volumes), field)
    yield Step("create", catalogue.PODS, pod("disks-too", volumes=volumes), field)


def _csi_drivers(size: int) -> Iterable[Step]:
    """A node with thousands of CSI drivers, that come and go."""
    drivers = [
        {"name": f"d{number}.example.com", "nodeID": "n", "allocatable": {"count": number % 3}}
        for number in range(size // 2)
    ]
    body = {"metadata": {"name": "node-1"}, "spec": {"drivers": drivers}}
    yield Step("create", catalogue.CSI_NODES, body, "spec.drivers")
    yield Step("wait")
    yield Step("recreate", catalogue.NODES, node("node-1"), "the same name again")


_CORPUS: Final[dict[str, Callable[[int], Iterable[Step]]]] = {
    "sums of requests that wrap": _wrapping_sums,
    "10,000 node selector keys": _node_selector_keys,
    "10,000 node affinity terms": _node_affinity_keys,
    "20,000 extended resources": _resource_names,
    "70 kinds of resources in one pod": _resource_kinds,
    "taint values that are never seen again": _taint_values,
    "label values that are never seen again": _label_values,
    "10,000 anti-affinity terms": _anti_affinity_terms,
    "in-tree disks with many monitors": _disk_monitors,
    "5,000 CSI drivers of one node": _csi_drivers,
}


def corpus(size: int) -> list[Case]:
    """The named cases, with lists of about `size` entries."""
    return [Case(name, (*make(size), Step("wait"))) for name, make in _CORPUS.items()]
