"""Claims get their volumes: static and provisioned, at once or when a scheduler has chosen, despite
failures."""

from typing import Any

import pytest

from localcluster.controllers.small_clusters import World, live, template
from stowplan.api.catalogue import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.storage.ephemeralvolume import EphemeralVolumeController
from stowplan.localcluster.controllers.storage.persistentvolume import PersistentVolumeController
from stowplan.localcluster.controllers.storage.provisioner import (
    Provisioner,
    ProvisionerBehaviour,
    ProvisionerSettings,
)
from stowplan.localcluster.controllers.storage.volumeprotection import (
    ClaimProtectionController,
    VolumeProtectionController,
)
from stowplan.testing.faults import Faults

ZONE = "topology.kubernetes.io/zone"


def controllers(context: ControllerContext) -> list[Controller]:
    return [
        PersistentVolumeController(context),
        Provisioner(context, ProvisionerSettings(ProvisionerBehaviour(delay=0.5))),
        ClaimProtectionController(context),
        VolumeProtectionController(context),
        EphemeralVolumeController(context),
    ]


def storage_class(name: str = "fast", *, waits: bool = True, **fields: Any) -> Json:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"metadata": {"name": name}, "provisioner": "csi.example", "volumeBindingMode": mode, **fields}


def claim(name: str = "c", size: str = "1Gi", class_name: str = "fast", **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": class_name,
            **spec,
        },
    }


def volume(name: str, size: str = "1Gi", class_name: str = "fast", **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "csi.example", "volumeHandle": name},
            **spec,
        },
    }


def pod(name: str, claim_name: str) -> Json:
    made = template(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}])
    return {**made, "metadata": {"name": name}}


def phase(world: World, name: str = "c") -> str:
    return str(world.get(PERSISTENT_VOLUME_CLAIMS, name)["status"]["phase"])


def test_an_immediate_claim_gets_the_smallest_volume_that_fits() -> None:
    async def story(world: World) -> None:
        world.put(STORAGE_CLASSES, storage_class(waits=False, provisioner="kubernetes.io/no-provisioner"))
        for name, size in (("big", "10Gi"), ("small", "500Mi"), ("right", "2Gi")):
            world.put(PERSISTENT_VOLUMES, volume(name, size))
        await world.settle()
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        await world.until(lambda: phase(world) == "Bound")
        bound = world.get(PERSISTENT_VOLUME_CLAIMS, "c")
        assert bound["spec"]["volumeName"] == "right"
        assert bound["status"]["capacity"] == {"storage": "2Gi"}
        assert bound["metadata"]["annotations"] == {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }
        taken = world.get(PERSISTENT_VOLUMES, "right")
        assert taken["status"]["phase"] == "Bound"
        assert taken["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
        assert world.get(PERSISTENT_VOLUMES, "big")["status"]["phase"] == "Available"

    live(story, controllers)


def test_a_claim_that_found_nothing_takes_what_comes_later() -> None:
    async def story(world: World) -> None:
        world.put(PERSISTENT_VOLUME_CLAIMS, claim(class_name=""))
        await world.settle(10)
        assert phase(world) == "Pending"
        world.put(PERSISTENT_VOLUMES, volume("v", class_name=""))
        await world.until(lambda: phase(world) == "Bound")

    live(story, controllers)


def test_a_claim_that_waits_is_left_alone_and_says_so() -> None:
    async def story(world: World) -> None:
        world.put(STORAGE_CLASSES, storage_class())
        world.put(PERSISTENT_VOLUMES, volume("v"))
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        await world.settle(10)
        assert phase(world) == "Pending"
        assert [event["reason"] for event in world.all(EVENTS)] == ["WaitForFirstConsumer"]

    live(story, controllers)


def test_a_scheduled_pod_gets_a_volume_made_in_its_nodes_zone() -> None:
    async def story(world: World) -> None:
        world.add_node("n", labels={ZONE: "z1"})
        world.put(STORAGE_CLASSES, storage_class())
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        world.put(PODS, pod("p", "c"))
        await world.until(lambda: world.get(PODS, "p")["spec"].get("nodeName"))
        bound = world.get(PERSISTENT_VOLUME_CLAIMS, "c")
        made = world.get(PERSISTENT_VOLUMES, f"pvc-{bound['metadata']['uid']}")
        assert made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}
        ]
        assert made["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": "csi.example"}
        assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n"

    live(story, controllers, scheduler=True)


def test_a_scheduled_pod_gets_the_static_volume_its_scheduler_chose() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.put(STORAGE_CLASSES, storage_class())
        world.put(PERSISTENT_VOLUMES, volume("v", "5Gi"))
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        world.put(PODS, pod("p", "c"))
        await world.until(lambda: world.get(PODS, "p")["spec"].get("nodeName"))
        assert world.get(PERSISTENT_VOLUME_CLAIMS, "c")["spec"]["volumeName"] == "v"

    live(story, controllers, scheduler=True)


def test_a_provisioner_that_says_no_sends_the_pod_back_and_serves_it_when_it_can() -> None:
    def failing(context: ControllerContext) -> list[Controller]:
        sick = ProvisionerSettings(by_class={"fast": ProvisionerBehaviour(fails="no space", failures=2)})
        return [PersistentVolumeController(context), Provisioner(context, sick)]

    async def story(world: World) -> None:
        world.add_node("n")
        world.put(STORAGE_CLASSES, storage_class())
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        world.put(PODS, pod("p", "c"))
        await world.until(lambda: any(one["reason"] == "ProvisioningFailed" for one in world.all(EVENTS)))
        await world.until(lambda: world.get(PODS, "p")["spec"].get("nodeName"))
        told = [one["note"] for one in world.all(EVENTS) if one["reason"] == "ProvisioningFailed"]
        assert told == ['failed to provision volume with StorageClass "fast": no space']
        assert any("provisioning failed for PVC" in one["note"] for one in world.all(EVENTS)) or any(
            "selectedNode annotation reset" in one["note"] for one in world.all(EVENTS)
        )

    live(story, failing, scheduler=True)


