"""What is counted and timed in the queue."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from stowplan.framework.events import ClusterEvent
from stowplan.framework.hintmap import Answer
from stowplan.framework.status import Status
from stowplan.metrics.families import Families
from stowplan.queue.instrument import QueueInstrument
from stowplan.queue.queued import QueuedPod

SAMPLED_SHARE: Final = 0.1
"""Of so many scheduling cycles and PreEnqueue runs every single plugin is timed."""

PRE_ENQUEUE: Final = "PreEnqueue"


class QueueMetrics(QueueInstrument):
    """An instrument of the queue that counts.

    A run of PreEnqueue plugins is timed up to the last answer, always under the status Success, as in
    kube-scheduler.
    """

    def __init__(self, families: Families, timer: Callable[[], float], rng: Random) -> None:
        self._timer = timer
        self._random = rng.random
        self._incoming = families.counter("queue_incoming_pods_total")
        self._rejected = families.gauge("unschedulable_pods")
        self._in_flight = families.read_gauge("inflight_events")
        self._hints = families.histogram("queueing_hint_execution_duration_seconds")
        self.points = families.histogram("framework_extension_point_duration_seconds")
        self._plugins = families.histogram("plugin_execution_duration_seconds")
        self._asked_at = self._plugin_asked_at = self._hint_asked_at = 0.0
        self._event: ClusterEvent | None = None
        self._event_label = ""

    def sampled(self) -> bool:
        """Whether to time single plugins this time; a tenth of the answers are yes."""
        return self._random() < SAMPLED_SHARE

    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None:
        self._incoming[queue, event] += 1

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        self._rejected[plugin, profile] += change

    def in_flight(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._in_flight.read_from(counts)

    def before_hint(self, plugin: str, event: ClusterEvent) -> None:
        self._hint_asked_at = self._timer()

    def after_hint(self, plugin: str, event: ClusterEvent, answer: Answer) -> None:
        seconds = self._timer() - self._hint_asked_at
        if event is not self._event:
            self._event = event
            self._event_label = event.label
        self._hints[plugin, self._event_label, answer.label].observe(seconds)

    def before_pre_enqueue(self, queued: QueuedPod) -> bool:
        self._asked_at = self._timer()
        return self._random() < SAMPLED_SHARE

    def before_plugin(self, plugin: str) -> None:
        self._plugin_asked_at = self._timer()

    def after_plugin(self, plugin: str, status: Status) -> None:
        seconds = self._timer() - self._plugin_asked_at
        self._plugins[plugin, PRE_ENQUEUE, status.code.label].observe(seconds)

    def after_pre_enqueue(self, queued: QueuedPod) -> None:
        seconds = self._timer() - self._asked_at
        self.points[PRE_ENQUEUE, "Success", queued.profile].observe(seconds)
