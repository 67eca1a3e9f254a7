"""The condition of a group: what was true once is not written over by a cycle for members that are left."""

from typing import Any

from msgspec import to_builtins

from scheduler.live_scheduler import World, configured, live
from stowplan.api.catalogue import POD_GROUPS
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import release
from stowplan.testing.groups import pod_group

GATES = FeatureGates({"GenericWorkload": True}, release("1.37"))


def test_a_cycle_for_leftovers_that_follows_at_once_does_not_make_the_condition_false() -> None:
    """Writes take a second: the cycle for the pod that is left over sees the group as it was before."""
    written: list[Any] = []

    async def story(world: World) -> None:
        world.add_node("n", cpu="2")
        world.store.create(POD_GROUPS, to_builtins(pod_group("g", min_count=2, namespace="d")))
        await world.settle(5)
        for name in ("a", "b", "c"):
            world.put_pod(name, cpu="1", schedulingGroup={"podGroupName": "g"})
        await world.settle(30)
        written.extend(
            one.body["status"] for one in world.wire.writes if one.path.endswith("/podgroups/g/status")
        )
        group = world.store.get(POD_GROUPS, "d", "g")
        [condition] = group["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "Scheduled")
        assert sum(bool(world.node_of(name)) for name in ("a", "b", "c")) == 2

    live(story, config=configured(gates=GATES), latency=2.0)
    assert [one["conditions"][0]["status"] for one in written] == ["True"]
