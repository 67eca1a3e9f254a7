"""Changes as they happen, for open pages: computed once for all of them, at most four times a second.

A `Feed` looks at the scheduler as long as a page is open, by the table's change logs. A `Subscription` turns
each look into the events that its viewer may see. Nothing is queued for slow viewers: they skip looks, and
load again what they missed.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import cached_property, partial
from itertools import compress, takewhile
from operator import is_not
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from stowplan.api.node import Node
from stowplan.explain.document.cluster import Overview
from stowplan.explain.document.queue import DecisionLine
from stowplan.explain.web.access import Viewer
from stowplan.explain.web.devices import Counts, DeviceCounts
from stowplan.explain.web.nodes import is_ready, node_rows
from stowplan.explain.web.redaction import namespaces_in, redacted
from stowplan.scheduler import Scheduler
from stowplan.scheduler.decisions import PodRecord
from stowplan.scheduler.table.changes import Rows, merge_rows
from stowplan.scheduler.table.table import ClusterTable

if TYPE_CHECKING:
    from stowplan.explain.web.documents import Inspection

EVERY: Final = 0.25
"""Seconds between two looks."""
MOST_DECISIONS: Final = 50
"""Decisions of one event; a page that wants all of them asks for them."""
HELLO_EVERY: Final = 8
"""Looks from one `hello` to the next: totals, a sign of life, and the viewer's rights are asked for again."""


