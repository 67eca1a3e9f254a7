"""Calls of plugins by node, and their number."""

from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest

from stowplan.scheduler.framework.contract import Contract, Reads
from stowplan.scheduler.framework.interface import UNSIGNED, Plugin
from stowplan.scheduler.framework.status import SKIP, SKIP_CLASS, Status, unschedulable
from stowplan.testing import cluster, node, pod

NODES = [node(name) for name in "abcdef"]


class Counting(Plugin):
    """Remembers which nodes it was asked about."""

    asked: ClassVar[Counter[str]] = Counter()


class Signed(Counting):
    contract = Contract(reads=Reads.NODE)

    def sign(self, pod: Any) -> str:
        return "every pod alike"

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> Any:
        self.asked[node.name] += 1
        return unschedulable("not this one") if "closed" in node.labels else None


class Unsigned(Counting):
    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        self.asked[node.name] += 1


class SignedScore(Counting):
    contract = Contract(reads=Reads.NODE)

    def sign(self, pod: Any) -> str:
        return "every pod alike"

    def score_node(self, cycle: Any, pod: Any, node: Any) -> int:
        self.asked[node.name] += 1
        return 50


class Columns(Counting):
    contract = Contract(reads=Reads.USAGE)

    def sign(self, pod: Any) -> str:
        return "every pod alike"

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        self.asked.update(each.name for each in nodes)
        return np.zeros(len(nodes), dtype=np.int64)

    def reason(self, cycle: Any, pod: Any, code: int) -> Status:
        return unschedulable("never")


class Skipping(Counting):
    """Skips every pod, or all that are equal, before Filter and before Score."""

    answer: ClassVar[Status] = SKIP

    def sign(self, pod: Any) -> str:
        return "every pod alike"

    def pre_filter(self, cycle: Any, pod: Any) -> Status:
        self.asked["PreFilter"] += 1
        return self.answer

    def pre_score(self, cycle: Any, pod: Any) -> Status:
        self.asked["PreScore"] += 1
        return self.answer


class SkippingAll(Skipping):
    answer = SKIP_CLASS


class SkippingUnsigned(SkippingAll):
    def sign(self, pod: Any) -> Any:
        return UNSIGNED


class Company(Counting):
    """Looks at other rows: their nodes only, or their pods too."""

    contract = Contract(reads=Reads.NOTHING, reads_others=Reads.ANYTHING)

    def sign(self, pod: Any) -> str:
        return "every pod alike"

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        self.asked["Score"] += 1
        return np.full(len(nodes), 7, dtype=np.int64)


class NodesOnly(Company):
    contract = Contract(reads=Reads.NOTHING, reads_others=Reads.NODE)


@pytest.fixture(autouse=True)
def forget() -> None:
    Counting.asked.clear()


def place(world: Any, number: int) -> str:
    node_name = world.schedule(pod(f"p{number}").requests(cpu="100m")).node
    assert node_name is not None
    return str(node_name)


def test_a_plugin_that_says_what_it_reads_is_asked_once_about_each_node() -> None:
    world = cluster(nodes=NODES, plugins=[Signed])
    for number in range(5):
        place(world, number)
    assert Counting.asked == Counter("abcdef")


def test_it_is_asked_again_about_a_node_that_changed() -> None:
    world = cluster(nodes=NODES, plugins=[Signed])
    place(world, 0)
    world.add(node("c").labels(closed="yes"))
    Counting.asked.clear()
    for number in range(1, 12):
        assert place(world, number) != "c"
    assert Counting.asked == Counter("c")


def test_a_plugin_that_says_nothing_is_asked_about_every_node_every_time() -> None:
    world = cluster(nodes=NODES, plugins=[Unsigned])
    for number in range(3):
        place(world, number)
    assert Counting.asked == Counter("abcdef" * 3)


def test_a_plugin_that_says_nothing_does_not_keep_others_from_being_reused() -> None:
    class Silent(Plugin):
        def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
            return None

    world = cluster(nodes=NODES, plugins=[Signed, Silent])
    for number in range(3):
        place(world, number)
    assert Counting.asked == Counter("abcdef")


def test_a_filter_by_node_is_not_asked_about_nodes_that_are_out_already() -> None:
    world = cluster(nodes=[*NODES, node("tainted").taint("gpu")], plugins=[Signed])
    place(world, 0)
    assert "tainted" not in Counting.asked
    world.add(node("tainted"))
    place(world, 1)
    assert Counting.asked == Counter(["tainted", *"abcdef"])


def test_a_score_by_node_is_asked_once_about_nodes_that_can_take_the_pod() -> None:
    world = cluster(nodes=[*NODES, node("tainted").taint("gpu")], plugins=[SignedScore])
    for number in range(3):
        place(world, number)
    assert Counting.asked == Counter("abcdef")


def test_a_plugin_that_reads_usage_is_asked_again_where_pods_came_and_went() -> None:
    world = cluster(nodes=NODES, plugins=[Columns])
    first = place(world, 0)
    Counting.asked.clear()
    place(world, 1)
    assert Counting.asked == Counter([first])


def test_with_one_node_left_nobody_scores() -> None:
    world = cluster(nodes=[node("a"), node("b").taint("gpu")], plugins=[SignedScore])
    assert place(world, 0) == "a"
    assert not Counting.asked


@pytest.mark.parametrize(("plugin", "times"), [(Skipping, 4), (SkippingAll, 1), (SkippingUnsigned, 4)])
def test_a_plugin_that_skips_a_class_is_asked_about_its_first_pod_only(
    plugin: type[Plugin], times: int
) -> None:
    world = cluster(nodes=NODES, plugins=[plugin])
    for number in range(4):
        place(world, number)
    assert Counting.asked == {"PreFilter": times, "PreScore": times}


@pytest.mark.parametrize(("plugin", "times"), [(Company, 4), (NodesOnly, 1)])
def test_a_plugin_that_heeds_no_pods_is_asked_again_only_when_a_node_changes(
    plugin: type[Plugin], times: int
) -> None:
    world = cluster(nodes=NODES, plugins=[plugin])
    for number in range(4):
        place(world, number)
    assert Counting.asked["Score"] == times
    world.table.put_node(node("a").labels(new="yes").obj())
    place(world, 4)
    assert Counting.asked["Score"] == times + 1
