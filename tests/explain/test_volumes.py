"""Explanations of volumes and claims: the claim, the zone, the limit, and the pod that uses the disk."""

from collections.abc import Sequence
from typing import Any

import pytest

from stowplan.api.decode import convert_any
from stowplan.config.build import default_profile
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.pod import Explainer
from stowplan.explain.terminal.pod import render
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable, load

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
DRIVER = "disk.csi.example.com"


def node(name: str, zone: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone}},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
    }


def pod(name: str, volumes: Sequence[Json] = (), on: str = "", **spec: Any) -> Json:
    containers = [{"name": "main", "image": "app"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "data", "uid": name},
        "spec": {
            "containers": containers,
            "volumes": list(volumes),
            **({"nodeName": on} if on else {}),
            **spec,
        },
    }


def of_claim(name: str) -> Json:
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def claim(name: str, volume: str = "", of_class: str = "slow", modes: Sequence[str] = ()) -> Json:
    metadata: Json = {"name": name, "namespace": "data"}
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {
            "volumeName": volume,
            "storageClassName": of_class,
            "accessModes": list(modes),
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }


def volume(name: str, zone: str, **spec: Any) -> Json:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            **spec,
        },
    }


def storage_class(name: str, mode: str, provisioner: str = "kubernetes.io/no-provisioner") -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def explained(wanting: Json, *others: Json) -> PodDocument:
    found = [convert_any(one) for one in (wanting, node("a-1", "zone-a"), node("b-1", "zone-b"), *others)]
    objects = [one for one in found if one is not None]
    assert len(objects) == len(found)
    table = ClusterTable()
    load(table, objects[1:])
    framework = Framework(default_profile(), table, in_tree_registry())
    return Explainer(framework, "a test").explain(table.info(objects[0]))  # type: ignore[arg-type]


def details(found: PodDocument) -> dict[str, tuple[str, str, str]]:
    return {miss.node: (miss.plugin, miss.missing, miss.detail) for miss in found.near_misses}


def test_the_zone_of_a_bound_volume_is_named() -> None:
    full = pod("full", on="a-1")
    full["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8"}}
    wanting = pod("pg", [of_claim("data")])
    wanting["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    found = explained(
        wanting, full, claim("data", "pv-1"), volume("pv-1", "zone-a"), storage_class("slow", "Immediate")
    )
    assert details(found)["b-1"] == (
        "VolumeBinding",
        "volume elsewhere",
        "claim data is on pv-1, which is in zone-a",
    )
    assert details(found)["a-1"][:2] == ("NodeResourcesFit", "1 cpu short")
    assert "claim data: bound to pv-1, which is in zone-a\n" in render(found)


def test_a_claim_that_finds_no_free_volume() -> None:
    found = explained(
        pod("pg", [of_claim("data")]), claim("data"), storage_class("slow", "WaitForFirstConsumer")
    )
    assert details(found)["a-1"] == (
        "VolumeBinding",
        "volume",
        "claim data: no volume of class slow is free (10Gi wanted)",
    )


@pytest.mark.parametrize(
    ("objects", "message", "said"),
    [
        ([], "claim data does not exist", "claim data: does not exist"),
        (
            [claim("data"), storage_class("slow", "Immediate")],
            "claim data: no volume of class slow is free",
            "claim data: not bound, asks for 10Gi of class 'slow' (binding Immediate)",
        ),
    ],
)
def test_claims_that_rule_out_every_node(objects: list[Json], message: str, said: str) -> None:
    lines = render(explained(pod("pg", [of_claim("data")]), *objects)).splitlines()
    assert lines[0] == f"data/pg is pending: {message}"
    assert said in lines


def test_a_volume_limit_is_told_with_what_is_attached() -> None:
    drivers = [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": 1}}]
    limits = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": name},
            "spec": {"drivers": drivers},
        }
        for name in ("a-1", "b-1")
    ]
    found = explained(
        pod("pg", [of_claim("data")]),
        *limits,
        claim("data", "pv-1"),
        claim("other", "pv-2"),
        volume("pv-1", "zone-a"),
        volume("pv-2", "zone-a"),
        storage_class("slow", "Immediate", DRIVER),
        pod("old", [of_claim("other")], on="a-1"),
    )
    assert details(found)["a-1"] == (
        "NodeVolumeLimits",
        "volume limit",
        f"1 of 1 volumes of {DRIVER} are attached, 1 more needed",
    )


def test_who_uses_a_disk_or_a_claim_for_one_pod_is_named() -> None:
    disk = {"name": "v", "gcePersistentDisk": {"pdName": "pd-1"}}
    selector: Json = {"nodeSelector": {ZONE: "zone-a"}}
    found = explained(pod("pg", [disk], **selector), pod("old", [disk], on="a-1"))
    assert details(found)["a-1"] == (
        "VolumeRestrictions",
        "disk in use",
        "data/old uses the disk of volume v",
    )
    found = explained(
        pod("pg", [of_claim("data")], **selector),
        pod("old", [of_claim("data")], on="b-1"),
        claim("data", "pv-1", modes=["ReadWriteOncePod"]),
        volume("pv-1", "zone-a"),
        storage_class("slow", "Immediate", DRIVER),
    )
    assert details(found)["a-1"] == (
        "VolumeRestrictions",
        "claim in use",
        "claim data is ReadWriteOncePod, and data/old on b-1 uses it",
    )


def test_a_node_feature_that_is_missing_is_named() -> None:
    found = explained(pod("pg", hostNetwork=True, hostUsers=False))
    assert details(found)["a-1"] == (
        "NodeDeclaredFeatures",
        "node feature",
        "does not declare UserNamespacesHostNetworkSupport",
    )
