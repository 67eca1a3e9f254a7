"""Pods as large as an API server accepts them, each tried once on a large cluster: duration of an attempt.

Anyone with the right to create pods may create these, and a scheduler that spends seconds on one of them does
nothing else meanwhile. Every case is a pod of a separate class, so no earlier result can be reused.
"""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import thread_time
from typing import Any

import msgspec

from stowplan.api.decode import decode
from stowplan.api.meta import Namespace, Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.config import default_profile
from stowplan.lab.bench.engine.workloads import HOSTNAME, ZONE, ZONES
from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable, load

Document = dict[str, Any]
Case = Callable[[int], Document]
"""Makes the spec of a pod, given the number of its repeated parts."""

NAMESPACE = "bench"
SIZE = "example.com/size"
"""A label with a distinct number on every node."""
LADEN = "laden"
"""The node that has as many labels as the pods ask for."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class HostileAttempt:
    """Measured figures of one case, in CPU milliseconds: the first attempt, and one more like it."""

    case: str
    first_ms: float
    again_ms: float
    node: str | None


def measure(nodes: int, count: int, only: str = "") -> Iterator[HostileAttempt]:
    """Try every case whose name has a text in it, one after the other."""
    table = ClusterTable()
    load(table, _cluster(nodes, count))
    framework = Framework(default_profile(), table, in_tree_registry())
    gc.collect()
    gc.freeze()
    try:
        for name, case in CASES.items():
            if only in name:
                yield _attempt(framework, name, _pod(name, case(count)))
                framework.forget_classes()
    finally:
        gc.unfreeze()


def _attempt(framework: Framework, case: str, pod: Pod) -> HostileAttempt:
    gc.collect()
    began = thread_time()
    info = framework.table.info(pod)
    evaluation = framework.evaluate(info)
    row = choose_node(evaluation, lambda ties: 0)[0] if evaluation.feasible_count else None
    first = thread_time()
    framework.evaluate(framework.table.info(pod))
    again = thread_time()
    node = None if row is None else framework.table.name_of(row)
    return HostileAttempt(case, round((first - began) * 1000, 1), round((again - first) * 1000, 1), node)


# The cluster


def _cluster(nodes: int, count: int) -> Iterator[Object]:
    """Nodes with a taint of their own each, one of them with very many labels; namespaces, and some pods."""
    for number in range(nodes):
        yield _node(f"node-{number:05}", number, {})
    yield _node(LADEN, nodes, {f"example.com/own-{i}": "x" for i in range(count)})
    for number in range(count):
        labels = {f"team-{number}": "x", "all": "x"}
        yield decode(_encode(_object("Namespace", f"team-{number}", labels=labels)), Namespace)
    for number in range(nodes):
        spec = {"nodeName": f"node-{number:05}", "containers": [_container()]}
        document = _object("Pod", f"p{number}", NAMESPACE, spec, {f"app-{number}": "x", "all": "x"})
        yield decode(_encode(document), Pod)


def _node(name: str, number: int, labels: dict[str, str]) -> Node:
    zone = ZONES[number % len(ZONES)]
    room = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    own = {"key": "example.com/since", "value": str(number), "effect": "PreferNoSchedule"}
    labels = {HOSTNAME: name, ZONE: zone, SIZE: str(number), **labels}
    document = _object("Node", name, "", {"taints": [own]}, labels) | {"status": {"allocatable": room}}
    return decode(_encode(document), Node)


def _object(
    kind: str, name: str, namespace: str = "", spec: Document | None = None, labels: Document | None = None
) -> Document:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": f"{kind}-{name}", "labels": labels or {}},
        "spec": spec or {},
    }


def _pod(name: str, spec: Document) -> Pod:
    spec = {"containers": [_container()], **spec}
    document = _object("Pod", "hostile", NAMESPACE, spec, {"case": name.replace(" ", "-")})
    return decode(_encode(document), Pod)


def _container(**about: Any) -> Document:
    return {"name": "c", "image": "registry.example/app:1", **about}


# The cases


def _required(*terms: Document) -> Document:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": rule}}


def _preferred(*terms: Document) -> Document:
    listed = [{"weight": 1 + number % 100, "preference": term} for number, term in enumerate(terms)]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": listed}}}


def _is(key: str, operator: str, *values: str) -> Document:
    return {"key": key, "operator": operator, "values": values}


def _expressions(*demands: Document) -> Document:
    return {"matchExpressions": demands}


def _host(number: int) -> str:
    return f"node-{number:05}"


def _one_each(demand: Callable[[int], Document]) -> Callable[[int], list[Document]]:
    return lambda count: [_expressions(demand(i)) for i in range(count)]


_TERMS: dict[str, Callable[[int], list[Document]]] = {
    "hosts": _one_each(lambda i: _is(HOSTNAME, "In", _host(i))),
    "unknown keys": _one_each(lambda i: _is(f"example.com/none-{i}", "Exists")),
    "keys of one node": _one_each(lambda i: _is(f"example.com/own-{i}", "In", "x", "y")),
    "not on hosts": _one_each(lambda i: _is(HOSTNAME, "NotIn", _host(i))),
    "bounds": _one_each(lambda i: _is(SIZE, "Gt" if i % 2 else "Lt", str(i))),
    "zone and host": lambda count: [
        _expressions(_is(ZONE, "In", ZONES[i % 3]), _is(HOSTNAME, "In", _host(i))) for i in range(count)
    ],
    "zone and not on host": lambda count: [
        _expressions(_is(ZONE, "In", ZONES[i % 3]), _is(HOSTNAME, "NotIn", _host(i))) for i in range(count)
    ],
    "names": lambda count: [{"matchFields": [_is("metadata.name", "In", _host(i))]} for i in range(count)],
    "not names": lambda count: [
        {"matchFields": [_is("metadata.name", "NotIn", _host(i))]} for i in range(count)
    ],
}


def _spread(key: Callable[[int], str], action: str) -> Case:
    def case(count: int) -> Document:
        constraints = [
            {
                "topologyKey": key(i),
                "maxSkew": 1,
                "whenUnsatisfiable": action,
                "labelSelector": {"matchLabels": {"all": "x"}},
            }
            for i in range(count)
        ]
        return {"topologySpreadConstraints": constraints}

    return case


def _neighbours(kind: str, weight: bool, key: Callable[[int], str], **fixed: Any) -> Case:
    def case(count: int) -> Document:
        terms = [
            {"topologyKey": key(i), "labelSelector": {"matchLabels": {f"app-{i}": "x"}}, **fixed}
            for i in range(count)
        ]
        if weight:
            terms = [{"weight": 1 + i % 100, "podAffinityTerm": term} for i, term in enumerate(terms)]
        rule = ("preferred" if weight else "required") + "DuringSchedulingIgnoredDuringExecution"
        return {"affinity": {kind: {rule: terms}}}

    return case


def _one_neighbour(**about: Any) -> Document:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"all": "x"}}, **about}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _tolerations(count: int) -> Document:
    listed = [
        {"key": "example.com/since", "operator": "Equal", "value": str(i), "effect": "PreferNoSchedule"}
        for i in range(0, 2 * count, 2)
    ]
    return {"tolerations": listed}


def _requests(count: int) -> Document:
    amounts = {f"example.com/resource-{i}": "1" for i in range(count)}
    return {"containers": [_container(resources={"requests": amounts})]}


CASES: dict[str, Case] = {
    "nodeSelector, unknown keys": lambda n: {
        "nodeSelector": {f"example.com/none-{i}": "x" for i in range(n)}
    },
    "nodeSelector, keys of one node": lambda n: {
        "nodeSelector": {f"example.com/own-{i}": "x" for i in range(n)}
    },
    "one term, keys nobody may have": lambda n: _required(
        _expressions(*(_is(f"example.com/none-{i}", "DoesNotExist") for i in range(n)))
    ),
    "one term, keys one node has": lambda n: _required(
        _expressions(*(_is(f"example.com/own-{i}", "DoesNotExist") for i in range(n)))
    ),
    "one term, not on hosts": lambda n: _required(
        _expressions(*(_is(HOSTNAME, "NotIn", _host(i)) for i in range(n)))
    ),
    "one term, bounds": lambda n: _required(_expressions(*(_is(SIZE, "Lt", str(n + i)) for i in range(n)))),
    "one term, bounds on host names": lambda n: _required(
        _expressions(*(_is(HOSTNAME, "Lt", str(i)) for i in range(n)))
    ),
    "one term, zones": lambda n: _required(
        _expressions(*(_is(ZONE, "In", ZONES[i % 2], ZONES[2], f"z{i}") for i in range(n)))
    ),
    "values": lambda n: _required(_expressions(_is(HOSTNAME, "In", *(_host(2 * i) for i in range(n))))),
    "values that must not be": lambda n: _required(
        _expressions(_is(HOSTNAME, "NotIn", *(_host(2 * i) for i in range(n))))
    ),
    **{f"required terms, {name}": lambda n, t=terms: _required(*t(n)) for name, terms in _TERMS.items()},  # type: ignore[misc]
    **{f"preferred terms, {name}": lambda n, t=terms: _preferred(*t(n)) for name, terms in _TERMS.items()},  # type: ignore[misc]
    "spread, unknown keys": _spread(lambda i: f"example.com/none-{i}", "DoNotSchedule"),
    "spread, keys of one node": _spread(lambda i: f"example.com/own-{i}", "DoNotSchedule"),
    "soft spread, unknown keys": _spread(lambda i: f"example.com/none-{i}", "ScheduleAnyway"),
    "soft spread, keys of one node": _spread(lambda i: f"example.com/own-{i}", "ScheduleAnyway"),
    "pod affinity": _neighbours("podAffinity", False, lambda i: HOSTNAME),
    "pod affinity, unknown keys": _neighbours("podAffinity", False, lambda i: f"example.com/none-{i}"),
    "pod anti-affinity": _neighbours("podAntiAffinity", False, lambda i: HOSTNAME),
    "pod anti-affinity, unknown keys": _neighbours(
        "podAntiAffinity", False, lambda i: f"example.com/none-{i}"
    ),
    "pod anti-affinity, keys of one node": _neighbours(
        "podAntiAffinity", False, lambda i: f"example.com/own-{i}"
    ),
    "preferred pod affinity": _neighbours("podAffinity", True, lambda i: HOSTNAME),
    "preferred pod anti-affinity, keys of one node": _neighbours(
        "podAntiAffinity", True, lambda i: f"example.com/own-{i}"
    ),
    "pod anti-affinity, all namespaces": _neighbours(
        "podAntiAffinity", False, lambda i: HOSTNAME, namespaceSelector={"matchLabels": {"all": "x"}}
    ),
    "namespaces": lambda n: _one_neighbour(namespaces=[f"team-{i}" for i in range(n)]),
    "namespaceSelector": lambda n: _one_neighbour(
        namespaceSelector={
            "matchExpressions": [{"key": f"team-{i}", "operator": "DoesNotExist"} for i in range(1, n)]
            + [{"key": "all", "operator": "Exists"}]
        }
    ),
    "tolerations": _tolerations,
    "containers": lambda n: {
        "containers": [
            _container(resources={"requests": {"cpu": "1m"}}) | {"name": f"c{i}"} for i in range(n)
        ]
    },
    "init containers": lambda n: {
        "initContainers": [
            _container(resources={"requests": {"cpu": f"{i}m", "memory": str(i)}}) | {"name": f"i{i}"}
            for i in range(n)
        ]
    },
    "images": lambda n: {
        "containers": [{"name": f"c{i}", "image": f"registry.example/app-{i}:1"} for i in range(n)]
    },
    "host ports": lambda n: {
        "containers": [_container(ports=[{"containerPort": 1, "hostPort": 1 + i} for i in range(n)])]
    },
    "claims": lambda n: {
        "volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(n)]
    },
    "disks": lambda n: {
        "volumes": [{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}"}} for i in range(n)]
    },
    "resources": _requests,
    "resources, twice as many": lambda n: _requests(2 * n),
}
"""By name, all that a pod may have many of."""
