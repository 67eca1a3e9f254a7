"""How long one pod takes through the engine: filter, score, choose, reserve, assume, confirm; for a pod that
fits nowhere: filter, PostFilter.

Pods and nodes are decoded before the clock starts, and so is the bound pod that the API server would send
back: decoding is left out. After the table is built, the garbage collector is set as that of a scheduler is
after its start; it stays on while the clock runs. The first pods of every class, whose results are not reused
yet, are measured with all the others.
"""

import random
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns

import numpy as np
from msgspec.structs import replace

from stowplan.api.devices import ResourceClaimConsumerReference
from stowplan.api.pod import Pod
from stowplan.config import default_profile
from stowplan.lab.bench.engine.workloads import ENGINE_WORKLOADS, BenchWorkload, node
from stowplan.lab.bench.servers.processes import MIB, peak_rss
from stowplan.runtime.gc_tuning import calm_collector
from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.extension_points import Lifecycle, run_post_filters
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.dynamicresources.state import is_in_memory
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.devices import Claims
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable, load


@dataclass(frozen=True, slots=True)
class EngineRun:
    """Parameters of a measurement."""

    workload: str
    nodes: int = 5000
    existing_per_node: int = 10
    pods: int = 2000
    seed: int = 0
    reuse: bool = True


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Measured figures. Times of pods are in microseconds."""

    us_per_pod: float
    us_per_pod_mean: float
    us_per_pod_p99: float
    pods_per_s: float
    build_s: float
    peak_rss_mib: float
    unschedulable: int


def measure(run: EngineRun) -> EngineFigures:
    """Build a cluster and place pods on it one after the other."""
    workload = ENGINE_WORKLOADS[run.workload]
    nodes = [node(number) for number in range(run.nodes)]
    existing = [
        pod for number in range(run.nodes) for pod in workload.existing(number, run.existing_per_node)
    ]
    pods = [workload.pod(number) for number in range(run.pods)]
    around = workload.objects(run.nodes, run.existing_per_node, run.pods)
    table = ClusterTable()
    started = perf_counter()
    load(table, around)
    load(table, nodes)
    load(table, existing)
    build_s = perf_counter() - started
    framework = Framework(default_profile(), table, in_tree_registry(), reuse=run.reuse)
    with calm_collector():
        times, unschedulable = _place(framework, workload, pods, random.Random(run.seed))
    return _figures(times, build_s, unschedulable)


def _place(
    framework: Framework, workload: BenchWorkload, pods: list[Pod], rng: random.Random
) -> tuple[list[int], int]:
    """Nanoseconds of each pod, and how many found no node."""
    table = framework.table
    lifecycle = Lifecycle(framework)
    post_filters = framework.at(ExtensionPoint.POST_FILTER)
    times: list[int] = []
    unschedulable = 0
    for number, pod in enumerate(pods):
        started = perf_counter_ns()
        info = table.info(pod)
        evaluation = framework.evaluate(info)
        if not evaluation.feasible_count:
            run_post_filters(post_filters, evaluation.cycle, info)
            times.append(perf_counter_ns() - started)
            unschedulable += 1
            continue
        name = table.name_of(choose_node(evaluation, rng.randrange)[0])
        lifecycle.reserve(evaluation.cycle, info, name)
        table.assume(info, name)
        if table.devices.claims.in_flight():
            _write_claims(table.devices.claims, info)
        assumed = perf_counter_ns()
        bound = workload.pod(number, name)
        bound_at = perf_counter_ns()
        table.confirm(bound)
        times.append(perf_counter_ns() - bound_at + assumed - started)
    return times, unschedulable


def _write_claims(claims: Claims, pod: PodInfo) -> None:
    """See the claims whose allocation was decided for a pod as they are once written."""
    user = ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
    for uid, pending in list(claims.in_flight().items()):
        claim = pending.claim
        name = f"{pod.name}-extended-resources" if is_in_memory(claim) else claim.name
        claims.put(
            replace(
                claim,
                metadata=replace(claim.metadata, name=name, resource_version="2"),
                status=replace(claim.status, reserved_for=(*claim.status.reserved_for, user)),
            )
        )
        claims.remove_pending(uid)


def _figures(times: list[int], build_s: float, unschedulable: int) -> EngineFigures:
    micros = np.array(times, dtype=np.float64) / 1000
    return EngineFigures(
        us_per_pod=round(float(np.median(micros)), 1),
        us_per_pod_mean=round(float(micros.mean()), 1),
        us_per_pod_p99=round(float(np.percentile(micros, 99)), 1),
        pods_per_s=round(1e6 / float(micros.mean()), 1),
        build_s=round(build_s, 6),
        peak_rss_mib=round(peak_rss() / MIB, 1),
        unschedulable=unschedulable,
    )
