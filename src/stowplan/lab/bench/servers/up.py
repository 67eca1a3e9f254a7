"""Speed of `stowplan up` with many nodes and pods: from nothing until ready, and from a dump of that.

First a cluster starts with its nodes and a Deployment. Then all its objects are dumped as JSON, and a second
cluster starts with that dump. The time of each runs from reading the manifests until every pod is ready;
importing Python modules is not in it. Afterwards all pods are listed once through HTTPS, and the cluster is
left alone to measure its cost when idle.
"""

import asyncio
import gc
import json
import ssl
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import DEPLOYMENTS, LEASES, NAMESPACES, NODES, PODS, REPLICA_SETS
from stowplan.api.requests import Json
from stowplan.lab.bench.servers.http import BenchError
from stowplan.lab.bench.servers.processes import MIB, peak_rss
from stowplan.localcluster.apply.managedfields import plain_json
from stowplan.localcluster.kubelets import KubeletSettings, NodeShape
from stowplan.localcluster.store import Store
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.localcluster.up.manifests import read_manifests
from stowplan.localcluster.up.readiness import until_ready
from stowplan.runtime.gc_tuning import calm_collector, patient_collector

_TIMEOUT: Final = 600.0
_DUMPED: Final = (NAMESPACES, NODES, LEASES, DEPLOYMENTS, REPLICA_SETS, PODS)
_ZONES: Final = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class UpRun:
    """Parameters of a measurement; `idle` is the number of seconds each cluster is left alone."""

    nodes: int = 5000
    pods: int = 20_000
    idle: float = 30.0


@dataclass(frozen=True, slots=True)
class UpFigures:
    """Measured figures of one cluster."""

    ready_s: float
    cpu_s: float
    list_s: float
    listed_mib: float
    idle_cpu: float
    """The part of a core that it needs when nothing happens."""
    peak_rss_mib: float


def measure(run: UpRun) -> tuple[UpFigures, UpFigures]:
    """The figures of a cluster that makes its nodes and pods, and of one that loads them from a dump."""
    with tempfile.TemporaryDirectory() as folder:
        manifest, dump = Path(folder, "deployment.json"), Path(folder, "dump.json")
        manifest.write_text(json.dumps(deployment(run.pods)), "utf-8")
        shapes = (NodeShape(count=run.nodes, zones=_ZONES),)
        with patient_collector():
            made = asyncio.run(
                _measure(run, manifest, shapes, lambda store: dump.write_bytes(dump_of(store)))
            )
            gc.collect()
            return made, asyncio.run(_measure(run, dump, (), lambda store: None))


def deployment(replicas: int) -> Json:
    """A Deployment of which four pods or more fit on a node."""
    labels = {"app": "web"}
    requests = {"cpu": "500m", "memory": "2Gi"}
    container = {"name": "main", "image": "registry.example/web:1", "resources": {"requests": requests}}
    return {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": DEPLOYMENTS.kind,
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def dump_of(store: Store) -> bytes:
    """Objects of a cluster, as `kubectl get -o json` prints them."""
    items = [obj for resource in _DUMPED for obj in store.list(resource).items]
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}, enc_hook=plain_json)


async def _measure(
    run: UpRun, manifest: Path, shapes: Sequence[NodeShape], dump: Callable[[Store], object]
) -> UpFigures:
    began, cpu = perf_counter(), process_time()
    plan = ClusterPlan(
        shapes=shapes, kubelets=KubeletSettings(as_found=True), loaded=read_manifests([manifest]), seed=0
    )
    cluster = LocalCluster(plan)
    async with cluster.running():
        with calm_collector():
            problems = await until_ready(cluster.store, cluster.clock, _TIMEOUT)
            ready_s, cpu_s = perf_counter() - began, process_time() - cpu
            if problems or cluster.store.count(PODS) != run.pods or cluster.store.count(NODES) != run.nodes:
                raise BenchError(f"expected all pods to be ready, got {(problems or ['other objects'])[0]}")
            list_s, listed = await asyncio.to_thread(_list_pods, cluster)
            idle = process_time()
            await asyncio.sleep(run.idle)
            idle = process_time() - idle
            dump(cluster.store)
    return UpFigures(
        ready_s=round(ready_s, 2),
        cpu_s=round(cpu_s, 2),
        list_s=round(list_s, 4),
        listed_mib=round(listed / MIB, 1),
        idle_cpu=round(idle / run.idle, 4) if run.idle else 0.0,
        peak_rss_mib=round(peak_rss() / MIB, 1),
    )


def _list_pods(cluster: LocalCluster) -> tuple[float, int]:
    """Seconds and bytes of one list of all pods."""
    server = cluster.server
    trusted = ssl.create_default_context(cadata=(server.certificate or b"").decode())
    headers: dict[str, Any] = {"Authorization": f"Bearer {server.token}"}
    request = urllib.request.Request(f"{server.url}/api/v1/pods", headers=headers)
    began = perf_counter()
    with urllib.request.urlopen(request, context=trusted) as answer:
        listed = len(answer.read())
    return perf_counter() - began, listed
