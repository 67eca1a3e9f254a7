"""Cost of keeping everything on a disk: the same work with a data directory and without.

First in this process: pods are created as fast as the store takes them, and the time counts until all of them
are kept. Then over loopback HTTPS, where every answer waits for its commit. Last, the time to load the store
again.
"""

import asyncio
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import msgspec

from stowplan.api.catalogue import PODS
from stowplan.api.requests import Json
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.lab.bench.servers.apiserver import ServerFigures, ServerRun
from stowplan.lab.bench.servers.apiserver import measure as measure_server
from stowplan.localcluster.durable import open_data_dir
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock

_BURST = 100
"""Creates in this process between two turns of the event loop."""


@dataclass(frozen=True, slots=True)
class DurableRun:
    """Amount of work, and the folder for the data directories (default: the temporary folder)."""

    pods: int = 5000
    connections: int = 16
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class DurableFigures:
    """Creates per second and milliseconds an answer takes, in memory and kept; seconds to load all pods."""

    store_memory_per_s: float
    store_kept_per_s: float
    http_memory_per_s: float
    http_kept_per_s: float
    http_memory_ms_p50: float
    http_kept_ms_p50: float
    http_memory_ms_p99: float
    http_kept_ms_p99: float
    load_s: float


def measure(run: DurableRun) -> DurableFigures:
    """Do the work in memory and in data directories that are gone afterwards."""
    with tempfile.TemporaryDirectory(dir=run.folder, prefix="stowplan-bench-") as folder:
        data = Path(folder, "store")
        memory = asyncio.run(_create(run.pods, None))
        kept = asyncio.run(_create(run.pods, data))
        load = _load(run.pods, data)
        in_memory = _serve(run, None)
        on_disk = _serve(run, str(Path(folder, "server")))
    return DurableFigures(
        round(memory, 1),
        round(kept, 1),
        in_memory.creates_per_s,
        on_disk.creates_per_s,
        in_memory.create_ms_p50,
        on_disk.create_ms_p50,
        in_memory.create_ms_p99,
        on_disk.create_ms_p99,
        round(load, 3),
    )


def _serve(run: DurableRun, data_dir: str | None) -> ServerFigures:
    return measure_server(ServerRun(run.pods, 0, run.connections, data_dir))


async def _create(pods: int, folder: Path | None) -> float:
    """Creates per second, the last of them kept."""
    store = Store(RealClock(), random.Random(0))
    keeper = None if folder is None else open_data_dir(store, folder)
    bodies: list[Json] = [msgspec.to_builtins(WORKLOADS["basic"].pod(number)) for number in range(pods)]
    began = perf_counter()
    for number, body in enumerate(bodies):
        store.create(PODS, body)
        if number % _BURST == 0:
            await asyncio.sleep(0)
    lost = await store.settled()
    took = perf_counter() - began
    if keeper is not None:
        keeper.close()
    if lost is not None:
        raise lost
    return pods / took


def _load(pods: int, folder: Path) -> float:
    store = Store(RealClock(), random.Random(0))
    began = perf_counter()
    keeper = open_data_dir(store, folder)
    took = perf_counter() - began
    keeper.close()
    if store.count(PODS) != pods:
        raise RuntimeError(f"expected {pods} pods to be kept, got {store.count(PODS)}")
    return took
