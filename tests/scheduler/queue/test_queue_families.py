"""Hints are called once for pods that differ in labels alone, and not for pods an event cannot help.

The same pods are woken, in the same order, and as many hints are counted, as if they were called for each.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.queue.test_queue_waking import _OFTEN, _SELDOM, _TO_PODS, ManyMoves, Side, Step, Together
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Answer,
    ClusterEvent,
    EventKeys,
    EventRegistration,
    Hint,
    queue_if,
)
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.queue.families import Families
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import PodBuilder, pod


def _wants(pod: PodInfo) -> str:
    assert pod.spec.node_selector is not None
    return pod.spec.node_selector["wants"]


class ByTemplate(Together):
    """Rejects pods of which each pair shares a label; the goods they want are not among labels.

    New nodes help those that want what they give, but none gives z. So do deleted pods, except the waiting
    pod itself. New pods help by the label of the waiting ones, if they have one that says so, or help all.
    """

    name = "Rule"
    hints: ClassVar[list[str]] = []

    @staticmethod
    def dressed(builder: PodBuilder, number: int, good: str) -> PodBuilder:
        return builder.labels(own=str(number // 2)).node_selector(wants=good)

    def events(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(NODE_ADD, self.after_node, by_template=True),
            EventRegistration(ASSIGNED_POD_DELETE, self.after_deletion, by_template=True),
            EventRegistration(ASSIGNED_POD_ADD, self.after_pod, by_template=True),
        )

    def after_node(self, pod: PodInfo, old: None, new: Node) -> Hint:
        self.hints.append(pod.name)
        return queue_if("z" != _wants(pod) == new.metadata.labels["gives"])

    def after_deletion(self, pod: PodInfo, old: Pod, new: None) -> Hint:
        self.hints.append(pod.name)
        if old.metadata.uid == pod.uid:
            return Hint.QUEUE
        gives = old.metadata.labels.get("gives")
        return queue_if(gives is None or "z" != _wants(pod) == gives)

    def after_pod(self, pod: PodInfo, old: None, new: Pod) -> Hint:
        self.hints.append(pod.name)
        concerned = new.metadata.labels.get("for")
        return queue_if(concerned is None or pod.labels["own"] == concerned)


class Other(Plugin):
    """Rejects some of them, too."""

    name = "Other"

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None

    def events(self) -> Sequence[EventRegistration]:
        return (EventRegistration(NODE_ADD, self._after_node, by_template=True, ignores_labels=True),)

    @staticmethod
    def _after_node(pod: PodInfo, old: None, new: Node) -> Hint:
        return queue_if(new.metadata.labels["gives"] == "y")


def _wanted(pod: PodInfo) -> Collection[Hashable] | None:
    return {"y": None, "z": ()}.get(_wants(pod), (_wants(pod),))


def _given_by_node(old: None, new: Node) -> Collection[Hashable] | None:
    return (new.metadata.labels["gives"],)


def _given_by_pod(old: Pod, new: None) -> Collection[Hashable] | None:
    return (old.metadata.labels["gives"],) if "gives" in old.metadata.labels else None


class ByShape(ByTemplate):
    """The same, saying what hints do not look at, and what they look for."""

    name = "Rule"
    by_node: ClassVar[EventKeys] = EventKeys(_wanted, _given_by_node)
    by_pod: ClassVar[EventKeys] = EventKeys(_wanted, _given_by_pod)

    def events(self) -> Sequence[EventRegistration]:
        nodes, deletions, pods = super().events()
        return (
            nodes._replace(ignores_labels=True, keys=self.by_node),
            deletions._replace(ignores_labels=True, keys=self.by_pod),
            pods._replace(ignores_labels=lambda pod, old, new: "for" not in new.metadata.labels),
        )


class CountedHints(ManyMoves):
    """Counts hints, too."""

    def after_hint(self, plugin: str, event: ClusterEvent, answer: Answer) -> None:
        self.counts[plugin, f"{event.label} {answer.label}"] += 1

    def same_hint(self, plugin: str, event: ClusterEvent, answer: Answer, count: int) -> None:
        self.counts[plugin, f"{event.label} {answer.label}"] += count


class Counting(Side):
    """A queue with two plugins that counts hints."""

    def __init__(self, plugin: type[ByTemplate]) -> None:
        super().__init__(plugin)
        plugin.hints = []
        self.moves = CountedHints()
        self.rig = self._rig()

    @property
    def plugins(self) -> Sequence[type[Plugin]]:
        return (Other, self.plugin)

    @staticmethod
    def rejectors(number: int) -> Sequence[str]:
        return (("Rule",), ("Rule",), ("Rule", "Other"), ("Other",))[number % 4]

    def _step(self, what: str, number: int, good: str) -> object:
        queue = self.rig.queue
        match what:
            case "pod of the good gone":
                queue.move_all(ASSIGNED_POD_DELETE, pod("gone").labels(gives=good).on("n").obj())
            case "itself gone" if number in self.pods:
                queue.move_all(ASSIGNED_POD_DELETE, self.pods[number].labels(gives=good).obj())
            case "pod":
                queue.move_all(ASSIGNED_POD_ADD, None, pod("new").on("n").obj())
            case "pod for one label":
                queue.move_all(ASSIGNED_POD_ADD, None, pod("new").labels({"for": f"{number}"}).on("n").obj())
            case _:
                return super()._step(what, number, good)
        return None


_EVENTS = ("pod of the good gone", "itself gone", "pod", "pod for one label")
_STEPS = st.tuples(
    st.sampled_from((*_OFTEN, *_EVENTS, *_OFTEN, *_EVENTS, *_SELDOM, *_TO_PODS)),
    st.integers(0, 9),
    st.sampled_from("xxxyz"),
)


@settings(max_examples=200)
@given(st.lists(_STEPS, max_size=60))
def test_the_same_pods_are_woken_in_the_same_order_and_as_many_hints_counted(steps: list[Step]) -> None:
    slow, fast = Counting(ByTemplate), Counting(ByShape)
    many = [("reject", number, "xy"[number // 4 % 2]) for number in range(8)]
    for step in (*many, *steps, ("pod gone", 0, "x"), ("pop", 0, "x")):
        assert slow.step(step) == fast.step(step), step
        assert slow.look() == fast.look(), step


def waiting(count: int, good: str = "x") -> Counting:
    side = Counting(ByShape)
    side.rejectors = lambda number: ("Rule",)  # type: ignore[method-assign]
    for number in range(count):
        side.step(("reject", number, good[number % len(good)]))
    ByShape.hints.clear()
    return side


def test_pods_that_differ_in_labels_alone_are_asked_about_once() -> None:
    side = waiting(6, "y")
    side.step(("node", 0, "x"))
    assert ByShape.hints == ["p0"]
    assert side.moves.counts["Rule", "NodeAdd QueueSkip"] == 3
    side.step(("node", 0, "y"))
    assert ByShape.hints == ["p0", "p0"]
    assert side.moves.counts["Rule", "NodeAdd Queue"] == 3
    assert len(side.rig.queue) == side.rig.queue.counts()["backoff"] == 6


def test_pods_that_an_event_cannot_help_are_not_asked_about() -> None:
    side = waiting(6)
    side.step(("node", 0, "y"))
    assert ByShape.hints == []
    assert side.moves.counts["Rule", "NodeAdd QueueSkip"] == 3
    assert side.rig.queue.counts()["unschedulable"] == 6


def test_an_event_that_labels_count_for_is_asked_about_for_every_label() -> None:
    side = waiting(6)
    side.step(("pod for one label", 1, "x"))
    assert ByShape.hints == [f"p{number}" for number in (0, 2, 4)]
    assert side.rig.places("p1", "p2", "p3", "p4") == ["unschedulable", "backoff", "backoff", "unschedulable"]


def test_the_pod_that_an_event_is_about_is_asked_about_whatever_its_keys() -> None:
    side = waiting(6)
    side.step(("itself gone", 4, "y"))
    assert sorted(ByShape.hints) == ["p0", "p4", "p5"]
    assert side.rig.places("p3", "p4", "p5") == ["unschedulable", "backoff", "unschedulable"]


def test_pods_are_woken_by_the_first_plugin_that_hears_of_the_event_and_then_in_the_order_they_came() -> None:
    """Among pods that failed at the same time. Plugins are in the order of the profile."""
    side = Counting(ByShape)
    for number in (0, 1, 3, 4, 2):
        side.step(("reject", number, "y"))
    side.step(("wait", 9, "y"))
    side.step(("node", 0, "y"))
    assert side.step(("pop", 0, "y")) == ["p3", "p2", "p0", "p1", "p4"]


def _broken(*_: object) -> Collection[Hashable] | None:
    raise RuntimeError("no keys today")


@pytest.mark.parametrize("keys", [EventKeys(_broken, _given_by_node), EventKeys(_wanted, _broken)])
def test_pods_are_asked_about_whose_keys_cannot_be_told(
    keys: EventKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ByShape, "by_node", keys)
    side = waiting(4)
    side.step(("node", 0, "x"))
    assert side.rig.queue.counts()["backoff"] == 4


def test_a_plugin_whose_keys_fail_is_told_of_once() -> None:
    told: list[tuple[str, str]] = []
    families = Families(lambda profile, plugin: (), lambda plugin, cause: told.append((plugin, str(cause))))
    place = ("default-scheduler", "Rule", EventKeys(_wanted, _broken))
    for _ in range(2):
        assert families._offered(place, None, None) is None
    assert told == [("Rule", "no keys today")]


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    side = waiting(9, "xyz")
    for number in range(9):
        side.step(("delete", number, "x"))
    families = side.rig.queue._places.unschedulable.families
    assert not any(vars(families)[name] for name in ("_families", "_by_plugin", "_by_keys", "_sizes"))
