"""Identical pods are woken together, and pods sure to stay gated are skipped: the same pods are woken, in the
same order, as if plugins were called for each."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.queue.still_queue import Rig, rig
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.framework import held_pods
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    EventRegistration,
    Hint,
    queue_if,
)
from stowplan.scheduler.framework.held_pods import HeldPods
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import Status, unresolvable
from stowplan.scheduler.queue import requeue
from stowplan.scheduler.queue.instrument import QueueInstrument
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import PodBuilder, node, pod

Step = tuple[str, int, str]
"""Event, pod, and the good it gives."""


class OneByOne(Plugin):
    """Rejects pods, which nodes help that give what they want, and gates pods that are `closed`."""

    name = "Rule"
    by_template: ClassVar[bool] = False
    closed: ClassVar[set[str] | HeldPods] = set()
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

    @staticmethod
    def dressed(builder: PodBuilder, number: int, good: str) -> PodBuilder:
        """A pod that wants some good."""
        return builder.labels(wants=good)

    def _after_node(self, pod: PodInfo, old: None, new: Node) -> Hint:
        return queue_if(pod.labels["wants"] == new.metadata.labels["gives"])

    def _after_pod(self, pod: PodInfo, old: Pod, new: None) -> Hint:
        return Hint.QUEUE


class Together(OneByOne):
    """The same, saying what holds for many pods."""

    name = "Rule"
    by_template = True

    def held_pods(self) -> HeldPods:
        assert isinstance(self.closed, HeldPods)
        return self.closed

    def always_enqueues(self, pod: PodInfo) -> bool:
        return True


class Moves(QueueInstrument):
    """Counts how often pods came where, and why."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None:
        self.counts[queue, event] += 1

    def stayed_gated(self, event: str, count: int) -> None:
        self.counts["unschedulable", event] += count


class ManyMoves(Moves):
    """The same, told of many pods at once."""

    def incoming_many(self, count: int, queue: str, event: str) -> None:
        self.counts[queue, event] += count


