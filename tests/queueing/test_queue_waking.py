"""Pods that are alike are woken together, and pods sure to stay gated are not asked about: the same pods are
woken, in the same order, as if each were asked about."""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from queueing.rig import Rig, rig
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    EventRegistration,
    Hint,
    queue_if,
)
from stowplan.framework.interface import Plugin
from stowplan.framework.status import Status, unresolvable
from stowplan.queue import requeue
from stowplan.queue.instrument import QueueInstrument
from stowplan.queue.queued_pod import QueuedPod
from stowplan.testing import node, pod


class OneByOne(Plugin):
    """Rejects pods, which nodes help that give what they want, and gates pods that are `closed`."""

    name = "Rule"
    by_template: ClassVar[bool] = False
    closed: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        self.asked.append(pod.name)
        return unresolvable("closed") if pod.uid in self.closed else None

    def events(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(NODE_ADD, self._after_node, self.by_template),
            EventRegistration(ASSIGNED_POD_DELETE, self._after_pod, self.by_template),
        )

    def _after_node(self, pod: PodInfo, old: None, new: Node) -> Hint:
        return queue_if(pod.labels["wants"] == new.metadata.labels["gives"])

    def _after_pod(self, pod: PodInfo, old: Pod, new: None) -> Hint:
        return Hint.QUEUE


class Together(OneByOne):
    """The same, saying what holds for many pods."""

    name = "Rule"
    by_template = True
    closed: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []

    def held_pods(self) -> AbstractSet[str]:
        return self.closed


class Moves(QueueInstrument):
    """Counts how often pods came where, and why."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None:
        self.counts[queue, event] += 1

    def stayed_gated(self, event: str, count: int) -> None:
        self.counts["unschedulable", event] += count


class Side:
    """A queue with one of the two plugins."""

    def __init__(self, plugin: type[OneByOne]) -> None:
        self.plugin = plugin
        plugin.closed.clear()
        plugin.asked.clear()
        self.moves = Moves()
        self.rig: Rig = rig(plugin, instrument=self.moves)
        self.uids: dict[int, str] = {}

    def step(self, step: tuple[str, int, str]) -> object:
        what, number, good = step
        queue = self.rig.queue
        self.rig.clock.pass_seconds(0.25)
        match what:
            case "reject":
                return self._reject(number, good)
            case "close":
                self.plugin.closed.add(self.uids.get(number, ""))
            case "open":
                self.plugin.closed.discard(self.uids.get(number, ""))
            case "node":
                queue.move_all(NODE_ADD, None, node("n").labels(gives=good).obj())
            case "node for few":
                queue.move_all(NODE_ADD, None, node("n").labels(gives=good).obj(), at_most_priority=1)
            case "pod gone":
                queue.move_all(ASSIGNED_POD_DELETE, pod("gone").on("n").obj())
            case "failed":
                queue.move_all(
                    ASSIGNED_POD_DELETE, pod("gone").on("n").obj(), excluding=self.uids.get(number, "")
                )
            case "timeout":
                queue.move_all(UNSCHEDULABLE_TIMEOUT)
            case "wait":
                self.rig.clock.pass_seconds(30)
            case "pop":
                return self.rig.popped()
        return None

    def _reject(self, number: int, good: str) -> object:
        """A pod is tried and rejected; gated right away if it was closed before."""
        builder = pod(f"p{number}").labels(wants=good).priority(number)
        if self.rig.place(f"p{number}") is not None or number in self.uids:
            return None
        self.uids[number] = builder.obj().metadata.uid
        self.rig.add(builder)
        queued = self.rig.queue.pop_specific(builder.obj())
        if queued is not None:
            self.rig.reject(queued, "Rule")
        return queued is not None

    def look(self) -> object:
        waiting = {queued.key: (queued.gating_plugin, queued.rejectors) for queued in self.rig.queue}
        places = {key: self.rig.queue.place_of(key) for key in waiting}
        return waiting, places, self.moves.counts, self.rig.queue.counts()


_OFTEN = ("reject", "close", "pod gone", "open")
_STEPS = st.tuples(
    st.sampled_from((*_OFTEN, *_OFTEN, "node", "node for few", "failed", "timeout", "wait", "pop")),
    st.integers(0, 3),
    st.sampled_from("xxy"),
)


@given(st.lists(_STEPS, max_size=30))
def test_the_same_pods_are_woken_in_the_same_order_as_one_by_one(steps: list[tuple[str, int, str]]) -> None:
    slow, fast = Side(OneByOne), Side(Together)
    few_are_many = patch.object(requeue, "MANY", 1)
    gated = [(what, number, "x") for number in range(2) for what in ("reject", "close")]
    for step in (*gated, ("pod gone", 0, "x"), *steps, ("pod gone", 0, "x"), ("pop", 0, "x")):
        with few_are_many:
            assert slow.step(step) == fast.step(step), step
        assert slow.look() == fast.look(), step


def test_pods_that_stay_gated_are_not_asked_about() -> None:
    side = Side(Together)
    for number in range(20):
        side.step(("reject", number, "x"))
        side.step(("close", number, "x"))
    side.step(("pod gone", 0, "x"))
    Together.asked.clear()
    side.step(("pod gone", 0, "x"))
    assert Together.asked == []
    side.step(("open", 7, "x"))
    side.step(("pod gone", 0, "x"))
    assert Together.asked == ["p7"]
    assert side.rig.queue.counts()["gated"] == 19


def test_pods_that_are_alike_come_out_in_the_same_order_when_they_are_made_ready_together() -> None:
    slow, fast = Side(OneByOne), Side(Together)
    for number in range(requeue.MANY * 2):
        for side in (slow, fast):
            side.step(("reject", number * 7 % 32, "xxy"[number % 3]))
    for step in (("close", 5, "x"), ("wait", 0, "x"), ("reject", 99, "x"), ("node", 0, "x")):
        assert slow.step(step) == fast.step(step)
        assert slow.look() == fast.look(), step
    assert slow.rig.queue.counts()["active"] == 21
    assert slow.step(("pop", 0, "x")) == fast.step(("pop", 0, "x"))
