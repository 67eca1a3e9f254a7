"""Changes as they happen, for a page that stays open: bounded, and at most four times a second."""

import asyncio
from collections.abc import AsyncIterator
from itertools import takewhile
from typing import Any, Final

import msgspec

from stowplan.explain.document.cluster import Overview
from stowplan.explain.web.access import Viewer
from stowplan.explain.web.documents import Inspection
from stowplan.explain.web.nodes import node_rows, requested
from stowplan.explain.web.queues import decision_line
from stowplan.explain.web.redaction import namespaces_in, redacted
from stowplan.scheduler.decisions import PodRecord

EVERY: Final = 0.25
"""Seconds between two looks."""
MOST_DECISIONS: Final = 50
"""How many decisions are told at once; a page that wants all of them asks for them."""
HELLO_EVERY: Final = 8
"""After how many looks the totals are told again, also as a sign of life, and rights are asked for again."""


def event(name: str, document: Any) -> bytes:
    """A server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(document) + b"\n\n"


class Stream:
    """What has changed for one viewer since the last look. Nothing is queued: who is slow misses steps."""

    def __init__(self, inspection: Inspection, viewer: Viewer) -> None:
        self._inspection = inspection
        self._viewer = viewer
        self._names: list[str] = []
        self._requested: dict[str, list[int]] = {}
        self._lanes: dict[str, int] = {}
        self._newest: PodRecord | None = None
        self._looks = 0

    async def events(self) -> AsyncIterator[bytes]:
        """Events without end."""
        while True:
            for one in await self.changes():
                yield one
            await asyncio.sleep(EVERY)

    async def changes(self) -> list[bytes]:
        """What is new since the last call."""
        found: list[bytes] = []
        if not self._looks % HELLO_EVERY:
            self._viewer.ask_again()
            found.append(event("hello", await self._hello()))
        self._looks += 1
        if await self._viewer.may_see_nodes():
            found += self._nodes()
            lanes = self._inspection.lanes()
            if lanes != self._lanes:
                self._lanes = lanes
                found.append(event("queue", lanes))
        return [*found, *await self._decisions()]

    async def _hello(self) -> Overview:
        found = self._inspection.overview()
        return found if await self._viewer.may_see_nodes() else found.without_totals()

    def _nodes(self) -> list[bytes]:
        table = self._inspection.table
        if table is None:
            return []
        rows = node_rows(table)
        names = [table.name_of(row) for row in rows]
        lines = {name: line for line, name in enumerate(table.resources.names) if name is not None}
        now = requested(table, rows, lines)
        before, self._requested = self._requested, now
        if names != self._names:
            self._names = names
            return [event("nodes", {"reload": True})] if before else []
        changed = sorted(
            {
                place
                for name, column in now.items()
                for place, (one, other) in enumerate(zip(column, before.get(name, column), strict=False))
                if one != other
            }
        )
        if not changed:
            return []
        values = {name: [column[place] for place in changed] for name, column in now.items()}
        return [event("nodes", {"index": changed, "requested": values})]

    async def _decisions(self) -> list[bytes]:
        scheduler = self._inspection.scheduler
        if scheduler is None:
            return []
        newest, self._newest = self._newest, next(scheduler.context.decisions.latest(), None)
        if newest is None or self._newest is newest:
            return []
        fresh = [*takewhile(lambda made: made is not newest, scheduler.context.decisions.latest())]
        visible = await self._viewer.visible({made.key.partition("/")[0] for made in fresh[:MOST_DECISIONS]})
        shown = [made for made in fresh[:MOST_DECISIONS] if made.key.partition("/")[0] in visible]
        items = [decision_line(made) for made in shown]
        named = namespaces_in(items) & self._inspection.named_namespaces()
        items = redacted(items, await self._viewer.hidden(named))
        return [event("decisions", {"items": items})] if shown else []
