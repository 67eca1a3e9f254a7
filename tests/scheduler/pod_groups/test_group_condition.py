"""The condition PodGroupInitiallyScheduled: one write at a time, the last one counts, and True stays."""

from typing import Any

from msgspec import to_builtins

from scheduler.live_scheduler import World, configured, live
from stowplan.api.catalogue import POD_GROUPS
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import release
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.testing.groups import pod_group

GATES = FeatureGates({"GenericWorkload": True}, release("1.37"))
STATUS = "PATCH podgroups/g/status"


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


def add_gang(world: World) -> None:
    """A group of two pods with 2 CPUs each."""
    world.store.create(POD_GROUPS, to_builtins(pod_group("g", min_count=2, namespace="d")))
    for name in ("a", "b"):
        world.put_pod(name, cpu="2", schedulingGroup={"podGroupName": "g"})


def condition_of(world: World) -> Json:
    conditions: list[Json] = world.store.get(POD_GROUPS, "d", "g").get("status", {}).get("conditions") or []
    return conditions[0] if conditions else {}


def written(world: World) -> list[str]:
    """Statuses that were written, in order."""
    return [
        one.body["status"]["conditions"][0]["status"]
        for one in world.wire.writes
        if one.path.endswith("/podgroups/g/status") and one.code == 200
    ]


def test_a_condition_that_changes_while_it_is_written_is_written_again() -> None:
    """False is on its way for ten seconds; meanwhile a node comes and the group is placed."""

    async def story(world: World) -> None:
        add_gang(world)
        await world.settle(1)
        world.wire.seconds = 0.0
        world.add_node("n", cpu="4")
        await world.settle(30)
        assert written(world) == ["False", "True"]
        assert condition_of(world)["status"] == "True"

    live(story, config=configured(gates=GATES), latency=10.0)


def test_a_new_group_of_the_same_name_gets_a_condition_of_its_own() -> None:
    """The write for the deleted group is still under way, with the same text."""

    async def story(world: World) -> None:
        add_gang(world)
        await world.settle(1)
        world.store.delete(POD_GROUPS, "d", "g")
        for name in ("a", "b"):
            world.delete_pod(name)
        add_gang(world)
        await world.settle(7)
        assert condition_of(world)["status"] == "False"

    live(story, config=configured(gates=GATES), latency=10.0)


def test_a_condition_that_could_not_be_written_is_written_after_the_next_attempt() -> None:
    async def story(world: World) -> None:
        world.wire.answer(STATUS, ApiError(403, "Forbidden", "not now"))
        world.add_node("small", cpu="3")
        await world.settle()
        add_gang(world)
        await world.settle(1)
        assert "Failed to update PodGroup status" in world.problems
        assert not condition_of(world)
        world.change_node("small", cpu="3500m")
        await world.settle(30)
        assert condition_of(world)["status"] == "False"

    live(story, config=configured(gates=GATES))
