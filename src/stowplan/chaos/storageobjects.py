"""Storage classes, volumes and claims made by chance: few volumes, and more claims than volumes."""

from random import Random
from typing import Final

from stowplan.chaos.objects import ZONES
from stowplan.chaos.plan import NAMESPACE, Body
from stowplan.testing.builders import HOSTNAME, ZONE

STATIC: Final = "static"
MADE: Final = "made"
AT_ONCE: Final = "at-once"
FOR_ONE: Final = "ReadWriteOncePod"
SIZES: Final = ("1Gi", "2Gi", "3Gi")

_MODES: Final = (["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteMany"], [FOR_ONE])
_ALL_MODES: Final = ["ReadWriteOnce", "ReadWriteMany", FOR_ONE]


def classes(rng: Random) -> list[Body]:
    """One whose volumes exist, one whose volumes are made for a node, one that does not wait for a node."""
    made: Body = {
        "metadata": {"name": MADE},
        "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    if rng.random() < 0.4:
        expression = {"key": ZONE, "values": sorted(rng.sample(ZONES, 2))}
        made["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
    return [
        {
            "metadata": {"name": STATIC},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        made,
        {
            "metadata": {"name": AT_ONCE},
            "provisioner": rng.choice(("example.com/disks", "kubernetes.io/no-provisioner")),
            "volumeBindingMode": "Immediate",
        },
    ]


def random_volume(rng: Random, name: str, nodes: list[str]) -> Body:
    spec: Body = {
        "capacity": {"storage": rng.choice(SIZES)},
        "accessModes": _ALL_MODES if rng.random() < 0.8 else ["ReadWriteOnce"],
        "storageClassName": STATIC if rng.random() < 0.8 else AT_ONCE,
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
        "storageClassName": rng.choice((STATIC, STATIC, STATIC, MADE, MADE, AT_ONCE)),
    }


def random_use(rng: Random, claims: list[str]) -> list[Body]:
    """The volumes of a pod: one or two claims that others may use too, or one of its own."""
    if rng.random() < 0.1:
        template = {"spec": random_claim_spec(rng)}
        return [{"name": "own", "ephemeral": {"volumeClaimTemplate": template}}]
    used = rng.sample(claims, min(len(claims), rng.choice((1, 1, 1, 2))))
    return [
        {"name": f"data-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(used)
    ]
