"""Random pods, nodes, budgets and storage objects: small ones that compete for the same resources."""

from random import Random
from typing import Any, Final

from stowplan.testing.builders import HOSTNAME, ZONE

Body = dict[str, Any]

NAMESPACE: Final = "d"


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
    allocatable = random_allocatable(rng)
    spec: Body = {}
    if rng.random() < 0.15:
        spec["taints"] = [random_taint(rng)]
    if rng.random() < 0.05:
        spec["unschedulable"] = True
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": allocatable, "allocatable": allocatable},
    }


def random_allocatable(rng: Random) -> Body:
    """A node's allocatable."""
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
    """A pod with up to three constraints of a random kind."""
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
        _add_constraint(rng, spec, app)
    metadata: Body = {"name": name, "namespace": NAMESPACE, "labels": {"app": app}}
    if rng.random() < 0.05:
        metadata["finalizers"] = [FINALIZER]
    return {"metadata": metadata, "spec": spec}


def _add_constraint(rng: Random, spec: Body, app: str) -> None:
    kind = rng.randrange(10)
    if kind == 0:
        spec["nodeSelector"] = {"disk": rng.choice(DISKS)}
    elif kind == 1:
        _node_affinity(rng, spec)
    elif kind == 2:
        _pod_affinity(spec, "podAntiAffinity", rng.choice((HOSTNAME, ZONE)), app)
    elif kind == 3:
        _pod_affinity(spec, "podAffinity", rng.choice((HOSTNAME, ZONE)), rng.choice(APPS))
    elif kind in (4, 5):
        constraint = {
            "topologyKey": rng.choice((HOSTNAME, ZONE)),
            "maxSkew": rng.choice((1, 2)),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": app}},
        }
        spec.setdefault("topologySpreadConstraints", []).append(constraint)
    elif kind == 6:
        port = rng.choice(PORTS)
        spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    elif kind == 7:
        spec["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
    elif kind == 8:
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


STATIC: Final = "static"
PROVISIONED: Final = "made"
IMMEDIATE: Final = "at-once"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
SIZES: Final = ("1Gi", "2Gi", "3Gi")

_MODES: Final = (["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteMany"], [READ_WRITE_ONCE_POD])
_ALL_MODES: Final = ["ReadWriteOnce", "ReadWriteMany", READ_WRITE_ONCE_POD]


def storage_classes(rng: Random) -> list[Body]:
    """One with static volumes, one with a provisioner that waits for a node, one that binds immediately."""
    provisioned: Body = {
        "metadata": {"name": PROVISIONED},
        "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    if rng.random() < 0.4:
        expression = {"key": ZONE, "values": sorted(rng.sample(ZONES, 2))}
        provisioned["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
    return [
        {
            "metadata": {"name": STATIC},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        provisioned,
        {
            "metadata": {"name": IMMEDIATE},
            "provisioner": rng.choice(("example.com/disks", "kubernetes.io/no-provisioner")),
            "volumeBindingMode": "Immediate",
        },
    ]


def random_volume(rng: Random, name: str, nodes: list[str]) -> Body:
    spec: Body = {
        "capacity": {"storage": rng.choice(SIZES)},
        "accessModes": _ALL_MODES if rng.random() < 0.8 else ["ReadWriteOnce"],
        "storageClassName": STATIC if rng.random() < 0.8 else IMMEDIATE,
        "persistentVolumeReclaimPolicy": "Retain",
    }
    place = rng.random()
    if place < 0.8:
        here = (HOSTNAME, [rng.choice(nodes)]) if place < 0.3 else (ZONE, [rng.choice(ZONES)])
        expression = {"key": here[0], "operator": "In", "values": here[1]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"metadata": {"name": name}, "spec": spec}


def random_claim(rng: Random, name: str) -> Body:
    spec = random_claim_spec(rng)
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def random_claim_spec(rng: Random) -> Body:
    return {
        "accessModes": rng.choice(_MODES),
        "resources": {"requests": {"storage": rng.choice(SIZES)}},
        "storageClassName": rng.choice((STATIC, STATIC, STATIC, PROVISIONED, PROVISIONED, IMMEDIATE)),
    }


def random_pod_volumes(rng: Random, claims: list[str]) -> list[Body]:
    """The volumes of a pod: one or two claims that other pods may use too, or an ephemeral one."""
    if rng.random() < 0.1:
        template = {"spec": random_claim_spec(rng)}
        return [{"name": "own", "ephemeral": {"volumeClaimTemplate": template}}]
    used = rng.sample(claims, min(len(claims), rng.choice((1, 1, 1, 2))))
    return [
        {"name": f"data-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(used)
    ]
