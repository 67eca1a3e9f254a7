"""Build time of the cluster table, and its memory on top of the decoded objects.

Objects are made twice: once for the clock, and once more with every allocation traced (tracemalloc), which is
exact but slows everything down. The maximum size of the process is read before the tracing starts.
"""

import gc
import tracemalloc
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter

import msgspec

from stowplan.api.decode import decode
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.lab.bench.running import running_node
from stowplan.lab.bench.servers.processes import MIB, peak_rss
from stowplan.scheduler.table.table import ClusterTable, load


@dataclass(frozen=True, slots=True)
class TableRun:
    """Parameters of a measurement."""

    nodes: int = 5000
    pods_per_node: int = 10


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Measured figures. Bytes are those of live Python objects and arrays."""

    build_s: float
    decoded_bytes_per_node: float
    decoded_bytes_per_pod: float
    table_bytes_per_node: float
    table_bytes_per_pod: float
    peak_rss_mib: float


def measure(run: TableRun) -> TableFigures:
    """Decode nodes and pods of the mixed workload and put them into a table."""
    build_s = _build_time(run)
    peak = peak_rss()
    tracemalloc.start()
    try:
        decoded_node, decoded_pod, table_node, table_pod = _bytes(run)
    finally:
        tracemalloc.stop()
    return TableFigures(
        build_s=round(build_s, 6),
        decoded_bytes_per_node=decoded_node,
        decoded_bytes_per_pod=decoded_pod,
        table_bytes_per_node=table_node,
        table_bytes_per_pod=table_pod,
        peak_rss_mib=round(peak / MIB, 1),
    )


def _build_time(run: TableRun) -> float:
    nodes, pods = _nodes(run), _pods(run)
    gc.collect()
    table = ClusterTable()
    started = perf_counter()
    load(table, nodes)
    load(table, pods)
    return perf_counter() - started


def _bytes(run: TableRun) -> tuple[float, float, float, float]:
    """Bytes per node and per pod, decoded and in the table."""
    marks = [_held()]
    nodes = _nodes(run)
    marks.append(_held())
    pods = _pods(run)
    marks.append(_held())
    table = ClusterTable()
    load(table, nodes)
    marks.append(_held())
    load(table, pods)
    marks.append(_held())
    growth = [after - before for before, after in pairwise(marks)]
    counts = (len(nodes), len(pods), len(nodes), len(pods))
    decoded_node, decoded_pod, table_node, table_pod = (
        round(grown / max(count, 1), 1) for grown, count in zip(growth, counts, strict=True)
    )
    return decoded_node, decoded_pod, table_node, table_pod


def _nodes(run: TableRun) -> list[Node]:
    """Nodes as they are listed, with their images."""
    return [decode(msgspec.json.encode(running_node(number)), Node) for number in range(run.nodes)]


def _pods(run: TableRun) -> list[Pod]:
    workload = WORKLOADS["mixed"]
    return [pod for number in range(run.nodes) for pod in workload.existing(number, run.pods_per_node)]


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
