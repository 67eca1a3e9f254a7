"""Pods that have waited for an event long enough, and pods that are activated."""

import pytest

from scheduler.queue.still_queue import START, Doorman, Patient, rig
from stowplan.scheduler.framework.events import UNSCHEDULABLE_TIMEOUT
from stowplan.testing import pod


@pytest.mark.parametrize(
    ("seconds", "place"), [(0, "unschedulable"), (299.9, "unschedulable"), (300.0, "unschedulable")]
)
def test_a_pod_waits_five_minutes_for_an_event(seconds: float, place: str) -> None:
    r = rig()
    r.waiting(pod("p"), "NodeName")
    r.clock.pass_seconds(seconds)
    r.queue.flush_unschedulable()
    assert r.place("p") == place


def test_after_more_than_five_minutes_a_pod_is_tried_without_an_event_and_remembers_it() -> None:
    r = rig()
    queued = r.waiting(pod("p"), "NodeName")
    r.clock.pass_seconds(300.001)
    r.queue.flush_unschedulable()
    assert (r.place("p"), queued.flushed, queued.flushed_at) == ("active", True, r.clock.now())
    r.reject(r.pop(), "NodeName")
    assert (queued.flushed, queued.flushed_at) == (False, None)


def test_how_long_a_pod_waits_can_be_chosen() -> None:
    r = rig(longest_wait=60)
    r.waiting(pod("p"), "NodeName")
    r.clock.pass_seconds(60.5)
    r.queue.flush_unschedulable()
    assert r.place("p") == "active"


def test_the_host_is_told_when_the_first_pod_will_have_waited_long_enough() -> None:
    r = rig()
    r.waiting(pod("p"), "NodeName")
    r.clock.pass_seconds(10)
    r.waiting(pod("q"), "NodeName")
    deadline = r.queue.next_deadline()
    assert deadline is not None
    assert START + 300 < deadline < START + 300.001
    r.clock.time = deadline
    r.queue.flush_unschedulable()
    assert r.places("p", "q") == ["active", "unschedulable"]
    assert r.queue.next_deadline() == pytest.approx(START + 310)


def test_a_pod_that_waits_again_is_given_its_time_again() -> None:
    r = rig()
    r.waiting(pod("p"), "NodeName")
    r.clock.pass_seconds(200)
    queued = r.queue.pop_specific(pod("p").obj())
    assert queued is not None
    r.reject(queued, "NodeName")
    r.clock.pass_seconds(200)
    r.queue.flush_unschedulable()
    assert r.place("p") == "unschedulable"
    r.clock.pass_seconds(101)
    r.queue.flush_unschedulable()
    assert r.place("p") == "active"


def test_a_flush_counts_as_an_event_for_pods_in_flight() -> None:
    r = rig()
    r.waiting(pod("p"), "NodeName")
    r.add(pod("flying"))
    flying = r.pop()
    r.clock.pass_seconds(200)
    r.queue.flush_unschedulable()
    assert r.queue.in_flight.events == ()
    r.clock.pass_seconds(101)
    r.queue.flush_unschedulable()
    assert r.recorded_events() == [UNSCHEDULABLE_TIMEOUT]
    r.reject(flying, "NodeName")
    assert r.place("flying") == "backoff"


def test_a_pod_that_waits_for_an_event_can_be_activated() -> None:
    r = rig(Patient)
    r.waiting(pod("p"), "Patient")
    r.queue.activate([pod("p").obj()])
    assert r.place("p") == "active"
    assert Patient.asked == []


def test_a_pod_that_is_backing_off_can_be_activated_without_asking_anybody() -> None:
    r = rig(Doorman)
    r.waiting(pod("p"))
    assert r.place("p") == "backoff"
    Doorman.closed.add("p")
    r.queue.activate([pod("p").obj()])
    assert r.place("p") == "active"


def test_a_gated_pod_is_not_activated_while_its_plugin_says_no() -> None:
    r = rig(Doorman)
    Doorman.closed.add("p")
    r.add(pod("p"))
    r.queue.activate([pod("p").obj()])
    assert r.place("p") == "gated"
    Doorman.closed.clear()
    r.queue.activate([pod("p").obj()])
    assert r.place("p") == "active"


def test_activating_a_pod_nobody_knows_does_nothing() -> None:
    r = rig()
    r.add(pod("flying"))
    r.pop()
    r.queue.activate([pod("unknown").obj()])
    assert r.place("unknown") is None
    assert r.queue.in_flight.events == ()
