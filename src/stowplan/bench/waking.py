"""What an event costs while many pods wait for one: how long until the queue has dealt with it.

Pods of some templates, rejected by NodeResourcesFit, have waited so long that no backoff is left. Nodes that
help nobody come first, then one that helps all of them: measured is the time until the first of them is taken
out of the queue.
"""

import gc
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import msgspec

from stowplan.api.decode import decode
from stowplan.api.node import Node
from stowplan.bench.workloads import Shape, Workload, node
from stowplan.cluster.table import ClusterTable
from stowplan.config import default_profile
from stowplan.framework.events import NODE_ADD
from stowplan.framework.runtime import Framework
from stowplan.plugins.registry import in_tree_registry
from stowplan.queue.build import queue_for
from stowplan.queue.scheduling_queue import SchedulingQueue

_ROUNDS = 20
_LONG = 60.0
"""Seconds after which no pod is backing off."""


@dataclass(frozen=True, slots=True)
class WakingRun:
    """What to measure."""

    pods: int = 50_000
    templates: int = 50


@dataclass(frozen=True, slots=True)
class WakingFigures:
    """What was measured."""

    useless_event_ms: float
    """A node comes that helps nobody."""
    first_pod_ms: float
    """From the event that helps all pods until the first of them is taken out."""
    us_per_woken_pod: float


class _Clock:
    """Stands still unless told otherwise."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def measure(run: WakingRun) -> WakingFigures:
    """Let pods wait, and nodes come."""
    clock = _Clock()
    queue = queue_for([Framework(default_profile(), ClusterTable(), in_tree_registry())], clock)
    _fill(queue, clock, run)
    gc.collect()
    gc.freeze()
    try:
        useless = [_seconds(queue, _small_node()) for _ in range(_ROUNDS)]
        woken = _seconds(queue, node(0))
    finally:
        gc.unfreeze()
    return WakingFigures(
        useless_event_ms=round(median(useless) * 1e3, 3),
        first_pod_ms=round(woken * 1e3, 1),
        us_per_woken_pod=round(woken / run.pods * 1e6, 2),
    )


def _fill(queue: SchedulingQueue, clock: _Clock, run: WakingRun) -> None:
    def waiting(number: int, own: str) -> Shape:
        template = number % run.templates
        return Shape({"app": f"t{template}"}, amounts={"cpu": f"{2_000 + template}m"})

    workload = Workload((waiting,))
    for number in range(run.pods):
        queue.add(workload.pod(number))
        clock.time += 0.001
        queued = queue.pop()
        assert queued is not None
        queue.add_unschedulable_if_not_present(queued, {"NodeResourcesFit"})
    clock.time += _LONG


def _seconds(queue: SchedulingQueue, new: Node) -> float:
    began = perf_counter()
    queue.move_all(NODE_ADD, None, new)
    queue.pop()
    return perf_counter() - began


def _small_node() -> Node:
    """A node with less CPU than any pod asks for."""
    room = {"cpu": "1", "memory": "256Gi", "pods": "110"}
    document = {"metadata": {"name": "small"}, "status": {"capacity": room, "allocatable": room}}
    return decode(msgspec.json.encode(document), Node)
