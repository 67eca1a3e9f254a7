"""Pods that an event moves out of unschedulablePods."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from scheduler.queue.still_queue import Doorman, Patient, Rig, StoppedClock, rig
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
    queue_if,
)
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.queue.build import queue_for, rules_of
from stowplan.scheduler.queue.requeue import worth_requeuing
from stowplan.scheduler.queue.sub_queues import Strategy
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import cluster, node, pod

NEW_NODE = node("n").obj()


def test_pods_are_woken_whose_plugins_think_an_event_helps() -> None:
    r = rig(Patient)
    for name in ("a", "b", "c"):
        r.waiting(pod(name), "Patient")
    Patient.answers.update({"a": Hint.QUEUE, "c": ValueError("no idea")})
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert r.places("a", "b", "c") == ["backoff", "unschedulable", "backoff"]


@pytest.mark.parametrize(
    ("unschedulable", "pending", "event", "new", "strategy"),
    [
        ("", "", NODE_ADD, NEW_NODE, Strategy.AFTER_BACKOFF),
        ("", "", FORCE_ACTIVATE, pod("other").obj(), Strategy.AFTER_BACKOFF),
        ("Patient", "", NODE_ADD, NEW_NODE, Strategy.AFTER_BACKOFF),
        ("Patient", "Patient", NODE_ADD, NEW_NODE, Strategy.IMMEDIATELY),
        ("Doorman", "", NODE_ADD, NEW_NODE, Strategy.AFTER_BACKOFF),
        ("Doorman", "", ASSIGNED_POD_DELETE, None, Strategy.SKIP),
        ("Patient", "", FORCE_ACTIVATE, pod("other").obj(), Strategy.SKIP),
    ],
)
def test_a_pod_without_a_rejection_is_retried_after_any_event(
    unschedulable: str, pending: str, event: ClusterEvent, new: Any, strategy: Strategy
) -> None:
    """Such a member of a group failed for another reason than a plugin, which any event may have ended."""
    r = rig(Patient, Doorman)
    r.add(pod("p"))
    queued = r.pop()
    queued.unschedulable_plugins = frozenset(filter(None, [unschedulable]))
    queued.pending_plugins = frozenset(filter(None, [pending]))
    Patient.answers["p"] = Hint.QUEUE
    [framework] = cluster(plugins=(Patient, Doorman)).frameworks.values()
    assert worth_requeuing(rules_of(framework).hints, queued, event, None, new) is strategy


def test_only_plugins_that_rejected_a_pod_are_asked() -> None:
    r = rig(Patient)
    r.waiting(pod("p"), "SchedulingGates")
    Patient.answers["p"] = Hint.QUEUE
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert Patient.asked == []
    assert r.place("p") == "unschedulable"


def test_only_plugins_that_registered_for_an_event_are_asked() -> None:
    r = rig(Patient)
    r.waiting(pod("p"), "Patient")
    r.queue.move_all(ASSIGNED_POD_ADD, None, pod("new").on("n").obj())
    r.queue.move_all(ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE), NEW_NODE, NEW_NODE)
    assert Patient.asked == []
    r.queue.move_all(ASSIGNED_POD_DELETE, pod("gone").on("n").obj())
    assert Patient.asked == ["p"]


def test_an_event_that_no_plugin_registered_for_changes_nothing() -> None:
    r = rig(Patient)
    r.waiting(pod("p"), "Patient")
    r.queue.move_all(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ANNOTATION), NEW_NODE, NEW_NODE)
    assert r.place("p") == "unschedulable"


@pytest.mark.parametrize(
    ("rejectors", "pending", "place"),
    [
        (["Patient"], [], "backoff"),
        ([], ["Patient"], "active"),
        (["NodeName"], ["Patient"], "active"),
        (["Patient"], ["SchedulingGates"], "backoff"),
    ],
)
def test_a_plugin_that_only_waited_for_this_spares_the_pod_its_backoff(
    rejectors: list[str], pending: list[str], place: str
) -> None:
    r = rig(Patient)
    r.waiting(pod("p"), *rejectors, pending=pending)
    Patient.answers["p"] = Hint.QUEUE
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert r.place("p") == place


def test_only_pods_up_to_a_priority_are_woken_if_one_is_given() -> None:
    r = rig(Patient)
    for name, priority in (("low", 1), ("same", 5), ("high", 6)):
        r.waiting(pod(name).priority(priority), "Patient")
        Patient.answers[name] = Hint.QUEUE
    r.queue.move_all(ASSIGNED_POD_DELETE, pod("gone").on("n").obj(), None, 5)
    assert r.places("low", "same", "high") == ["backoff", "backoff", "unschedulable"]


def test_a_wildcard_event_wakes_everybody() -> None:
    r = rig(Patient)
    r.waiting(pod("p"), "Patient")
    r.waiting(pod("q"), "NodeName")
    r.queue.move_all(UNSCHEDULABLE_TIMEOUT)
    assert r.places("p", "q") == ["backoff", "backoff"]
    assert Patient.asked == []


def test_a_wildcard_event_about_a_pod_wakes_only_that_pod() -> None:
    r = rig(Patient)
    r.waiting(pod("p"), "Patient")
    r.waiting(pod("q"), "Patient")
    r.queue.move_all(UNSCHEDULABLE_TIMEOUT, None, pod("q").obj())
    assert r.places("p", "q") == ["unschedulable", "backoff"]


class Shared(Plugin):
    """Its hint looks at labels, which pods of one template share, and knows a pod's own events."""

    asked: ClassVar[list[str]] = []

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD)
        pods = ClusterEvent(Resource.POD, Action.DELETE)
        return (
            EventRegistration(nodes, self._hint, by_template=True),
            EventRegistration(pods, self._hint, by_template=True),
        )

    def _hint(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        self.asked.append(pod.name)
        itself = old is not None and old.metadata.uid == pod.uid
        return queue_if(itself or pod.labels.get("app") == "a")


def test_a_hint_by_template_is_asked_once_for_all_pods_that_are_alike() -> None:
    r = rig(Shared)
    Shared.asked.clear()
    for n in range(30):
        r.waiting(pod(f"a{n}").labels(app="a"), "Shared")
        r.waiting(pod(f"b{n}").labels(app="b"), "Shared")
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert len(Shared.asked) == 2
    assert r.queue.counts() == {"active": 0, "backoff": 30, "unschedulable": 30, "gated": 0}


def test_the_pod_an_event_is_about_is_not_taken_for_its_siblings() -> None:
    r = rig(Shared)
    Shared.asked.clear()
    builders = [pod(f"b{n}").labels(app="b").nominated("n") for n in range(5)]
    for builder in builders:
        r.waiting(builder, "Shared")
    r.queue.move_all(ASSIGNED_POD_DELETE, builders[2].obj())
    assert [n for n in range(5) if r.place(f"b{n}") == "backoff"] == [2]


def test_pods_that_other_plugins_rejected_are_not_even_looked_at() -> None:
    r = rig(Shared, Patient)
    Shared.asked.clear()
    r.waiting(pod("p").labels(app="a"), "Patient")
    r.waiting(pod("q").labels(app="a"), "Shared", "Patient")
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert Shared.asked == ["q"]
    assert r.places("p", "q") == ["unschedulable", "backoff"]


def test_a_pod_of_another_profile_is_judged_by_its_own_plugins() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "other",
                "plugins": {"multiPoint": {"enabled": [{"name": "Patient"}]}},
            },
        ],
    }
    Patient.answers.clear()
    clock = StoppedClock()
    frameworks = [*cluster(config=config, plugins=[Patient]).frameworks.values()]
    r = Rig(queue_for(frameworks, clock), clock)
    r.waiting(pod("p"), "Patient")
    r.waiting(pod("q").scheduler("other"), "Patient")
    Patient.answers.update({"p": Hint.QUEUE, "q": Hint.QUEUE})
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert r.places("p", "q") == ["unschedulable", "backoff"]
