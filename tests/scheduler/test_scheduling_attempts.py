"""One attempt: who is tried at all, which nodes are looked at, and which of them it is to be."""

import asyncio
import re
from collections import Counter
from typing import Any

import pytest

from scheduler.live_scheduler import World, configured, enabling, live, plugin
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.scheduler.framework.interface import PreFilterResult
from stowplan.scheduler.framework.status import SUCCESS, unschedulable
from stowplan.testing.extenders import RuleExtender, Rules

NO_NODES = "no nodes available to schedule pods"


def test_a_pod_gets_a_node_and_its_wait_is_over() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert world.node_of("p") == "n"
        assert world.condition("p")["status"] == "True"
        assert world.place_of("p") is None
        assert world.scheduler.context.cache.assumed == {}
        assert len(world.queue.in_flight) == 0

    live(story)


def test_a_pod_that_is_being_deleted_is_not_tried() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", metadata={"finalizers": ["x/keep"]}, schedulingGates=[{"name": "x/g"}])
        world.delete_pod("p", now=False)
        world.patch_pod("p", {"spec": {"schedulingGates": [{"$patch": "delete", "name": "x/g"}]}})
        await world.settle()
        assert world.notes("p") == ["skip schedule deleting pod: d/p"]
        event = world.events("p")[0]
        assert (event["type"], event["reason"], event["action"]) == (
            "Warning",
            "FailedScheduling",
            "Scheduling",
        )
        assert world.wire.shorts == ["FailedScheduling p"]
        assert world.place_of("p") is None
        assert len(world.queue.in_flight) == 0

    live(story)


def test_a_pod_that_is_on_its_way_to_a_node_is_not_tried_a_second_time() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.seconds = 5.0
        made = await world.add_pod("p")
        world.queue.add(world.scheduler.pod("d/p"))
        world.scheduler.context.wake()
        await world.settle(1)
        assert world.wire.shorts == ["POST pods/p/binding"]
        assert world.queue.place_of("d/p") is None
        assert made["metadata"]["uid"] in world.scheduler.context.cache.assumed

    live(story)


def test_pods_of_other_schedulers_are_none_of_our_business_until_they_have_a_node() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", schedulerName="somebody-else")
        assert world.wire.writes == []
        assert len(world.queue) == 0
        world.store.bind("d", "p", {"metadata": {"name": "p"}, "target": {"name": "n"}})
        await world.settle()
        await world.add_pod("q", cpu="4")
        assert world.message("q").startswith("0/1 nodes are available: 1 Insufficient cpu.")

    live(story)


def test_without_nodes_nobody_is_asked_and_the_pod_backs_off_as_after_an_error() -> None:
    async def story(world: World) -> None:
        await world.add_pod("p", priority=5)
        assert (world.message("p"), world.condition("p")["reason"]) == (NO_NODES, "Unschedulable")
        assert world.place_of("p") == "backoff"
        await world.settle(20)
        assert world.attempts("p") == pytest.approx([0, 2, 5, 10, 19], abs=0.01)

    live(story, verbosity=3)


def test_a_pod_without_nodes_is_tried_when_one_comes_though_not_before_its_backoff_is_over() -> None:
    async def story(world: World) -> None:
        await world.add_pod("p")
        world.add_node("n")
        await world.settle(0.5)
        assert world.node_of("p") == ""
        await world.settle(2)
        assert world.node_of("p") == "n"

    live(story)


def test_pre_filters_narrow_the_choice_and_who_is_left_out_is_told_why() -> None:
    only = plugin(
        "Only", pre_filter=lambda self, cycle, pod: PreFilterResult(frozenset(pod.labels["on"].split("-")))
    )

    async def story(world: World) -> None:
        for name in "abc":
            world.add_node(name)
        await world.add_pod("p", metadata={"labels": {"on": "b"}})
        assert world.node_of("p") == "b"
        await world.add_pod("q", cpu="8", metadata={"labels": {"on": "a-c"}})
        assert world.message("q").startswith(
            "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [Only], 2 Insufficient cpu."
        )
        await world.add_pod("r", metadata={"labels": {"on": "z"}})
        assert world.message("r").startswith(
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [Only]."
        )

    live(story, plugins=[only])


def _nominate(world: World, name: str, node: str) -> None:
    world.patch_pod(name, {"status": {"nominatedNodeName": node}}, "status")


def _gate(world: World, name: str, node: str, **about: Any) -> None:
    """A pod that is nominated a node before it is let in."""
    world.put_pod(name, schedulingGates=[{"name": "x/g"}], **about)
    _nominate(world, name, node)
    world.patch_pod(name, {"spec": {"schedulingGates": [{"$patch": "delete", "name": "x/g"}]}})


def test_a_nominated_node_is_taken_though_others_are_better() -> None:
    async def story(world: World) -> None:
        world.add_node("a", cpu="4")
        world.add_node("b", cpu="64")
        _gate(world, "p", "a")
        await world.settle()
        assert world.node_of("p") == "a"

    live(story)


@pytest.mark.parametrize("nominated", ["gone", "small"])
def test_a_nominated_node_that_is_gone_or_too_small_is_not_waited_for(nominated: str) -> None:
    async def story(world: World) -> None:
        world.add_node("small", cpu="1")
        world.add_node("b")
        _gate(world, "p", nominated, cpu="2")
        await world.settle()
        assert world.node_of("p") == "b"
        assert world.problems == (["Evaluation failed on nominated node"] if nominated == "gone" else [])

    live(story)


