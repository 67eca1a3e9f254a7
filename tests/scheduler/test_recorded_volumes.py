"""Pods with volumes, as recorded: writes about their claims, and their messages."""

from typing import Any

from observed.files import recorded
from scheduler.comparable_objects import same_objects
from scheduler.comparable_writes import RECORDED, same_writes
from scheduler.live_scheduler import World, live
from stowplan.api import catalogue as c
from stowplan.api.requests import Json

LATENCY = 0.006
ZONE = {"topology.kubernetes.io/zone": "z1"}
SELECTED = "volume.kubernetes.io/selected-node"


async def _soon(world: World) -> None:
    await world.settle(0.3)


def _storage_class(world: World, name: str, mode: str, provisioner: str = "example.com/fake") -> None:
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    world.store.create(c.STORAGE_CLASSES, body)


def _claim(world: World, name: str, storage_class: str, **about: Any) -> None:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": world.namespace,
        "finalizers": ["kubernetes.io/pvc-protection"],
    }
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
        **about,
    }
    status = {"phase": "Bound" if "volumeName" in about else "Pending"}
    if "volumeName" in about:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    world.store.create(c.PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec, "status": status})
    _set_status(world, c.PERSISTENT_VOLUME_CLAIMS, world.namespace, name, status)


def _set_status(world: World, resource: c.Resource, namespace: str, name: str, status: Json) -> None:
    world.store.patch(resource, namespace, name, {"status": status}, subresource="status")


def _patch_claim(world: World, name: str, patch: Json) -> None:
    world.store.patch(c.PERSISTENT_VOLUME_CLAIMS, world.namespace, name, patch)


def _with_claim(world: World, name: str, claim: str, **about: Any) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    world.put_pod(name, volumes=[volume], **about)


def _volume(world: World, body: Json, phase: str) -> None:
    world.store.create(c.PERSISTENT_VOLUMES, body)
    _set_status(world, c.PERSISTENT_VOLUMES, "", body["metadata"]["name"], {"phase": phase})


def _before(world: World) -> None:
    world.namespace = "obs-e"
    for name in ("node-e1", "node-e2"):
        world.add_node(name, labels=ZONE)


def test_a_claim_that_is_missing() -> None:
    async def story(world: World) -> None:
        _before(world)
        _with_claim(world, "nopvc", "absent")
        await _soon(world)
        same_writes(world.wire.writes, "e-missing-pvc")
        same_objects(world, "e-volumes.0-missing-pvc", "nopvc")

    live(story, latency=LATENCY, config=RECORDED)


def test_a_claim_that_should_be_bound_by_now() -> None:
    async def story(world: World) -> None:
        _before(world)
        _storage_class(world, "immediate", "Immediate")
        _claim(world, "imm", "immediate")
        _with_claim(world, "imm", "imm")
        await world.settle(0.02)
        provisioner = {"volume.kubernetes.io/storage-provisioner": "example.com/fake"}
        _patch_claim(world, "imm", {"metadata": {"annotations": provisioner}})
        await _soon(world)
        same_writes(world.wire.writes, "e-immediate-unbound")
        same_objects(world, "e-volumes.0-immediate-unbound", "imm")

    live(story, latency=LATENCY, config=RECORDED)


def test_a_volume_that_comes_later_is_claimed_and_waited_for() -> None:
    claimed = next(one for one in recorded("wire/writes")["e-static-wffc-pv-added"] if one["method"] == "PUT")

    async def story(world: World) -> None:
        _before(world)
        _storage_class(world, "wffc-static", "WaitForFirstConsumer", "kubernetes.io/no-provisioner")
        _claim(world, "static", "wffc-static")
        _with_claim(world, "static-nopv", "static")
        await _soon(world)
        same_writes(world.wire.writes, "e-static-wffc")
        same_objects(world, "e-volumes.1-static-no-pv", "static-nopv")

        spec = {key: value for key, value in claimed["request"]["spec"].items() if key != "claimRef"}
        metadata = {"name": "pv-e1", "finalizers": ["kubernetes.io/pv-protection"]}
        _volume(world, {"metadata": metadata, "spec": spec}, "Available")
        await _soon(world)
        assert (world.nominated("static-nopv"), world.node_of("static-nopv")) == ("node-e2", "")
        _patch_claim(world, "static", {"spec": {"volumeName": "pv-e1"}})
        done = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
        _patch_claim(world, "static", {"metadata": {"annotations": done}})
        _set_status(world, c.PERSISTENT_VOLUME_CLAIMS, "obs-e", "static", {"phase": "Bound"})
        await world.settle(1.2)
        same_writes(world.wire.writes, "e-static-wffc", "e-static-wffc-pv-added")
        same_objects(world, "e-volumes.2-static-bound", "static-nopv")

    live(story, latency=LATENCY, config=RECORDED)


