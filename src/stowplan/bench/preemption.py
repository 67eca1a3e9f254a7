"""How long preemption takes on a full cluster: a pod fits nowhere, somebody has to make room, it moves in.

Every node is filled with unimportant pods that share its CPU evenly; the pods to place are important and ask
for more than one of those leaves behind. Pods and nodes are decoded before the clock starts. For each pod the
clock runs while its template is worked out, all nodes are filtered, PostFilter decides, the victims are taken
out of the table and the pod is assumed in their place; no API server is asked to delete anybody.
"""

import gc
import random
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns
from typing import Any

import msgspec
import numpy as np

from stowplan.api.decode import decode
from stowplan.api.pod import Pod
from stowplan.api.workloads import PodDisruptionBudget
from stowplan.bench.memory import MIB, peak_rss
from stowplan.bench.workloads import NAMESPACE, node, node_name
from stowplan.cluster.table import ClusterTable, load
from stowplan.config import default_profile
from stowplan.framework.framework import Framework
from stowplan.framework.points import Point
from stowplan.framework.postfilter import run_post_filters
from stowplan.plugins.registry import in_tree_registry

NODE_MILLI_CPU = 32_000
_PRIORITIES = 5
_STARTED = "2025-01-{day:02}T{hour:02}:{minute:02}:00Z"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class PreemptionRun:
    """What to measure. With `budgets` every unimportant pod is under one of so many disruption budgets."""

    nodes: int = 5000
    existing_per_node: int = 10
    preemptors: int = 500
    budgets: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PreemptionFigures:
    """What was measured. Times of preemptors are in milliseconds."""

    ms_per_preemptor: float
    ms_per_preemptor_mean: float
    ms_per_preemptor_p99: float
    preemptors_per_s: float
    victims: int
    unhelped: int
    build_s: float
    peak_rss_mib: float


def measure(run: PreemptionRun) -> PreemptionFigures:
    """Fill a cluster and let important pods push in, one after the other."""
    rng = random.Random(run.seed)
    table = ClusterTable()
    nodes = [node(number) for number in range(run.nodes)]
    existing = [
        existing_pod(rng, number, slot, run)
        for number in range(run.nodes)
        for slot in range(run.existing_per_node)
    ]
    preemptors = [preemptor(number, run) for number in range(run.preemptors)]
    started = perf_counter()
    load(table, [budget_of(number, run) for number in range(run.budgets)])
    load(table, nodes)
    load(table, existing)
    build_s = perf_counter() - started
    framework = Framework(default_profile(), table, in_tree_registry(), rng=rng)
    gc.collect()
    gc.freeze()
    try:
        times, victims, unhelped = _push_in(framework, preemptors)
    finally:
        gc.unfreeze()
    return _figures(times, victims, unhelped, build_s)


def _push_in(framework: Framework, preemptors: list[Pod]) -> tuple[list[int], int, int]:
    """Nanoseconds of each pod, the number of victims, and how many pods no victims could help."""
    table = framework.table
    plugins = framework.at(Point.POST_FILTER)
    times: list[int] = []
    victims = unhelped = 0
    for pod in preemptors:
        started = perf_counter_ns()
        info = table.info(pod)
        evaluation = framework.evaluate(info)
        result = run_post_filters(plugins, evaluation.cycle, info)
        for victim in result.victims:
            table.remove_pod(victim.metadata.uid)
        if result.nominated_node:
            table.assume(info, result.nominated_node)
        times.append(perf_counter_ns() - started)
        victims += len(result.victims)
        unhelped += not result.nominated_node
    return times, victims, unhelped


def _figures(times: list[int], victims: int, unhelped: int, build_s: float) -> PreemptionFigures:
    millis = np.array(times, dtype=np.float64) / 1e6
    return PreemptionFigures(
        ms_per_preemptor=round(float(np.median(millis)), 3),
        ms_per_preemptor_mean=round(float(millis.mean()), 3),
        ms_per_preemptor_p99=round(float(np.percentile(millis, 99)), 3),
        preemptors_per_s=round(1e3 / float(millis.mean()), 1),
        victims=victims,
        unhelped=unhelped,
        build_s=round(build_s, 6),
        peak_rss_mib=round(peak_rss() / MIB, 1),
    )


def existing_pod(rng: random.Random, number: int, slot: int, run: PreemptionRun) -> Pod:
    """One of the pods that fill a node: low priorities and start times at random."""
    name = f"low-{number}-{slot}"
    share = NODE_MILLI_CPU // run.existing_per_node
    group = f"g{(number * run.existing_per_node + slot) % max(run.budgets, 1)}"
    started = _STARTED.format(day=rng.randint(1, 28), hour=rng.randrange(24), minute=rng.randrange(60))
    document = _pod(name, share, rng.randrange(_PRIORITIES), {"group": group})
    document["spec"]["nodeName"] = node_name(number)
    document["status"] = {"phase": "Running", "startTime": started}
    return decode(_encode(document), Pod)


def preemptor(number: int, run: PreemptionRun) -> Pod:
    """A pod that needs the room of one and a half of those that run."""
    wanted = NODE_MILLI_CPU * 3 // (2 * max(run.existing_per_node, 1))
    return decode(_encode(_pod(f"high-{number}", min(wanted, NODE_MILLI_CPU), 1000, {"app": "high"})), Pod)


def _pod(name: str, milli_cpu: int, priority: int, labels: dict[str, str]) -> dict[str, Any]:
    requests = {"cpu": f"{milli_cpu}m", "memory": "500Mi"}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": labels},
        "spec": {"schedulerName": "default-scheduler", "priority": priority, "containers": [container]},
        "status": {"phase": "Pending"},
    }


def budget_of(number: int, run: PreemptionRun) -> PodDisruptionBudget:
    """A budget that allows one of its pods to go."""
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{number}", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"group": f"g{number}"}}},
        "status": {"disruptionsAllowed": 1},
    }
    return decode(_encode(document), PodDisruptionBudget)
