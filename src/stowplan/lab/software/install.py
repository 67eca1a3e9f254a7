"""Installing a project: its manifests are created over HTTP, as a client would, and the cluster gets time."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from stowplan.api.catalogue import NAMESPACES, SERVICES, Resource
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient
from stowplan.client.http.kubeconfig import load_kubeconfig
from stowplan.localcluster.apiserver.server import write_kubeconfig
from stowplan.localcluster.kubelets import KubeletSettings, NodeShape
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.objects.fields import key_of, spec_of, status_of
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.localcluster.up.loading import FIRST_KINDS
from stowplan.localcluster.up.manifests import SUFFIXES, Manifest, read_manifests
from stowplan.localcluster.up.readiness import until_ready
from stowplan.localcluster.up.schedulers import SchedulerSource
from stowplan.runtime.clock import RealClock

_ROUNDS: Final = 2
"""Refused objects are tried once more, after all others: they may need an object that comes later."""


class Project(NamedTuple):
    """A project: the name of its file or folder, and the files with its manifests."""

    name: str
    files: tuple[Path, ...]


@dataclass(slots=True)
class Installed:
    """Result of a project: reasons of refusals by object, and lines about objects that are not ready."""

    project: str
    objects: int = 0
    applied: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    not_ready: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Problems that components of the cluster reported."""


def projects_in(folder: Path) -> list[Project]:
    """The projects in a folder: each file and each folder below it is one, with all manifests in it."""
    found: list[Project] = []
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            files = tuple(one for one in sorted(path.rglob("*")) if one.suffix in SUFFIXES and one.is_file())
            if files:
                found.append(Project(path.name, files))
        elif path.suffix in SUFFIXES:
            found.append(Project(path.stem, (path,)))
    return found


async def install(
    project: Project, *, nodes: int, timeout: float, add_ons: Sequence[AddOn] = ()
) -> Installed:
    """Apply a project to a fresh cluster, and wait until it is ready. Raises `LoadError`."""
    manifests = sorted(read_manifests(project.files), key=_rank)
    found = Installed(project.name, len(manifests))
    source = SchedulerSource("", (), DEFAULT_GATES)
    plan = ClusterPlan(
        shapes=(NodeShape(count=nodes, zones=("a", "b", "c")),),
        settings=source.settings(source.load()),
        source=source,
        kubelets=replace(KubeletSettings(), start_delay=0.1, start_jitter=0.0),
        add_ons=frozenset(add_ons),
    )
    cluster = LocalCluster(plan, report=found.problems.append)
    with TemporaryDirectory(prefix="stowplan-software-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        async with cluster.running():
            write_kubeconfig(kubeconfig, cluster.server.kubeconfig())
            clock = RealClock()
            server = load_kubeconfig(kubeconfig)
            async with HttpClient(server, clock=clock, rng=random.Random(project.name), qps=-1) as client:
                await _apply(manifests, cluster, client, found)
            found.not_ready = [*await until_ready(cluster.store, clock, timeout), *_without_address(cluster)]
    return found


def _without_address(cluster: LocalCluster) -> Iterator[str]:
    """Load balancers that `helm install --wait` would wait for."""
    for service in cluster.store.all(SERVICES):
        wants = spec_of(service).get("type") == "LoadBalancer"
        if wants and not (status_of(service).get("loadBalancer") or {}).get("ingress"):
            yield f"Service {key_of(service)}: its load balancer has no address"


def _rank(manifest: Manifest) -> int:
    """Definitions and namespaces come first, as people apply them; the order of the rest is the files'."""
    return FIRST_KINDS.index(manifest.kind) if manifest.kind in FIRST_KINDS[:2] else len(FIRST_KINDS)


async def _apply(
    manifests: Sequence[Manifest], cluster: LocalCluster, client: HttpClient, found: Installed
) -> None:
    waiting = list(manifests)
    for _ in range(_ROUNDS):
        refused: list[Manifest] = []
        for manifest in waiting:
            try:
                await _create(manifest, cluster, client)
            except ApiError as error:
                if error.is_already_exists:
                    found.applied += 1
                    continue
                refused.append(manifest)
                found.refused[_name(manifest)] = " ".join(error.message.split())
            else:
                found.applied += 1
                found.refused.pop(_name(manifest), None)
        waiting = refused


async def _create(manifest: Manifest, cluster: LocalCluster, client: HttpClient) -> None:
    """Create an object, and its namespace if there is none. Raises `ApiError`."""
    resource = cluster.store.catalogue.of_kind(manifest.api_version, manifest.kind)
    if resource is None:
        raise ApiError(404, "NotFound", f"{manifest.api_version} {manifest.kind} is not served")
    namespace = _namespace(resource, manifest.metadata)
    if namespace and cluster.store.find(NAMESPACES, "", namespace) is None:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await client.create(resource, manifest.body, namespace=namespace)


def _namespace(resource: Resource, metadata: Json) -> str:
    return str(metadata.get("namespace") or "default") if resource.namespaced else ""


def _name(manifest: Manifest) -> str:
    metadata = manifest.metadata
    parts = (
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or metadata.get("generateName") or ""),
    )
    return f"{manifest.kind or 'object'} {'/'.join(filter(None, parts))}"
