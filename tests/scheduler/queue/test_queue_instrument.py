"""Calls of metrics and logs."""

from collections import Counter
from collections.abc import Callable, Mapping

from scheduler.queue.still_queue import Doorman, Patient, Rig, rig
from stowplan.scheduler.framework.events import NODE_ADD, Answer, ClusterEvent, Hint
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.queue.instrument import Hooks, QueueInstrument
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.testing import node, pod

NEW_NODE = node("n").obj()


class Meters(QueueInstrument):
    """Counts everything."""

    def __init__(self) -> None:
        self.moves: list[tuple[str, str, str]] = []
        self.rejections: Counter[tuple[str, str]] = Counter()
        self.hints: list[tuple[str, str, str]] = []
        self.asked: list[str] = []
        self.problems: list[str] = []
        self.is_hasty = False

    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None:
        self.moves.append((queued.pod.name, queue, event))

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        self.rejections[plugin, profile] += change

    def in_flight(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self.flying = counts

    def before_hint(self, plugin: str, event: ClusterEvent) -> None:
        self.asked.append(plugin)

    def after_hint(self, plugin: str, event: ClusterEvent, answer: Answer) -> None:
        self.hints.append((plugin, event.label, answer.label))

    def before_pre_enqueue(self, queued: QueuedPod) -> bool:
        return not self.is_hasty

    def after_plugin(self, plugin: str, status: Status) -> None:
        if not status.is_success:
            self.asked.append(f"{plugin}: {status.message}")

    def problem(self, message: str) -> None:
        self.problems.append(message)


def metered() -> tuple[Rig, Meters]:
    meters = Meters()
    return rig(Patient, Doorman, instrument=meters), meters


def test_every_move_is_told_with_the_event_that_caused_it() -> None:
    r, meters = metered()
    builder = pod("p")
    r.add(builder)
    r.reject(r.pop(), "Patient")
    Patient.answers["p"] = Hint.QUEUE
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    r.reject(r.pop())
    r.clock.pass_seconds(5)
    r.queue.flush_backoff()
    r.reject(r.pop(), "Patient")
    r.queue.activate([builder.obj()])
    r.reject(r.pop(), "Patient")
    r.clock.pass_seconds(400)
    r.queue.flush_unschedulable()
    assert meters.moves == [
        ("p", "active", "UnscheduledPodAdd"),
        ("p", "unschedulable", "ScheduleAttemptFailure"),
        ("p", "backoff", "NodeAdd"),
        ("p", "active", "PopFromBackoffQ"),
        ("p", "backoff", "ScheduleAttemptFailure"),
        ("p", "active", "BackoffComplete"),
        ("p", "unschedulable", "ScheduleAttemptFailure"),
        ("p", "active", "ForceActivate"),
        ("p", "unschedulable", "ScheduleAttemptFailure"),
        ("p", "active", "UnschedulableTimeout"),
    ]


def test_rejected_pods_are_counted_while_they_are_in_the_queue() -> None:
    r, meters = metered()
    r.waiting(pod("p"), "Patient", "NodeName")
    r.waiting(pod("q"), pending=["Patient"])
    Doorman.closed.add("r")
    r.add(pod("r"))
    profile = "default-scheduler"
    assert +meters.rejections == {
        ("Patient", profile): 2,
        ("NodeName", profile): 1,
        ("Doorman", profile): 1,
    }
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert meters.rejections["Doorman", profile] == 1
    r.queue.pop_specific(pod("p").obj())
    r.queue.delete(pod("q").obj())
    Doorman.closed.clear()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    r.pop()
    assert not +meters.rejections
    assert not -meters.rejections


def test_events_kept_for_pods_in_flight_are_counted_until_they_are_forgotten() -> None:
    r, meters = metered()
    assert meters.flying() == {}
    r.add(pod("p"), pod("q"))
    first, second = r.pop(), r.pop()
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert meters.flying() == {"PodPopped": 2, "NodeAdd": 1}
    r.queue.done(first.uid)
    assert meters.flying() == {"PodPopped": 1, "NodeAdd": 1}
    r.queue.done(second.uid)
    assert meters.flying() == {"PodPopped": 0, "NodeAdd": 0}


def test_hints_are_told_with_their_answers() -> None:
    r, meters = metered()
    answers: dict[str, Hint | Exception] = {"p": Hint.QUEUE, "q": Hint.SKIP, "r": ValueError("no idea")}
    for name, answer in answers.items():
        r.waiting(pod(name), "Patient")
        Patient.answers[name] = answer
    r.queue.move_all(NODE_ADD, None, NEW_NODE)
    assert meters.hints == [
        ("Patient", "NodeAdd", "Queue"),
        ("Patient", "NodeAdd", "QueueSkip"),
        ("Patient", "NodeAdd", "Error"),
    ]
    assert meters.asked == ["Patient"] * 3


def test_gates_and_problems_are_told() -> None:
    r, meters = metered()
    Doorman.fails = True
    r.add(pod("p"))
    assert meters.asked == ["Doorman: RuntimeError: the door is stuck (still_queue.py:69)"]
    assert meters.problems == ['running PreEnqueue plugin "Doorman"']
    Doorman.fails = False
    r.add(pod("q"))
    r.pop()
    r.add(pod("q"))
    assert r.queue.pop() is None
    assert meters.problems[1:] == ["the same pod is tracked in multiple places in the scheduler"]


def test_single_plugins_are_told_of_only_to_those_who_want_to_know() -> None:
    r, meters = metered()
    meters.is_hasty = True
    Doorman.closed.add("p")
    r.add(pod("p"))
    assert meters.asked == []
    assert r.queue.place_of("default/p") == "gated"


def test_methods_that_an_instrument_does_not_have_are_never_called() -> None:
    class Quiet(QueueInstrument):
        def problem(self, message: str) -> None:
            pass

    hooks = Hooks(Quiet())
    assert [name for name in Hooks.__slots__ if getattr(hooks, name) is not None] == ["problem"]
    assert all(getattr(Hooks(None), name) is None for name in Hooks.__slots__)
