"""Pods and nodes made by chance: small ones that get in each other's way."""

from random import Random
from typing import Final

from stowplan.chaos.plan import NAMESPACE, Body
from stowplan.testing.builders import HOSTNAME, ZONE

APPS: Final = ("web", "db", "job")
ZONES: Final = ("a", "b", "c")
DISKS: Final = ("ssd", "hdd")
PRIORITIES: Final = (0, 0, 0, 10, 10, 100, 1000, 2000)
CPUS: Final = ("100m", "250m", "500m", "1", "1500m", "2")
MEMORIES: Final = ("64Mi", "512Mi", "1Gi", "3Gi")
PORTS: Final = (8080, 9090)
TAINT: Final = "dedicated"
GATE: Final = "example.com/wait"
FINALIZER: Final = "example.com/hold"


def random_node(rng: Random, name: str) -> Body:
    labels = {HOSTNAME: name}
    if rng.random() < 0.9:
        labels[ZONE] = rng.choice(ZONES)
    if rng.random() < 0.6:
        labels["disk"] = rng.choice(DISKS)
    room = random_room(rng)
    spec: Body = {}
    if rng.random() < 0.15:
        spec["taints"] = [random_taint(rng)]
    if rng.random() < 0.05:
        spec["unschedulable"] = True
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room},
    }


def random_room(rng: Random) -> Body:
    """What a node offers."""
    return {
        "cpu": rng.choice(("1", "2", "3", "4")),
        "memory": rng.choice(("2Gi", "4Gi", "8Gi")),
        "pods": rng.choice(("3", "6", "20")),
    }


def random_taint(rng: Random) -> Body:
    return {
        "key": TAINT,
        "value": rng.choice(("x", "y")),
        "effect": rng.choice(("NoSchedule", "PreferNoSchedule")),
    }


def random_pod(rng: Random, name: str, scheduler: str) -> Body:
    """A pod with zero to three wishes."""
    app = rng.choice(APPS)
    container: Body = {
        "name": "main",
        "resources": {"requests": {"cpu": rng.choice(CPUS), "memory": rng.choice(MEMORIES)}},
    }
    spec: Body = {
        "schedulerName": scheduler,
        "containers": [container],
        "priority": rng.choice(PRIORITIES),
        "terminationGracePeriodSeconds": rng.choice((0, 1, 5, 20)),
    }
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        _wish(rng, spec, app)
    metadata: Body = {"name": name, "namespace": NAMESPACE, "labels": {"app": app}}
    if rng.random() < 0.05:
        metadata["finalizers"] = [FINALIZER]
    return {"metadata": metadata, "spec": spec}


def _wish(rng: Random, spec: Body, app: str) -> None:
    wish = rng.randrange(10)
    if wish == 0:
        spec["nodeSelector"] = {"disk": rng.choice(DISKS)}
    elif wish == 1:
        _node_affinity(rng, spec)
    elif wish == 2:
        _pod_affinity(spec, "podAntiAffinity", rng.choice((HOSTNAME, ZONE)), app)
    elif wish == 3:
        _pod_affinity(spec, "podAffinity", rng.choice((HOSTNAME, ZONE)), rng.choice(APPS))
    elif wish in (4, 5):
        constraint = {
            "topologyKey": rng.choice((HOSTNAME, ZONE)),
            "maxSkew": rng.choice((1, 2)),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": app}},
        }
        spec.setdefault("topologySpreadConstraints", []).append(constraint)
    elif wish == 6:
        port = rng.choice(PORTS)
        spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    elif wish == 7:
        spec["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
    elif wish == 8:
        spec["schedulingGates"] = [{"name": GATE}]
    else:
        spec["preemptionPolicy"] = "Never"


def _node_affinity(rng: Random, spec: Body) -> None:
    zones = sorted(rng.sample(ZONES, 2))
    expression = {"key": ZONE, "operator": rng.choice(("In", "NotIn")), "values": zones}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    spec.setdefault("affinity", {})["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": terms
    }


def _pod_affinity(spec: Body, kind: str, topology: str, app: str) -> None:
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}}
    spec.setdefault("affinity", {})[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def random_budget(rng: Random, name: str) -> Body:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": rng.choice(APPS)}}, "minAvailable": rng.choice((1, 2))},
    }
