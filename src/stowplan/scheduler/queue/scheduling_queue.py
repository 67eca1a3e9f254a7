"""The scheduling queue: which pod to schedule next, and when to retry one that could not be placed.

A pod is in exactly one place: *active* (ready), *backing off* after a failure, *unschedulable* (waiting for
an event that may help it, or gated), or *in flight* (popped and being scheduled). The queue waits for
nothing and reads no clock but the one it is given; the scheduler calls `flush_backoff` and
`flush_unschedulable`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf, nextafter
from typing import Any, ClassVar, Final

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GroupObject
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.scheduler.framework.events import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    pod_resources,
)
from stowplan.scheduler.queue.cluster_events import UpdateEvents
from stowplan.scheduler.queue.in_flight import InFlight
from stowplan.scheduler.queue.instrument import (
    ACTIVE,
    BACKOFF,
    GATED,
    POD,
    UNSCHEDULABLE,
    Hooks,
    QueueInstrument,
)
from stowplan.scheduler.queue.nominator import Nominator
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.requeue import Requeuer
from stowplan.scheduler.queue.sub_queues import Backoff, ProfileRules, SortKey, Strategy, SubQueues
from stowplan.scheduler.table.podinfo import PodInfo

LONGEST_WAIT: Final = 300.0
"""Seconds a pod waits for an event before it is tried again without one."""


class SchedulingQueue:
    """All pods that wait for a node.

    `info` makes of a pod what plugins look at (`ClusterTable.info`). `profiles` are the rules by scheduler
    name; `sort_key` orders active pods, smallest first, with `sorted_by_priority` by nothing but priority and
    time. `find` finds a pod as the API server last told of it, by `namespace/name`.
    """

    _sub_queues: ClassVar[type[SubQueues]] = SubQueues
    _waker_type: ClassVar[type[Requeuer]] = Requeuer

    def __init__(
        self,
        clock: Clock,
        info: Callable[[Pod], PodInfo],
        profiles: Mapping[str, ProfileRules],
        sort_key: SortKey,
        *,
        backoff: Backoff | None = None,
        sorted_by_priority: bool = False,
        longest_wait: float = LONGEST_WAIT,
        find: Callable[[str], Pod | None] | None = None,
        instrument: QueueInstrument | Hooks | None = None,
        gates: FeatureGates = DEFAULT_GATES,
        logger: Logger | None = None,
    ) -> None:
        self._clock = clock
        self._info = info
        self._hooks = instrument if isinstance(instrument, Hooks) else Hooks(instrument)
        self._early = early = gates["SchedulerPopFromBackoffQ"]
        queueing = gates.behaviour.queueing
        self._nominates_first = queueing.nominate_before_pre_enqueue
        self._unschedulable_name = queueing.unschedulable_sub_queue
        self._update_events = UpdateEvents(gates)
        self._added = pod_resources(gates.behaviour).added.label
        updated = ClusterEvent(pod_resources(gates.behaviour).unscheduled, Action.UPDATE).label
        self._unknown_updated = self._added if self._nominates_first else updated
        self.nominator = Nominator(find)
        self.in_flight = InFlight()
        if self._hooks.in_flight is not None:
            self._hooks.in_flight(self.in_flight.counts)
        self._places = self._sub_queues(
            sort_key,
            backoff or (Backoff() if early else Backoff(window=1)),
            longest_wait,
            profiles,
            clock,
            self.nominator,
            self._hooks,
            early,
            Logger() if logger is None else logger,
            renominating=() if self._nominates_first else (self._added, updated),
            sorted_by_priority=sorted_by_priority,
        )
        self._waker = self._waker_type(profiles, self._places, self._hooks, gates)
        self._waiting = self._places.unschedulable.pods
        self._flying = self.in_flight.starts
        self.cycle = 0
        """Number of pods popped so far."""

    # Looking

    def __len__(self) -> int:
        """Number of waiting pods, without those in flight."""
        return len(self._places)

    def __iter__(self) -> Iterator[QueuedPod]:
        """All pods that wait: active ones, then those backing off, then the unschedulable ones."""
        return iter(self._places)

    def get(self, key: str) -> QueuedPod | None:
        """A pod that waits, by `namespace/name`."""
        return self._places.get(key)

    def place_of(self, key: str) -> str | None:
        """Where a pod waits: active, backoff, unschedulable or gated."""
        places = self._places
        if key in places.active:
            return ACTIVE
        if key in places.backoff:
            return BACKOFF
        waiting = places.unschedulable.get(key)
        if waiting is None:
            return None
        return GATED if waiting.gated else UNSCHEDULABLE

    def next_try(self, key: str) -> float | None:
        """When a pod is tried again even if nothing happens, None if that is not a matter of time."""
        places = self._places
        queued = places.backoff.get(key)
        if queued is not None:
            return places.backoff.ends_at(queued)
        queued = places.unschedulable.get(key)
        return None if queued is None or queued.gated else places.unschedulable.due_at(queued)

    def wakers(self, key: str) -> list[tuple[str, ClusterEvent]]:
        """Plugins, with the events they registered for, that may have a waiting pod retried.

        A hint may still find that one of the events does not help this pod.
        """
        queued = self._places.unschedulable.get(key)
        return [] if queued is None else self._waker.wakers(queued)

    def counts(self) -> dict[str, int]:
        """Number of waiting pods by sub-queue."""
        places = self._places
        gated = places.unschedulable.gated
        return {
            ACTIVE: len(places.active),
            BACKOFF: len(places.backoff),
            UNSCHEDULABLE: len(places.unschedulable) - gated,
            GATED: gated,
        }

    def entity_counts(self) -> dict[tuple[str, ...], int]:
        """Number of waiting entities by sub-queue and type: pods without a group, and groups."""
        counts = self.counts()
        return {(place, POD): counts[place] for place in (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)}

    def summary(self) -> str:
        """The line that goes with a dump of the queue."""
        places = self._places
        return (
            f"activeQ:{len(places.active)}; backoffQ:{len(places.backoff)}; "
            f"{self._unschedulable_name}:{len(places.unschedulable)}"
        )

    # Pods come and go

    def add(self, pod: Pod, event: str = "") -> None:
        """Take in a new pod; `event` is what happened, unless it was added."""
        queued = QueuedPod(self._info(pod), self._clock.monotonic())
        if self._nominates_first:
            self.nominator.add(queued.pod)
        self._places.to_active(queued, event or self._added)

    def update(self, old: Pod, new: Pod) -> None:
        """Take in a pod's new state.

        A pod in flight is looked at again when it comes back. One that is ready or backing off is replaced
        where it stands. One that waits is tried again if its own change may help it. An unknown one is new.
        """
        events = self._update_events.of_pod(old, new, is_target=True)
        if new.metadata.uid in self.in_flight:
            self.in_flight.record(events, old, new)
            return
        places = self._places
        queued = places.get(new.key)
        if queued is None:
            self.add(new, self._unknown_updated)
            return
        queued.update(self._info(new))
        self.nominator.update(old, queued.pod)
        if queued.key in places.active:
            places.active.put(queued.key, queued)
        elif queued.key in places.backoff:
            places.backoff.put(queued)
        else:
            self._waker.wake_updated(queued, events, old, new)

    def delete(self, pod: Pod) -> None:
        """Forget a pod. One in flight is not looked for."""
        self.nominator.remove(pod.metadata.uid)
        places, key = self._places, pod.key
        if places.active.remove(key) or places.backoff.remove(key):
            return
        queued = places.unschedulable.remove(key)
        if queued is not None:
            self._count_rejectors(queued, -1)

    def restore(self, queued: QueuedPod, place: str) -> None:
        """Put a pod where it was when the state of a queue was recorded."""
        if place == ACTIVE:
            self._places.active.put(queued.key, queued)
        elif place == BACKOFF:
            self._places.backoff.put(queued)
        else:
            self._places.unschedulable.put(queued)

    # Groups come and go, which is of interest to a queue that keeps them

    def add_group(self, obj: GroupObject) -> None:
        """A group became known."""

    def update_group(self, obj: GroupObject) -> None:
        """A group changed."""

    def delete_group(self, obj: GroupObject, root: str | None) -> None:
        """A group is gone that was below (or at) a root."""

    # Pods are tried

    @property
    def may_pop(self) -> bool:
        """True if a pod may be ready to try now."""
        places = self._places
        return len(places.active) > 0 or (self._early and len(places.backoff) > 0)

    def pop(self) -> QueuedPod | None:
        """Take out the pod or group (`QueuedGroup`) to try next, None if there is none now.

        If no pod is ready, one that found no node before is tried ahead of its time. The host has to call
        `done` or `add_unschedulable_if_not_present` for what it takes.
        """
        while True:
            queued = self._places.active.pop()
            if queued is None:
                queued = self._places.backoff.pop() if self._early else None
                if queued is None:
                    return None
                self._tell(queued, POP_FROM_BACKOFF)
            if self._take_off(queued):
                return queued

    def pop_specific(self, pod: Pod) -> QueuedPod | None:
        """Take out one given pod from any sub-queue; None if it is not queued or must not be tried."""
        self._activate(pod)
        queued = self._places.active.remove(pod.key)
        return queued if queued is not None and self._take_off(queued) else None

    def done(self, uid: str) -> None:
        """A pod's attempt is over, and it does not come back."""
        self.in_flight.end(uid)

    def add_unschedulable_if_not_present(
        self,
        queued: QueuedPod,
        unschedulable: Iterable[str] = (),
        pending: Iterable[str] = (),
        pod: Pod | None = None,
    ) -> Strategy:
        """Take back a pod that could not be placed, rejected by these plugins; by none: something went wrong.

        `pod` is its state now. If something happened meanwhile that may help it, it is tried again soon, else
        it waits; which of both is returned. Raises AlreadyQueuedError if it is in the queue; its attempt is
        over in any case.
        """
        try:
            self._places.check_absent(queued.key)
            self._note_failure(queued, frozenset(unschedulable), frozenset(pending), pod)
            self._count_rejectors(queued, 1)
            strategy = self._after_flight(queued)
            self._places.requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE)
            return strategy
        finally:
            self.in_flight.end(queued.uid)

    # Pods are tried again

    @property
    def has_waiting_or_in_flight(self) -> bool:
        """True if there are pods that an event could concern: unschedulable ones, or ones in flight."""
        return bool(self._waiting or self._flying)

    def move_all(
        self,
        event: ClusterEvent,
        old: Any = None,
        new: Any = None,
        at_most_priority: int | None = None,
        excluding: str = "",
    ) -> None:
        """Something happened: try pods again that it may help, if their priority is at most the one given.

        `excluding` is the uid of a pod that is left where it is.
        """
        if (self._waiting or self._flying) and self._waker.concerns_anybody(event):
            self._waker.wake_all(event, old, new, at_most_priority, excluding)
            self.in_flight.record((event,), old, new)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Retry pods now, regardless of what rejected them; pods in flight once they return."""
        for pod in pods:
            if not self._activate(pod) and pod.metadata.uid in self.in_flight:
                self.in_flight.record((FORCE_ACTIVATE,), None, pod)

    def flush_backoff(self, limit: int | None = None) -> bool:
        """Make pods ready whose backoff is over, at most `limit` of them; whether there may be more."""
        complete = self._places.backoff.take_complete(self._clock.monotonic(), limit)
        for queued in complete:
            self._places.to_active(queued, BACKOFF_COMPLETE, from_backoff=True)
        return len(complete) == limit

    def flush_unschedulable(self, limit: int | None = None) -> bool:
        """Requeue pods that have waited for an event too long, at most `limit`; whether there may be more."""
        now = self._clock.monotonic()
        due = self._places.unschedulable.take_due(now, limit)
        for queued in due:
            queued.flushed = True
            queued.flushed_at = now
            self._waker.move(queued, Strategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT)
        if due:
            self.in_flight.record((UNSCHEDULABLE_TIMEOUT,), None, None)
        return len(due) == limit

    def next_deadline(self) -> float | None:
        """The earliest time at which a flush has something to do, None if nothing waits for time to pass."""
        places = self._places
        complete, due = places.backoff.next_complete(), places.unschedulable.next_due()
        times = [
            time for time in (complete, None if due is None else nextafter(due, inf)) if time is not None
        ]
        return min(times, default=None)

    # In detail

    def _take_off(self, queued: QueuedPod) -> bool:
        """A pod goes into flight. False if it is there already, which makes this one superfluous."""
        queued.attempts += 1
        if not self.in_flight.begin(queued.uid):
            self._places.problem("the same pod is tracked in multiple places in the scheduler", queued)
            return False
        self.cycle += 1
        if queued.unschedulable_plugins or queued.pending_plugins:
            self._count_rejectors(queued, -1)
        return True

    def _note_failure(
        self, queued: QueuedPod, unschedulable: frozenset[str], pending: frozenset[str], pod: Pod | None
    ) -> None:
        if pod is not None:
            queued.update(self._info(pod))
        queued.unschedulable_plugins = unschedulable
        queued.pending_plugins = pending
        queued.gating_plugin = ""
        queued.gate = None
        if queued.rejected:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        queued.timestamp = self._clock.monotonic()
        queued.backoff_until = None
        queued.flushed = False
        queued.flushed_at = None

    def _after_flight(self, queued: QueuedPod) -> Strategy:
        """Strategy for a pod that returns from its cycle, by its rejections and the events since it was
        popped."""
        if not queued.rejected or queued.uid not in self.in_flight:
            return Strategy.AFTER_BACKOFF
        return self._waker.after(self.in_flight.since(queued.uid), queued)

    def _activate(self, pod: Pod) -> bool:
        """Make a pod ready that is backing off or waits for an event. False if it is neither, or is gated."""
        return self._activate_key(pod.key)

    def _activate_key(self, key: str) -> bool:
        places = self._places
        queued = places.unschedulable.get(key) or places.backoff.get(key)
        held = queued is not None and bool(queued.held_until)
        if queued is not None and held and places.backoff.is_backing_off(queued, self._clock.monotonic()):
            if key not in places.backoff:
                places.requeue(queued, Strategy.AFTER_BACKOFF, FORCE_ACTIVATE.label)
            return False
        queued = places.unschedulable.get(key)
        if queued is not None:
            return places.to_active(queued, FORCE_ACTIVATE.label)
        queued = places.backoff.remove(key)
        return queued is not None and places.to_active(queued, FORCE_ACTIVATE.label, from_backoff=True)

    def _count_rejectors(self, queued: QueuedPod, change: int) -> None:
        rejected = self._hooks.rejected
        if rejected is not None and queued.rejected:
            for plugin in sorted(queued.rejectors):
                rejected(plugin, queued.profile, change)

    def _tell(self, queued: QueuedPod, event: str) -> None:
        if self._hooks.incoming is not None:
            self._hooks.incoming(queued, ACTIVE, event)
