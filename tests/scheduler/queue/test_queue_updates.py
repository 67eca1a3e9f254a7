"""Pods that change or go away while they wait."""

import pytest

from scheduler.queue.still_queue import Patient, Rig, rig
from stowplan.scheduler.framework.events import Hint
from stowplan.testing import pod


def test_an_unknown_pod_that_is_updated_is_new() -> None:
    r = rig()
    r.queue.update(pod("p").obj(), pod("p").labels(app="a").obj())
    assert r.place("p") == "active"


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
def test_a_pod_is_replaced_where_it_stands(place: str) -> None:
    r = rig()
    builder = pod("p").gates("g") if place == "gated" else pod("p")
    _bring_to(r, place)
    changed = builder.annotations(seen="yes")
    r.queue.update(builder.obj(), changed.obj())
    queued = r.queue.get("default/p")
    assert queued is not None
    assert (r.place("p"), queued.pod.annotations) == (place, {"seen": "yes"})


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
def test_a_deleted_pod_is_gone_from_wherever_it_stood(place: str) -> None:
    r = rig()
    _bring_to(r, place)
    r.queue.delete(pod("p").obj())
    assert r.place("p") is None
    assert len(r.queue) == 0
    assert r.queue.next_deadline() is None
    r.clock.pass_seconds(1000)
    r.queue.flush_backoff()
    r.queue.flush_unschedulable()
    assert r.popped() == []


def _bring_to(r: Rig, place: str) -> None:
    if place == "gated":
        r.add(pod("p").gates("g"))
    else:
        r.add(pod("p"))
        if place != "active":
            r.reject(r.pop(), *(["NodeName"] if place == "unschedulable" else []))
    assert r.place("p") == place


def test_a_waiting_pod_is_tried_again_if_its_own_change_may_help_it() -> None:
    r = rig()
    builder = pod("p")
    r.waiting(builder, "TaintToleration")
    r.queue.update(builder.obj(), builder.labels(app="a").obj())
    assert r.place("p") == "unschedulable"
    r.queue.update(builder.obj(), builder.tolerates("gpu").obj())
    assert r.place("p") == "backoff"


def test_each_thing_that_changed_is_looked_at_until_one_helps() -> None:
    r = rig(Patient)
    builder = pod("p")
    r.waiting(builder, "Patient", "NodeUnschedulable")
    r.queue.update(builder.obj(), builder.labels(app="a").tolerates("gpu").obj())
    assert (r.place("p"), Patient.asked) == ("unschedulable", ["p"])
    Patient.answers["p"] = Hint.QUEUE
    r.queue.update(builder.obj(), builder.labels(app="b").tolerates("gpu").obj())
    assert r.place("p") == "backoff"


def test_a_waiting_pod_that_changed_waits_among_its_new_likes() -> None:
    r = rig()
    builder = pod("p").requests(cpu="64")
    r.waiting(builder, "NodeResourcesFit")
    changed = builder.annotations(a="b").requests(cpu="128")
    r.queue.update(builder.obj(), changed.obj())
    assert r.place("p") == "unschedulable"
    r.queue.delete(changed.obj())
    assert len(r.queue) == 0


def test_a_pod_made_anew_under_the_same_name_takes_the_place_of_the_old_one() -> None:
    r = rig()
    r.waiting(pod("p"), "NodeName")
    r.queue.update(pod("p").obj(), pod("p").uid("new").obj())
    queued = r.queue.get("default/p")
    assert queued is not None
    assert queued.uid == "new"
    r.queue.delete(pod("p").uid("new").obj())
    r.add(pod("p").uid("newer"))
    assert r.pop().uid == "newer"
