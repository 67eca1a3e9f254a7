"""The parts of the queue (active, backoff, unschedulable), moves between them, and PreEnqueue.

The backoff of a pod doubles after each failure, up to a limit. Identical pods that an event wakes
move as one group: none is touched individually before its turn.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf, nextafter, sqrt
from operator import attrgetter
from typing import Any, Final, NamedTuple

from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.framework.events import EventKeys, HintMap
from stowplan.scheduler.framework.extension_points import describe_failure
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, error
from stowplan.scheduler.queue.heaps import PodHeap
from stowplan.scheduler.queue.instrument import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE, Hooks
from stowplan.scheduler.queue.nominator import Nominator
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.unschedulable_pods import UnschedulablePods
from stowplan.scheduler.queue.waiting_group import Group

# Backoff: all times are whole nanoseconds

SECOND: Final = 1_000_000_000
ORDERING_WINDOW: Final = SECOND
"""Backoffs end at whole seconds, so that pods whose backoff ends together are ordered by priority."""


def nanoseconds(seconds: float) -> int:
    """A point in time in whole nanoseconds."""
    return round(seconds * SECOND)


def first_second(time: int) -> float:
    """The earliest time in seconds that is not before a time in nanoseconds."""
    seconds = time / SECOND
    while nanoseconds(seconds) < time:
        seconds = nextafter(seconds, inf)
    return seconds


@dataclass(frozen=True, slots=True)
class Backoff:
    """The backoff of failed pods. A maximum of 0 switches it off; with a window of 1 it ends at any time."""

    initial: int = SECOND
    maximum: int = 10 * SECOND
    window: int = ORDERING_WINDOW

    def duration(self, failures: int, pods: int = 1) -> int:
        """Backoff after n consecutive failures; a group of many pods may wait longer."""
        if failures <= 0:
            return 0
        doublings = failures - 1
        maximum = self.maximum if pods <= 1 else int(self.maximum * sqrt(pods))
        return maximum if self.initial > maximum >> doublings else self.initial << doublings

    def expiration(self, timestamp: int, unschedulable: int, errors: int = 0, pods: int = 1) -> int | None:
        """When the backoff of a pod that failed at `timestamp` ends, None if it has none.

        Counted are the errors in a row if the last attempt ended with one, else the attempts that found
        no node.
        """
        failures = errors if errors > 0 else unschedulable
        if self.maximum == 0 or failures == 0:
            return None
        return self.aligned(timestamp + self.duration(failures, pods))

    def aligned(self, time: int) -> int:
        """The beginning of the window a point in time is in."""
        return time - time % self.window


_timestamp = attrgetter("timestamp")
_backoff_until = attrgetter("backoff_until")


class BackoffQueue:
    """Two heaps, by the end of the backoff: pods that found no node, and pods whose attempt went wrong.

    A backoff ends with the window (a second) after the one its end falls into, so that pods whose backoffs
    end together come out by priority. Pods that found no node may be taken out before that; those whose
    attempt went wrong may not, because nothing says that another attempt would go better. Neither may those
    whose attempt took long (`QueuedPod.held_until`).
    """

    def __init__(
        self, backoff: Backoff, sort_key: Callable[[QueuedPod], Any], waiting: UnschedulablePods
    ) -> None:
        self._backoff = backoff
        by_priority = backoff.window > 1

        def by_end(queued: QueuedPod) -> int:
            return self._end(queued) or 0

        def by_end_and_priority(queued: QueuedPod) -> tuple[int, Any]:
            return (self._end(queued) or 0, sort_key(queued))

        self._rejected = PodHeap(by_end_and_priority if by_priority else by_end, waiting)
        self._failed = PodHeap(by_end, waiting)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected
        yield from self._failed

    def __contains__(self, key: str) -> bool:
        return key in self._rejected or key in self._failed

    def get(self, key: str) -> QueuedPod | None:
        return self._rejected.get(key) or self._failed.get(key)

    def put(self, queued: QueuedPod) -> None:
        """Let a pod wait, or find its place anew after something about it changed."""
        early = queued.rejected and not queued.held_until
        heap, other = (self._rejected, self._failed) if early else (self._failed, self._rejected)
        other.remove(queued.key)
        heap.put(queued.key, queued)

    def put_group(self, group: Group) -> None:
        """Let the pods of a group wait that all found no node, in the order in which their backoffs end."""
        self._rejected.put_group(group)

    def remove(self, key: str) -> QueuedPod | None:
        return self._rejected.remove(key) or self._failed.remove(key)

    def pop(self) -> QueuedPod | None:
        """Take out the first pod that found no node, though its backoff is not over."""
        return self._rejected.pop()

    def take_complete(self, now: float, limit: int | None = None) -> list[QueuedPod]:
        """Take out the pods whose backoff is over, at most `limit` of them."""
        found: list[QueuedPod] = []
        for heap in (self._rejected, self._failed):
            while (
                len(found) != limit
                and (first := heap.peek()) is not None
                and not self.is_backing_off(first, now)
            ):
                heap.pop()
                found.append(first)
        return found

    def is_backing_off(self, queued: QueuedPod, now: float) -> bool:
        end = self._end(queued)
        return end is not None and end >= self._backoff.aligned(nanoseconds(now))

    def note_end(self, queued: QueuedPod) -> None:
        """Work out when a backoff ends before many have to be known at once."""
        self._end(queued)

    def is_group_backing_off(self, group: Group, now: float) -> bool:
        """True if all pods of a group are known to be backing off, and ending in the order in which they
        stand in it.

        False does not rule out that they are backing off.
        """
        return group.ends_in_order and self.is_backing_off(group.representative, now)

    def still_backing_off(self, group: Group, now: float) -> list[QueuedPod]:
        """The pods of a group that are backing off, by when that ends."""
        before = self._cannot_last_after(now)
        if next(reversed(group.pods.values())).timestamp < before:
            return []
        pods = list(group.pods.values())
        del pods[: bisect_left(pods, before, key=_timestamp)]
        since = self._backoff.aligned(nanoseconds(now))
        found = [queued for queued in pods if (end := self._end(queued)) is not None and end >= since]
        found.sort(key=_backoff_until)
        return found

    def _cannot_last_after(self, now: float) -> float:
        """A pod that failed before this time is not backing off at `now`, however often it failed."""
        return now - (self._backoff.maximum + 2 * self._backoff.window) / SECOND - 1

    def ends_at(self, queued: QueuedPod) -> float:
        """When a pod's backoff will be over."""
        return first_second((self._end(queued) or 0) + self._backoff.window)

    def next_complete(self) -> float | None:
        """When the first backoff will be over."""
        ends = [self._end(first) for heap in (self._rejected, self._failed) if (first := heap.peek())]
        over = [(end or 0) + self._backoff.window for end in ends]
        return first_second(min(over)) if over else None

    def _end(self, queued: QueuedPod) -> int | None:
        if queued.backoff_until is None:
            queued.backoff_until = self._backoff.expiration(
                nanoseconds(queued.timestamp),
                queued.unschedulable_count,
                queued.consecutive_errors,
                queued.backoff_size,
            )
            if queued.held_until:
                held = self._backoff.aligned(queued.held_until)
                queued.backoff_until = max(queued.backoff_until or 0, held)
        return queued.backoff_until


