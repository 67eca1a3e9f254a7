"""A queue with a clock that stands still, on the plugins of a profile."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import Status, unresolvable
from stowplan.scheduler.queue.build import queue_for
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import PodBuilder, cluster

START = 1_700_000_000.0


class StoppedClock:
    """A clock set by hand."""

    def __init__(self, start: float = START) -> None:
        self.time = start

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.now()

    def pass_seconds(self, seconds: float) -> None:
        self.time += seconds


class Patient(Plugin):
    """Rejects pods in the tests' imagination; `answers` says what it makes of an event for a pod."""

    answers: ClassVar[dict[str, Hint | Exception]] = {}
    asked: ClassVar[list[str]] = []

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        pods = ClusterEvent(Resource.POD, Action.DELETE | Action.UPDATE_POD_LABEL)
        return (EventRegistration(nodes, self._hint), EventRegistration(pods, self._hint))

    def _hint(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        self.asked.append(pod.name)
        answer = self.answers.get(pod.name, Hint.SKIP)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Doorman(Plugin):
    """Holds pods back whose names are in `closed`; hears of new nodes."""

    closed: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []
    fails: ClassVar[bool] = False

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        self.asked.append(pod.name)
        if self.fails:
            raise RuntimeError("the door is stuck")
        return unresolvable("the door is closed") if pod.name in self.closed else None

    def events(self) -> Sequence[EventRegistration]:
        return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),)


class Rig:
    """A queue, its clock, and short ways to say what tests say often."""

    def __init__(self, queue: SchedulingQueue, clock: StoppedClock) -> None:
        self.queue = queue
        self.clock = clock

    def recorded_events(self) -> list[ClusterEvent]:
        """The events that are kept for pods in flight."""
        return [happened.event for happened in self.queue.in_flight.events]

    def add(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.queue.add(pod.obj())

    def pop(self) -> QueuedPod:
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def popped(self) -> list[str]:
        """The names of all pods that can be taken out now, in order."""
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.name)
            self.queue.done(queued.uid)
        return names

    def reject(self, queued: QueuedPod, *plugins: str, pending: Iterable[str] = ()) -> None:
        self.queue.add_unschedulable_if_not_present(queued, {*plugins, *pending}, pending)

    def waiting(self, pod: PodBuilder, *plugins: str, pending: Iterable[str] = ()) -> QueuedPod:
        """A pod that was tried and now waits for an event."""
        self.add(pod)
        queued = self.queue.pop_specific(pod.obj())
        assert queued is not None
        self.reject(queued, *plugins, pending=pending)
        return queued

    def place(self, name: str) -> str | None:
        return self.queue.place_of(f"default/{name}")

    def places(self, *names: str) -> list[str | None]:
        return [self.place(name) for name in names]


def rig(
    *plugins: type[Plugin],
    gates: FeatureGates = DEFAULT_GATES,
    find: Callable[[str], Pod | None] | None = None,
    objects: Iterable[Object] = (),
    **options: Any,
) -> Rig:
    """A queue for the default profile and these plugins, in a cluster with these objects."""
    Patient.answers.clear()
    Patient.asked.clear()
    Doorman.closed.clear()
    Doorman.asked.clear()
    Doorman.fails = False
    clock = StoppedClock()
    frameworks = [*cluster(plugins=plugins, release=gates.release.name).frameworks.values()]
    for obj in objects:
        frameworks[0].table.put(obj)
    return Rig(queue_for(frameworks, clock, gates, find=find, **options), clock)
