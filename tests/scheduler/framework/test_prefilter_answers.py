"""Combined answers of PreFilter plugins, and their effects."""

from typing import Any, ClassVar

import numpy as np
import pytest

from stowplan.scheduler.framework.contract import Contract
from stowplan.scheduler.framework.interface import UNSIGNED, Plugin, PreFilterResult
from stowplan.scheduler.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    PluginError,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.testing import Cluster, cluster, node, pod

NODES = [node(name) for name in "abc"]


class Answering(Plugin):
    """Answers what the test says, and rejects every node in Filter, so that one sees whether it was asked."""

    answer: ClassVar[Any] = None
    asked: ClassVar[int] = 0

    def pre_filter(self, cycle: Any, pod: Any) -> Any:
        type(self).asked += 1
        return self.answer


class Rejecting(Answering):
    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.ones(len(nodes), dtype=np.int64)

    def reason(self, cycle: Any, pod: Any, code: int) -> Status:
        return unschedulable("asked")


class First(Answering):
    pass


class Second(Answering):
    pass


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


def world(monkeypatch: pytest.MonkeyPatch, first: Any, second: Any) -> Cluster:
    for plugin, answer in ((First, first), (Second, second)):
        monkeypatch.setattr(plugin, "answer", answer)
        monkeypatch.setattr(plugin, "asked", 0)
    return cluster(nodes=NODES, plugins=[First, Second])


@pytest.mark.parametrize(("answer", "feasible"), [(None, 0), (SUCCESS, 0), (SKIP, 3)])
def test_a_plugin_that_skips_is_not_asked_to_filter(
    monkeypatch: pytest.MonkeyPatch, answer: Any, feasible: int
) -> None:
    monkeypatch.setattr(Rejecting, "answer", answer)
    evaluation = cluster(nodes=NODES, plugins=[Rejecting]).evaluate(pod("p"))
    assert evaluation.feasible_count == feasible
    assert ("Rejecting" in evaluation.cycle.skipped) == (answer is SKIP)


@pytest.mark.parametrize(
    ("first", "second", "said", "asked"),
    [
        (unresolvable("never"), unschedulable("later"), ("First", "never"), 0),
        (unschedulable("not now"), None, ("First", "not now"), 1),
        (unschedulable("not now"), unschedulable("nor here"), ("Second", "nor here"), 1),
        (unschedulable("not now"), unresolvable("never"), ("Second", "never"), 1),
        (None, unresolvable("never"), ("Second", "never"), 1),
        (only("a"), unschedulable("not now"), ("Second", "not now"), 1),
    ],
    ids=[
        "hopeless cases need no further questions",
        "others are still asked for the sake of preemption",
        "the last word counts",
        "the last word counts, also if it is hopeless",
        "the second may be the one to reject",
        "a narrowed choice does not matter then",
    ],
)
def test_a_rejection_outright(
    monkeypatch: pytest.MonkeyPatch, first: Any, second: Any, said: tuple[str, str], asked: int
) -> None:
    evaluation = world(monkeypatch, first, second).evaluate(pod("p"))
    status = evaluation.rejected_outright
    assert status is not None
    assert (status.plugin, status.message) == said
    assert Second.asked == asked
    assert evaluation.feasible_count == 0
    assert evaluation.feasible_rows.tolist() == []


@pytest.mark.parametrize(
    ("first", "second", "feasible"),
    [
        (only("a", "b"), None, {"a", "b"}),
        (only("a", "b"), only("b", "c"), {"b"}),
        (only("a", "b"), only("b", "gone"), {"b"}),
        (only("gone"), None, set()),
    ],
)
def test_only_nodes_that_all_ask_for_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, first: Any, second: Any, feasible: set[str]
) -> None:
    there = world(monkeypatch, first, second)
    evaluation = there.evaluate(pod("p"))
    assert evaluation.rejected_outright is None
    assert {there.table.name_of(row) for row in evaluation.feasible_rows.tolist()} == feasible
    asking = [name for name, answer in (("First", first), ("Second", second)) if answer]
    reason = f"node(s) didn't satisfy plugin(s) [{' '.join(asking)}]"
    assert evaluation.reason_counts() == {reason: 3 - len(feasible)}
    for row in range(3):
        expected = SUCCESS if there.table.name_of(row) in feasible else unresolvable(reason)
        assert evaluation.status(row) == expected


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (only(), None, "node(s) didn't satisfy plugin First"),
        (None, only(), "node(s) didn't satisfy plugin Second"),
        (only("a"), only("b"), "node(s) didn't satisfy plugin(s) [First Second] simultaneously"),
    ],
)
def test_if_nothing_is_left_to_look_at_the_pod_is_a_hopeless_case(
    monkeypatch: pytest.MonkeyPatch, first: Any, second: Any, reason: str
) -> None:
    status = world(monkeypatch, first, second).evaluate(pod("p")).rejected_outright
    assert status == unresolvable(reason)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("the list is gone"), 'running PreFilter plugin "First": the list is gone'),
        (Status(Code.WAIT, ("a while",)), 'running PreFilter plugin "First": a while'),
        ("text", "expected a Status, a PreFilterResult or None, got str"),
        (frozenset({"a"}), "expected a Status, a PreFilterResult or None, got frozenset"),
    ],
)
def test_an_answer_that_is_none_fails_the_attempt(
    monkeypatch: pytest.MonkeyPatch, answer: Any, message: str
) -> None:
    there = world(monkeypatch, answer, None)
    with pytest.raises(PluginError) as caught:
        there.evaluate(pod("p"))
    assert caught.value.plugin == "First"
    assert message in caught.value.message
    monkeypatch.setattr(First, "answer", None)
    assert there.evaluate(pod("p")).feasible_count == 3


class Constant(Plugin):
    """Says that its answer depends on the signature alone, and signs some pods."""

    contract = Contract(constant_pre_filter=True, constant_pre_score=True)
    asked: ClassVar[list[str]] = []

    def sign(self, pod: Any) -> Any:
        return UNSIGNED if "odd" in pod.labels else "plain"

    def pre_filter(self, cycle: Any, pod: Any) -> Any:
        self.asked.append(pod.name)
        return SKIP if pod.name.startswith("skip") else None

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.ones(len(nodes), dtype=np.int64)

    def reason(self, cycle: Any, pod: Any, code: int) -> Status:
        return unschedulable("asked")


def test_a_constant_answer_is_asked_for_once_per_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Constant, "asked", [])
    there = cluster(nodes=NODES, plugins=[Constant])
    for number in range(4):
        there.evaluate(pod(f"p{number}"))
    assert Constant.asked == ["p0"]


def test_nothing_is_constant_about_pods_that_are_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Constant, "asked", [])
    there = cluster(nodes=NODES, plugins=[Constant])
    for name, feasible in (("one", 0), ("skip-this", 3), ("two", 0), ("skip-that", 3)):
        assert there.evaluate(pod(name).labels(odd="yes")).feasible_count == feasible
    assert Constant.asked == ["one", "skip-this", "two", "skip-that"]