# PreEnqueue


def run_pre_enqueue(plugins: Sequence[Plugin], queued: QueuedPod, hooks: Hooks) -> None:
    """Ask plugins whether a pod may be tried, first the one that held it back last time.

    The first that says no is noted with the pod as its gate and among the plugins that rejected it. A plugin
    that fails keeps the pod back, too.
    """
    gating, pod = queued.gating_plugin, queued.pod
    queued.gating_plugin = ""
    queued.gate = None
    if not plugins:
        return
    each = hooks.before_pre_enqueue is not None and hooks.before_pre_enqueue(queued)
    for plugin in sorted(plugins, key=lambda plugin: plugin.name != gating) if gating else plugins:
        if each and hooks.before_plugin is not None:
            hooks.before_plugin(plugin.name)
        try:
            answer: object = plugin.pre_enqueue(pod)
        except Exception as cause:  # noqa: BLE001 - one plugin's mistake must not stop the queue
            answer = error(describe_failure(plugin, cause))
        status = SUCCESS if answer is None else _read(answer)
        if each and hooks.after_plugin is not None:
            hooks.after_plugin(plugin.name, status)
        if status is not SUCCESS and not status.is_success:
            gate(plugin.name, status, queued, hooks)
            break
    if hooks.after_pre_enqueue is not None:
        hooks.after_pre_enqueue(queued)


