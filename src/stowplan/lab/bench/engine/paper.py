"""GPU-sharing policies on a production trace, as published for FGD (USENIX ATC 2023).

Pods of the trace come in random order, and more of them, drawn at random, until the requested GPUs are 130 %
of what the cluster has. Nobody leaves. The result is the share of GPUs that is allocated, by how much was
requested so far. Of nodes with equal scores the first is taken, in an order that is random but the same for a
whole run: with this all published figures come out. The trace (CSV files) is read from a directory.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, Final

from stowplan.api.meta import ObjectMeta
from stowplan.api.node import Node, NodeStatus
from stowplan.api.pod import Container, Pod, PodSpec, ResourceRequirements
from stowplan.config import load
from stowplan.contrib.gpushare import FGD, POLICIES, GpuShare, typical_pods
from stowplan.contrib.gpushare.devices import COUNT, MILLI, MODEL, PARTS, GpuRequest
from stowplan.scheduler import Settings
from stowplan.simulate import Cluster

NODE_LIST: Final = "openb_node_list_gpu_node.csv"
POD_LIST: Final = "openb_pod_list_{}.csv"
FIRST_SEED: Final = 42
INFLATED_TO: Final = 1.3
SCALE: Final = range(0, 131, 10)
"""Percentages of requested GPUs at which the allocation is reported."""
_SELECTION: Final = {"Random": "random", "FGD": "fgd"}
_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")


class TraceError(ValueError):
    """A trace that cannot be read; the message names file, line and column."""


@dataclass(frozen=True, slots=True)
class PaperRun:
    """Parameters of a measurement: a policy on the pods of `workload`, once for each seed."""

    trace: Path
    policy: str
    workload: str = "default"
    seeds: int = 10


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """`by_seed` has for each seed the allocation in percent by percent requested."""

    policy: str
    by_seed: dict[int, dict[int, float]]
    seconds: list[float]

    def mean(self, requested: int) -> float:
        return sum(one[requested] for one in self.by_seed.values()) / len(self.by_seed)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "policy": self.policy,
            "allocation": {
                str(requested): {
                    "mean": round(self.mean(requested), 2),
                    "bySeed": {str(seed): one[requested] for seed, one in self.by_seed.items()},
                }
                for requested in (100, 130)
            },
            "curve": {str(requested): round(self.mean(requested), 2) for requested in SCALE},
            "seconds": [round(one, 2) for one in self.seconds],
        }


@dataclass(frozen=True, slots=True)
class PaperPod:
    name: str
    cpu: int
    memory: int
    gpus: GpuRequest


@dataclass(frozen=True, slots=True)
class PaperTrace:
    nodes: list[Node]
    pods: list[PaperPod]

    @property
    def gpus(self) -> int:
        """Number of GPUs of all nodes."""
        return sum(int(node.status.allocatable[COUNT]) for node in self.nodes)


def read_trace(directory: Path, workload: str) -> PaperTrace:
    """The nodes and the pods of a trace. Raises TraceError."""
    nodes = [
        _node(row["sn"], cpu, memory, gpus, row["model"])
        for row, (cpu, memory, gpus) in _rows(
            directory / NODE_LIST, _NODE_COLUMNS, ("cpu_milli", "memory_mib", "gpu")
        )
    ]
    pods = [
        PaperPod(row["name"], cpu, memory, _request(count, milli, row["gpu_spec"]))
        for row, (cpu, memory, count, milli) in _rows(
            directory / POD_LIST.format(workload),
            _POD_COLUMNS,
            ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
        )
    ]
    return PaperTrace(nodes, pods)


def _rows(
    path: Path, columns: Sequence[str], numbers: Sequence[str]
) -> Iterator[tuple[Mapping[str, str], list[int]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    reader = csv.DictReader(lines)
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise TraceError(f"{path}: line 1: expected a column {missing[0]}")
    for number, row in enumerate(reader, start=2):
        found = []
        for column in numbers:
            text = row[column] or ""
            if not text.isdecimal():
                raise TraceError(f"{path}: line {number}: {column}: expected a whole number, got {text!r}")
            found.append(int(text))
        yield row, found


def _node(name: str, cpu: int, memory: int, gpus: int, model: str) -> Node:
    allocatable: dict[str, str | int | float] = {
        "cpu": f"{cpu}m",
        "memory": f"{memory}Mi",
        "pods": "1001",
        COUNT: str(gpus),
    }
    labels = {MODEL: model, "kubernetes.io/hostname": name}
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=allocatable))


def _request(count: int, milli: int, models: str) -> GpuRequest:
    if not count:
        return GpuRequest()
    return GpuRequest(count, min(milli, MILLI), tuple(model for model in models.split("|") if model))


def _pod(pod: PaperPod, number: int) -> Pod:
    annotations = {}
    if pod.gpus.number:
        annotations = {COUNT: str(pod.gpus.number), PARTS: str(pod.gpus.milli)}
        if pod.gpus.models:
            annotations[MODEL] = "|".join(pod.gpus.models)
    name = f"{pod.name}-{number}"
    requests: dict[str, str | int | float] = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, annotations=annotations),
        spec=PodSpec(
            containers=(Container(name="main", resources=ResourceRequirements(requests=requests)),),
            scheduler_name="default-scheduler",
        ),
    )


def inflated(trace: PaperTrace, rng: Random) -> list[PaperPod]:
    """The pods in random order, and more of them until so much is requested; fewer if it is too much."""
    pods = sorted(trace.pods, key=lambda pod: pod.name)
    pool = list(pods)
    rng.shuffle(pods)
    wanted = INFLATED_TO * trace.gpus * MILLI
    requested = sum(pod.gpus.total for pod in pods)
    while requested > wanted:
        requested -= pods.pop(rng.randrange(len(pods))).gpus.total
    while True:
        pod = rng.choice(pool)
        if requested + pod.gpus.milli > wanted:
            return pods
        requested += pod.gpus.total
        pods.append(pod)


def settings_for(policy: str, trace: PaperTrace) -> Settings:
    """The default filters and GpuShare; the policy is all that scores."""
    usual = [
        {"cpu": one.cpu, "gpus": one.gpus, "milli": one.milli, "models": one.models, "weight": one.weight}
        for one in typical_pods((pod.cpu, pod.gpus) for pod in trace.pods)
    ]
    share: dict[str, Any] = {"selection": _SELECTION.get(policy, "best")}
    arguments: list[dict[str, Any]] = [{"name": GpuShare.name, "args": share}]
    if policy == FGD.name:
        share["typicalPods"] = usual
        arguments.append({"name": policy, "args": {"typicalPods": usual}})
    pre_scoring = [{"name": policy}] if hasattr(POLICIES[policy], "pre_score") else []
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {"enabled": [{"name": "GpuShare"}]},
            "preScore": {"disabled": [{"name": "*"}], "enabled": pre_scoring},
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": policy, "weight": 1}]},
            "postFilter": {"disabled": [{"name": "*"}]},
        },
        "pluginConfig": arguments,
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return Settings.of(load(json.dumps(document)), [GpuShare, POLICIES[policy]])


def measure(run: PaperRun) -> Iterator[tuple[int, dict[int, float], float]]:
    """For each seed: the seed, the allocation in percent by percent requested, and seconds."""
    trace = read_trace(run.trace, run.workload)
    settings = settings_for(run.policy, trace)
    for seed in range(FIRST_SEED, FIRST_SEED + run.seeds):
        started = perf_counter()
        curve = simulated(trace, settings, seed)
        yield seed, curve, perf_counter() - started


def simulated(trace: PaperTrace, settings: Settings, seed: int) -> dict[int, float]:
    """One run: the allocation in percent by percent requested."""
    cluster = Cluster(trace.nodes, settings=settings, seed=seed, ties="fixed")
    capacity = trace.gpus * MILLI
    requested = allocated = 0
    curve = {0: 0.0}
    for number, pod in enumerate(inflated(trace, Random(seed))):
        outcome = cluster.schedule(_pod(pod, number), preempt=False)
        requested += pod.gpus.total
        if outcome.placed:
            allocated += pod.gpus.total
        while len(curve) < len(SCALE) and requested * 100 >= SCALE[len(curve)] * capacity:
            curve[SCALE[len(curve)]] = round(100 * allocated / capacity, 2)
    for left in SCALE[len(curve) :]:
        curve[left] = round(100 * allocated / capacity, 2)
    return curve
