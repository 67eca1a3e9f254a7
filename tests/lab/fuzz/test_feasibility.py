"""The slow rules themselves: what a node may take, one rule at a time."""

from typing import Any

import pytest

from stowplan.lab.fuzz.cases import node, pod
from stowplan.lab.fuzz.feasibility import FeasibleCluster, amount, objection, requests_of, whole
from stowplan.testing.builders import HOSTNAME, ZONE

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _cluster(*pods: tuple[dict[str, Any], str], **nodes: dict[str, Any]) -> FeasibleCluster:
    cluster = FeasibleCluster(nodes={"n": node("n"), "m": node("m"), **nodes})
    for number, (body, where) in enumerate(pods):
        cluster.pods[str(number)] = body
        cluster.where[str(number)] = where
    return cluster


def _asking(**amounts: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": amounts}}


def _affinity(kind: str, key: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {REQUIRED: [term]}}


def _spread(**more: Any) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "a"}}
    hard = {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**hard, "labelSelector": selector, **more}]


def _node(**spec: Any) -> dict[str, Any]:
    return {**node("n"), "spec": spec}


def _in(key: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


TAINT = {"key": "gpu", "value": "x", "effect": "NoSchedule"}
PORT = [{"containerPort": 80, "hostPort": 80}]

FORBIDDEN = {
    "more CPU than there is": (_cluster(), pod("p", containers=[_asking(cpu="17")]), "cpu"),
    "more memory than is left": (
        _cluster((pod("o", containers=[_asking(memory="40Gi")]), "n")),
        pod("p", containers=[_asking(memory="25Gi")]),
        "memory",
    ),
    "sums beyond an int64": (
        _cluster(*[(pod("o", containers=[_asking(memory="7Ei")]), "n")] * 2),
        pod("p", containers=[_asking(memory="1")]),
        "memory",
    ),
    "too many pods": (_cluster(*[(pod("o"), "n")] * 110), pod("p"), "pods"),
    "a taint": (_cluster(n=_node(taints=[TAINT])), pod("p"), "taint"),
    "a cordon": (_cluster(n=_node(unschedulable=True)), pod("p"), "unschedulable"),
    "a node selector": (_cluster(), pod("p", nodeSelector={"disk": "tape"}), "node selector"),
    "node affinity": (_cluster(), pod("p", affinity=_in(HOSTNAME, "m")), "node selector or node affinity"),
    "a host port": (
        _cluster((pod("o", containers=[{"name": "c", "ports": PORT}]), "n")),
        pod("p", containers=[{"name": "c", "ports": PORT}]),
        "host port",
    ),
    "pod affinity to nobody": (
        _cluster(),
        pod("p", affinity=_affinity("podAffinity", HOSTNAME, "other")),
        "pod affinity",
    ),
    "pod anti-affinity": (
        _cluster((pod("o"), "n")),
        pod("p", affinity=_affinity("podAntiAffinity", HOSTNAME, "a")),
        "pod anti-affinity to",
    ),
    "the anti-affinity of others": (
        _cluster((pod("o", affinity=_affinity("podAntiAffinity", HOSTNAME, "a")), "n")),
        pod("p"),
        "pod anti-affinity of",
    ),
    "skew": (_cluster((pod("o"), "n")), pod("p", topologySpreadConstraints=_spread()), "topology spread"),
    "too few domains": (
        _cluster((pod("o"), "n"), (pod("o"), "m")),
        pod("p", topologySpreadConstraints=_spread(minDomains=3)),
        "topology spread",
    ),
    "a node that is not there": (_cluster(n=None), pod("p"), "no such node"),  # type: ignore[arg-type]
    "a claim that is not there": (
        _cluster(),
        pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        "claim c",
    ),
}
ALLOWED = {
    "an ordinary pod": (_cluster(), pod("p")),
    "a pod that asks for nothing on a full node": (
        _cluster((pod("o", containers=[_asking(cpu="16")]), "n")),
        pod("p", containers=[{"name": "c"}]),
    ),
    "a tolerated taint": (
        _cluster(n=_node(taints=[TAINT])),
        pod("p", tolerations=[{"key": "gpu", "operator": "Equal", "value": "x"}]),
    ),
    "a toleration of everything": (
        _cluster(n=_node(unschedulable=True)),
        pod("p", tolerations=[{"operator": "Exists"}]),
    ),
    "the first of pods that want to be together": (
        _cluster(),
        pod("p", affinity=_affinity("podAffinity", ZONE, "a")),
    ),
    "the other node of two": (
        _cluster((pod("o"), "m")),
        pod("p", topologySpreadConstraints=_spread()),
    ),
    "a port of another address": (
        _cluster((pod("o", containers=[{"name": "c", "ports": [{**PORT[0], "hostIP": "10.0.0.1"}]}]), "n")),
        pod("p", containers=[{"name": "c", "ports": [{**PORT[0], "hostIP": "10.0.0.2"}]}]),
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden(name: str) -> None:
    cluster, asking, reason = FORBIDDEN[name]
    problem = objection(cluster, asking, "n")
    assert problem is not None
    assert reason in problem


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    cluster, asking = ALLOWED[name]
    assert objection(cluster, asking, "n") is None


@pytest.mark.parametrize(
    ("text", "cpu", "other"),
    [
        ("1n", 1, 1),
        ("100m", 100, 1),
        ("0.1", 100, 1),
        ("1e3", 1_000_000, 1000),
        ("1Ki", 1_024_000, 1024),
        ("7Ei", 7 * 1024**6 * 1000, 7 * 1024**6),
        ("9Ei", (2**63 - 1) * 1000, 2**63 - 1),
        ("1E", 10**21, 10**18),
    ],
)
def test_amounts_are_exact(text: str, cpu: int, other: int) -> None:
    assert (whole("cpu", text), whole("memory", text)) == (cpu, other)


def test_what_is_no_amount_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a quantity"):
        amount("1 Gi")


def test_requests_count_init_containers_sidecars_and_overhead() -> None:
    asking = pod(
        "p",
        containers=[_asking(cpu="1"), _asking(cpu="1")],
        initContainers=[
            {**_asking(cpu="500m"), "restartPolicy": "Always"},
            _asking(cpu="4"),
        ],
        overhead={"cpu": "250m"},
    )
    assert requests_of(asking)["cpu"] == 4500 + 250
    asking["spec"]["resources"] = {"requests": {"cpu": "3"}}
    assert requests_of(asking)["cpu"] == 3250
