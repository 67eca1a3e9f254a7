"""A plugin that misbehaves fails one attempt, by name, and nothing else."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowplan.scheduler.framework.contract import Contract, Reads
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import Code, PluginError, Status, unschedulable
from stowplan.testing import Cluster, cluster, node, pod

NODES = [node("a"), node("b"), node("c")]


class Moody(Plugin):
    """Acts as a label of the pod says; signs it, so that results are reused between moods."""

    contract = Contract(reads=Reads.ANYTHING)

    def sign(self, pod: Any) -> str:
        return str(pod.labels.get("mood", "good"))


class ByColumn(Moody):
    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        answers: dict[str, Callable[[], Any]] = {
            "raise": lambda: 1 / 0,
            "short": lambda: np.zeros(1, dtype=np.int64),
            "floats": lambda: np.zeros(len(nodes)),
            "list": lambda: [0] * len(nodes),
        }
        return answers.get(self.sign(pod), lambda: None)()

    def reason(self, cycle: Any, pod: Any, code: int) -> Status:
        return unschedulable("too dear")


class ByNode(Moody):
    def filter_node(self, cycle: Any, pod: Any, node: Any) -> Any:
        if self.sign(pod) == "raise" and node.name == "b":
            raise KeyError("price")
        if self.sign(pod) == "error" and node.name == "b":
            return Status(Code.ERROR, ("the price list is gone",))
        if self.sign(pod) == "text":
            return "too dear"
        return unschedulable("too dear") if node.name == "c" else None


class ScoreByColumn(Moody):
    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        answers: dict[str, Callable[[], Any]] = {
            "raise": lambda: 1 / 0,
            "short": lambda: np.zeros(1, dtype=np.int64),
            "floats": lambda: np.ones(len(nodes)),
            "high": lambda: np.full(len(nodes), 101),
            "low": lambda: np.full(len(nodes), -1),
            "good": lambda: np.full(len(nodes), 100),
        }
        return answers[self.sign(pod)]()


class ScoreByNode(Moody):
    def score_node(self, cycle: Any, pod: Any, node: Any) -> Any:
        answers: dict[str, Callable[[], Any]] = {
            "raise": lambda: 1 / 0,
            "text": lambda: "high",
            "high": lambda: 101,
        }
        return answers.get(self.sign(pod), lambda: 7)()


class Normalizing(Moody):
    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.arange(len(nodes))

    def normalize(self, cycle: Any, pod: Any, scores: Any, extremes: Any) -> Any:
        answers: dict[str, Callable[[], Any]] = {
            "raise": lambda: 1 / 0,
            "short": lambda: scores[:1],
            "high": lambda: scores + 200,
        }
        return answers.get(self.sign(pod), lambda: scores)()


def with_plugin(plugin: type[Plugin]) -> Cluster:
    return cluster(nodes=NODES, plugins=[plugin])


@pytest.mark.parametrize(
    ("plugin", "mood", "message"),
    [
        (ByColumn, "raise", 'running "ByColumn" filter plugin: ZeroDivisionError: division by zero'),
        (ByColumn, "short", "expected an array of 3 codes, got an array of shape (1,)"),
        (ByColumn, "floats", "expected integer codes, got float64"),
        (ByColumn, "list", "expected an array of 3 codes, got list [0, 0, 0]"),
        (ByNode, "raise", "running \"ByNode\" filter plugin: KeyError: 'price'"),
        (ByNode, "error", 'running "ByNode" filter plugin: the price list is gone'),
        (ByNode, "text", "expected a Status or None, got str 'too dear'"),
        (ScoreByColumn, "raise", 'running Score plugin "ScoreByColumn": ZeroDivisionError: division by zero'),
        (ScoreByColumn, "short", "expected an array of 3 scores, got an array of shape (1,)"),
        (ScoreByColumn, "floats", "expected integer scores, got float64"),
        (ScoreByColumn, "high", 'plugin "ScoreByColumn" returns an invalid score 101'),
        (ScoreByColumn, "low", 'plugin "ScoreByColumn" returns an invalid score -1'),
        (ScoreByNode, "raise", 'running Score plugin "ScoreByNode": ZeroDivisionError: division by zero'),
        (ScoreByNode, "text", "expected an int, got str 'high'"),
        (ScoreByNode, "high", 'plugin "ScoreByNode" returns an invalid score 101'),
        (Normalizing, "raise", 'running Score plugin "Normalizing": ZeroDivisionError: division by zero'),
        (Normalizing, "short", "normalize: expected an array of 3 scores, got an array of shape (1,)"),
        (Normalizing, "high", 'plugin "Normalizing" returns an invalid score 20'),
    ],
)
def test_the_error_names_the_plugin_and_what_it_did(plugin: type[Plugin], mood: str, message: str) -> None:
    world = with_plugin(plugin)
    with pytest.raises(PluginError) as caught:
        world.schedule(pod("bad").labels(mood=mood))
    assert caught.value.plugin == plugin.__name__
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("plugin", "mood", "ending"),
    [
        (ByNode, "raise", r" \(test_plugin_failures\.py:\d+, node \w+\)"),
        (ByNode, "text", r" \(node \w+\)"),
        (ByNode, "error", "the price list is gone"),
        (ScoreByNode, "raise", r" \(test_plugin_failures\.py:\d+, node \w+\)"),
        (ScoreByNode, "text", r" \(node \w+\)"),
        (ByColumn, "raise", r" \(test_plugin_failures\.py:\d+\)"),
        (Normalizing, "raise", r" \(test_plugin_failures\.py:\d+\)"),
    ],
)
def test_the_error_says_where_it_was_raised_and_about_which_node(
    plugin: type[Plugin], mood: str, ending: str
) -> None:
    with pytest.raises(PluginError) as caught:
        with_plugin(plugin).schedule(pod("bad").labels(mood=mood))
    assert re.search(f"{ending}$", caught.value.message), caught.value.message


@pytest.mark.parametrize("plugin", [ByColumn, ByNode, ScoreByColumn, ScoreByNode, Normalizing])
def test_other_pods_are_placed_as_if_nothing_had_happened(plugin: type[Plugin]) -> None:
    world, peaceful = with_plugin(plugin), with_plugin(plugin)
    for number in range(4):
        with pytest.raises(PluginError):
            world.schedule(pod(f"bad-{number}").labels(mood="raise"))
        good = pod(f"good-{number}").requests(cpu="100m")
        assert world.schedule(good).document() == peaceful.schedule(good).document()


def test_a_pod_that_failed_is_placed_once_the_plugin_behaves(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_plugin(ByColumn)
    again = pod("again").labels(mood="raise")
    with pytest.raises(PluginError):
        world.schedule(again)
    monkeypatch.setattr(ByColumn, "filter", lambda self, cycle, pod, nodes: None)
    assert world.schedule(again).node is not None


def test_the_node_on_which_a_plugin_failed_is_named() -> None:
    with pytest.raises(PluginError) as caught:
        with_plugin(ByNode).schedule(pod("bad").labels(mood="raise"))
    assert caught.value.nodes == ("b",)


def test_a_score_that_goes_wrong_later_in_a_single_row_is_noticed() -> None:
    class Crowding(Plugin):
        contract = Contract(reads=Reads.USAGE)

        def sign(self, pod: Any) -> str:
            return "every pod alike"

        def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
            return 99 + nodes.pod_count

    world = cluster(nodes=NODES, plugins=[Crowding])
    for number in range(2):
        world.schedule(pod(f"p{number}"))
    with pytest.raises(PluginError, match="returns an invalid score 101"):
        world.schedule(pod("p2"))
