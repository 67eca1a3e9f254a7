"""Order in which pods are popped."""

from typing import Any

import pytest

from releases import GATES_1_36
from scheduler.queue.still_queue import StoppedClock, rig
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.queue.build import queue_for
from stowplan.testing import cluster, pod


def test_the_more_important_pod_comes_out_first() -> None:
    r = rig()
    r.add(pod("low").priority(1), pod("high").priority(9), pod("none"))
    assert r.popped() == ["high", "low", "none"]


def test_among_equals_the_one_that_has_waited_longer_comes_out_first() -> None:
    r = rig()
    r.add(pod("first"))
    r.clock.pass_seconds(0.001)
    r.add(pod("second"))
    assert r.popped() == ["first", "second"]


def test_pods_that_came_at_the_same_moment_come_out_in_the_order_they_came() -> None:
    r = rig()
    names = [f"p{n}" for n in range(20)]
    r.add(*map(pod, names))
    assert r.popped() == names


def test_a_pod_that_failed_waits_since_its_failure_and_not_since_it_came() -> None:
    r = rig()
    r.add(pod("old"))
    failed = r.pop()
    r.clock.pass_seconds(1)
    r.add(pod("young"))
    r.clock.pass_seconds(1)
    r.reject(failed)
    r.clock.pass_seconds(20)
    r.queue.flush_backoff()
    assert r.popped() == ["young", "old"]


def test_an_updated_pod_keeps_its_place() -> None:
    r = rig()
    pods = [pod(name).priority(5) for name in ("a", "b", "c")]
    r.add(*pods)
    old = pods[0]
    r.queue.update(old.obj(), old.labels(app="x").obj())
    queued = r.pop()
    assert (queued.pod.name, queued.pod.labels) == ("a", {"app": "x"})


def test_an_updated_pod_moves_if_what_it_is_sorted_by_changed() -> None:
    r = rig()
    pods = [pod(name).priority(5) for name in ("a", "b")]
    r.add(*pods)
    r.queue.update(pods[1].obj(), pods[1].priority(6).obj())
    assert r.popped() == ["b", "a"]


class ByName(Plugin):
    """Sorts the queue by name."""

    def sort_key(self, queued: Any) -> str:
        return str(queued.pod.name)


def test_a_plugin_of_ones_own_sorts_the_queue() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "queueSort": {"enabled": [{"name": "ByName"}], "disabled": [{"name": "PrioritySort"}]}
                },
            }
        ],
    }
    made = cluster(config=config, plugins=[ByName])
    queue = queue_for([*made.frameworks.values()], StoppedClock())
    for each in (pod("c").priority(9), pod("a"), pod("b")):
        queue.add(each.obj())
    assert [queue.pop().pod.name for _ in range(3)] == ["a", "b", "c"]  # type: ignore[union-attr]


def test_an_empty_queue_gives_nothing() -> None:
    assert rig().queue.pop() is None


def test_taking_out_counts_attempts_and_cycles() -> None:
    r = rig()
    r.add(pod("p"))
    queued = r.pop()
    assert (queued.attempts, r.queue.cycle) == (1, 1)
    r.reject(queued)
    r.clock.pass_seconds(5)
    r.queue.flush_backoff()
    assert (r.pop().attempts, r.queue.cycle) == (2, 2)


def test_a_pod_that_is_in_flight_already_is_passed_over() -> None:
    r = rig()
    r.add(pod("twice"))
    flying = r.pop()
    r.add(pod("twice"), pod("once").priority(-1))
    assert r.pop().pod.name == "once"
    assert r.queue.pop() is None
    assert flying.uid in r.queue.in_flight


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_a_certain_pod_can_be_taken_out_wherever_it_waits(place: str) -> None:
    r = rig()
    wanted = pod("wanted")
    r.add(wanted)
    if place != "active":
        r.reject(r.pop(), *(["NodeName"] if place == "unschedulable" else []))
    assert r.place("wanted") == place
    r.add(pod("other").priority(100))
    queued = r.queue.pop_specific(wanted.obj())
    assert queued is not None
    assert queued.pod.name == "wanted"
    assert queued.uid in r.queue.in_flight
    assert r.queue.pop_specific(pod("unknown").obj()) is None


def test_the_summary_and_the_counts_say_how_many_wait_where() -> None:
    r = rig(gates=GATES_1_36)
    r.waiting(pod("waiting"), "NodeName")
    r.waiting(pod("failed"))
    r.add(pod("gated").gates("g"), pod("ready"))
    assert r.queue.counts() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 1}
    assert r.queue.summary() == "activeQ:1; backoffQ:1; unschedulablePods:2"
    assert [queued.pod.name for queued in r.queue] == ["ready", "failed", "waiting", "gated"]
    assert len(r.queue) == 4