def gate(plugin: str, status: Status, queued: QueuedPod, hooks: Hooks) -> None:
    """Note that a plugin holds a pod back."""
    if hooks.rejected is not None and plugin not in queued.rejectors:
        hooks.rejected(plugin, queued.profile, 1)
    queued.unschedulable_plugins |= {plugin}
    queued.gating_plugin = plugin
    queued.gate = status.by(plugin)


def _read(answer: object) -> Status:
    if isinstance(answer, Status):
        return answer
    return error(f"expected a Status or None, got {type(answer).__name__}")


SortKey = Callable[[QueuedPod], Any]

MOVED: Final = "Pod moved to an internal scheduling queue"
QUEUES: Final = {
    ACTIVE: "Active",
    BACKOFF: "Backoff",
    UNSCHEDULABLE: "Unschedulable",
    GATED: "Unschedulable",
}
"""Names of the parts of the queue in the log."""


class AlreadyQueuedError(ValueError):
    """A pod came back from an attempt though it is in the queue."""


class Strategy(Enum):
    """Requeueing decision for a pod."""

    SKIP = "Skip"
    """It waits on for an event."""
    AFTER_BACKOFF = "AfterBackoff"
    """It is tried again when its backoff is over."""
    IMMEDIATELY = "Immediately"
    """It is tried again at once."""


class ProfileRules(NamedTuple):
    """Hints and PreEnqueue plugins (in order) of a profile, as the queue uses them."""

    hints: HintMap
    pre_enqueue: Sequence[Plugin] = ()