def event(name: str, document: Any) -> bytes:
    """A server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(document) + b"\n\n"


RELOAD: Final = event("nodes", {"reload": True})


class NodeChanges:
    """Changes of nodes since the last look: rows of the change logs, compared with what was sent."""

    def __init__(self) -> None:
        self._table: ClusterTable | None = None
        self._topology = self._used = self._known = 0
        self._rows: Rows = np.empty(0, dtype=np.intp)
        self._places: npt.NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._nodes: list[Node | None] = []
        self._resources: tuple[str | None, ...] = ()
        self._sent: npt.NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)
        self._counts = DeviceCounts()
        self._devices: Counts = {}

    def look(self, table: ClusterTable | None) -> bytes:
        """The event; empty if nothing has changed."""
        if table is None:
            self._table = None
            return b""
        resources = tuple(table.resources.names)
        if (
            table is not self._table
            or table.topology_version != self._topology
            or resources != self._resources
        ):
            first = self._table is None
            self._load(table, resources)
            return b"" if first else RELOAD
        used, known = table.usage_log.since(self._used), table.node_log.since(self._known)
        self._used, self._known = table.usage_log.position, table.node_log.position
        if used is None or known is None:
            self._load(table, resources)
            return RELOAD
        devices = self._taken(table)
        if devices is None:
            self._load(table, resources)
            return RELOAD
        change = {**self._amounts(table, merge_rows(used, known)), **self._states(table, known), **devices}
        return event("nodes", change) if change else b""

    def _load(self, table: ClusterTable, resources: tuple[str | None, ...]) -> None:
        """Start again: a page that is open loads all nodes."""
        self._table, self._resources = table, resources
        self._topology = table.topology_version
        self._used, self._known = table.usage_log.position, table.node_log.position
        self._rows = np.array(node_rows(table), dtype=np.intp)
        self._places = np.full(table.capacity, -1, dtype=np.intp)
        self._places[self._rows] = np.arange(len(self._rows))
        self._nodes = [table.nodes[row] for row in self._rows.tolist()]
        self._sent = self._columns(table, self._rows)
        self._devices = self._counts.of(table)

    @staticmethod
    def _columns(table: ClusterTable, rows: Rows) -> npt.NDArray[np.int64]:
        """Requests on rows, a line for each resource and one for the number of pods."""
        lines = len(table.resources.names)
        return np.vstack((table.requested[:lines, rows], table.pod_count[rows]))

    def _amounts(self, table: ClusterTable, rows: Rows) -> dict[str, Any]:
        rows = rows[self._places[rows] >= 0]
        places = self._places[rows]
        values = self._columns(table, rows)
        changed = (values != self._sent[:, places]).any(axis=0)
        if not changed.any():
            return {}
        places, values = places[changed], values[:, changed]
        self._sent[:, places] = values
        columns = {
            name: values[line].tolist()
            for line, name in enumerate((*self._resources, "pods"))
            if name is not None
        }
        return {"index": places.tolist(), "requested": columns}

    def _states(self, table: ClusterTable, rows: Rows) -> dict[str, Any]:
        places = [place for place in self._places[rows].tolist() if place >= 0]
        nodes = [table.nodes[self._rows.item(place)] for place in places]
        before = [self._nodes[place] for place in places]
        changed = [*compress(zip(places, nodes, strict=True), map(is_not, nodes, before))]
        found = [(place, node) for place, node in changed if node is not None]
        for place, node in found:
            self._nodes[place] = node
        if not found:
            return {}
        chosen = self._rows[[place for place, _ in found]]
        allocatable = {
            name: table.allocatable[line, chosen].tolist()
            for line, name in enumerate(self._resources)
            if name is not None
        }
        return {
            "states": {
                "index": [place for place, _ in found],
                "unschedulable": [int(node.spec.unschedulable) for _, node in found],
                "ready": [int(is_ready(node)) for _, node in found],
                "allocatable": {**allocatable, "pods": table.allowed_pods[chosen].tolist()},
            }
        }

    def _taken(self, table: ClusterTable) -> dict[str, Any] | None:
        """Changed numbers of taken devices; None if devices came or went."""
        before, self._devices = self._devices, self._counts.of(table)
        if before is self._devices:
            return {}
        if _totals(before) != _totals(self._devices):
            return None
        changed = {
            driver: {
                self._place(table, node): taken
                for node, (_, taken) in nodes.items()
                if before[driver][node][1] != taken and table.row_of(node) is not None
            }
            for driver, nodes in self._devices.items()
        }
        found = {
            driver: {"index": [*places], "requested": [*places.values()]}
            for driver, places in changed.items()
            if places
        }
        return {"devices": found} if found else {}

    def _place(self, table: ClusterTable, node: str) -> int:
        row = table.row_of(node)
        return -1 if row is None else self._places.item(row)


def _totals(counts: Counts) -> dict[str, dict[str, int]]:
    return {driver: {node: total for node, (total, _) in nodes.items()} for driver, nodes in counts.items()}


class Look:
    """Everything that has changed since the look before, for all viewers."""

    def __init__(
        self,
        number: int,
        inspection: "Inspection",
        nodes: bytes,
        decisions: Sequence[DecisionLine],
        missed: int,
    ) -> None:
        self.number = number
        self.nodes = nodes
        self.lanes = inspection.lanes()
        self.decisions = decisions
        self.missed = missed
        """Number of decisions that are not in `decisions`."""
        self._inspection = inspection

    @cached_property
    def overview(self) -> Overview:
        """The totals: made for the first viewer who is told them at this look."""
        return self._inspection.overview()

    @cached_property
    def all_decisions(self) -> bytes:
        """The event for viewers who may see all pods, encoded once."""
        return decisions_event(self.decisions, complete=not self.missed)


def decisions_event(items: Sequence[DecisionLine], *, complete: bool) -> bytes:
    """Decisions since the look before; not complete if some are left out."""
    return event("decisions", {"items": items, "complete": complete})


class Feed:
    """The looks at one scheduler. It looks only while somebody is subscribed."""

    def __init__(self, inspection: "Inspection") -> None:
        self._inspection = inspection
        self._nodes = NodeChanges()
        self._newest: PodRecord | None = None
        self._looks = 0
        self._subscribers = 0
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.Future[Look | None] | None = None
        self._ended = False

    def open(self) -> None:
        """Accept subscriptions."""
        self._ended = False

    def close(self) -> None:
        """End all streams, so that a server that stops need not wait for them."""
        self._ended = True
        self._tell(None)

    async def events(self, viewer: Viewer, about: str = "") -> AsyncIterator[bytes]:
        """Events until the feed is closed; `about` is a pod, node or group whose changes are told, too."""
        subscription = Subscription(self._inspection, viewer, about)
        self._subscribers += 1
        try:
            look: Look | None = self.look()
            while look is not None and not self._ended:
                for one in await subscription.told(look):
                    yield one
                look = await self._after()
        finally:
            self._subscribers -= 1

    async def _after(self) -> Look | None:
        """The next look; None when the feed ends."""
        if self._ended:
            return None
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.create_future()
        if self._task is None:
            self._task = loop.create_task(self._follow(), name="page stream")
        return await asyncio.shield(self._next)

    async def _follow(self) -> None:
        try:
            while self._subscribers and not self._ended:
                await asyncio.sleep(EVERY)
                self._tell(self.look())
        finally:
            # Whoever subscribes now starts another task.
            self._task = None
            self._tell(None)

    def _tell(self, look: Look | None) -> None:
        waiting, self._next = self._next, None
        if waiting is not None and not waiting.done():
            waiting.set_result(look)

    def look(self) -> Look:
        """Look at the scheduler now."""
        inspection = self._inspection
        self._looks += 1
        scheduler = inspection.scheduler
        fresh = [] if scheduler is None else self._decided(scheduler)
        lines = [inspection.decision_line(made) for made in fresh[:MOST_DECISIONS]]
        missed = max(len(fresh) - MOST_DECISIONS, 0)
        return Look(self._looks, inspection, self._nodes.look(inspection.table), lines, missed)

    def _decided(self, scheduler: Scheduler) -> list[PodRecord]:
        """Decisions since the last look, the newest first."""
        decisions = scheduler.context.decisions
        before, self._newest = self._newest, next(decisions.latest(), None)
        if before is None or self._newest is before:
            return []
        return [*takewhile(partial(is_not, before), decisions.latest())]


class Subscription:
    """The part of each look that one viewer may see."""

    def __init__(self, inspection: "Inspection", viewer: Viewer, about: str = "") -> None:
        self._inspection = inspection
        self._viewer = viewer
        self._about = about
        self._version: Any = None
        self._last: Look | None = None
        self._looks = 0
        self._lanes: dict[str, int] = {}

    async def told(self, look: Look) -> list[bytes]:
        """The events of a look."""
        found: list[bytes] = []
        last, self._last = self._last, look
        skipped = last is not None and look.number != last.number + 1
        if not self._looks % HELLO_EVERY:
            self._viewer.ask_again()
            whole = await self._viewer.may_see_nodes()
            found.append(event("hello", look.overview if whole else look.overview.without_totals()))
        self._looks += 1
        if await self._viewer.may_see_nodes():
            if skipped:
                found.append(RELOAD)
            elif look.nodes and last is not None:
                found.append(look.nodes)
            if look.lanes != self._lanes:
                self._lanes = look.lanes
                found.append(event("queue", look.lanes))
        if last is not None:
            found += await self._decisions(look, skipped)
        return [*found, *await self._changed()]

    async def _decisions(self, look: Look, skipped: bool) -> list[bytes]:
        if await self._viewer.may_see_all_pods():
            if skipped:
                return [decisions_event(look.decisions, complete=False)]
            return [look.all_decisions] if look.decisions else []
        visible = await self._viewer.visible({made.pod.partition("/")[0] for made in look.decisions})
        items = [made for made in look.decisions if made.pod.partition("/")[0] in visible]
        if not items:
            return []
        named = namespaces_in(items) & self._inspection.named_namespaces()
        shown = redacted(items, await self._viewer.hidden(named))
        return [decisions_event(shown, complete=not skipped and not look.missed)]

    async def _changed(self) -> list[bytes]:
        """That what the viewer looks at has changed; what it is now is loaded with their rights."""
        if not self._about:
            return []
        version = self._inspection.version_of(self._about)
        before, self._version = self._version, version
        return [event("about", {"of": self._about})] if before is not None and before != version else []
