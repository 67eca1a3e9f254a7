"""Pods in backoff: until when, and the events that let them out earlier."""

from math import floor

import pytest

from scheduler.queue.still_queue import START, Rig, rig
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.scheduler.framework.events import NODE_ADD
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.testing import PodBuilder, node, pod

WINDOW = 1.0


def failing(r: Rig, builder: PodBuilder, times: int, *plugins: str) -> QueuedPod:
    """A pod that has failed `times` times in a row, the last time just now."""
    r.add(builder)
    queued = r.queue.pop_specific(builder.obj())
    for _ in range(times - 1):
        assert queued is not None
        r.reject(queued, *plugins)
        r.clock.pass_seconds(60)
        queued = r.queue.pop_specific(builder.obj())
    assert queued is not None
    r.reject(queued, *plugins)
    return queued


def ready_after(r: Rig, name: str) -> float:
    """Seconds until a pod is ready, in steps of a tenth of a second."""
    began = r.clock.now()
    for step in range(1, 200):
        r.clock.time = began + step / 10
        r.queue.flush_backoff()
        if r.place(name) == "active":
            return step / 10
    raise AssertionError("never ready")


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (30, 10), (100, 10)]
)
def test_a_failed_pod_waits_twice_as_long_each_time_up_to_ten_seconds(failures: int, seconds: int) -> None:
    r = rig()
    failing(r, pod("p"), failures)
    assert r.place("p") == "backoff"
    # Failures happen on whole seconds here, so the end does, too, and the window it falls into has to pass.
    assert ready_after(r, "p") == seconds + WINDOW


@pytest.mark.parametrize(
    ("failed_at", "ready_at"),
    [(0.0, 2.0), (0.1, 2.0), (0.5, 2.0), (0.9, 2.0), (0.999, 2.0), (1.0, 3.0)],
)
def test_a_backoff_ends_with_the_second_after_the_one_its_end_falls_into(
    failed_at: float, ready_at: float
) -> None:
    r = rig()
    r.clock.time = START + failed_at
    failing(r, pod("p"), 1)
    r.clock.time = START + ready_at - 0.001
    r.queue.flush_backoff()
    assert r.place("p") == "backoff"
    r.clock.time = START + ready_at
    r.queue.flush_backoff()
    assert r.place("p") == "active"


def test_errors_in_a_row_count_and_a_rejection_ends_the_row() -> None:
    r = rig()
    builder = pod("p")
    queued = failing(r, builder, 4)
    assert (queued.consecutive_errors, queued.unschedulable_count) == (4, 0)
    again = r.queue.pop_specific(builder.obj())
    assert again is queued
    r.reject(queued, "NodeName")
    assert (queued.consecutive_errors, queued.unschedulable_count) == (0, 1)
    r.queue.move_all(NODE_ADD, None, node("n").obj())
    assert ready_after(r, "p") == 1 + WINDOW


def test_rejections_count_where_the_last_attempt_was_one() -> None:
    r = rig()
    builder = pod("p")
    queued = failing(r, builder, 3, "NodeName")
    assert (queued.consecutive_errors, queued.unschedulable_count) == (0, 3)
    r.queue.move_all(NODE_ADD, None, node("n").obj())
    assert ready_after(r, "p") == 4 + WINDOW


def test_a_pod_whose_backoff_is_over_when_something_helps_it_is_ready_at_once() -> None:
    r = rig()
    failing(r, pod("p"), 1, "NodeName")
    r.clock.pass_seconds(2)
    r.queue.move_all(NODE_ADD, None, node("n").obj())
    assert r.place("p") == "active"


def test_an_idle_scheduler_tries_a_rejected_pod_before_its_time() -> None:
    r = rig()
    failing(r, pod("p"), 3, "NodeName")
    r.queue.move_all(NODE_ADD, None, node("n").obj())
    assert r.place("p") == "backoff"
    assert r.pop().pod.name == "p"


def test_a_ready_pod_goes_before_one_that_is_backing_off() -> None:
    r = rig()
    failing(r, pod("p").priority(9), 1, "NodeName")
    r.queue.move_all(NODE_ADD, None, node("n").obj())
    r.add(pod("ready"))
    assert r.popped() == ["ready", "p"]


def test_a_pod_whose_attempt_went_wrong_is_never_tried_before_its_time() -> None:
    r = rig()
    failing(r, pod("p"), 1)
    assert r.queue.pop() is None
    r.clock.pass_seconds(2)
    r.queue.flush_backoff()
    assert r.pop().pod.name == "p"


def test_pods_whose_backoffs_end_in_one_second_come_out_by_priority() -> None:
    r = rig()
    for name, priority in (("first", 1), ("second", 3), ("third", 2)):
        failing(r, pod(name).priority(priority), 1, "NodeName")
        r.clock.pass_seconds(0.3)
    r.queue.move_all(NODE_ADD, None, node("n").obj())
    assert r.popped() == ["second", "third", "first"]


def test_a_backoff_that_ends_in_an_earlier_second_goes_first_whatever_the_priority() -> None:
    r = rig()
    failing(r, pod("early").priority(1), 1, "NodeName")
    r.clock.pass_seconds(1)
    failing(r, pod("late").priority(9), 1, "NodeName")
    r.queue.move_all(NODE_ADD, None, node("n").obj())
    assert r.popped() == ["early", "late"]


def test_the_host_is_told_when_the_next_backoff_is_over() -> None:
    r = rig()
    assert r.queue.next_deadline() is None
    r.clock.time = START + 0.4
    failing(r, pod("p"), 3)
    deadline = r.queue.next_deadline()
    assert deadline == floor(START + 120.4 + 4) + WINDOW
    r.clock.time = deadline
    r.queue.flush_backoff()
    assert r.place("p") == "active"
    assert r.queue.next_deadline() is None


def test_the_limits_can_be_chosen() -> None:
    r = rig(initial_backoff=3, max_backoff=5)
    failing(r, pod("p"), 1)
    assert ready_after(r, "p") == 3 + WINDOW
    failing(r, pod("q"), 2)
    assert ready_after(r, "q") == 5 + WINDOW


def test_a_limit_of_nothing_switches_the_backoff_off() -> None:
    r = rig(max_backoff=0)
    failing(r, pod("p"), 1)
    assert r.place("p") == "active"


class TestWithoutTheGate:
    """SchedulerPopFromBackoffQ off: no pod is tried before the end of its backoff."""

    gates = FeatureGates({"SchedulerPopFromBackoffQ": False})

    def test_a_rejected_pod_is_not_tried_before_its_time(self) -> None:
        r = rig(gates=self.gates)
        failing(r, pod("p"), 1, "NodeName")
        r.queue.move_all(NODE_ADD, None, node("n").obj())
        assert r.place("p") == "backoff"
        assert r.queue.pop() is None

    def test_a_backoff_ends_to_the_instant(self) -> None:
        r = rig(gates=self.gates)
        r.clock.time = START + 0.5
        failing(r, pod("p"), 1)
        r.clock.time = START + 1.5
        r.queue.flush_backoff()
        assert r.place("p") == "backoff"
        deadline = r.queue.next_deadline()
        assert deadline is not None
        assert START + 1.5 < deadline < START + 1.500001
        r.clock.time = deadline
        r.queue.flush_backoff()
        assert r.place("p") == "active"
