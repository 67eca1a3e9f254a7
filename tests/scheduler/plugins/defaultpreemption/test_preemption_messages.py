"""Messages when preemption helps nowhere; tools and people read these sentences."""

from typing import Any

import pytest

from scheduler.plugins.defaultpreemption.preempting import framework_of, high, low, plugin_of, preempt, small
from stowplan.scheduler.framework.contract import Contract, Reads
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import run_post_filters
from stowplan.scheduler.framework.interface import ExtensionPoint, Plugin, PostFilterResult
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Status, error, unschedulable
from stowplan.scheduler.plugins.defaultpreemption.candidates import NO_CANDIDATES
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.view import NodeRow
from stowplan.testing import PodBuilder, cluster
from stowplan.testing.builders import HOSTNAME
from stowplan.testing.clusters import AnyNode

SAYS = [
    pytest.param(
        [small("n").unschedulable(), small("m").taint("t")],
        [],
        high(),
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        id="no node is worth trying",
    ),
    pytest.param(
        [small("n"), small("m")],
        [low("peer", "n", cpu=4, priority=10), low("boss", "m", cpu=4, priority=11)],
        high(),
        "0/2 nodes are available: 2 No preemption victims found for incoming pod.",
        id="nobody is less important",
    ),
    pytest.param(
        [small("n")],
        [low("boss", "n", cpu=3, priority=11), low("v", "n")],
        high(cpu=2),
        "0/1 nodes are available: 1 Insufficient cpu.",
        id="not even without all that are less important",
    ),
    pytest.param(
        [small("a"), small("b"), small("c").unschedulable()],
        [low("boss", "a", cpu=3, priority=11), low("v", "a"), low("peer", "b", cpu=4, priority=10)],
        high(cpu=2),
        "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
        id="each for its own reason",
    ),
    pytest.param(
        [small("a"), small("b")],
        [low("x", "a", cpu=4), low("y", "b", cpu=4), low("friend", "a", cpu=0)],
        high().affinity(HOSTNAME, {"app": "friend"}),
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.",
        id="the company it wants would have to go",
    ),
]


@pytest.mark.parametrize(("nodes", "pods", "wanting", "text"), SAYS)
def test_every_node_is_accounted_for_and_an_earlier_nomination_is_taken_back(
    nodes: list[AnyNode], pods: list[PodBuilder], wanting: PodBuilder, text: str
) -> None:
    result = preempt(cluster(nodes=nodes, pods=pods), wanting)
    assert result == PostFilterResult(unschedulable(f"preemption: {text}"), "")


def test_a_rejection_behind_the_first_is_given_where_room_alone_does_not_help() -> None:
    class Fussy(Plugin):
        """Rejects every node, after all others."""

        contract = Contract(reads=Reads.NODE)

        def filter(self, cycle: Cycle, pod: PodInfo, nodes: Any) -> Any:
            return 1 + 0 * nodes.pod_count

        def sign(self, pod: PodInfo) -> None:
            return None

        def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
            return unschedulable("node(s) are not to its taste")

    world = cluster(
        nodes=[small("n"), small("m")],
        pods=[low("v", "n", cpu=4), low("peer", "m", cpu=4, priority=10)],
        plugins=[Fussy],
    )
    assert preempt(world, high()).status.message == (
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 node(s) are not to its taste."
    )


def test_without_any_candidate_left_to_choose_from_it_is_said_so() -> None:
    world = cluster(nodes=[small("n")])
    result = plugin_of(framework_of(world)).chosen(world.table, NO_CANDIDATES, lambda rows: [])
    assert result == PostFilterResult(unschedulable("preemption: no candidate node for preemption"))


class Failing(Plugin):
    """Fails on a node once it has no pods any more, or always wants one pod to be there."""

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        names = {info.name for info in node.pods}
        if "fragile" in names or not names:
            return error("out of order") if node.name.startswith("bad") and not names else None
        return unschedulable("needs the fragile one")


def test_a_plugin_that_fails_on_a_node_speaks_against_that_node_alone() -> None:
    world = cluster(
        nodes=[small("bad-1"), small("good")],
        pods=[low("x", "bad-1", cpu=4), low("y", "good", cpu=4)],
        plugins=[Failing],
    )
    assert preempt(world, high()).nominated_node == "good"


def test_where_nothing_but_failures_came_of_it_the_failures_are_told() -> None:
    world = cluster(
        nodes=[small("bad-1"), small("bad-2")],
        pods=[low("x", "bad-1", cpu=4), low("y", "bad-2", cpu=4)],
        plugins=[Failing],
    )
    failure = 'running "Failing" filter plugin: out of order'
    assert preempt(world, high()) == PostFilterResult(error(f"preemption: {failure}"))


class Moody(Plugin):
    """Rejects a node at the first look and passes it ever after."""

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.seen: set[tuple[str, str]] = set()

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        if (pod.uid, node.name) in self.seen:
            return None
        self.seen.add((pod.uid, node.name))
        return unschedulable("not now")


def test_a_node_that_has_room_for_everybody_after_all_is_a_failure() -> None:
    world = cluster(nodes=[small("n")], pods=[low("v", "n")], plugins=[Moody])
    framework: Framework = framework_of(world)
    info = world.table.info(high().obj())
    cycle = framework.evaluate(info).cycle
    result = run_post_filters(framework.at(ExtensionPoint.POST_FILTER), cycle, info)
    message = 'preemption: expected at least one victim pod on node "n"'
    assert result == PostFilterResult(error(message).by("DefaultPreemption"))


def test_with_other_plugins_the_words_follow_theirs() -> None:
    world = cluster(nodes=[small("n")], pods=[low("boss", "n", cpu=4, priority=11)], release="1.36")
    framework = framework_of(world)
    info = world.table.info(high().obj())
    cycle = framework.evaluate(info).cycle
    assert run_post_filters(framework.at(ExtensionPoint.POST_FILTER), cycle, info).status.message == (
        "no new claims to deallocate, preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
