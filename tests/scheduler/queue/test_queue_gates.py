"""Pods that must not be tried yet."""

from typing import Any

import pytest

from releases import GATES_1_36
from scheduler.queue.still_queue import Doorman, Patient, rig
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    Hint,
    Resource,
)
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import unresolvable
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import node, pod

NEW_NODE = node("n").obj()


def test_a_pod_with_scheduling_gates_waits_and_says_for_what() -> None:
    r = rig()
    r.add(pod("p").gates("a", "b"))
    assert r.place("p") == "gated"
    assert r.queue.pop() is None
    queued = r.queue.get("default/p")
    assert queued is not None
    assert queued.gating_plugin == "SchedulingGates"
    assert queued.gate == unresolvable("waiting for scheduling gates: [a b]").by("SchedulingGates")
    assert queued.unschedulable_plugins == {"SchedulingGates"}


def test_a_pod_is_ready_when_its_last_gate_is_gone_and_not_before() -> None:
    r = rig()
    builder = pod("p").gates("a", "b")
    r.add(builder)
    fewer = builder.gates("b")
    r.queue.update(builder.obj(), fewer.obj())
    assert r.place("p") == "gated"
    r.queue.update(fewer.obj(), builder.gates().obj())
    assert r.place("p") == "active"


def test_the_time_behind_a_gate_does_not_count_as_waiting_to_be_tried() -> None:
    r = rig()
    builder = pod("p").gates("a")
    r.add(builder)
    came = r.clock.now()
    r.clock.pass_seconds(100)
    r.queue.update(builder.obj(), builder.gates().obj())
    queued = r.pop()
    assert (queued.timestamp, queued.first_attempt) == (came, came + 100)


@pytest.mark.parametrize(
    ("event", "looked_at"),
    [
        (NODE_ADD, True),
        (ASSIGNED_POD_DELETE, False),
        (ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), True),
        (ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL), False),
    ],
)
def test_only_events_that_the_gating_plugin_registered_for_are_looked_at(
    event: ClusterEvent, looked_at: bool
) -> None:
    r = rig(Doorman, Patient, gates=GATES_1_36)
    r.waiting(pod("p"), "Patient")
    Doorman.closed.add("p")
    Patient.answers["p"] = Hint.QUEUE
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    queued = r.queue.get("default/p")
    assert queued is not None
    assert queued.unschedulable_plugins == {"Patient", "Doorman"}
    Doorman.asked.clear()
    r.queue.move_all(event, NEW_NODE, NEW_NODE)
    assert bool(Doorman.asked) is looked_at
    assert r.place("p") == "gated"


def test_an_event_opens_the_gate_if_the_plugin_lets_the_pod_in_now() -> None:
    r = rig(Doorman)
    Doorman.closed.add("p")
    r.add(pod("p"))
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert r.place("p") == "gated"
    Doorman.closed.clear()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert r.place("p") == "active"


def test_a_plugin_that_fails_keeps_the_pod_back() -> None:
    r = rig(Doorman)
    Doorman.fails = True
    r.add(pod("p"))
    assert r.place("p") == "gated"
    queued = r.queue.get("default/p")
    assert queued is not None
    assert queued.gate is not None
    assert queued.gate.message == "RuntimeError: the door is stuck (still_queue.py:69)"


class Second(Plugin):
    """Comes after Doorman."""

    asked: list[str] = []  # noqa: RUF012

    def pre_enqueue(self, pod: PodInfo) -> Any:
        self.asked.append(pod.name)
        return unresolvable("second") if pod.name == "held-by-second" else None


def test_the_plugin_that_held_a_pod_back_is_asked_first_and_the_rest_only_if_it_agrees() -> None:
    r = rig(Doorman, Second)
    Second.asked.clear()
    r.add(pod("held-by-second"))
    assert (Doorman.asked, Second.asked) == (["held-by-second"], ["held-by-second"])
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert (Doorman.asked, Second.asked) == (["held-by-second"], ["held-by-second"] * 2)


def test_an_answer_that_is_no_status_keeps_the_pod_back_and_says_so() -> None:
    class Odd(Plugin):
        def pre_enqueue(self, pod: PodInfo) -> Any:
            return "no"

    r = rig(Odd)
    r.add(pod("p"))
    queued = r.queue.get("default/p")
    assert queued is not None
    assert queued.gate is not None
    assert queued.gate.message == "expected a Status or None, got str"


def test_a_pod_that_comes_back_can_be_held_back_instead_of_backing_off() -> None:
    r = rig(Doorman)
    r.add(pod("p"))
    queued = r.pop()
    Doorman.closed.add("p")
    r.reject(queued)
    assert r.place("p") == "gated"


def test_a_pod_leaves_the_backoff_without_being_asked_for_again() -> None:
    r = rig(Doorman)
    r.add(pod("p"))
    r.reject(r.pop())
    Doorman.asked.clear()
    Doorman.closed.add("p")
    r.clock.pass_seconds(2)
    r.queue.flush_backoff()
    assert r.place("p") == "active"
    assert Doorman.asked == []


def test_gated_pods_are_looked_at_again_when_they_have_waited_long_enough() -> None:
    r = rig(Doorman)
    Doorman.closed.add("p")
    r.add(pod("p"))
    r.clock.pass_seconds(300.1)
    r.queue.flush_unschedulable()
    queued = r.queue.get("default/p")
    assert queued is not None
    assert (r.place("p"), queued.flushed, len(Doorman.asked)) == ("gated", False, 2)
    r.clock.pass_seconds(299)
    r.queue.flush_unschedulable()
    assert len(Doorman.asked) == 2
    Doorman.closed.clear()
    r.clock.pass_seconds(2)
    r.queue.flush_unschedulable()
    assert r.place("p") == "active"
