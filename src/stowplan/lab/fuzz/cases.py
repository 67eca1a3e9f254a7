"""Cases: what is written to the API server, in which order; ordinary objects, and random cases by seed.

The named cases are in corpus.py.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.lab.fuzz.extremes import (
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

ROOM: Final = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}


class FuzzStep(NamedTuple):
    """One write. `verb` is create, recreate, reuse-uid, patch, status, delete or wait (for the scheduler).

    Parts of a body may be `msgspec.Raw`: text that is deeper than an encoder goes.
    """

    verb: str
    resource: Resource = catalogue.PODS
    body: Json = {}  # noqa: RUF012 - a field of a tuple, never changed
    field: str = ""

    @property
    def key(self) -> tuple[str, str]:
        metadata = self.body["metadata"]
        return metadata.get("namespace", ""), metadata["name"]

    @property
    def sent(self) -> bytes:
        """The body as a client sends it."""
        described = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **self.body}
        return msgspec.json.encode(described)

    def __str__(self) -> str:
        if self.verb == "wait":
            return "wait"
        text = f"{self.verb} {self.resource.plural} {self.body['metadata']['name']}"
        return f"{text}, {self.field}" if self.field else text


STORE: Final = "store"
"""The case is written to a store in this process."""

WIRE: Final = "wire"
"""The embedded API server refuses what a real one admits: a scheduler is sent the bodies as they are."""


class FuzzCase(NamedTuple):
    """Writes under one name. The objects they create are deleted afterwards.

    `route` is their way to a scheduler in this process. `half` is the case at half the size: the whole may
    cost twice as much. `groups`: the scheduler needs the feature gates of groups of pods. `lies`: no API
    server would admit it, only a faulty one sends it. `hold_ms`: the time it may hold the event loop, in
    place of the run's limit.
    """

    name: str
    steps: tuple[FuzzStep, ...]
    route: str = STORE
    half: "FuzzCase | None" = None
    groups: bool = False
    lies: bool = False
    hold_ms: float | None = None

    @property
    def is_endless(self) -> bool:
        """Nothing is written: a faulty server sends a list whose first object does not end."""
        return self.route == WIRE and not any(step.verb != "wait" for step in self.steps)

    @property
    def fields(self) -> str:
        """The extremes in it, for reports."""
        found = dict.fromkeys(f"{one.resource.kind} {one.field}" for one in self.steps if one.field)
        return ", ".join(found) or "nothing extreme"


def node(name: str, **labels: str) -> Json:
    """An ordinary node."""
    number = sum(map(ord, name))
    own = {HOSTNAME: name, ZONE: f"zone-{number % 3}", "disk": "ssd" if number % 2 else "hdd", **labels}
    status = {"capacity": ROOM, "allocatable": ROOM}
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


def random_case(seed: int, size: int, nodes: int) -> FuzzCase:
    """The case of a seed: extreme objects in any order, then changes to them."""
    return FuzzCase(f"seed {seed}", _RandomCase(Random(f"case {seed}"), size, nodes).steps())


class _RandomCase:
    def __init__(self, rng: Random, size: int, nodes: int) -> None:
        self._rng = rng
        self._size = size
        self._nodes = nodes
        self._known: dict[tuple[Resource, str, str], FuzzStep] = {}

    def steps(self) -> tuple[FuzzStep, ...]:
        rng = self._rng
        steps = [self._create(number) for number in range(rng.randrange(4, 12))]
        steps += [
            FuzzStep("create", catalogue.PODS, ordinary(catalogue.PODS, rng, 100 + n)) for n in range(3)
        ]
        rng.shuffle(steps)
        for _ in range(rng.randrange(2, 8)):
            steps += [FuzzStep("wait"), self._change()]
        return (*steps, FuzzStep("wait"))

    def _create(self, number: int) -> FuzzStep:
        rng = self._rng
        first = rng.choice(EXTREMES) if rng.random() < 0.5 else rng.choice(extremes_of(catalogue.PODS))
        body = ordinary(first.resource, rng, number)
        fields = [self._apply(body, first)]
        while rng.random() < 0.4:
            fields.append(self._apply(body, rng.choice(extremes_of(first.resource))))
        if first.resource == catalogue.PODS and rng.random() < 0.2:
            body["spec"]["nodeName"] = self._node()
        step = FuzzStep("create", first.resource, body, " and ".join(field for field in fields if field))
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

    def _change(self) -> FuzzStep:
        rng = self._rng
        kind = rng.randrange(8)
        if kind == 0:
            return self._shrink()
        if kind == 1:
            name = self._node()
            return FuzzStep("recreate", catalogue.NODES, node(name, disk="hdd"), "the same name again")
        step = rng.choice(list(self._known.values()))
        if kind == 2:
            return FuzzStep("delete", step.resource, step.body)
        if kind == 3:
            return FuzzStep("recreate", step.resource, step.body, "the same name again")
        if kind == 4 and step.resource == catalogue.PODS:
            return FuzzStep("reuse-uid", step.resource, step.body, "the same uid again")
        if kind < 6:
            return self._relabel(step)
        return self._create(rng.randrange(20, 40))

    def _shrink(self) -> FuzzStep:
        allocatable = {"cpu": self._rng.choice(("0", "1n", "1m")), "memory": "1", "pods": "1"}
        body = {"metadata": {"name": self._node()}, "status": {"allocatable": allocatable}}
        return FuzzStep("status", catalogue.NODES, body, "status.allocatable shrinks")

    def _relabel(self, step: FuzzStep) -> FuzzStep:
        labels = {"app": self._rng.choice(APPS), f"l{self._rng.getrandbits(16)}": "x"}
        metadata = {**dict(zip(("namespace", "name"), step.key, strict=True)), "labels": labels}
        return FuzzStep("patch", step.resource, {"metadata": metadata}, "metadata.labels change")

    def _node(self) -> str:
        return f"node-{self._rng.randrange(min(self._nodes, 10))}"
