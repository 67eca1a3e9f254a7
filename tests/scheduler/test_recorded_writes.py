"""Everything written in the recorded scenarios: the same bodies, in the same order, and the same objects."""

from scheduler.comparable_objects import same_objects
from scheduler.comparable_writes import RECORDED, same_writes
from scheduler.live_scheduler import World, live

LATENCY = 0.006
"""How long a request took when the recordings were made, more or less."""

ZONE = {"topology.kubernetes.io/zone": "z1"}


async def _soon(world: World) -> None:
    """Time enough for every answer to arrive, and too short for any timeout."""
    await world.settle(0.2)


def test_a_pod_is_bound_and_an_event_tells_of_it() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-a"
        world.add_node("node-a1", labels=ZONE)
        world.put_pod("plain")
        await _soon(world)
        same_writes(world.wire.writes, "a-plain-bind")
        same_objects(world, "a-plain-bind")

    live(story, latency=LATENCY, config=RECORDED)


def test_a_pod_that_fits_nowhere_is_told_once_and_its_events_become_a_series() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-b"
        world.add_node("node-b1", cpu="2", labels=ZONE)
        world.add_node("node-b2", labels=ZONE, taints=[_taint("0")])
        world.put_pod("big", cpu="4")
        await _soon(world)
        same_writes(world.wire.writes, "b-unschedulable")
        same_objects(world, "b-unschedulable.1-first")
        for again in range(4):
            await world.settle(2)
            world.change_node("node-b2", labels=ZONE, taints=[_taint(str(again + 1))])
            await _soon(world)
        same_writes(
            world.wire.writes, "b-unschedulable", "b-unschedulable-again-1", "b-unschedulable-again-2"
        )
        same_objects(world, "b-unschedulable.2-series")

    live(story, latency=LATENCY, config=RECORDED)


def test_without_nodes_a_pod_is_told_so() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-b"
        world.put_pod("nonodes")
        await _soon(world)
        same_writes(world.wire.writes, "b-no-nodes")
        same_objects(world, "b-unschedulable.3-no-nodes", "nonodes")

    live(story, latency=LATENCY, config=RECORDED)


def test_a_pod_that_waits_is_bound_when_a_node_comes_that_can_hold_it() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-c"
        world.add_node("node-c1", cpu="2", labels=ZONE)
        world.put_pod("waiter", cpu="4")
        await _soon(world)
        same_writes(world.wire.writes, "c-pending")
        same_objects(world, "c-fits-later.1-pending")
        await world.settle(1)
        world.add_node("node-c2", cpu="8", labels=ZONE)
        await _soon(world)
        same_writes(world.wire.writes, "c-pending", "c-node-added")
        same_objects(world, "c-fits-later.2-bound")

    live(story, latency=LATENCY, config=RECORDED)


def test_victims_are_marked_deleted_and_told_and_the_preemptor_is_bound_when_they_are_gone() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-d"
        world.add_node("node-d1", labels=ZONE)
        for name in ("low-1", "low-2"):
            world.put_pod(name, cpu="2", priority=10)
            await _soon(world)
            _begin_to_run(world, name)
        same_writes(world.wire.writes, "d-fill")
        await world.settle(1)

        world.put_pod("high", cpu="3", priority=1000)
        await _soon(world)
        same_writes(world.wire.writes, "d-fill", "d-preempt")
        same_objects(world, "d-preemption.1-victims-terminating")
        assert world.wire.shorts.index("DELETE pods/low-1") < world.wire.shorts.index(
            "PATCH pods/low-2/status"
        )

        await world.settle(3)
        for name in ("low-1", "low-2"):
            world.delete_pod(name)
            await world.settle(0.03)
        await _soon(world)
        same_writes(world.wire.writes, "d-fill", "d-preempt", "d-victims-gone")
        same_objects(world, "d-preemption.2-bound")

        world.put_pod("never", cpu="3", priority=1000, preemptionPolicy="Never")
        await _soon(world)
        same_writes(world.wire.writes, "d-fill", "d-preempt", "d-victims-gone", "d-policy-never")
        same_objects(world, "d-preemption.3-policy-never")

    live(story, latency=LATENCY, config=RECORDED)


def test_a_gated_pod_is_left_alone_until_its_last_gate_is_gone() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-f"
        world.add_node("node-f1", labels=ZONE)
        gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
        world.put_pod("gated", schedulingGates=gates)
        await _soon(world)
        assert world.wire.writes == []
        same_objects(world, "f-gates.1-gated")
        for left in (gates[1:], []):
            world.patch_pod("gated", {"spec": {"schedulingGates": _replaced(gates, left)}})
            await _soon(world)
        same_writes(world.wire.writes, "f-gates-removed")
        same_objects(world, "f-gates.2-bound")

    live(story, latency=LATENCY, config=RECORDED)


def _taint(value: str) -> dict[str, str]:
    return {"key": "example.com/mine", "value": value, "effect": "NoSchedule"}


def _begin_to_run(world: World, name: str) -> None:
    """A kubelet's status of a started pod."""
    world.patch_pod(name, {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}, "status")


def _replaced(gates: list[dict[str, str]], left: list[dict[str, str]]) -> list[dict[str, str]]:
    """A patch of the gates that takes away those that are not left."""
    return [{"$patch": "delete", **gate} for gate in gates if gate not in left]
