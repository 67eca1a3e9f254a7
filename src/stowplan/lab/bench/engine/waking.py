"""Cost of an event while many pods wait for one: the time until the queue has handled it.

Pods of some templates are rejected by NodeResourcesFit. Nodes that help no pod come first, then one that
helps all of them, once while they are backing off and once when they have waited so long that no backoff is
left. Measured is the CPU time until the first of them is popped from the queue, with metrics on; then all
others are popped and rejected again.
"""

import gc
from dataclasses import dataclass
from random import Random
from statistics import median
from time import perf_counter, process_time

import msgspec

from stowplan.api.decode import decode
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.node import Node
from stowplan.config import default_profile
from stowplan.lab.bench.engine.workloads import BenchWorkload, WorkloadShape, node
from stowplan.scheduler.framework.events import NODE_ADD
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.queue.build import queue_for
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.table.table import ClusterTable

_ROUNDS = 20
_LONG = 60.0
"""Seconds after which no pod is backing off."""


@dataclass(frozen=True, slots=True)
class WakingRun:
    """Parameters of a measurement."""

    pods: int = 50_000
    templates: int = 50


@dataclass(frozen=True, slots=True)
class WakingFigures:
    """Measured figures."""

    useless_event_ms: float
    """A node is added that helps no pod."""
    first_pod_ms: float
    """From the event that helps all pods until the first of them is taken out."""
    first_backing_off_ms: float
    """The same while all of them are backing off."""
    us_per_woken_pod: float
    """From the event to the last pod: what the queue does for each to be taken out."""


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
    metrics = SchedulerMetrics(perf_counter, DEFAULT_GATES, Random(0))
    framework = Framework(default_profile(), ClusterTable(), in_tree_registry())
    queue = queue_for([framework], clock, instrument=metrics)
    _fill(queue, clock, run)
    gc.collect()
    gc.freeze()
    try:
        useless = [_wake(queue, _small_node())[1] for _ in range(_ROUNDS)]
        backing_off = _wake_all(queue, run.pods)
        clock.time += _LONG
        rested = _wake_all(queue, run.pods)
    finally:
        gc.unfreeze()
    return WakingFigures(
        useless_event_ms=round(median(useless) * 1e3, 3),
        first_pod_ms=round(rested[0] * 1e3, 2),
        first_backing_off_ms=round(backing_off[0] * 1e3, 2),
        us_per_woken_pod=round(sum(rested) / run.pods * 1e6, 2),
    )


def _fill(queue: SchedulingQueue, clock: _Clock, run: WakingRun) -> None:
    def waiting(number: int, own: str) -> WorkloadShape:
        template = number % run.templates
        return WorkloadShape({"app": f"t{template}"}, amounts={"cpu": f"{2_000 + template}m"})

    workload = BenchWorkload((waiting,))
    for number in range(run.pods):
        queue.add(workload.pod(number))
        queued = queue.pop()
        assert queued is not None
        _reject(queue, queued)
        clock.time += 1e-6


def _wake_all(queue: SchedulingQueue, pods: int) -> tuple[float, float]:
    """CPU seconds until the first pod is taken out, and those for taking out the others."""
    first, until_first = _wake(queue, node(0))
    assert first is not None
    popped = [first]
    began = process_time()
    while (queued := queue.pop()) is not None:
        popped.append(queued)
    seconds = process_time() - began
    assert len(popped) == pods
    for queued in popped:
        _reject(queue, queued)
    return until_first, seconds


def _wake(queue: SchedulingQueue, new: Node) -> tuple[QueuedPod | None, float]:
    """A node comes: the first pod that is taken out then, and the CPU seconds until that."""
    began = process_time()
    queue.move_all(NODE_ADD, None, new)
    queued = queue.pop()
    return queued, process_time() - began


def _reject(queue: SchedulingQueue, queued: QueuedPod) -> None:
    queue.add_unschedulable_if_not_present(queued, {"NodeResourcesFit"})


def _small_node() -> Node:
    """A node with less CPU than any pod asks for."""
    room = {"cpu": "1", "memory": "256Gi", "pods": "110"}
    document = {"metadata": {"name": "small"}, "status": {"capacity": room, "allocatable": room}}
    return decode(msgspec.json.encode(document), Node)
