"""Pod groups with extenders: they help to filter, score and bind members, and nothing stays held."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from scheduler.extenders.servers import config as http_config
from scheduler.extenders.servers import serving
from scheduler.live_scheduler import World, live
from scheduler.pod_groups.group_stories import add_group, put_members, told_of, with_gates
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.runtime.clock import RealClock
from stowplan.scheduler.extenders import ExtenderError
from stowplan.scheduler.extenders.http import HttpExtender
from stowplan.scheduler.extenders.interface import Filtered
from stowplan.scheduler.framework.status import SUCCESS, unschedulable
from stowplan.testing.extenders import RuleExtender, Rules
from waiting import eventually

GANG = 3


def extender(rules: Rules, *verbs: str, **settings: Any) -> RuleExtender:
    named: dict[str, Any] = {f"{verb}_verb": verb for verb in verbs}
    return RuleExtender(ExtenderConfig(url_prefix="http://x", weight=1, **named, **settings), rules)


class Scripted(RuleExtender):
    """An extender that may fail or wait when it is called for a pod."""

    def __init__(self, happens: Callable[[str], Any], **settings: Any) -> None:
        super().__init__(ExtenderConfig(url_prefix="http://x", filter_verb="filter", **settings), Rules())
        self.asked: list[str] = []
        self._happens = happens

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> Filtered:
        self.asked.append(pod.name)
        happens = self._happens(pod.name)
        if happens is not None:
            await happens
        return await super().filter(pod, nodes)


def holds_nothing(world: World) -> bool:
    """No member is on a node that it is not bound to, or on the way there."""
    context = world.scheduler.context
    return not context.cache.assumed and not context.cache.table.pods and not len(context.waiting)


def nodes_of(world: World, names: Sequence[str]) -> list[str]:
    return [world.node_of(name) for name in names]


def test_members_go_where_extenders_let_them() -> None:
    refused = Rules(judge=lambda node, pod: unschedulable("full of ghosts") if node == "b" else SUCCESS)

    async def story(world: World) -> None:
        for name in "abc":
            world.add_node(name)
        add_group(world, "g", GANG)
        members = put_members(world, "g", GANG, cpu="2")
        await world.settle(1)
        assert sorted(nodes_of(world, members)) in (["a", "a", "c"], ["a", "c", "c"])

    live(story, config=with_gates(), extenders=[extender(refused, "filter")])


def test_a_gang_that_an_extender_leaves_too_few_nodes_is_placed_as_a_whole_later() -> None:
    """Where there would be room for two of three no member is placed; a node that the extender accepts
    helps."""
    refused = Rules(judge=lambda node, pod: unschedulable("full of ghosts") if node == "b" else SUCCESS)

    async def story(world: World) -> None:
        world.add_node("a")
        world.add_node("b")
        add_group(world, "g", GANG)
        members = put_members(world, "g", GANG, cpu="2")
        await world.settle(1)
        assert nodes_of(world, members) == ["", "", ""]
        assert holds_nothing(world)
        assert world.message(members[2]).startswith("0/2 nodes are available: 1 Insufficient cpu, 1 full of")
        world.put_pod("other", cpu="4")
        await world.settle(1)
        assert world.node_of("other") == "a", "the gang keeps nothing from others"
        world.add_node("c", cpu="8")
        await world.settle(60)
        assert nodes_of(world, members) == ["c", "c", "c"]

    live(story, config=with_gates(), extenders=[extender(refused, "filter")])


def test_extenders_say_which_node_is_better() -> None:
    liked = Rules(score=lambda node, pod: 10 if node == f"n{pod[-1]}" else 0)

    async def story(world: World) -> None:
        for number in range(GANG):
            world.add_node(f"n{number}", cpu="16")
        add_group(world, "g", GANG)
        members = put_members(world, "g", GANG, cpu="100m")
        await world.settle(1)
        assert nodes_of(world, members) == ["n0", "n1", "n2"]

    live(story, config=with_gates(), extenders=[extender(liked, "prioritize")])


def test_an_extender_binds_the_members() -> None:
    binder = extender(Rules(), "bind")

    async def story(world: World) -> None:
        world.add_node("a", cpu="8")
        add_group(world, "g", GANG)
        members = put_members(world, "g", GANG)
        await world.settle(1)
        assert [(pod.name, node) for pod, node in binder.bound] == [(name, "a") for name in members]
        assert not [one for one in world.wire.shorts if one.endswith("/binding")]

    live(story, config=with_gates(), extenders=[binder])


def test_a_binding_that_an_extender_refuses_is_that_members_alone() -> None:
    class Refusing(RuleExtender):
        refused = 0

        async def bind(self, pod: Pod, node: str) -> None:
            if pod.name == "g-1" and not self.refused:
                self.refused += 1
                raise ExtenderError("no")
            await super().bind(pod, node)
            world_of[0].store.bind("d", pod.name, {"metadata": {"name": pod.name}, "target": {"name": node}})

    world_of: list[World] = []
    binder = Refusing(ExtenderConfig(url_prefix="http://x", bind_verb="bind"), Rules())

    async def story(world: World) -> None:
        world_of.append(world)
        world.add_node("a", cpu="8")
        add_group(world, "g", GANG)
        members = put_members(world, "g", GANG)
        await world.settle(60)
        assert binder.refused == 1
        assert [pod.name for pod, _ in binder.bound] == ["g-0", "g-2", "g-1"]
        assert nodes_of(world, members) == ["a", "a", "a"]
        assert not world.scheduler.context.cache.assumed

    live(story, config=with_gates(), extenders=[binder])


def test_an_extender_that_fails_in_the_middle_of_a_group_leaves_nothing_held() -> None:
    failures = iter([True])

    async def fail() -> None:
        raise ExtenderError("the extender is ill")

    asked = Scripted(lambda pod: fail() if pod == "g-2" and next(failures, False) else None)

    async def story(world: World) -> None:
        world.add_node("a", cpu="8")
        add_group(world, "g", GANG)
        members = put_members(world, "g", GANG)
        await world.settle(0.5)
        assert asked.asked == members
        assert nodes_of(world, members) == ["", "", ""]
        assert holds_nothing(world)
        assert "the extender is ill" in told_of(world, "g")
        assert "the extender is ill" in world.message("g-0")
        await world.settle(60)
        assert nodes_of(world, members) == ["a", "a", "a"]

    live(story, config=with_gates(), extenders=[asked])


def test_an_extender_that_fails_while_victims_are_imagined_away_leaves_all_in_place() -> None:
    """The gang is tried once more without pods of lower priority: then the extender is called, and fails."""
    failures = iter([True])

    async def fail() -> None:
        raise ExtenderError("the extender is ill")

    asked = Scripted(lambda pod: fail() if pod == "g-2" and next(failures, False) else None)

    async def story(world: World) -> None:
        world.add_node("a", cpu="4")
        low = [f"low-{number}" for number in range(4)]
        for name in low:
            await world.add_pod(name, cpu="1")
        asked.asked.clear()
        add_group(world, "g", GANG, priority=10)
        members = put_members(world, "g", GANG, cpu="1", priority=10)
        await world.settle(0.5)
        assert asked.asked == members
        table = world.scheduler.context.cache.table
        assert sorted(info.name for info in table.pods.values()) == low
        assert nodes_of(world, members) == ["", "", ""]
        await world.settle(120)
        leaving = ["deletionTimestamp" in world.pod(name)["metadata"] for name in low]
        assert sum(leaving) == GANG, "room is made the next time"

    live(story, config=with_gates(), extenders=[asked])


def test_an_extender_that_may_be_ignored_does_not_stop_a_group() -> None:
    async def fail() -> None:
        raise ExtenderError("the extender is ill")

    asked = Scripted(lambda pod: fail() if pod == "g-1" else None, ignorable=True)

    async def story(world: World) -> None:
        world.add_node("a", cpu="8")
        add_group(world, "g", GANG)
        members = put_members(world, "g", GANG)
        await world.settle(0.5)
        assert nodes_of(world, members) == ["a", "a", "a"]

    live(story, config=with_gates(), extenders=[asked])


def test_while_an_extender_is_asked_nobody_sees_a_gang_that_is_placed_in_part() -> None:
    """Events meanwhile wait: a deleted node is gone for the group's next attempt."""
    asked = Scripted(lambda pod: asyncio.sleep(5) if pod == "g-2" else None)

    async def story(world: World) -> None:
        world.add_node("a", cpu="8")
        add_group(world, "g", GANG)
        members = put_members(world, "g", GANG)
        await world.settle(1)
        assert len(world.scheduler.context.cache.table.pods) == 2, "two members are tried on the table"
        assert nodes_of(world, members) == ["", "", ""]
        assert not world.scheduler.context.cache.assumed
        world.put_pod("other", cpu="4")
        await world.settle(1)
        assert not world.node_of("other"), "it is decided about when the group is"
        await world.settle(10)
        assert nodes_of(world, members) == ["a", "a", "a"]
        assert not world.node_of("other")

    live(story, config=with_gates(), extenders=[asked])