def _provisioned(world: World, name: str, claim: str) -> None:
    """Writes of a provisioner and the controller."""
    held = world.store.get(c.PERSISTENT_VOLUME_CLAIMS, world.namespace, claim)
    reference = {"namespace": world.namespace, "name": claim, "uid": held["metadata"]["uid"]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": held["spec"]["accessModes"],
        "claimRef": reference,
        "storageClassName": held["spec"]["storageClassName"],
        "hostPath": {"path": "/mnt"},
    }
    _volume(world, {"metadata": {"name": name}, "spec": spec}, "Bound")
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    _patch_claim(world, claim, {"metadata": {"annotations": done}, "spec": {"volumeName": name}})
    _set_status(world, c.PERSISTENT_VOLUME_CLAIMS, world.namespace, claim, {"phase": "Bound"})


def test_a_volume_is_ordered_and_waited_for() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-e"
        world.add_node("node-e1", labels=ZONE)
        _storage_class(world, "wffc-dynamic", "WaitForFirstConsumer")
        _claim(world, "dyn", "wffc-dynamic")
        _with_claim(world, "dyn", "dyn")
        await world.settle(2)
        same_writes(world.wire.writes, "e-dynamic-wffc")
        same_objects(world, "e-volumes.3-dynamic-waiting", "dyn")
        _provisioned(world, "pv-dyn", "dyn")
        await world.settle(1.2)
        same_writes(world.wire.writes, "e-dynamic-wffc", "e-dynamic-provisioned")
        same_objects(world, "e-volumes.4-dynamic-bound", "dyn")

    live(story, latency=LATENCY, config=RECORDED)


def test_an_order_that_is_turned_down_and_then_a_node_that_is_gone() -> None:
    provisioner = {
        "volume.beta.kubernetes.io/storage-provisioner": "example.com/fake",
        "volume.kubernetes.io/storage-provisioner": "example.com/fake",
    }

    async def story(world: World) -> None:
        world.namespace = "obs-e"
        world.add_node("node-e1", labels=ZONE)
        _storage_class(world, "wffc-dynamic", "WaitForFirstConsumer")
        _claim(world, "dyn2", "wffc-dynamic")
        await world.until(0.6)
        _with_claim(world, "dyn2", "dyn2")
        await world.settle(0.5)
        _patch_claim(world, "dyn2", {"metadata": {"annotations": provisioner}})
        await world.settle(0.5)
        _patch_claim(world, "dyn2", {"metadata": {"annotations": {SELECTED: None}}})
        await world.settle(2.5)
        same_writes(world.wire.writes, "e-dynamic-selected-node-removed")
        same_objects(world, "e-volumes.5-selected-node-removed", "dyn2")
        written = len(world.wire.writes)
        world.delete_pod("dyn2")
        world.remove_node("node-e1")
        await world.settle(1.5)
        same_writes(world.wire.writes[written:], "e-cleanup")

    live(story, latency=LATENCY, config=RECORDED)


def test_a_claim_that_only_one_pod_may_use() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-h"
        world.add_node("node-h1", labels=ZONE)
        world.add_node("node-h2", cpu="2", labels=ZONE)
        _claim(world, "one", "manual", volumeName="pv-h1", accessModes=["ReadWriteOncePod"])
        held = world.store.get(c.PERSISTENT_VOLUME_CLAIMS, "obs-h", "one")
        reference = {"namespace": "obs-h", "name": "one", "uid": held["metadata"]["uid"]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOncePod"],
            "claimRef": reference,
            "storageClassName": "manual",
        }
        _volume(world, {"metadata": {"name": "pv-h1"}, "spec": spec}, "Bound")
        await _soon(world)
        _with_claim(world, "first", "one", priority=10)
        await _soon(world)
        running = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        world.patch_pod("first", {"status": running}, "status")
        _with_claim(world, "second", "one", priority=10)
        await _soon(world)
        same_writes(world.wire.writes, "h-rwop")
        same_objects(world, "h-rwop.1-second-pending")
        _with_claim(world, "third", "one", priority=1000)
        await world.settle(2)
        world.delete_pod("first")
        await _soon(world)
        same_writes(world.wire.writes, "h-rwop", "h-rwop-preempt")
        same_objects(world, "h-rwop.2-third-bound", "second", "third")

    live(story, latency=LATENCY, config=RECORDED)
