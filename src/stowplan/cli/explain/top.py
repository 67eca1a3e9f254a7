"""`stowplan top`: queue, rate and causes of a cluster, live, for people who stay in the terminal."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
from msgspec.structs import replace

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.cli.explain.explain import ClusterSource, cluster_options, connect, dump, pending_document
from stowplan.cli.explain.running import RunningScheduler
from stowplan.cli.options import INTERVAL_SETTINGS
from stowplan.cli.output import say
from stowplan.client.http import HttpClient
from stowplan.explain.document.cluster import Overview
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.queue import (
    Board,
    CostsDocument,
    DecisionsDocument,
    QueueDocument,
    QueueEntry,
)
from stowplan.explain.layout import Palette, safe
from stowplan.explain.sentences.words import brief
from stowplan.explain.terminal.board import Rates, render
from stowplan.simulate.snapshot import SnapshotError

_SHOWN = 200
"""How many of the pods that wait are kept to be shown."""
_COSTLY = 20
"""Number of owners whose scheduling cycles are listed with their cost."""
_WAITING = ("active", "backoff", "unschedulable", "gated")
"""The lanes of pods that wait in the queue."""
_CAUSES_EVERY = 5.0
"""Seconds between two looks at the causes: they are more work than everything else."""


@click.command("top", context_settings=INTERVAL_SETTINGS)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates.",
)
@click.option("--once", is_flag=True, help="Print once and exit, as it does when output is not a terminal.")
@cluster_options
def top(
    interval: float,
    once: bool,
    where: ClusterSource,
    output: str,
) -> None:
    """Show queue, rate, causes and costs of a cluster, live.

    The API of a running stowplan has all of this. Any other cluster is read through lists: then pods are
    either waiting or gated, and the rate counts pods that get a node. Ctrl-C ends it.
    """
    if where.files:
        raise click.UsageError("top follows a live cluster; for files use stowplan pending --from")
    live = not once and output == "text" and sys.stdout.isatty()
    with suppress(KeyboardInterrupt):
        asyncio.run(_top(where, interval, output, live))


async def _top(where: ClusterSource, interval: float, output: str, live: bool) -> None:
    async with connect(where.kubeconfig, where.context, "stowplan-top") as (client, address, _):
        looking = _Looking(where, client, address)
        if not live:
            _print(await looking.board(), output)
            return
        rates = Rates()
        with _screen():
            while True:
                try:
                    board = await looking.board()
                except SnapshotError as error:
                    _draw([f"{address} does not answer: {error}", "Still trying. Ctrl-C ends it."])
                else:
                    size = shutil.get_terminal_size()
                    now = time.time()
                    rate = rates.add(board, now)
                    palette = Palette.of(sys.stdout, os.environ)
                    _draw(
                        render(
                            board,
                            rate,
                            rates.history,
                            palette=palette,
                            now=now,
                            height=size.lines,
                            width=size.columns,
                        )
                    )
                await asyncio.sleep(interval)


class _Looking:
    """Looks at a cluster again and again; at the causes less often than at the rest."""

    def __init__(self, where: ClusterSource, client: HttpClient, address: str) -> None:
        self._where = where
        self._client = client
        self._address = address
        self._pending = PendingDocument()
        self._looked = -_CAUSES_EVERY
        self._waited = -1

    async def board(self) -> Board:
        """Present state. Raises SnapshotError."""
        running = await RunningScheduler.find(self._client) if self._where.asks_running else None
        board = None if running is None else await self._told(running)
        if board is None:
            board = await self._listed()
        found = await self._current_causes(board.waiting)
        return replace(
            board,
            headline=found.headline,
            causes=found.causes,
            elsewhere=found.elsewhere,
            not_started=found.not_started,
            not_created=found.not_created,
        )

    async def _told(self, running: RunningScheduler) -> Board | None:
        overview = await running.ask("", Overview)
        queue = await running.ask("/queue", QueueDocument)
        decisions = await running.ask("/decisions?limit=1", DecisionsDocument)
        costs = await running.ask(f"/costs?limit={_COSTLY}", CostsDocument)
        if overview is None or queue is None or overview.pods is None:
            return None
        waiting = [pod for lane in queue.lanes if lane.name in _WAITING for pod in lane.pods]
        waiting.sort(key=lambda pod: pod.since or "~")
        return Board(
            title=overview.cluster,
            source="the running scheduler",
            nodes=overview.nodes,
            assigned=overview.pods.assigned,
            waiting=overview.pods.waiting,
            lanes={lane.name: lane.total for lane in queue.lanes},
            oldest=tuple(waiting[:_SHOWN]),
            rate=overview.rate,
            latency=None if decisions is None else decisions.latency,
            costs=costs,
        )

    async def _listed(self) -> Board:
        try:
            pods = (await self._client.list(PODS, Pod, not_older_than="0")).items
            nodes = (await self._client.list(NODES, Node, not_older_than="0")).items
        except ApiError as error:
            raise SnapshotError(error.message) from None
        alive = [pod for pod in pods if not pod.is_finished]
        waiting = [pod for pod in alive if not pod.spec.node_name]
        gated = sum(bool(pod.spec.scheduling_gates) for pod in waiting)
        waiting.sort(key=lambda pod: pod.metadata.creation_timestamp or "~")
        return Board(
            title=self._address,
            source=f"the lists of {self._address}",
            nodes=len(nodes),
            assigned=len(alive) - len(waiting),
            waiting=len(waiting),
            lanes={"unschedulable": len(waiting) - gated, "gated": gated},
            oldest=tuple(map(_entry, waiting[:_SHOWN])),
        )

    async def _current_causes(self, waiting: int) -> PendingDocument:
        now = time.monotonic()
        if now - self._looked >= _CAUSES_EVERY or (not waiting) != (not self._waited):
            self._pending, _ = await pending_document(self._where, self._client, self._address, "")
            self._looked, self._waited = time.monotonic(), waiting
        return self._pending


def _entry(pod: Pod) -> QueueEntry:
    said = _said(pod)
    return QueueEntry(pod=pod.key, since=pod.metadata.creation_timestamp, cause=said, brief=brief(said))


def _said(pod: Pod) -> str:
    """Last message of the scheduler about a pod."""
    conditions = pod.status.conditions
    return next(
        (one.message for one in conditions if one.type == "PodScheduled" and one.status == "False"), ""
    )


def _print(board: Board, output: str) -> None:
    if output != "text":
        dump(board, output)
        return
    palette = Palette.of(sys.stdout, os.environ)
    lines = render(board, board.rate, palette=palette, now=time.time(), height=60)
    say("\n".join(lines), color=palette.enabled)


@contextmanager
def _screen() -> Iterator[None]:
    """The terminal's alternate screen, and the old one again afterwards."""
    sys.stdout.write("\x1b[?1049h\x1b[?25l")
    try:
        yield
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


def _draw(lines: list[str]) -> None:
    sys.stdout.write("\x1b[H" + "".join(f"{safe(line, coloured=True)}\x1b[K\n" for line in lines) + "\x1b[J")
    sys.stdout.flush()
