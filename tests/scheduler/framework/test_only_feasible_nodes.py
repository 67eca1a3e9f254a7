"""Whatever numbers pods and plugins come up with, only a node that passed the filters is chosen."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.contract import Contract, Reads
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import ChoiceError, PluginError
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFit
from stowplan.testing import cluster, node, pod
from stowplan.testing.clusters import Cluster

INVALID = r'plugin "{}" returns an invalid score {}, it should in the range of \[0, 100\] after normalizing'


def overfull(nodes: int) -> Cluster:
    """Two nodes with two pods of 7Ei each, whose sum is past 64 bits, and others."""
    world = cluster(nodes=[node(f"n{i}").labels(big=str(i < 2)) for i in range(nodes)])
    for number in range(4):
        world.add(pod(f"huge-{number}").requests(memory="7Ei").on(f"n{number % 2}"))
    return world


@pytest.mark.parametrize("nodes", [2, 12, 64, 300])
def test_pods_that_must_go_to_overfull_nodes_go_there_or_nowhere(nodes: int) -> None:
    world = overfull(nodes)
    for number in range(20):
        decision = world.schedule(pod(f"p{number}").node_affinity("big", "In", "True"))
        assert decision.node in ("n0", "n1")
        assert decision.best[0].scores["NodeResourcesFit"] <= 50, "nothing is left of the memory"
    assert world.schedule(pod("asks").requests(memory="1").node_selector(big="True")).node is None


def test_an_overfull_node_has_room_again_when_pods_leave() -> None:
    world = overfull(2)
    asks = pod("asks").requests(memory="1Gi")
    assert world.schedule(asks).node is None
    world.remove(*(pod(f"huge-{number}") for number in (0, 2)))
    assert world.schedule(asks).node == "n0"


@pytest.mark.parametrize("score", [-1, -134217644, 101, 2**62])
@pytest.mark.parametrize("again", [False, True])
def test_our_own_plugins_have_to_stay_in_range_too(
    monkeypatch: pytest.MonkeyPatch, score: int, again: bool
) -> None:
    world = cluster(nodes=[node(f"n{i}") for i in range(4)])
    if again:
        assert [world.schedule(pod(f"p{i}").requests(cpu="1")).scheduled for i in range(3)] == [True] * 3
    monkeypatch.setattr(
        NodeResourcesFit, "score", lambda self, cycle, pod, nodes: np.full(nodes.count, score)
    )
    monkeypatch.setattr(NodeResourcesFit, "score_row", lambda self, cycle, pod, row: score)
    for frame in world.frameworks.values():
        for name, traits in frame._traits.items():
            if name == "NodeResourcesFit":
                traits.score_row = frame.plugins[name].score_row  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match=INVALID.format("NodeResourcesFit", score)):
        world.schedule(pod("p").requests(cpu="1"))


class Odd(Plugin):
    """A mad score for nodes labelled so, and a filter against those of them that have no pod."""

    contract = Contract(reads=Reads.ANYTHING)

    def sign(self, pod: Any) -> Any:
        return None

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> Any:
        from stowplan.scheduler.framework.status import unschedulable

        return unschedulable("odd") if "odd" in node.labels and not node.pods else None

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.where(nodes.labels("odd") != 0, -5, 7)


def test_scores_of_nodes_that_were_filtered_out_may_be_anything_until_the_nodes_pass() -> None:
    world = cluster(nodes=[node("a"), node("b"), node("c").labels(odd="yes")], plugins=[Odd])
    for number in range(4):
        assert world.schedule(pod(f"p{number}")).node in ("a", "b")
    world.add(pod("there").on("c"))
    with pytest.raises(PluginError, match=INVALID.format("Odd", -5)):
        world.schedule(pod("q"))
    world.remove(pod("there"))
    assert world.schedule(pod("q")).node in ("a", "b")


@pytest.mark.parametrize("wrong", ["out", "free"])
def test_a_ranking_gone_wrong_fails_the_attempt_and_binds_nothing(wrong: str) -> None:
    world = cluster(nodes=[node("a"), node("b"), node("out").unschedulable()])
    evaluation = world.evaluate(pod("p"))
    row = world.table.row_of("out") if wrong == "out" else world.table.rows_in_use
    assert row is not None
    evaluation.pod_class.scores.ranking.put(row, 10**9)
    with pytest.raises(ChoiceError, match="filtered out" if wrong == "out" else "has no node"):
        choose_node(evaluation, lambda n: 0)


AMOUNTS = st.one_of(st.integers(0, 3), st.integers(2**62 - 3, 2**63 - 1), st.just(2**63 - 1))


@given(AMOUNTS, st.lists(AMOUNTS, max_size=4), AMOUNTS, st.lists(AMOUNTS, max_size=3))
def test_what_fits_is_reckoned_as_with_numbers_of_any_size(
    there: int, taken: list[int], wanted: int, nominated: list[int]
) -> None:
    world = cluster(
        nodes=[node(f"n{i}").capacity({"memory": there, "example.com/x": there}) for i in range(3)]
    )
    for number, amount in enumerate(taken):
        world.add(pod(f"p{number}").requests({"memory": amount, "example.com/x": amount}).on("n1"))
    asking = pod("asks").requests({"memory": wanted, "example.com/x": wanted})
    others = [
        world.table.info(pod(f"q{n}").requests({"memory": amount}).priority(9).obj())
        for n, amount in enumerate(nominated)
    ]
    row = world.table.row_of("n1")
    assert row is not None
    fits = not wanted or wanted <= there - sum(taken)
    for _ in range(2):
        assert bool(world.evaluate(asking).status(row).is_success) == fits
        world.table.usage_log.append(row)
    frame = next(iter(world.frameworks.values()))
    beside = frame.evaluate(world.table.info(asking.obj()), {row: others})
    assert bool(beside.status(row).is_success) == (
        fits and (not wanted or wanted <= there - sum((*taken, *nominated)))
    )
