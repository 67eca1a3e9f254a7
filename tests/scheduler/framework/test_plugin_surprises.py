"""Plugins that keep, change or forget things at awkward moments."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from stowplan.scheduler.framework.contract import Contract, Reads, Signs
from stowplan.scheduler.framework.interface import UNSIGNED, Plugin
from stowplan.scheduler.framework.reuse.filter_results import FilterColumn
from stowplan.scheduler.framework.status import PluginError, Status, unschedulable
from stowplan.testing import Cluster, cluster, node, pod

NODES = [node(name) for name in "abcdef"]


class Alike(Plugin):
    """Every pod has the same signature."""

    contract = Contract(reads=Reads.ANYTHING)

    def sign(self, pod: Any) -> Any:
        return "every pod alike"


def raising(*_: Any) -> Any:
    raise ZeroDivisionError("division by zero")


def filter_nothing(self: Any, cycle: Any, pod: Any, nodes: Any) -> None:
    return None


def never(self: Any, cycle: Any, pod: Any, code: int) -> Status:
    return unschedulable("never")


def score_nothing(self: Any, cycle: Any, pod: Any, nodes: Any) -> None:
    return None


COUPLED = Contract(reads_others=Reads.ANYTHING)


@pytest.mark.parametrize(
    ("broken", "members"),
    [
        ("sign", {"filter": filter_nothing, "reason": never}),
        ("stale_filter_rows", {"filter": filter_nothing, "reason": never, "contract": COUPLED}),
        ("stale_score_rows", {"score": score_nothing, "contract": COUPLED}),
        ("score_basis", {"score": score_nothing, "contract": COUPLED}),
        ("pre_filter", {}),
        ("pre_score", {"score": score_nothing}),
    ],
)
def test_whichever_method_raises_the_attempt_fails_under_the_name_of_the_plugin(
    broken: str, members: dict[str, Any]
) -> None:
    plugin = type("Broken", (Alike,), {**members, broken: raising})
    world = cluster(nodes=NODES, plugins=[plugin])
    with pytest.raises(PluginError, match="ZeroDivisionError: division by zero") as caught:
        [world.schedule(pod(f"p{number}")) for number in range(3)]
    assert caught.value.plugin == "Broken"


class Unhashable(Plugin):
    def sign(self, pod: Any) -> Any:
        return ["a", "list"]

    filter = filter_nothing
    reason = never


def test_a_signature_that_cannot_be_compared_fails_under_the_name_of_the_plugin() -> None:
    with pytest.raises(PluginError, match="unhashable") as caught:
        cluster(nodes=NODES, plugins=[Unhashable]).schedule(pod("p"))
    assert caught.value.plugin == "Unhashable"


class Careless(Alike):
    """Normalizes in place, as one may in Go."""

    contract = Contract(reads=Reads.USAGE)

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return nodes.pod_count + 1

    def normalize(self, cycle: Any, pod: Any, scores: Any, extremes: Any) -> Any:
        scores *= 5
        return scores


def totals(world: Cluster) -> list[int]:
    found: list[int] = world.evaluate(pod("new")).totals().tolist()
    return found


def test_normalizing_in_place_spoils_nothing_that_is_kept() -> None:
    kept, anew = (cluster(nodes=NODES, plugins=[Careless], reuse=reuse) for reuse in (True, False))
    for number, name in enumerate("aabacd"):
        for world in (kept, anew):
            world.add(pod(f"p{number}").on(name))
        assert totals(kept) == totals(anew)


class Fractions(Alike):
    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.arange(len(nodes))

    def normalize(self, cycle: Any, pod: Any, scores: Any, extremes: Any) -> Any:
        return scores / 3


def test_normalized_scores_have_to_be_whole_numbers() -> None:
    with pytest.raises(PluginError, match="normalize: expected integer scores, got float64"):
        cluster(nodes=NODES, plugins=[Fractions]).schedule(pod("p"))


class Remembering(Plugin):
    """Signs no pod, keeps something for each, and counts what it is given back."""

    given_back: ClassVar[list[Any]] = []
    fails: ClassVar[bool] = False

    def pre_filter(self, cycle: Any, pod: Any) -> None:
        cycle.remember(self, object())

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> None:
        if self.fails:
            raise ValueError("no")

    def reason(self, cycle: Any, pod: Any, code: int) -> Status:
        return unschedulable("never")

    def release(self, memo: Any) -> None:
        self.given_back.append(memo)


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_what_an_unsigned_plugin_keeps_is_given_back_once(
    monkeypatch: pytest.MonkeyPatch, reuse: bool, fails: bool
) -> None:
    monkeypatch.setattr(Remembering, "given_back", [])
    monkeypatch.setattr(Remembering, "fails", fails)
    world = cluster(nodes=NODES, plugins=[Remembering], reuse=reuse)
    for number in range(3):
        try:
            world.evaluate(pod(f"p{number}"))
        except PluginError:
            assert fails
    assert len(Remembering.given_back) == len(set(map(id, Remembering.given_back))) == 3


class Talkative(Plugin):
    """Signs no pod, and has other words for every one."""

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> Any:
        return unschedulable(f"{pod.name} is not for {node.name}") if node.name != "a" else None


def test_reasons_given_to_pods_long_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[FilterColumn] = []
    ask_node: Callable[..., int] = FilterColumn.ask_node

    def watched(self: FilterColumn, *args: Any) -> int:
        seen.append(self)
        return ask_node(self, *args)

    monkeypatch.setattr(FilterColumn, "ask_node", watched)
    world = cluster(nodes=NODES, plugins=[Talkative])
    for number in range(50):
        evaluation = world.evaluate(pod(f"p{number}"))
        assert evaluation.reason_counts()[f"p{number} is not for b"] == 1
    assert len(seen[-1].statuses) <= len(NODES)


class Wavering(Plugin):
    """Promises to sign what pods of a template share, but cannot do it for some."""

    contract = Contract(signs=Signs.TEMPLATE)
    asked: ClassVar[int] = 0

    def sign(self, pod: Any) -> Any:
        return UNSIGNED if pod.labels.get("odd") else "plain"

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        type(self).asked += 1
        return np.full(len(nodes), int("-bad" in pod.name))

    def reason(self, cycle: Any, pod: Any, code: int) -> Any:
        return unschedulable("bad name")


def test_a_template_that_a_plugin_cannot_sign_is_not_reused() -> None:
    world = cluster(nodes=NODES, plugins=[Wavering])
    odd = pod("odd").labels(odd="yes").obj()
    assert world.evaluate(odd).feasible_count == len(NODES)
    assert world.evaluate(pod("odd-bad").labels(odd="yes")).feasible_count == 0
    assert world.evaluate(odd).feasible_count == len(NODES)


def test_a_plugin_that_failed_in_the_middle_leaves_nothing_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    class Neighbourly(Alike):
        contract = Contract(reads_others=Reads.ANYTHING)

        def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
            return nodes.pod_count

        def score_basis(self, cycle: Any, pod: Any) -> int:
            return 0

    kept, anew = (cluster(nodes=NODES, plugins=[Neighbourly], reuse=reuse) for reuse in (True, False))
    for number, name in enumerate("abcab"):
        for world in (kept, anew):
            world.add(pod(f"p{number}").requests(cpu="1").on(name))
        with monkeypatch.context() as patch:
            patch.setattr(Neighbourly, "score", raising)
            with pytest.raises(PluginError):
                kept.evaluate(pod("new"))
        assert totals(kept) == totals(anew)


class Iterating(Plugin):
    """By column, but with a loop over the nodes: one code and one score for each."""

    contract = Contract(reads=Reads.NODE)

    def sign(self, pod: Any) -> str:
        return "every pod alike"

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.array([node.labels["disk"] != "ssd" for node in nodes], dtype=np.bool_)

    def reason(self, cycle: Any, pod: Any, code: int) -> Status:
        return unschedulable("no ssd")

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.array([int(node.labels["score"]) for node in nodes], dtype=np.int64)


def test_a_loop_over_nodes_sees_none_that_was_deleted() -> None:
    shop = [
        node(name).labels(disk=disk, score=str(score))
        for name, disk, score in (("a", "ssd", 10), ("b", "hdd", 90), ("c", "ssd", 60), ("d", "ssd", 30))
    ]
    world = cluster(nodes=shop, plugins=[Iterating])
    assert world.decide(pod("p")).node == "c"
    world.remove(shop[2], shop[0])
    assert world.decide(pod("p")).node == "d"
    world.remove(shop[1])
    world.add(shop[0].labels(disk="ssd", score="40"))
    again = cluster(nodes=[shop[0].labels(disk="ssd", score="40"), shop[3]], plugins=[Iterating])
    assert world.decide(pod("p")).document() == again.decide(pod("p")).document()
    world.add(shop[3].labels(disk="hdd", score="80"))
    assert world.decide(pod("p")).node == "a"