class Side:
    """A queue with one of the two plugins."""

    def __init__(self, plugin: type[OneByOne]) -> None:
        self.plugin = plugin
        together = issubclass(plugin, Together)
        self.many = 1 if together else 10**9
        plugin.closed = HeldPods() if together else set()
        plugin.asked = []
        self.moves = ManyMoves() if together else Moves()
        self.rig: Rig = self._rig()
        self.uids: dict[int, str] = {}
        self.pods: dict[int, PodBuilder] = {}

    def _rig(self) -> Rig:
        return rig(*self.plugins, instrument=self.moves)

    @property
    def plugins(self) -> Sequence[type[Plugin]]:
        return (self.plugin,)

    @staticmethod
    def rejectors(number: int) -> Sequence[str]:
        """Plugins that reject a pod."""
        return ("Rule",)

    def step(self, step: Step) -> object:
        """Do something; the result is its visible effect."""
        with patch.object(requeue, "MANY", self.many):
            return self._step(*step)

    def _step(self, what: str, number: int, good: str) -> object:
        queue = self.rig.queue
        match what:
            case "reject":
                return self._reject(number, good)
            case "close":
                self.plugin.closed.add(self.uids.get(number, ""))
            case "open":
                self._open(self.uids.get(number, ""))
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
            case "tick":
                self.rig.clock.pass_seconds(0.25)
            case "wait":
                self.rig.clock.pass_seconds(10 * (number + 1))
            case "flush":
                return queue.flush_backoff(number + 1), queue.flush_unschedulable(number + 1)
            case "try":
                return self._try(good)
            case "pop":
                return self._popped()
            case _:
                self._touch(what, number, good)
        return None

    def _open(self, uid: str) -> None:
        closed = self.plugin.closed
        if isinstance(closed, HeldPods):
            closed.let_go(uid)
        else:
            closed.discard(uid)

    def _reject(self, number: int, good: str) -> object:
        """A pod is tried and rejected; gated right away if it was closed before."""
        if number in self.uids:
            return None
        builder = self.plugin.dressed(pod(f"p{number}"), number, good).priority(number // 9 % 2)
        self.pods[number] = builder
        self.uids[number] = builder.obj().metadata.uid
        self.rig.add(builder)
        queued = self.rig.queue.pop_specific(builder.obj())
        if queued is not None:
            self.rig.reject(queued, *self.rejectors(number), pending=["Rule"] if number % 7 == 6 else [])
        return queued is not None

    def _try(self, good: str) -> object:
        """The next pod is tried and rejected, or its attempt goes wrong."""
        may_pop = self.rig.queue.may_pop
        queued = self.rig.queue.pop()
        if queued is None:
            return None
        assert may_pop, "the scheduling loop would not have been woken"
        self.rig.reject(queued, *(self.rejectors(int(queued.pod.name[1:])) if good != "y" else []))
        return queued.key

    def _touch(self, what: str, number: int, good: str) -> None:
        """Something happens to a pod that waits, or it is activated."""
        before = self.pods.get(number)
        if before is None:
            return
        match what:
            case "delete":
                self.rig.queue.delete(before.obj())
                del self.pods[number]
                del self.uids[number]
            case "annotate":
                self._change(number, before.annotations(note=good))
            case "relabel":
                self._change(number, self.plugin.dressed(before, number, good))
            case "promote":
                self._change(number, before.priority(2))
            case "activate":
                self.rig.queue.activate([before.obj()])

    def _change(self, number: int, after: PodBuilder) -> None:
        self.rig.queue.update(self.pods[number].obj(), after.obj())
        self.pods[number] = after

    def _popped(self) -> list[str]:
        names = self.rig.popped()
        for name in names:
            self.pods.pop(int(name[1:]), None)
            self.uids.pop(int(name[1:]), None)
        return names

    def look(self) -> object:
        queue = self.rig.queue
        waiting = {
            queued.key: (queued.gating_plugin, queued.rejectors, queued.pod.priority, queued.pod.annotations)
            for queued in queue
        }
        places = {key: (queue.place_of(key), queue.next_try(key), queue.wakers(key)) for key in waiting}
        known = [queue.place_of(f"default/p{number}") for number in self.uids]
        found = all((got := queue.get(key)) is not None and got.key == key for key in waiting)
        return (
            *(waiting, places, known, found, self.moves.counts),
            *(queue.counts(), len(queue), queue.summary(), queue.next_deadline()),
        )


_OFTEN = ("reject", "reject", "node", "try", "pod gone", "close", "open")
_SELDOM = ("node for few", "failed", "timeout", "tick", "wait", "flush", "pop")
_TO_PODS = ("delete", "annotate", "relabel", "promote", "activate")
_STEPS = st.tuples(
    st.sampled_from((*_OFTEN, *_OFTEN, *_SELDOM, *_TO_PODS)), st.integers(0, 9), st.sampled_from("xxxy")
)


@settings(max_examples=200)
@given(st.lists(_STEPS, max_size=60), st.sampled_from((2, 4096)))
def test_the_same_pods_are_woken_in_the_same_order_as_one_by_one(steps: list[Step], remembered: int) -> None:
    """For any number of remembered releases."""
    slow, fast = Side(OneByOne), Side(Together)
    many = [("reject", number, "x") for number in range(6)]
    with patch.object(held_pods, "_REMEMBERED", remembered):
        for step in (*many, *steps, ("pod gone", 0, "x"), ("pop", 0, "x")):
            assert slow.step(step) == fast.step(step), step
            assert slow.look() == fast.look(), step


STORIES = {
    "the first of a group is deleted before its turn": (
        "reject 0 x, tick, reject 1 y, tick, reject 2 x, wait, pod gone, delete 0, pop",
        ["p1", "p2"],
    ),
    "the first of a group is deleted while it backs off": (
        "reject 0 x, tick, reject 1 y, tick, reject 2 x, pod gone, delete 0, wait, flush, flush, pop",
        ["p1", "p2"],
    ),
    "a backoff ends sooner than that of a pod that came before": (
        "reject 0 x, activate 0, try, activate 0, try, activate 0, try, tick, reject 1 x, pod gone, pop",
        ["p1", "p0"],
    ),
    "some of a group back off, the others do not": (
        "reject 0 x, reject 1 x, wait, reject 2 x, reject 3 x, pod gone, tick, annotate 3, delete 1, pop",
        ["p0", "p2", "p3"],
    ),
    "a pod joins others that failed after it": (
        "reject 0 y, tick, reject 1 x, tick, reject 2 x, relabel 0 x, wait, node 0 x, pop",
        ["p0", "p1", "p2"],
    ),
    "pods of several groups get another priority": (
        "reject 0 x, reject 1 x, reject 2 y, wait, pod gone, promote 2, promote 1, pop",
        ["p1", "p2", "p0"],
    ),
    "a pod that was updated keeps its place": (
        "reject 0 x, reject 1 x, annotate 0, wait, node 0 x, annotate 1, annotate 0, pop",
        ["p0", "p1"],
    ),
}


@pytest.mark.parametrize(("story", "order"), STORIES.values(), ids=STORIES)
def test_pods_of_groups_have_their_turn_as_one_by_one(story: str, order: list[str]) -> None:
    slow, fast = Side(OneByOne), Side(Together)
    result: object = None
    for text in story.split(", "):
        parts = re.fullmatch(r"([a-z ]+?)(?: (\d))?(?: ([xy]))?", text)
        assert parts is not None
        step = (parts[1], int(parts[2] or 0), parts[3] or "x")
        result = fast.step(step)
        assert slow.step(step) == result, text
        assert slow.look() == fast.look(), text
    assert result == order


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


class Silent(Together):
    """Gates pods that it does not tell of, too."""

    name = "Rule"
    shut: ClassVar[set[str]] = set()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable("shut") if pod.uid in self.shut else super().pre_enqueue(pod)

    def always_enqueues(self, pod: PodInfo) -> bool:
        return False


def test_gated_pods_that_the_plugin_does_not_tell_of_are_asked_about() -> None:
    side = Side(Silent)
    for number in range(6):
        side.step(("reject", number, "x"))
    side.step(("close", 0, "x"))
    Silent.shut = {side.uids[number] for number in (1, 2)}
    side.step(("pod gone", 0, "x"))
    side.step(("pod gone", 0, "x"))
    assert side.rig.queue.counts()["gated"] == 3
    Silent.shut = {side.uids[1]}
    side.step(("pod gone", 0, "x"))
    assert side.rig.queue.counts()["gated"] == 2


def test_pods_that_are_alike_stay_together_until_their_turn() -> None:
    """When an event wakes them no plugin or instrument is called for a single one."""
    side = Side(Together)
    for number in range(9):
        side.step(("reject", 8 - number, "x"))
        side.step(("tick", 0, "x"))
    side.step(("wait", 9, "x"))
    Together.asked.clear()
    with patch.object(Moves, "incoming", side_effect=AssertionError):
        side.step(("node", 0, "x"))
    assert Together.asked == []
    assert side.rig.queue.counts()["active"] == 9
    assert side.step(("pop", 0, "x")) == [f"p{number}" for number in range(8, -1, -1)]
