"""How long the cluster table takes to build, and what it costs in memory on top of the decoded objects."""

import gc
from dataclasses import dataclass
from time import perf_counter

from stowplan.bench.memory import MIB, peak_rss, rss
from stowplan.bench.workloads import WORKLOADS, node
from stowplan.cluster.table import ClusterTable, load


@dataclass(frozen=True, slots=True)
class TableRun:
    """What to measure."""

    nodes: int = 5000
    pods_per_node: int = 10


@dataclass(frozen=True, slots=True)
class TableFigures:
    """What was measured: growth of the process's resident memory, divided by the number of objects."""

    build_s: float
    decode_s: float
    decoded_bytes_per_node: float
    decoded_bytes_per_pod: float
    table_bytes_per_node: float
    table_bytes_per_pod: float
    peak_rss_mib: float


def measure(run: TableRun) -> TableFigures:
    """Decode nodes and pods, put them into a table, and look at the process's memory in between."""
    workload = WORKLOADS["mixed"]
    started = perf_counter()
    empty = _settled_rss()
    nodes = [node(number) for number in range(run.nodes)]
    nodes_decoded = _settled_rss()
    pods = [pod for number in range(run.nodes) for pod in workload.existing(number, run.pods_per_node)]
    decode_s = perf_counter() - started
    pods_decoded = _settled_rss()
    table = ClusterTable()
    started = perf_counter()
    load(table, nodes)
    nodes_built = perf_counter() - started
    nodes_loaded = _settled_rss()
    started = perf_counter()
    load(table, pods)
    pods_built = perf_counter() - started
    pods_loaded = _settled_rss()
    pod_count = max(len(pods), 1)
    return TableFigures(
        build_s=round(nodes_built + pods_built, 3),
        decode_s=round(decode_s, 3),
        decoded_bytes_per_node=round((nodes_decoded - empty) / run.nodes, 1),
        decoded_bytes_per_pod=round((pods_decoded - nodes_decoded) / pod_count, 1),
        table_bytes_per_node=round((nodes_loaded - pods_decoded) / run.nodes, 1),
        table_bytes_per_pod=round((pods_loaded - nodes_loaded) / pod_count, 1),
        peak_rss_mib=round(peak_rss() / MIB, 1),
    )


def _settled_rss() -> int:
    gc.collect()
    return rss()
