"""Pods whose resize waits for room (gate InPlacePodVerticalScalingSchedulerPreemption, since 1.37)."""

from typing import Any

import pytest

from releases import V1_37
from scheduler.live_scheduler import World, configured, live, node
from stowplan.api.catalogue import NODES
from stowplan.api.gates.feature_gates import FeatureGates

GATES = FeatureGates({"InPlacePodVerticalScalingSchedulerPreemption": True}, V1_37)
RESIZING: dict[str, Any] = {"config": configured(gates=GATES), "verbosity": 4}

FITS = "pod {uid}(d/high) is in the cache, so can't be assumed"


async def _two_pods(world: World, **about: Any) -> None:
    """A node with 4 CPUs, half of them for a pod of low priority, half for one of high priority."""
    world.add_node("n", cpu="4", **about)
    world.add_node("empty", cpu="64", unschedulable=True)
    await world.add_pod("low", cpu="2")
    await world.add_pod("high", cpu="2", priority=10)


def _resize(world: World, name: str, cpu: str, reason: str = "Deferred") -> None:
    """Writes of the API server and the kubelet when a pod is resized; without a reason the resize is done."""
    [container] = world.pod(name)["spec"]["containers"]
    grown = {**container, "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    world.patch_pod(name, {"spec": {"containers": [grown]}})
    pending = {"status": "True", "reason": reason} if reason else {"$patch": "delete"}
    world.patch_pod(name, {"status": {"conditions": [{"type": "PodResizePending", **pending}]}}, "status")


def test_preemption_makes_room_on_the_node_of_the_pod() -> None:
    async def story(world: World) -> None:
        await _two_pods(world)
        _resize(world, "high", "3")
        await world.settle()
        assert "deletionTimestamp" in world.pod("low")["metadata"]
        assert world.condition("low", "DisruptionTarget")["reason"] == "PreemptionByScheduler"
        assert world.notes("low", "Preempted") == [
            f"Preempted by pod {world.pod('high')['metadata']['uid']} on node n"
        ]
        assert world.nominated("high") == ""
        assert world.notes("high", "FailedScheduling") == []
        assert world.condition("high")["status"] == "True"
        assert world.place_of("high") == "unschedulable"

    live(story, **RESIZING)


def test_a_resize_that_fits_is_tried_again_until_the_kubelet_has_carried_it_out() -> None:
    """As kube-scheduler does: the pod is in the cache, so that assuming it is an error."""

    async def story(world: World) -> None:
        await _two_pods(world)
        _resize(world, "high", "3")
        await world.settle()
        world.delete_pod("low")
        await world.settle(3)
        uid = world.pod("high")["metadata"]["uid"]
        told = "Error scheduling pod; retrying"
        errors = [about["err"] for _, _, said, about in world.told if said == told]
        assert set(map(str, errors)) == {FITS.format(uid=uid)}
        assert world.place_of("high") == "backoff"
        assert world.notes("high", "FailedScheduling") == []
        _resize(world, "high", "3", reason="")
        await world.settle()
        assert world.place_of("high") is None
        assert world.node_of("high") == "n"

    live(story, **RESIZING)


def test_other_nodes_and_rules_of_placement_do_not_matter() -> None:
    """The node is full, cordoned and tainted, the pod's node selector names no node any more."""

    async def story(world: World) -> None:
        await _two_pods(world)
        taint = {"key": "k", "effect": "NoSchedule"}
        world.store.update(NODES, node("n", cpu="4", unschedulable=True, taints=[taint]))
        _resize(world, "high", "3")
        await world.settle()
        assert "deletionTimestamp" in world.pod("low")["metadata"]

    live(story, **RESIZING)


def test_nobody_is_preempted_for_less_than_what_is_missing() -> None:
    """Pods of the same priority stay, and a pod that asks for more than its node has is not helped."""

    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        for name in ("one", "high"):
            await world.add_pod(name, cpu="2", priority=10)
        _resize(world, "high", "3")
        await world.settle(1)
        assert world.place_of("high") == "unschedulable"
        world.delete_pod("one")
        await world.settle(5)
        assert world.place_of("high") == "backoff"
        await world.add_pod("low", cpu="1")
        _resize(world, "high", "5")
        await world.settle(30)
        assert "deletionTimestamp" not in world.pod("low")["metadata"]
        assert world.place_of("high") == "unschedulable"

    live(story, **RESIZING)


def test_a_node_can_refuse_preemption_for_resizes_and_the_pod_hears_when_it_no_longer_does() -> None:
    async def story(world: World) -> None:
        policy = {"disableResizePreemption": ["me"]}
        await _two_pods(world, podPreemptionPolicy=policy)
        _resize(world, "high", "3")
        await world.settle(30)
        assert "deletionTimestamp" not in world.pod("low")["metadata"]
        messages = {str(about.get("err", "")) for _, _, said, about in world.told if "no fit" in said}
        assert messages == {
            "0/2 nodes are available: 1 node had resize preemption disabled, "
            "1 node(s) didn't satisfy plugin(s) [NodeName]. preemption: 0/2 nodes are available: "
            "2 Preemption is not helpful for scheduling."
        }
        world.store.update(NODES, node("n", cpu="4"))
        await world.settle(15)
        assert "deletionTimestamp" in world.pod("low")["metadata"]

    live(story, **RESIZING)


@pytest.mark.parametrize("found", [False, True])
def test_a_pod_leaves_the_queue_when_it_is_deleted_or_no_longer_waits(found: bool) -> None:
    """Also one that the scheduler finds in that state when it starts."""

    async def prepare(world: World) -> None:
        world.add_node("n", cpu="4", podPreemptionPolicy={"disableResizePreemption": ["me"]})
        for name in ("a", "b"):
            world.put_pod(name, cpu="2", nodeName="n")
            _resize(world, name, "3")

    async def story(world: World) -> None:
        if not found:
            await prepare(world)
        await world.settle()
        assert (world.place_of("a"), world.place_of("b")) == ("unschedulable", "unschedulable")
        world.delete_pod("a")
        _resize(world, "b", "3", reason="Infeasible")
        await world.settle()
        assert (world.place_of("a"), world.place_of("b")) == (None, None)
        assert world.problems == []

    live(story, before=prepare if found else None, **RESIZING)


def test_without_the_gate_such_pods_are_none_of_the_schedulers_business() -> None:
    async def story(world: World) -> None:
        await _two_pods(world)
        _resize(world, "high", "3")
        await world.settle(30)
        assert world.place_of("high") is None
        assert "deletionTimestamp" not in world.pod("low")["metadata"]

    live(story)
