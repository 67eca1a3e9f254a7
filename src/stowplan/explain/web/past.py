"""The last hours in frames: how full each node was, and how many pods waited where.

A frame is taken each minute. Of those older than an hour one in ten is kept, for a day: at most 200 frames, a
byte for each node, resource and frame, so about 5 MB for 5,000 nodes.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stowplan.api.meta import timestamp
from stowplan.explain.document.past import (
    AttentionDocument,
    MomentDocument,
    NodesInState,
    ScarceResource,
    TrendColumns,
)
from stowplan.explain.layout import plural
from stowplan.explain.web.nodes import is_ready, node_rows
from stowplan.scheduler import Scheduler
from stowplan.scheduler.table.table import ClusterTable

EVERY: Final = 60.0
"""Seconds between two frames."""
FINE: Final = 60
"""Frames that are kept one by one: an hour."""
COARSE: Final = 10
"""Of older ones, every tenth is kept."""
OLD: Final = 140
"""Number of those: nearly a day."""
RESOURCES: Final = 4
"""Resources besides pods that frames have: those of which the most nodes have some."""
NAMED: Final = 20
_STEPS: Final = 200
_ABSENT: Final = 255

Bytes = npt.NDArray[np.uint8]


class Frame(NamedTuple):
    """One moment. `names` is shared by frames of the same nodes."""

    time: float
    names: tuple[str, ...]
    fills: Mapping[str, bytes]
    cordoned: bytes
    ready: bytes
    lanes: Mapping[str, int]
    share: float
    """The largest requested share of a resource."""


class Past:
    """The frames of a scheduler. A replaced one goes on with the same history."""

    def __init__(self) -> None:
        self._recent: deque[Frame] = deque()
        self._old: deque[Frame] = deque(maxlen=OLD)
        self._taken = 0

    def sample(self, scheduler: Scheduler, lanes: Mapping[str, int]) -> None:
        """Take a frame if it is time for one."""
        now = scheduler.context.clock.now()
        if self._recent and 0 <= now - self._recent[-1].time < EVERY:
            return
        self._recent.append(_frame(scheduler.context.cache.table, now, lanes, self._names()))
        if len(self._recent) > FINE:
            oldest = self._recent.popleft()
            if self._taken % COARSE == 0:
                self._old.append(oldest)
            self._taken += 1

    def _names(self) -> tuple[str, ...]:
        return self._recent[-1].names if self._recent else ()

    def frames(self) -> Iterator[Frame]:
        """All frames, oldest first."""
        yield from self._old
        yield from self._recent

    def trend(self) -> TrendColumns:
        """The figures of all frames by column."""
        frames = list(self.frames())
        return TrendColumns(
            times=tuple(timestamp(one.time) for one in frames),
            waiting=tuple(_waiting(one.lanes) for one in frames),
            share=tuple(round(one.share, 4) for one in frames),
        )

    def nearest(self, time: float) -> Frame | None:
        """The frame nearest to a time; None without any frame."""
        return min(self.frames(), key=lambda one: abs(one.time - time), default=None)

    def at(
        self, time: float, scheduler: Scheduler, lanes: Mapping[str, int], until: float | None = None
    ) -> MomentDocument | None:
        """The frame nearest to a time, and what has changed until another, or now; None without any frame."""
        found = self.nearest(time)
        if found is None:
            return None
        later = None if until is None else self.nearest(until)
        if later is None:
            now = scheduler.context.clock.now()
            later = _frame(scheduler.context.cache.table, now, lanes, found.names)
        return MomentDocument(
            time=timestamp(found.time),
            names=found.names,
            fills={name: _shares(fill) for name, fill in found.fills.items()},
            unschedulable=[*found.cordoned],
            ready=[*found.ready],
            lanes=dict(found.lanes),
            until=timestamp(later.time),
            changes=tuple(changes_between(found, later)),
        )


def attention_document(scheduler: Scheduler, past: Past) -> AttentionDocument:
    """Problems now."""
    queue = scheduler.context.queue
    created = (queued.pod.pod.metadata.creation_timestamp for queued in queue)
    table = scheduler.context.cache.table
    rows = node_rows(table)
    nodes = [node for row in rows if (node := table.nodes[row]) is not None]
    shares = dict(_totals(table, rows))
    scarcest = max(shares, key=lambda name: shares[name], default=None)
    return AttentionDocument(
        waiting=len(queue),
        oldest=min((one for one in created if one), default=None),
        not_ready=_in_state([node.name for node in nodes if not is_ready(node)]),
        cordoned=_in_state([node.name for node in nodes if node.spec.unschedulable]),
        scarcest=None if scarcest is None else ScarceResource(scarcest, round(shares[scarcest], 4)),
        trend=past.trend(),
    )


def _in_state(names: list[str]) -> NodesInState:
    return NodesInState(len(names), tuple(names[:NAMED]))


def changes_between(before: Frame, after: Frame) -> Iterator[str]:
    """Differences between two frames, in words."""
    old, new = set(before.names), set(after.names)
    if new - old:
        yield f"{plural(len(new - old), 'node')} added"
    if old - new:
        yield f"{plural(len(old - new), 'node')} gone"
    place = {name: number for number, name in enumerate(after.names)}
    both = [(number, place[name]) for number, name in enumerate(before.names) if name in place]
    for resource in before.fills.keys() & after.fills.keys():
        was, is_now = before.fills[resource], after.fills[resource]
        known = [(was[one], is_now[other]) for one, other in both if _ABSENT not in (was[one], is_now[other])]
        fuller = sum(new >= old + _STEPS // 10 for old, new in known)
        emptier = sum(new <= old - _STEPS // 10 for old, new in known)
        if fuller or emptier:
            parts = [f"{count} {word}" for count, word in ((fuller, "fuller"), (emptier, "emptier")) if count]
            yield f"{resource}: {' and '.join(parts)} by 10 % or more"
    for word, one, other in (
        ("cordoned", before.cordoned, after.cordoned),
        ("ready", before.ready, after.ready),
    ):
        more = sum(other[later] > one[earlier] for earlier, later in both)
        less = sum(other[later] < one[earlier] for earlier, later in both)
        if more:
            yield f"{plural(more, 'node')} {word} now"
        if less:
            yield f"{plural(less, 'node')} not {word} any more"
    then, now = _waiting(before.lanes), _waiting(after.lanes)
    if then != now:
        yield f"pending pods: {then}, now {now}"


def _waiting(lanes: Mapping[str, int]) -> int:
    return sum(lanes.get(name, 0) for name in ("active", "backoff", "unschedulable", "gated"))


def _frame(table: ClusterTable, now: float, lanes: Mapping[str, int], known: tuple[str, ...]) -> Frame:
    rows = node_rows(table)
    nodes = [node for row in rows if (node := table.nodes[row]) is not None]
    names = tuple(node.name for node in nodes)
    return Frame(
        time=now,
        names=known if names == known else names,
        fills={name: _steps(*amounts) for name, amounts in _amounts(table, rows).items()},
        cordoned=bytes(node.spec.unschedulable for node in nodes),
        ready=bytes(is_ready(node) for node in nodes),
        lanes=dict(lanes),
        share=max((share for _, share in _totals(table, rows)), default=0.0),
    )


Amounts = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _amounts(table: ClusterTable, rows: list[int]) -> dict[str, Amounts]:
    """Requested and allocatable amounts on rows, of pods and the resources that the most nodes have."""
    lines = [(line, name) for line, name in enumerate(table.resources.names) if name is not None]
    having = {line: int(np.count_nonzero(table.allocatable[line, rows])) for line, _ in lines}
    shown = sorted((one for one in lines if having[one[0]]), key=lambda one: (-having[one[0]], one[0]))
    found = {
        name: (table.requested[line, rows], table.allocatable[line, rows]) for line, name in shown[:RESOURCES]
    }
    return {**found, "pods": (table.pod_count[rows], table.allowed_pods[rows])}


def _totals(table: ClusterTable, rows: list[int]) -> Iterator[tuple[str, float]]:
    """The requested share of each resource over all nodes that have some."""
    for line, name in enumerate(table.resources.names):
        if name is not None:
            has = table.allocatable[line, rows]
            whole = float(has.sum())
            if whole:
                yield name, float(table.requested[line, rows][has > 0].sum()) / whole


def _steps(requested: npt.NDArray[np.int64], allocatable: npt.NDArray[np.int64]) -> bytes:
    """Shares as bytes: steps of half a percent."""
    shares = requested * float(_STEPS) / np.maximum(allocatable, 1)
    steps: Bytes = np.clip(np.rint(shares), 0, _STEPS).astype(np.uint8)
    steps[allocatable <= 0] = _ABSENT
    return steps.tobytes()


def _shares(steps: bytes) -> list[float]:
    return [-1.0 if one == _ABSENT else one / _STEPS for one in steps]