class SubQueues:
    """The three sub-queues of waiting pods.

    `early` is the feature gate SchedulerPopFromBackoffQ: a pod may leave the backoff before its time, so
    PreEnqueue plugins run before it goes in. `renominating` are the events with which a pod that becomes
    ready is nominated to the node of its status. `sorted_by_priority`: `sort_key` compares the priority of
    pods, then their time.
    """

    def __init__(
        self,
        sort_key: SortKey,
        backoff: Backoff,
        longest_wait: float,
        profiles: Mapping[str, ProfileRules],
        clock: Clock,
        nominator: Nominator,
        hooks: Hooks,
        early: bool,
        logger: Logger,
        renominating: Sequence[str] = (),
        sorted_by_priority: bool = False,
    ) -> None:
        self._renominating = renominating
        self._sorted_by_priority = sorted_by_priority
        self._profiles = profiles
        self.unschedulable = UnschedulablePods(longest_wait, self._must_ask, self._keys_of, self._keys_failed)
        self.active = PodHeap(sort_key, self.unschedulable)
        self.backoff = BackoffQueue(backoff, sort_key, self.unschedulable)
        self._clock = clock
        self._nominator = nominator
        self._hooks = hooks
        self._early = early
        self._logger = logger

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.unschedulable)

    @property
    def logs_gates(self) -> bool:
        """True if the log has a line for every pod that a PreEnqueue plugin gates."""
        return self._logger.enabled(4)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self.active
        yield from self.backoff
        yield from self.unschedulable

    def get(self, key: str) -> QueuedPod | None:
        return self.active.get(key) or self.backoff.get(key) or self.unschedulable.get(key)

    def check_absent(self, key: str) -> None:
        """Raises AlreadyQueuedError if a pod is in any of the places."""
        if key in self.unschedulable:
            raise AlreadyQueuedError(f"Pod {key} is already present in unschedulable queue")
        if key in self.active:
            raise AlreadyQueuedError(f"Pod {key} is already present in the active queue")
        if key in self.backoff:
            raise AlreadyQueuedError(f"Pod {key} is already present in the backoff queue")

    def to_active(self, queued: QueuedPod, event: str, *, from_backoff: bool = False) -> bool:
        """Make a pod ready. False if a PreEnqueue plugin holds it back, and then it waits for that plugin."""
        if not (from_backoff and self._early):
            self._ask_pre_enqueue(queued)
        key = queued.key
        if queued.gating_plugin:
            if key not in self.active and key not in self.backoff:
                self._to_gate(queued, event)
            return False
        if queued.first_attempt is None:
            queued.first_attempt = self._clock.monotonic()
        if len(self.unschedulable):
            self.unschedulable.remove(key)
        if len(self.backoff):
            self.backoff.remove(key)
        self.active.put(key, queued)
        self._tell(queued, ACTIVE, event)
        if event in self._renominating:
            self._nominator.add(queued.pod)
        return True

    def to_backoff(self, queued: QueuedPod, event: str) -> bool:
        """Let a pod wait until its backoff is over. False if a PreEnqueue plugin holds it back."""
        if self._early:
            self._ask_pre_enqueue(queued)
            if queued.gated:
                self._to_gate(queued, event)
                return False
        self.unschedulable.remove(queued.key)
        self.backoff.put(queued)
        self._tell(queued, BACKOFF, event)
        return True

    def to_unschedulable(self, queued: QueuedPod, event: str) -> None:
        """Let a pod wait for an event."""
        if queued.template is not None:
            self.backoff.note_end(queued)
        if self.unschedulable.put(queued):
            self._tell(queued, UNSCHEDULABLE, event)

    def moves_as_one(self, group: Group, event: str) -> bool:
        """True if an event can move the pods of a group without a look at each of them.

        False if the QueueSort plugin may compare more than priorities and times, and if every single pod has
        to be reported.
        """
        return (
            self._sorted_by_priority
            and group.is_plain
            and not self._logger.enabled(4)
            and event not in self._renominating
        )

    def move_group(self, group: Group, strategy: Strategy, event: str) -> None:
        """Move waiting pods that `moves_as_one` and that no plugin gates: as `requeue` for each."""
        group.sort()
        backing_off = None if strategy is Strategy.IMMEDIATELY else self._backing_off(group)
        if backing_off is not None:
            self._asked(backing_off, when=self._early)
            self.unschedulable.wake(backing_off)
            self._tell_of(backing_off, BACKOFF, event)
            self.backoff.put_group(backing_off)
        if backing_off is not group:
            self._asked(group, when=True)
            self.unschedulable.wake(group)
            self._tell_of(group, ACTIVE, event)
            self.active.put_group(group)

    def _backing_off(self, group: Group) -> Group | None:
        """The pods of a group that are backing off, ordered by when that ends; if not all, split off."""
        now = self._clock.monotonic()
        if self.backoff.is_group_backing_off(group, now):
            return group
        pods = self.backoff.still_backing_off(group, now)
        return self.unschedulable.split(group, pods) if pods else None

    def _must_ask(self, queued: QueuedPod) -> bool:
        """True if PreEnqueue plugins have to be asked about a pod whenever it is to be tried again, or it has
        a backoff unlike those of its group."""
        if queued.first_attempt is None or queued.held_until:
            return True
        rules = self._profiles.get(queued.profile)
        return rules is not None and not all(
            plugin.always_enqueues(queued.pod) for plugin in rules.pre_enqueue
        )

    def _keys_of(self, profile: str, plugin: str) -> Collection[EventKeys]:
        """The keys by which the hints of a plugin find pods."""
        rules = self._profiles.get(profile)
        return () if rules is None else rules.hints.keys_of(plugin)

    def _asked(self, group: Group, *, when: bool) -> None:
        """Count that PreEnqueue plugins had nothing against the pods of a group."""
        rules = self._profiles.get(group.profile)
        if not when or rules is None or not rules.pre_enqueue:
            return
        if self._hooks.before_pre_enqueue is not None:
            self._hooks.before_pre_enqueue(group.representative)
        if self._hooks.pre_enqueue_ran is not None:
            self._hooks.pre_enqueue_ran(group.profile, len(group.pods))

    def _tell_of(self, group: Group, queue: str, event: str) -> None:
        if self._hooks.incoming_many is not None:
            self._hooks.incoming_many(len(group.pods), queue, event)
        elif self._hooks.incoming is not None:
            for queued in group.pods.values():
                self._hooks.incoming(queued, queue, event)

    def requeue(self, queued: QueuedPod, strategy: Strategy, event: str) -> str:
        """Put a pod where a strategy says; returns the place it is in then."""
        if strategy is Strategy.SKIP:
            self.to_unschedulable(queued, event)
            return UNSCHEDULABLE
        backing_off = self.backoff.is_backing_off(queued, self._clock.monotonic())
        if backing_off and (strategy is Strategy.AFTER_BACKOFF or queued.held_until):
            return BACKOFF if self.to_backoff(queued, event) else UNSCHEDULABLE
        return ACTIVE if self.to_active(queued, event) else UNSCHEDULABLE

    def _ask_pre_enqueue(self, queued: QueuedPod) -> None:
        rules = self._profiles.get(queued.profile)
        run_pre_enqueue(rules.pre_enqueue if rules else (), queued, self._hooks)
        if queued.gate is not None and queued.gate.code is Code.ERROR:
            self.problem(f'running PreEnqueue plugin "{queued.gating_plugin}"', queued, queued.gate.message)
        if queued.gate is not None and self._logger.enabled(4):
            self._logger.info(
                4,
                "Status after running PreEnqueue plugin",
                pod=Ref(queued.key),
                plugin=queued.gating_plugin,
                status=queued.gate.message,
            )

    def log(self, level: int, message: str, **values: object) -> None:
        """Write a line to the log of this verbosity."""
        self._logger.info(level, message, **values)

    def _keys_failed(self, plugin: str, cause: Exception) -> None:
        """A plugin's hint failed to name the pods an event concerns: the hint is called for all pods."""
        err = f"{type(cause).__name__}: {cause}"
        self._logger.error("The keys of a queueing hint failed", plugin=plugin, err=err)

    def problem(self, message: str, queued: QueuedPod, error: str = "") -> None:
        """Log and count an unexpected condition; the queue continues."""
        values = {"err": error} if error else {}
        self._logger.error(message, pod=Ref(queued.key), **values)
        if self._hooks.problem is not None:
            self._hooks.problem(message)

    def _to_gate(self, queued: QueuedPod, event: str) -> None:
        queued.flushed = False
        self.to_unschedulable(queued, event)
        if self._logger.enabled(5):
            why = f"{MOVED}, because the pod is gated"
            self._logger.info(5, why, pod=Ref(queued.key), event=event, queue=QUEUES[GATED])

    def _tell(self, queued: QueuedPod, queue: str, event: str) -> None:
        if self._hooks.incoming is not None:
            self._hooks.incoming(queued, queue, event)
        if self._logger.level >= 5 and queue != UNSCHEDULABLE:
            self._logger.info(5, MOVED, pod=Ref(queued.key), event=event, queue=QUEUES[queue])
