"""Volumes under a living scheduler: what is said and written, as it was recorded of kube-scheduler."""

from typing import Any

from scheduler.live_scheduler import NAMESPACE, World, live
from scheduler.plugins.volumebinding.storageobjects import NO_PROVISIONER, WAITING
from stowplan.api import catalogue as c
from stowplan.api.requests import Json

HOST = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
NO_PREEMPTION = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


async def two_nodes(world: World) -> None:
    for name in ("n1", "n2"):
        world.add_node(name)
    for name, provisioner, mode in (
        ("static", NO_PROVISIONER, WAITING),
        ("dynamic", "example.com/fake", WAITING),
        ("immediate", "example.com/fake", "Immediate"),
    ):
        fields = {"provisioner": provisioner, "volumeBindingMode": mode}
        world.store.create(c.STORAGE_CLASSES, {"metadata": {"name": name}, **fields})


def add_claim(world: World, name: str, class_name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    world.store.create(c.PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec})


def add_volume(world: World, name: str, class_name: str, node: str) -> None:
    here = {"key": HOST, "operator": "In", "values": [node]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": class_name,
        "local": {"path": "/mnt/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    made = world.store.create(c.PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})
    free = {**made, "status": {"phase": "Available"}}
    world.store.update(c.PERSISTENT_VOLUMES, free, subresource="status")


async def add_user(world: World, name: str, claim: str) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    await world.add_pod(name, volumes=volumes)


def claim_of(world: World, name: str) -> Json:
    return world.store.get(c.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name)


def annotate(world: World, name: str, annotations: dict[str, str], **spec: Any) -> None:
    """Give a claim other annotations, and fields of its spec."""
    found = claim_of(world, name)
    metadata = {**found["metadata"], "annotations": annotations}
    changed = {**found, "metadata": metadata, "spec": {**found["spec"], **spec}}
    world.store.update(c.PERSISTENT_VOLUME_CLAIMS, changed)


def bind(world: World, name: str, volume: str) -> None:
    noted = {**claim_of(world, name)["metadata"].get("annotations", {})}
    annotate(world, name, {**noted, "pv.kubernetes.io/bind-completed": "yes"}, volumeName=volume)


def test_a_pod_is_told_why_its_claim_stands_in_the_way() -> None:
    async def story(world: World) -> None:
        add_claim(world, "imm", "immediate")
        add_claim(world, "static", "static")
        await add_user(world, "p", "absent")
        await add_user(world, "q", "imm")
        await add_user(world, "r", "static")
        none = "0/2 nodes are available: "
        assert world.message("p").startswith(f'{none}persistentvolumeclaim "absent" not found.')
        assert world.message("q").startswith(f"{none}pod has unbound immediate PersistentVolumeClaims.")
        told = f"{none}2 node(s) didn't find available persistent volumes to bind. {NO_PREEMPTION}"
        assert world.message("r") == told
        assert world.notes("r", "FailedScheduling") == [told]

    live(story, before=two_nodes)


def test_a_volume_that_comes_is_taken_and_the_pod_bound_once_its_claim_is() -> None:
    async def story(world: World) -> None:
        add_claim(world, "static", "static")
        await add_user(world, "p", "static")
        before = len(world.wire.writes)
        add_volume(world, "v", "static", "n2")
        await world.settle(5)
        written = [(write.method, write.path.rpartition("/d/")[2]) for write in world.wire.writes[before:]]
        assert written == [("PATCH", "pods/p/status"), ("PUT", "/api/v1/persistentvolumes/v")]
        volume = world.wire.writes[-1].body
        assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert volume["spec"]["claimRef"]["name"] == "static"
        assert volume["spec"]["local"] == {"path": "/mnt/disk"}
        assert (world.nominated("p"), world.node_of("p")) == ("n2", "")
        bind(world, "static", "v")
        await world.settle()
        assert world.node_of("p") == "n2"
        assert world.notes("p", "Scheduled") == [f"Successfully assigned {NAMESPACE}/p to n2"]

    live(story, before=two_nodes)


def test_a_pod_whose_volume_cannot_be_made_is_tried_again() -> None:
    async def story(world: World) -> None:
        add_claim(world, "dyn", "dynamic")
        await add_user(world, "p", "dyn")
        chosen = claim_of(world, "dyn")["metadata"]["annotations"][SELECTED]
        assert world.nominated("p") == chosen
        annotate(world, "dyn", {"volume.kubernetes.io/storage-provisioner": "example.com/fake"})
        await world.settle()
        failed = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "dyn"'
        assert world.notes("p", "FailedScheduling") == [failed]
        assert world.condition("p")["reason"] == "SchedulerError"
        await world.settle(10)
        again = claim_of(world, "dyn")["metadata"]["annotations"][SELECTED]
        add_volume(world, "made", "dynamic", again)
        bind(world, "dyn", "made")
        await world.settle()
        assert world.node_of("p") == again

    live(story, before=two_nodes)


def test_pods_do_not_get_the_same_volume_though_none_is_written_yet() -> None:
    async def story(world: World) -> None:
        world.wire.seconds = 1.0
        for number in range(3):
            add_claim(world, f"c{number}", "static")
            add_volume(world, f"v{number}", "static", "n1")
        for number in range(3):
            await add_user(world, f"p{number}", f"c{number}")
        await world.settle(10)
        puts = [write for write in world.wire.writes if write.method == "PUT"]
        assert sorted(write.body["metadata"]["name"] for write in puts) == ["v0", "v1", "v2"]
        assert [write.code for write in puts] == [200, 200, 200]
        for write in puts:
            bind(world, write.body["spec"]["claimRef"]["name"], write.body["metadata"]["name"])
        await world.settle(10)
        assert [world.node_of(f"p{number}") for number in range(3)] == ["n1"] * 3

    live(story, before=two_nodes)


def test_a_pod_deleted_while_its_volume_is_waited_for_is_given_up() -> None:
    async def story(world: World) -> None:
        add_claim(world, "static", "static")
        add_volume(world, "v", "static", "n1")
        await add_user(world, "p", "static")
        await world.settle(5)
        world.delete_pod("p")
        await world.settle(3)
        gone = 'binding volumes: pod does not exist any more: pod "p" not found'
        assert world.notes("p", "FailedScheduling") == [f'running PreBind plugin "VolumeBinding": {gone}']

    live(story, before=two_nodes)
