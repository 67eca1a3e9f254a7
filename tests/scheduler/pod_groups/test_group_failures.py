"""Groups that cannot be tried: members that disagree, and plugins that fail. Other pods are scheduled."""

from typing import Any

import pytest

from releases import V1_37
from scheduler.live_scheduler import World, configured, enabling, live, plugin
from scheduler.pod_groups.group_stories import add_group, put_members, told_of, with_gates
from stowplan.api.gates.feature_gates import FeatureGates

SAME = "all pods in a single pod group should have the same"
GATES = FeatureGates({"GenericWorkload": True}, V1_37)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "other"},
            f'{SAME} .spec.schedulerName set, got: "other" and "default-scheduler"',
        ),
        ({}, {"priority": 5}, f"{SAME} priority as the pod group's priority, got 5 and 0"),
        (
            {"preemptionPolicy": "PreemptLowerPriority"},
            {"preemptionPolicy": "Never"},
            f"{SAME} preemption policy, got Never and PreemptLowerPriority",
        ),
    ],
    ids=["scheduler", "priority", "preemption policy"],
)
def test_members_that_disagree_are_told_and_none_is_placed(
    one: dict[str, Any], other: dict[str, Any], message: str
) -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="8")
        add_group(world, "g", 2)
        for name, spec in (("a", one), ("b", other)):
            world.put_pod(name, "1", schedulingGroup={"podGroupName": "g"}, **spec)
        await world.add_pod("alone", "1")
        assert message in told_of(world, "g")
        assert (world.node_of("a"), world.node_of("b"), world.node_of("alone")) == ("", "", "n")
        assert world.condition("a")["reason"] == "SchedulerError"

    profiles = ({"schedulerName": "default-scheduler"}, {"schedulerName": "other"})
    live(story, config=configured(*profiles, gates=GATES))


def failing(point: str) -> Any:
    """A plugin that raises at an extension point for members of `g`."""

    def fails(self: Any, *about: Any) -> Any:
        if any(getattr(one, "name", "").startswith("g-") for one in about):
            raise ZeroDivisionError("nobody expected this")

    return plugin("Failing", **{point: fails})


def test_an_error_of_one_member_at_reserve_fails_that_member_alone() -> None:
    failing_reserve = failing("reserve")

    async def story(world: World) -> None:
        world.add_node("n", cpu="8")
        add_group(world, "g")
        put_members(world, "g", 1, "1")
        await world.add_pod("alone", "1")
        assert (world.node_of("g-0"), world.node_of("alone")) == ("", "n")
        assert "nobody expected this" in world.message("g-0")

    config = configured(enabling(failing_reserve), gates=GATES)
    live(story, config=config, plugins=[failing_reserve])


def test_an_unexpected_error_fails_its_group_and_the_scheduler_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(*_: Any) -> Any:
        raise ZeroDivisionError("nobody expected this")

    monkeypatch.setattr("stowplan.scheduler.pod_groups.cycle.Agreement.take", breaks)

    async def story(world: World) -> None:
        world.add_node("n", cpu="8")
        add_group(world, "g", 2)
        put_members(world, "g", 2, "1")
        await world.add_pod("alone", "1")
        assert "Group scheduling failed" in world.problems
        assert "nobody expected this" in told_of(world, "g")
        assert (world.node_of("g-0"), world.node_of("alone")) == ("", "n")
        monkeypatch.undo()
        await world.settle(30)
        assert (world.node_of("g-0"), world.node_of("g-1")) == ("n", "n")

    live(story, config=with_gates())
