"""Metrics of a real queue with the metrics as its instrument."""

from scheduler.metrics.reading import Timer, made, scraped
from scheduler.queue.still_queue import Doorman, Patient, Rig, rig
from stowplan.scheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD, Hint
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import node, pod

NEW_NODE = node("n").obj()
PROFILE = "default-scheduler"
POINTS = "framework_extension_point_duration_seconds"
PLUGINS = "plugin_execution_duration_seconds"


class Slow(Plugin):
    """Lets every pod pass, after two seconds."""

    timer: Timer

    def pre_enqueue(self, pod: PodInfo) -> None:
        self.timer.seconds += 2


def metered(*plugins: type[Plugin], drawn: float = 0.0) -> tuple[Rig, SchedulerMetrics]:
    Slow.timer = Timer()
    metrics = made(timer=Slow.timer, drawn=drawn)
    return rig(*plugins, instrument=metrics), metrics


def test_pods_are_counted_by_the_queue_they_come_to_and_the_reason() -> None:
    r, metrics = metered(Patient)
    r.waiting(pod("p"), "Patient")
    r.add(pod("q"))
    Patient.answers["p"] = Hint.QUEUE
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert scraped(metrics, "queue_incoming_pods_total") == {
        ("UnscheduledPodAdd", "active"): 2,
        ("ScheduleAttemptFailure", "unschedulable"): 1,
        ("NodeAdd", "backoff"): 1,
    }


def test_a_run_of_pre_enqueue_plugins_is_timed_as_a_whole_and_always_a_success() -> None:
    r, metrics = metered(Slow, Doorman)
    Doorman.closed.add("q")
    r.add(pod("p"), pod("q"))
    assert scraped(metrics, f"{POINTS}_count") == {("PreEnqueue", PROFILE, "Success"): 2}
    assert scraped(metrics, f"{POINTS}_sum") == {("PreEnqueue", PROFILE, "Success"): 4.0}


def test_a_pod_that_is_asked_about_twice_makes_two_runs() -> None:
    r, metrics = metered(Slow, Doorman)
    Doorman.closed.add("p")
    r.add(pod("p"))
    Doorman.closed.clear()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    r.reject(r.pop(), "Doorman")
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert scraped(metrics, f"{POINTS}_count") == {("PreEnqueue", PROFILE, "Success"): 3}
    assert scraped(metrics, f"{POINTS}_sum") == {("PreEnqueue", PROFILE, "Success"): 6.0}


def test_in_a_sample_every_plugin_is_timed_with_what_it_said() -> None:
    r, metrics = metered(Slow, Doorman, drawn=0.0999)
    Doorman.closed.add("p")
    r.add(pod("p"))
    seconds = scraped(metrics, f"{PLUGINS}_sum")
    assert seconds["PreEnqueue", "Slow", "Success"] == 2.0
    assert seconds["PreEnqueue", "Doorman", "UnschedulableAndUnresolvable"] == 0.0


def test_outside_the_sample_only_the_run_is_timed() -> None:
    r, metrics = metered(Slow, drawn=0.1)
    r.add(pod("p"))
    assert scraped(metrics, f"{PLUGINS}_count") == {}
    assert scraped(metrics, f"{POINTS}_sum") == {("PreEnqueue", PROFILE, "Success"): 2.0}
    assert not metrics.sampled()


def test_hints_are_timed_by_plugin_event_and_answer() -> None:
    r, metrics = metered(Patient)
    answers: dict[str, Hint | Exception] = {"p": Hint.QUEUE, "q": Hint.SKIP, "r": ValueError("no idea")}
    for name, answer in answers.items():
        r.waiting(pod(name), "Patient")
        Patient.answers[name] = answer
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    r.queue.move_all(ASSIGNED_POD_DELETE, pod("gone").obj(), None)
    assert scraped(metrics, "queueing_hint_execution_duration_seconds_count") == {
        ("NodeAdd", "Error", "Patient"): 1,
        ("NodeAdd", "Queue", "Patient"): 1,
        ("NodeAdd", "QueueSkip", "Patient"): 1,
        ("AssignedPodDelete", "QueueSkip", "Patient"): 1,
    }


def test_rejected_pods_are_shown_by_plugin_while_they_wait() -> None:
    r, metrics = metered(Patient)
    r.waiting(pod("p"), "Patient", "NodeName")
    r.waiting(pod("q"), pending=["Patient"])
    shown = {("NodeName", PROFILE): 1, ("Patient", PROFILE): 2}
    assert scraped(metrics, "unschedulable_pods") == shown
    r.queue.delete(pod("p").obj())
    r.queue.pop_specific(pod("q").obj())
    assert scraped(metrics, "unschedulable_pods") == dict.fromkeys(shown, 0)


def test_events_are_shown_as_long_as_they_are_kept_for_a_pod_in_flight() -> None:
    r, metrics = metered(Patient)
    r.add(pod("p"))
    queued = r.pop()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert scraped(metrics, "inflight_events") == {("NodeAdd",): 1, ("PodPopped",): 1}
    r.queue.done(queued.uid)
    assert scraped(metrics, "inflight_events") == {("NodeAdd",): 0, ("PodPopped",): 0}