class Slow(RuleExtender):
    """Takes a second, and looks at what the scheduler knows before and after."""

    def __init__(self) -> None:
        super().__init__(ExtenderConfig(url_prefix="http://x", filter_verb="filter"), Rules())
        self.seen: list[int] = []
        self.world: World | None = None

    async def filter(self, pod: Any, nodes: Any) -> Any:
        assert self.world is not None
        for pause in (1.0, 0.0):
            self.seen.append(self.world.scheduler.context.cache.table.node_count)
            await asyncio.sleep(pause)
        return await super().filter(pod, nodes)


def test_while_an_extender_is_asked_the_cluster_stands_still() -> None:
    slow = Slow()

    async def story(world: World) -> None:
        slow.world = world
        world.add_node("n")
        world.add_node("m")
        await world.add_pod("p")
        world.remove_node("n")
        world.put_pod("q")
        await world.settle(0.5)
        assert slow.seen == [2]
        await world.settle(2)
        assert slow.seen == [2, 2, 1, 1]
        assert world.node_of("q") == "m"

    live(story, extenders=[slow])


def test_a_nominated_node_that_an_extender_refuses_is_not_waited_for() -> None:
    rules = Rules(judge=lambda node, pod: unschedulable("not there") if node == "a" else SUCCESS)
    asked = RuleExtender(ExtenderConfig(url_prefix="http://x", filter_verb="filter"), rules)

    async def story(world: World) -> None:
        world.add_node("a")
        world.add_node("b")
        _gate(world, "p", "a")
        await world.settle()
        assert world.node_of("p") == "b"

    live(story, extenders=[asked])


def test_room_that_is_nominated_is_not_given_to_less_important_pods() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        await world.add_pod("victim", cpu="2")
        await world.add_pod("p", cpu="3", priority=5)
        assert world.nominated("p") == "n"
        await world.add_pod("less", cpu="2", priority=4)
        await world.add_pod("more", cpu="2", priority=6)
        assert (world.node_of("less"), world.node_of("more")) == ("", "n")

    live(story)


def test_a_single_node_that_can_take_the_pod_is_not_scored() -> None:
    asked: list[str] = []

    def score_node(self: Any, cycle: Any, pod: Any, node: Any) -> int:
        asked.append(node.name)
        return 0

    nosy = plugin("Nosy", score_node=score_node)

    async def story(world: World) -> None:
        world.add_node("a", cpu="1")
        world.add_node("b")
        await world.add_pod("p", cpu="2")
        assert asked == []
        world.add_node("c")
        await world.add_pod("q", cpu="2")
        assert sorted(asked) == ["b", "c"]

    live(story, plugins=[nosy])


def test_ties_are_broken_fairly() -> None:
    blind = configured(
        {"plugins": {"score": {"disabled": [{"name": "*"}]}, "preScore": {"disabled": [{"name": "*"}]}}}
    )
    nodes, pods = [f"n{number}" for number in range(8)], 240

    async def story(world: World) -> None:
        for name in nodes:
            world.add_node(name)
        for number in range(pods):
            world.put_pod(f"p{number}", cpu="10m")
        await world.settle(1)
        taken = Counter(world.node_of(f"p{number}") for number in range(pods))
        expected = pods / len(nodes)
        chi_square = sum((taken[name] - expected) ** 2 / expected for name in nodes)
        assert chi_square < 24.3, taken  # 7 degrees of freedom: exceeded by chance once in a thousand

    live(story, config=blind, seed=7)


def test_more_important_pods_are_tried_first_and_among_equals_who_came_first() -> None:
    async def before(world: World) -> None:
        world.add_node("n")
        for name, priority in (("low", 1), ("high", 9), ("middle", 5), ("high-too", 9)):
            world.put_pod(name, cpu="100m", priority=priority)

    async def story(world: World) -> None:
        await world.settle()
        bound = [one for one in world.wire.shorts if one.startswith("POST")]
        assert bound[0] == "POST pods/high/binding"
        assert [one.split("/")[1] for one in bound] == ["high", "high-too", "middle", "low"]

    live(story, before=before)


def test_a_plugin_that_raises_fails_the_attempt_and_nothing_else() -> None:
    def filter_node(self: Any, cycle: Any, pod: Any, node: Any) -> None:
        if pod.name == "p":
            raise KeyError("colour")

    picky = plugin("Picky", filter_node=filter_node)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.add_pod("q")
        assert re.fullmatch(
            r"running \"Picky\" filter plugin: KeyError: 'colour' \(test_\w+.py:\d+, node n\)",
            world.message("p"),
        )
        assert world.condition("p")["reason"] == "SchedulerError"
        assert (world.place_of("p"), world.node_of("q")) == ("backoff", "n")

    live(story, plugins=[picky])


def test_profiles_have_their_own_plugins() -> None:
    never = plugin("Never", filter_node=lambda self, cycle, pod, node: unschedulable("never"))
    config = configured(enabling(name="default-scheduler"), enabling(never, name="strict"))

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.add_pod("q", schedulerName="strict")
        await world.add_pod("r", schedulerName="nobody")
        assert (world.node_of("p"), world.node_of("q")) == ("n", "")
        assert world.message("q").startswith("0/1 nodes are available: 1 never.")
        assert {one["reportingController"] for one in world.events("q")} == {"strict"}
        assert {one["reportingInstance"] for one in world.events("q")} == {"strict-vm"}
        assert world.events("r") == []

    live(story, config=config, plugins=[never])
