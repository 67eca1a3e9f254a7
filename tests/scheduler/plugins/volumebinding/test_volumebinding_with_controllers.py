"""The whole way of a pod with volumes: the scheduler, the pretend volume controller and the provisioner."""

import pytest

from scheduler.live_scheduler import NAMESPACE, World, live
from scheduler.plugins.volumebinding.claimed_volumes import (
    add_claim,
    add_user,
    add_volume,
    change_volume,
    claim_of,
    looked_after,
    patient,
    remove_claim,
    two_nodes,
)
from stowplan.api import catalogue as c
from stowplan.localcluster.controllers.storage.provisioner import ProvisionerBehaviour, ProvisionerSettings

FAILED = 'running PreBind plugin "VolumeBinding": binding volumes: '
IN_USE = (
    "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "
    "access mode already in-use by another pod."
)


@pytest.mark.parametrize("class_name", ["static", "dynamic", "immediate"])
def test_a_pod_gets_its_volume_and_then_its_node(class_name: str) -> None:
    async def story(world: World) -> None:
        async with looked_after(world):
            add_volume(world)
            add_claim(world, class_name)
            await add_user(world)
            await world.settle(10)
            claim = claim_of(world)
            volume = world.store.get(c.PERSISTENT_VOLUMES, "", claim["spec"]["volumeName"])
            assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
            assert (world.node_of("p") == "n1") or class_name != "static"
            assert world.notes("p", "Scheduled") == [f"Successfully assigned d/p to {world.node_of('p')}"]

    live(story, before=two_nodes)


def test_a_provisioner_that_says_no_once_is_asked_again_for_the_node_chosen_next() -> None:
    settings = ProvisionerSettings(ProvisionerBehaviour(0.5, "no space left", failures=1))

    async def story(world: World) -> None:
        async with looked_after(world, settings):
            add_claim(world, "dynamic")
            await world.settle(1)
            await add_user(world)
            await world.settle(0.6)
            assert world.message("p") == f'{FAILED}provisioning failed for PVC "c"'
            assert world.place_of("p") == "backoff"
            await world.settle(10)
            assert world.node_of("p")
            assert world.notes("p", "FailedScheduling") == [f'{FAILED}provisioning failed for PVC "c"']

    live(story, before=two_nodes)


def test_a_volume_that_takes_longer_than_is_waited_for_is_there_at_a_later_attempt() -> None:
    settings = ProvisionerSettings(ProvisionerBehaviour(7.0))

    async def story(world: World) -> None:
        async with looked_after(world, settings):
            add_claim(world, "dynamic")
            await world.settle(1)
            await add_user(world)
            await world.settle(5.5)
            assert world.message("p") == f"{FAILED}context deadline exceeded"
            await world.settle(10)
            chosen = claim_of(world)["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
            assert world.node_of("p") == chosen

    live(story, before=two_nodes, config=patient(5))


def test_of_two_pods_that_race_for_a_volume_one_gets_it_and_the_other_when_it_is_free_again() -> None:
    async def story(world: World) -> None:
        async with looked_after(world):
            world.wire.seconds = 0.5
            for name in ("c1", "c2"):
                add_claim(world, "static", name)
            add_volume(world)
            for name, claim in (("p1", "c1"), ("p2", "c2")):
                volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
                world.put_pod(name, volumes=volumes)
            await world.settle(20)
            assert sorted(map(world.node_of, ("p1", "p2"))) == ["", "n1"]
            winner, loser = ("p1", "p2") if world.node_of("p1") else ("p2", "p1")
            assert "2 node(s) didn't find available persistent volumes to bind" in world.message(loser)
            world.delete_pod(winner)
            remove_claim(world, f"c{winner[1]}")
            await world.settle(5)
            assert world.store.get(c.PERSISTENT_VOLUMES, "", "v")["status"]["phase"] == "Released"
            change_volume(world, {"spec": {"claimRef": None}})
            await world.settle(20)
            assert world.node_of(loser) == "n1"

    live(story, before=two_nodes)


def test_a_claim_for_one_pod_waits_for_its_user_to_leave() -> None:
    async def story(world: World) -> None:
        async with looked_after(world):
            add_claim(world, "static", mode="ReadWriteOncePod")
            add_volume(world)
            await add_user(world, "p")
            await world.settle(5)
            await add_user(world, "q")
            assert (world.node_of("p"), world.node_of("q")) == ("n1", "")
            assert world.message("q").startswith(IN_USE)
            assert world.place_of("q") == "unschedulable"
            world.delete_pod("p")
            await world.settle(10)
            assert world.node_of("q") == "n1"

    live(story, before=two_nodes)


def test_a_more_important_pod_makes_the_user_of_a_claim_for_one_pod_leave() -> None:
    async def story(world: World) -> None:
        async with looked_after(world):
            add_claim(world, "static", mode="ReadWriteOncePod")
            add_volume(world)
            await add_user(world, "p", terminationGracePeriodSeconds=0)
            await world.settle(5)
            await add_user(world, "q", priority=100)
            await world.settle(10)
            assert not world.has_pod("p")
            assert world.node_of("q") == "n1"

    live(story, before=two_nodes)


def test_a_pod_that_brings_its_own_claim_gets_a_volume_for_itself() -> None:
    async def story(world: World) -> None:
        async with looked_after(world):
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "dynamic",
            }
            volumes = [{"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
            await world.add_pod("p", volumes=volumes)
            await world.settle(10)
            made = world.store.get(c.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, "p-own")
            assert made["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == world.node_of("p")

    live(story, before=two_nodes)
