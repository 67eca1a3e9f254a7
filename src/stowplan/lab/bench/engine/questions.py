"""How long questions to a cluster take once it is loaded: how many more fit, and what a drain does."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

from msgspec.structs import replace

from stowplan.api.meta import Object, OwnerReference
from stowplan.api.pod import Pod
from stowplan.lab.bench.engine.workloads import WORKLOADS, node, node_name
from stowplan.simulate import Cluster
from stowplan.simulate.changes import Change
from stowplan.simulate.creation.manifests import Manifests, read_manifests
from stowplan.simulate.fit import fit_max
from stowplan.simulate.snapshot import Snapshot, read_snapshot, write_snapshot
from stowplan.simulate.whatif import what_if

_APP: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: app}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: app}}}}
  template:
    metadata: {{labels: {{app: app}}}}
    spec:
      containers: [{{name: app, image: app, resources: {{requests: {{cpu: {cpu}, memory: 1Gi}}}}}}]
{more}
"""
_SPREAD: Final = """\
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {app: app}}
"""


@dataclass(frozen=True, slots=True)
class QuestionsRun:
    """Parameters of a question: nodes with some pods each, of which `drained` are drained."""

    nodes: int = 5000
    existing_per_node: int = 10
    drained: int = 100


@dataclass(frozen=True, slots=True)
class QuestionsFigures:
    """Seconds; `_cpu` those of CPU time, which other work on the machine changes less."""

    snapshot_mb: float
    read_s: float
    build_s: float
    fit_max_s: float
    fit_max_cpu_s: float
    fit_max_replicas: int
    fit_max_spread_s: float
    fit_max_spread_cpu_s: float
    fit_max_spread_replicas: int
    drain_s: float
    drain_cpu_s: float
    drained_pods: int


def measure(run: QuestionsRun) -> QuestionsFigures:
    """Write a cluster to a snapshot, load it, and ask."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.snap"
        size = write_snapshot(Snapshot(list(_objects(run)), "bench"), file)
        began = perf_counter()
        snapshot = read_snapshot(file)
        read = perf_counter()
        cluster = Cluster.load(snapshot)
        built = perf_counter()
        plain = _app(Path(folder), "250m")
        spread = _app(Path(folder), "8", _SPREAD)
        fit_s, fit_cpu, replicas = _fit(cluster, plain)
        spread_s, spread_cpu, spread_replicas = _fit(cluster, spread)
    drain_began, drain_cpu = perf_counter(), process_time()
    names = [node_name(number) for number in range(min(run.drained, run.nodes))]
    found = what_if(cluster, [Change(drain=names)])
    drain_s, drain_cpu = perf_counter() - drain_began, process_time() - drain_cpu
    return QuestionsFigures(
        round(size / 1e6, 2),
        round(read - began, 2),
        round(built - read, 2),
        round(fit_s, 2),
        round(fit_cpu, 2),
        replicas,
        round(spread_s, 2),
        round(spread_cpu, 2),
        spread_replicas,
        round(drain_s, 2),
        round(drain_cpu, 2),
        len(found.moved),
    )


def _fit(cluster: Cluster, manifests: Manifests) -> tuple[float, float, int]:
    began, cpu = perf_counter(), process_time()
    found = fit_max(cluster, manifests, manifests.workloads[0])
    return perf_counter() - began, process_time() - cpu, found.workloads[0].replicas


def _app(folder: Path, cpu: str, more: str = "") -> Manifests:
    file = folder / "app.yaml"
    file.write_text(_APP.format(cpu=cpu, more=more))
    return read_manifests([file])


def _objects(run: QuestionsRun) -> Iterator[Object]:
    """Nodes and their pods, which controllers would create again."""
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True)
    for number in range(run.nodes):
        yield node(number)
        for pod in WORKLOADS["basic"].existing(number, run.existing_per_node):
            yield _owned(pod, owner)


def _owned(pod: Pod, owner: OwnerReference) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))
