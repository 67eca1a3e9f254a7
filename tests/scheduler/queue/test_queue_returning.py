"""Pods that come back from an attempt, and what happened while they were in flight."""

import pytest

from scheduler.queue.still_queue import Patient, rig
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    Action,
    ClusterEvent,
    Hint,
    Resource,
)
from stowplan.scheduler.queue.sub_queues import AlreadyQueuedError
from stowplan.testing import node, pod

NEW_NODE = node("n").obj()


def test_a_pod_nobody_rejected_is_tried_again_after_its_backoff() -> None:
    r = rig()
    r.add(pod("p"))
    r.reject(r.pop())
    assert r.place("p") == "backoff"


def test_a_rejected_pod_waits_if_nothing_happened_meanwhile() -> None:
    r = rig(Patient)
    r.add(pod("p"))
    r.reject(r.pop(), "Patient")
    assert r.place("p") == "unschedulable"


@pytest.mark.parametrize(
    ("answer", "place"),
    [(Hint.SKIP, "unschedulable"), (Hint.QUEUE, "backoff"), (ValueError("no idea"), "backoff")],
)
def test_an_event_that_came_meanwhile_is_looked_at_when_the_pod_comes_back(
    answer: Hint | Exception, place: str
) -> None:
    r = rig(Patient)
    Patient.answers["p"] = answer
    r.add(pod("p"))
    queued = r.pop()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert Patient.asked == []
    r.reject(queued, "Patient")
    assert Patient.asked == ["p"]
    assert r.place("p") == place


def test_an_event_from_before_the_attempt_is_not_looked_at() -> None:
    r = rig(Patient)
    Patient.answers["p"] = Hint.QUEUE
    r.add(pod("other").priority(1), pod("p"))
    other = r.pop()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    queued = r.pop()
    r.reject(queued, "Patient")
    assert r.place("p") == "unschedulable"
    Patient.answers["other"] = Hint.QUEUE
    r.reject(other, "Patient")
    assert r.place("other") == "backoff"


def test_a_pod_rejected_by_a_plugin_that_waits_skips_its_backoff() -> None:
    r = rig(Patient)
    Patient.answers["p"] = Hint.QUEUE
    r.add(pod("p"))
    queued = r.pop()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    r.reject(queued, pending=["Patient"])
    assert r.place("p") == "active"


def test_a_later_event_can_be_the_one_that_skips_the_backoff() -> None:
    r = rig(Patient)
    Patient.answers["p"] = Hint.QUEUE
    r.add(pod("p"))
    queued = r.pop()
    r.queue.move_all(ASSIGNED_POD_ADD, None, pod("new").on("n").obj())
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    r.reject(queued, "NodeName", pending=["Patient"])
    assert r.place("p") == "active"


def test_an_event_that_no_plugin_registered_for_is_not_kept() -> None:
    r = rig()
    r.add(pod("p"))
    r.pop()
    r.queue.move_all(ClusterEvent("foos.v1.example.com", Action.ADD), None, NEW_NODE)
    r.queue.move_all(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_CONDITION), NEW_NODE, NEW_NODE)
    assert r.queue.in_flight.events == ()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert r.recorded_events() == [NODE_ADD]


def test_events_are_kept_only_while_somebody_is_in_flight() -> None:
    r = rig()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert r.queue.in_flight.events == ()


def test_events_are_forgotten_when_the_last_pod_that_may_need_them_is_done() -> None:
    r = rig()
    r.add(pod("a"), pod("b"), pod("c"))
    first = r.pop()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    second = r.pop()
    r.queue.move_all(ASSIGNED_POD_DELETE, pod("x").on("n").obj())
    third = r.pop()
    kept = r.queue.in_flight

    def events() -> list[ClusterEvent]:
        return [happened.event for happened in kept.events]

    assert events() == [NODE_ADD, ASSIGNED_POD_DELETE]
    r.queue.done(second.uid)
    assert events() == [NODE_ADD, ASSIGNED_POD_DELETE]
    r.queue.done(first.uid)
    assert events() == []
    assert kept.uids == [third.uid]
    r.queue.done(third.uid)
    r.queue.done(third.uid)
    assert len(kept) == 0


def test_an_update_of_the_pod_in_flight_is_looked_at_when_it_comes_back() -> None:
    r = rig()
    builder = pod("p")
    r.add(builder)
    queued = r.pop()
    tolerant = builder.tolerates("gpu")
    r.queue.update(builder.obj(), tolerant.obj())
    assert r.place("p") is None
    r.queue.add_unschedulable_if_not_present(queued, {"TaintToleration"}, pod=tolerant.obj())
    assert r.place("p") == "backoff"
    assert r.pop().pod.pod == tolerant.obj()


def test_activating_a_pod_in_flight_brings_it_back_after_its_backoff() -> None:
    r = rig(Patient)
    r.add(pod("p"), pod("q"))
    p, q = r.pop(), r.pop()
    r.queue.activate([pod("p").obj()])
    assert [happened.event for happened in r.queue.in_flight.events] == [FORCE_ACTIVATE]
    r.reject(p, "Patient")
    r.reject(q, "Patient")
    assert r.places("p", "q") == ["backoff", "unschedulable"]


def test_failures_are_counted_and_the_clock_starts_anew() -> None:
    r = rig(Patient)
    r.add(pod("p"))
    queued = r.pop()
    queued.flushed, queued.flushed_at, queued.backoff_until = True, 1.0, 1
    r.clock.pass_seconds(7)
    r.reject(queued, "Patient")
    assert (queued.unschedulable_count, queued.consecutive_errors) == (1, 0)
    assert queued.timestamp == r.clock.now()
    assert not queued.flushed
    assert queued.flushed_at is None


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("unschedulable", "Pod default/p is already present in unschedulable queue"),
        ("active", "Pod default/p is already present in the active queue"),
        ("backoff", "Pod default/p is already present in the backoff queue"),
    ],
)
def test_a_pod_that_is_back_already_is_refused_and_its_attempt_is_over(place: str, message: str) -> None:
    r = rig(Patient)
    builder = pod("p")
    r.add(builder)
    queued = r.pop()
    again = builder.uid("another")
    r.add(again)
    if place != "active":
        twin = r.pop()
        r.reject(twin, *(["Patient"] if place == "unschedulable" else []))
    with pytest.raises(AlreadyQueuedError) as caught:
        r.reject(queued, "Patient")
    assert str(caught.value) == message
    assert queued.uid not in r.queue.in_flight


def test_a_pod_that_was_not_taken_out_comes_back_by_its_backoff() -> None:
    r = rig(Patient)
    r.add(pod("p"))
    queued = r.pop()
    r.queue.done(queued.uid)
    r.reject(queued, "Patient")
    assert r.place("p") == "backoff"
