"""For how long the event loop is held while the list of a huge cluster arrives.

A second process plays an API server: it sends nodes and running pods as fast as they are read, over HTTP on
loopback, as lists or as the initial events of watches. The scheduler in this process decodes them and builds
its table.
A watchdog measures every turn of the event loop, by CPU time, garbage collection included: that is for how
long probes, bindings and everything else would have waited.
"""

import asyncio
import gc
import random
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, Final

import msgspec

from stowplan.api.requests import Json
from stowplan.client.http import HttpClient
from stowplan.client.http.settings import Address, Identity, Server, Trust
from stowplan.lab.bench.engine.workloads import node_name
from stowplan.lab.bench.running import running_node, running_pod
from stowplan.lab.bench.servers.processes import MIB, peak_rss, rss
from stowplan.runtime.clock import LoopWatchdog, RealClock
from stowplan.runtime.gc_tuning import calm_collector, patient_collector
from stowplan.scheduler import Scheduler, Settings

_NOTED: Final = 0.005
"""Seconds of CPU time from which on a turn is looked at more closely."""

_READY: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
_CHUNKED: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_PIECE: Final = 100
"""Objects that are sent at a time."""
_VERSION: Final = 10_000_000
"""The version as of which everything is sent."""


@dataclass(frozen=True, slots=True)
class ArrivalRun:
    """Arriving objects."""

    nodes: int = 10_000
    pods: int = 1_000_000
    watch_lists: bool = False
    """True if they arrive as the initial events of watches."""


@dataclass(frozen=True, slots=True)
class ArrivalFigures:
    """Measured figures; CPU time is that of the scheduler alone."""

    seconds: float
    cpu_s: float
    cpu_us_per_pod: float
    longest_turn_ms: float
    """The longest turn while everything arrived."""
    held_by: str
    longest_collection_ms: float
    """The longest pass of the garbage collector."""
    freezing_ms: float
    """How long the turn takes in which scheduling begins."""
    bytes_per_pod: float
    """Memory of the process that came with a pod: decoded, stored and in the table."""
    peak_rss_mib: float


def measure(run: ArrivalRun) -> ArrivalFigures:
    """Let everything arrive, once."""
    watchdog = LoopWatchdog(limit=_NOTED, by_cpu=True)
    with (
        patient_collector(),
        asyncio.Runner(loop_factory=watchdog.new_loop) as runner,
        watchdog,
    ):
        return runner.run(_measure(run, watchdog))


async def _measure(run: ArrivalRun, watchdog: LoopWatchdog) -> ArrivalFigures:
    async with _server(run) as port:
        client = HttpClient(
            Server(Address("http", "127.0.0.1", port), Trust(), Identity()),
            clock=RealClock(),
            rng=random.Random(0),
            qps=-1,
            streams=True if run.watch_lists else None,
        )
        async with client:
            scheduler = Scheduler(
                client, Settings.of(None), clock=RealClock(), rng=random.Random(0), timer=perf_counter
            )
            collections = _Collections()
            gc.callbacks.insert(0, collections)
            await asyncio.sleep(0)
            watchdog.reset()
            before, began, cpu = rss(), perf_counter(), process_time()
            try:
                async with scheduler.watching():
                    await scheduler.synced()
                    seconds, cpu = perf_counter() - began, process_time() - cpu
                    arrived = watchdog.longest
                    grown = rss() - before
                    await asyncio.sleep(0)
                    watchdog.reset()
                    with calm_collector():
                        await asyncio.sleep(0)
                        freezing = watchdog.longest
                    known = scheduler.context.cache.sizes()
            finally:
                gc.callbacks.remove(collections)
    if (known["nodes"], known["pods"]) != (run.nodes, run.pods):
        raise RuntimeError(f"expected {run.nodes} nodes and {run.pods} pods, got {known}")
    return ArrivalFigures(
        seconds=round(seconds, 2),
        cpu_s=round(cpu, 2),
        cpu_us_per_pod=round(cpu / run.pods * 1e6, 1),
        longest_turn_ms=round(arrived.cpu * 1e3, 1),
        held_by=arrived.holder.where,
        longest_collection_ms=round(collections.longest * 1e3, 1),
        freezing_ms=round(freezing.cpu * 1e3, 1),
        bytes_per_pod=round(grown / run.pods, 1),
        peak_rss_mib=round(peak_rss() / MIB, 1),
    )


class _Collections:
    """How long passes of the garbage collector take."""

    def __init__(self) -> None:
        self._began = 0.0
        self.longest = 0.0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "start":
            self._began = process_time()
        else:
            self.longest = max(self.longest, process_time() - self._began)


# The other process


@asynccontextmanager
async def _server(run: ArrivalRun) -> AsyncIterator[int]:
    """The server in a separate process; yields its port."""
    code = f"from stowplan.lab.bench.engine.arrival import serve; serve({run.nodes}, {run.pods})"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.terminate()
        # Reads its output to the end: a pipe that is left open cannot be closed after its loop.
        await process.communicate()


def serve(nodes: int, pods: int) -> None:
    """Serve watches until the process is ended. Prints the port first."""

    async def main() -> None:
        server = await asyncio.start_server(
            lambda reader, writer: _answer(reader, writer, nodes, pods), "127.0.0.1", 0
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(main())


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, nodes: int, pods: int) -> None:
    """Probes and lists, one after the other, or one watch: what exists, the mark after it, and silence."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            path, _, query = head.split(b" ", 2)[1].partition(b"?")
            plural = path.rpartition(b"/")[2].decode()
            if plural == "readyz":
                writer.write(_READY)
                continue
            objects = _objects(plural, nodes, pods)
            is_watch = b"watch=" in query
            if not is_watch:
                pieces = _list(objects)
            elif b"sendInitialEvents=" in query:
                pieces = _initial_events(objects)
            else:
                pieces = iter(())
            writer.write(_CHUNKED)
            for piece in pieces:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            if is_watch:
                await reader.read()
                return
            writer.write(b"0\r\n\r\n")


def _objects(plural: str, nodes: int, pods: int) -> Iterator[list[Json]]:
    """The objects of a resource, some at a time."""
    for begin in range(0, {"nodes": nodes, "pods": pods}.get(plural, 0), _PIECE):
        if plural == "nodes":
            made = [running_node(number) for number in range(begin, min(begin + _PIECE, nodes))]
        else:
            numbers = range(begin, min(begin + _PIECE, pods))
            made = [running_pod(number, node_name(number % nodes)) for number in numbers]
        for number, one in enumerate(made, begin):
            one["metadata"]["resourceVersion"] = str(number + 1)
        yield made


def _list(objects: Iterator[list[Json]]) -> Iterator[bytes]:
    yield b'{"metadata":{"resourceVersion":"%d"},"items":[' % _VERSION
    separator = b""
    for some in objects:
        yield separator + msgspec.json.encode(some)[1:-1]
        separator = b","
    yield b"]}"


def _initial_events(objects: Iterator[list[Json]]) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    for some in objects:
        yield b"".join(encode({"type": "ADDED", "object": one}) + b"\n" for one in some)
    end = {"resourceVersion": str(_VERSION), "annotations": {"k8s.io/initial-events-end": "true"}}
    yield encode({"type": "BOOKMARK", "object": {"metadata": end}}) + b"\n"
