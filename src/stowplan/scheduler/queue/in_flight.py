"""Pods that are being tried right now, and what happened meanwhile.

An event that comes while a pod is being tried may be the very one that would have helped it. So events are
kept as long as a pod is in flight that was taken out before them, and are looked at if it comes back.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from stowplan.scheduler.framework.events import ClusterEvent

POD_POPPED = "PodPopped"
"""Label of pods in flight in the metric of in-flight events."""


class InFlightEvent(NamedTuple):
    """An event and its object before and after."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Pods in flight and the events since the oldest of them was taken out."""

    __slots__ = ("_base", "_events", "_labels", "starts")

    def __init__(self) -> None:
        # Everything that was ever counted, in the order in which it came.
        self._labels: dict[str, None] = {}
        self._events: list[InFlightEvent] = []
        self._base = 0
        self.starts: Final[dict[str, int]] = {}
        """Where events begin that came after a pod was taken out, by its uid, for who only looks.

        Positions only grow, so the first pod in the dict is the one that needs most of the events.
        """

    def __contains__(self, uid: str) -> bool:
        return uid in self.starts

    def __len__(self) -> int:
        """Number of pods in flight."""
        return len(self.starts)

    @property
    def uids(self) -> list[str]:
        return list(self.starts)

    @property
    def events(self) -> Sequence[InFlightEvent]:
        """The events that are kept."""
        return tuple(self._events)

    def counts(self) -> dict[str, int]:
        """Number of kept events by label, and of pods in flight (`PodPopped`).

        A label that was seen once stays, with 0 if need be.
        """
        counts = dict.fromkeys(self._labels, 0)
        for happened in self._events:
            counts[happened.event.label] += 1
        if counts:
            counts[POD_POPPED] = len(self.starts)
        return counts

    def begin(self, uid: str) -> bool:
        """A pod is taken out of the queue. False if it is in flight already."""
        if uid in self.starts:
            return False
        if not self._labels:
            self._labels[POD_POPPED] = None
        self.starts[uid] = self._base + len(self._events)
        return True

    def record(self, events: Iterable[ClusterEvent], old: Any, new: Any) -> None:
        """Keep events while any pod is in flight."""
        if not self.starts:
            return
        for event in events:
            self._labels[event.label] = None
            self._events.append(InFlightEvent(event, old, new))

    def since(self, uid: str) -> Sequence[InFlightEvent]:
        """Events since a pod was popped from the queue."""
        return self._events[self.starts[uid] - self._base :]

    def end(self, uid: str) -> None:
        """A pod's attempt is over. Does nothing if it was over already."""
        if self.starts.pop(uid, None) is None:
            return
        if self._events:
            self._forget_unneeded()

    def _forget_unneeded(self) -> None:
        """Drop the events from before the oldest pod still in flight was popped."""
        start = next(iter(self.starts.values()), self._base + len(self._events))
        unneeded = start - self._base
        del self._events[:unneeded]
        self._base = start
