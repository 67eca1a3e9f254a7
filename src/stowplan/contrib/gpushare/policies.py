"""Policies to choose a node by its GPUs. FGD, the longest, is in fragmentation.py.

Formulas and constants are those of the experiments in "Beware of Fragmentation: Scheduling GPU-Sharing
Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023), so that results can be compared.
"""

from collections.abc import Hashable
from typing import Final

import numpy as np

from stowplan.contrib.gpushare.devices import MILLI, gpus, request_of
from stowplan.framework import (
    MAX_NODE_SCORE,
    Contract,
    Cycle,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    ScoreRange,
    Scores,
)

LARGEST_CPU: Final = 128_000
"""Millicores of the largest node there is, to bring CPU and GPU to one scale."""
LARGEST_GPU: Final = 8 * MILLI
"""Parts of GPU of the largest node."""


class Policy(Plugin):
    """Scores rows by their pods; pods with equal CPU and GPU requests are equal to it."""

    contract = Contract(reads=Reads.USAGE)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.requests.non_zero_milli_cpu, request_of(pod)


class RandomNode(Plugin):
    """Random: one of the nodes that can take the pod, drawn for every pod anew."""

    name = "Random"
    contract = Contract(reads=Reads.NOTHING)

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> None:
        rows = cycle.feasible_rows
        cycle.write_score(self, int(rows[self.handle.rng.randrange(len(rows))]))

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        scores: Scores = np.zeros(nodes.table.capacity, dtype=np.int64)
        scores[cycle.read_score(self)] = MAX_NODE_SCORE
        return scores[nodes.rows]


class BestFit(Policy):
    """The node with the least CPU and GPU left."""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        cpu = free_cpu(nodes) - pod.requests.non_zero_milli_cpu
        gpu = gpus(nodes.table).total[nodes.rows] - request_of(pod).total
        left = 0.5 * cpu / LARGEST_CPU + 0.5 * gpu / LARGEST_GPU
        return whole((1.0 - left) * MAX_NODE_SCORE)

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        spread = extremes.high - extremes.low
        if not spread:
            return np.zeros_like(scores)
        return (scores - extremes.low) * MAX_NODE_SCORE // spread


class DotProd(Policy):
    """The node whose free CPU and GPU are the least like what the pod asks for (the smallest dot product)."""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        cpu = free_cpu(nodes) / LARGEST_CPU * (pod.requests.non_zero_milli_cpu / LARGEST_CPU)
        gpu = gpus(nodes.table).total[nodes.rows] / LARGEST_GPU * (request_of(pod).total / LARGEST_GPU)
        return whole((1.0 - (cpu + gpu) / 2) * MAX_NODE_SCORE)


class GpuClustering(Policy):
    """A node with pods that ask for as many GPUs, best with no others; then an empty one; then any."""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        kind = request_of(pod).kind
        if not kind:
            return None
        known = gpus(nodes.table)
        kinds = known.kinds[nodes.rows]
        quarter = MAX_NODE_SCORE // 4
        base = np.select(
            [kinds == kind, (kinds & kind) != 0, kinds == 0],
            [3 * quarter, 2 * quarter, quarter],
            default=0,
        )
        scores: Scores = base + quarter * (LARGEST_GPU - known.total[nodes.rows]) // LARGEST_GPU
        return scores


class GpuPacking(Policy):
    """GPUs in use before idle ones, and idle ones of a node in use before those of an empty one."""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        request = request_of(pod)
        if not request.number:
            return None
        free = gpus(nodes.table).free[nodes.rows]
        idle = (free == MILLI).sum(axis=1)
        fitting = np.sort(np.where(free >= request.milli, free, 2 * MILLI), axis=1)[:, : request.number]
        taken_idle = (fitting == MILLI).sum(axis=1)
        used = np.where(fitting < MILLI, fitting * 100 // MILLI, 0).sum(axis=1)
        third, half = MAX_NODE_SCORE // 3, MAX_NODE_SCORE // 2
        scores: Scores = np.select(
            [idle == (free >= 0).sum(axis=1), taken_idle > 0],
            [np.maximum(third - idle, idle), np.maximum(half - taken_idle, third)],
            default=np.maximum(MAX_NODE_SCORE - used // 10, half),
        )
        return scores


def free_cpu(nodes: NodeRows) -> Scores:
    """Unrequested millicores by row."""
    return nodes.allocatable("cpu") - nodes.requested("cpu")


def whole(scores: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Scores:
    """Scores as whole numbers within the range. Rows that do not fit may be outside it: never chosen."""
    return np.clip(scores, 0, MAX_NODE_SCORE).astype(np.int64)