def test_a_scheduler_that_stops_while_an_extender_is_asked_leaves_nothing_held() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    asked = Scripted(lambda pod: forever() if pod == "g-1" else None)

    async def story(world: World) -> None:
        world.add_node("a", cpu="8")
        add_group(world, "g", GANG)
        put_members(world, "g", GANG)
        await world.settle(1)
        assert asked.asked == ["g-0", "g-1"]

    world = live(story, config=with_gates(), extenders=[asked])
    assert holds_nothing(world)


def test_a_gang_is_placed_with_an_extender_over_http() -> None:
    """Filter, prioritize and bind as they are said on the wire, for every member."""
    bound: dict[str, str] = {}

    def answer(verb: str, body: Any) -> Any:
        if verb == "bind":
            bound[body["PodName"]] = body["Node"]
            return {}
        nodes = body["NodeNames"]
        if verb == "prioritize":
            return [{"Host": node, "Score": 10 if node == "c" else 0} for node in nodes]
        return {"NodeNames": [node for node in nodes if node != "b"], "FailedNodes": {"b": "ghosts"}}

    async def story() -> None:
        async with serving(answer) as server:
            asked = HttpExtender(http_config(server.url), environ={})
            world = World(RealClock(), config=with_gates(), extenders=[asked])
            for name in "abc":
                world.add_node(name, cpu="16")
            async with world.scheduler.running():
                add_group(world, "g", GANG)
                members = put_members(world, "g", GANG, cpu="1")
                await eventually(lambda: bound.keys() == {*members})
            await asked.close()
        assert set(bound.values()) == {"c"}
        verbs = [one.verb for one in server.heard]
        assert verbs.count("filter") == verbs.count("prioritize") == verbs.count("bind") == GANG

    asyncio.run(story())