def test_a_class_that_says_where_keeps_volumes_there() -> None:
    async def story(world: World) -> None:
        world.add_node("a", labels={ZONE: "z1"})
        world.add_node("b", labels={ZONE: "z2"})
        where = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}]
        world.put(STORAGE_CLASSES, storage_class(waits=False, allowedTopologies=where))
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        await world.until(lambda: phase(world) == "Bound")
        (made,) = world.all(PERSISTENT_VOLUMES)
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["z2"]

    live(story, controllers)


@pytest.mark.parametrize(("policy", "left"), [("Delete", []), ("Retain", ["Released"])])
def test_a_volume_whose_claim_is_deleted_goes_or_stays_as_its_policy_says(
    policy: str, left: list[str]
) -> None:
    async def story(world: World) -> None:
        world.put(STORAGE_CLASSES, storage_class(waits=False, reclaimPolicy=policy))
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        await world.until(lambda: phase(world) == "Bound")
        world.delete(PERSISTENT_VOLUME_CLAIMS, "c")
        await world.settle(5)
        assert world.names(PERSISTENT_VOLUME_CLAIMS) == []
        assert [one["status"]["phase"] for one in world.all(PERSISTENT_VOLUMES)] == left

    live(story, controllers)


def test_a_claim_in_use_stays_until_its_pod_is_gone() -> None:
    async def story(world: World) -> None:
        world.put(STORAGE_CLASSES, storage_class(waits=False))
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        on_node = pod("p", "c")
        on_node["spec"] |= {"nodeName": "n", "terminationGracePeriodSeconds": 0}
        world.put(PODS, on_node)
        await world.until(lambda: phase(world) == "Bound")
        world.delete(PERSISTENT_VOLUME_CLAIMS, "c")
        await world.settle(5)
        assert world.names(PERSISTENT_VOLUME_CLAIMS) == ["c"]
        world.delete(PODS, "p")
        await world.settle(5)
        assert world.names(PERSISTENT_VOLUME_CLAIMS) == []

    live(story, controllers)


def test_a_claim_of_a_pod_without_a_node_can_be_deleted() -> None:
    async def story(world: World) -> None:
        world.put(STORAGE_CLASSES, storage_class(waits=False))
        world.put(PERSISTENT_VOLUME_CLAIMS, claim())
        world.put(PODS, pod("p", "c"))
        await world.until(lambda: phase(world) == "Bound")
        world.delete(PERSISTENT_VOLUME_CLAIMS, "c")
        await world.settle(5)
        assert world.names(PERSISTENT_VOLUME_CLAIMS) == []

    live(story, controllers)


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    async def story(world: World) -> None:
        asking = claim()
        del asking["spec"]["storageClassName"]
        world.put(PERSISTENT_VOLUME_CLAIMS, asking)
        await world.settle(1)
        default = storage_class(waits=False)
        default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        world.put(STORAGE_CLASSES, default)
        await world.until(lambda: phase(world) == "Bound")
        assert world.get(PERSISTENT_VOLUME_CLAIMS, "c")["spec"]["storageClassName"] == "fast"

    live(story, controllers)


def test_a_pods_own_claim_is_made_for_it() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.put(STORAGE_CLASSES, storage_class())
        wanted = {"volumeClaimTemplate": {"spec": claim()["spec"]}}
        world.put(PODS, {**template(volumes=[{"name": "v", "ephemeral": wanted}]), "metadata": {"name": "p"}})
        await world.until(lambda: world.get(PODS, "p")["spec"].get("nodeName"))
        made = world.get(PERSISTENT_VOLUME_CLAIMS, "p-v")
        assert made["metadata"]["ownerReferences"][0]["name"] == "p"

    live(story, controllers, scheduler=True)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_went_wrong_every_claim_ends_with_one_volume_of_its_own(seed: int) -> None:
    faults = Faults(refused=0.2, lost=0.2, cut=0.05, forgotten=0.02, delay=0.2)

    async def story(world: World) -> None:
        world.add_node("n", cpu="64")
        world.put(STORAGE_CLASSES, storage_class())
        for number in range(8):
            world.put(PERSISTENT_VOLUME_CLAIMS, claim(f"c{number}", "1Gi"))
            world.put(PODS, pod(f"p{number}", f"c{number}"))
            if number % 2:
                world.put(PERSISTENT_VOLUMES, volume(f"v{number}"))
        await world.settle(60)
        world.faults.stop()
        await world.until(lambda: all(one["spec"].get("nodeName") for one in world.pods()), 1200)
        claims = world.all(PERSISTENT_VOLUME_CLAIMS)
        names = [one["spec"]["volumeName"] for one in claims]
        assert len(set(names)) == 8
        for one in claims:
            held = world.get(PERSISTENT_VOLUMES, one["spec"]["volumeName"])
            assert held["spec"]["claimRef"]["uid"] == one["metadata"]["uid"]
            assert (one["status"]["phase"], held["status"]["phase"]) == ("Bound", "Bound")

    live(story, controllers, scheduler=True, faults=faults, seed=seed)
