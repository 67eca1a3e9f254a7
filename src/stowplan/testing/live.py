"""A whole cluster for tests that are not asyncio: it runs in a thread, and any client can use it.

    from stowplan.testing import live_cluster

    with live_cluster(nodes=2) as cluster:
        subprocess.run(["kubectl", "apply", "-f", "app.yaml"], env=cluster.env, check=True)
        cluster.wait_until_ready()

As a pytest fixture:

    @pytest.fixture(scope="session")
    def cluster():
        with live_cluster() as running:
            yield running
"""

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stowplan.api.releases import DEFAULT, Release
from stowplan.api.releases import release as release_of
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.server import write_kubeconfig
from stowplan.localcluster.kubelets import KubeletSettings, NodeShape, Pretend
from stowplan.localcluster.kubelets.config import shapes_of
from stowplan.localcluster.kubelets.pretend import pretend_of
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.localcluster.up.loading import LoadReport
from stowplan.localcluster.up.manifests import Manifest, read_manifests
from stowplan.localcluster.up.readiness import not_ready, shown, until_ready
from stowplan.scheduler import Settings
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.registry import load_plugin
from stowplan.testing.clusters import loaded_config

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_Answer = TypeVar("_Answer")
Nodes = int | Sequence[Mapping[str, Any]] | None
START_TIMEOUT = 30.0
_ZONES = ("a", "b", "c")


class LiveCluster:
    """A running cluster. Made by `live_cluster`."""

    def __init__(
        self,
        cluster: LocalCluster,
        loop: asyncio.AbstractEventLoop,
        kubeconfig: Path,
        problems: Sequence[str],
    ) -> None:
        self._cluster = cluster
        self._loop = loop
        self.kubeconfig = kubeconfig
        """The path of a kubeconfig with an administrator's token."""
        self.url = cluster.server.url
        self.problems = problems
        """Problems reported by components."""

    @property
    def env(self) -> dict[str, str]:
        """The environment of this process with KUBECONFIG set, for kubectl and other commands."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    @property
    def load_report(self) -> LoadReport:
        """Loaded and skipped objects of `load`."""
        return self._cluster.load_report

    def api_client(self) -> "ApiClient":
        """A client of the official package `kubernetes`: `CoreV1Api(cluster.api_client())`."""
        try:
            from kubernetes import config
        except ModuleNotFoundError:
            hint = "pip install 'stowplan[kubernetes]'"
            raise ImportError(f"api_client needs the official client: {hint}") from None
        client: ApiClient = config.new_client_from_config(str(self.kubeconfig))
        return client

    def not_ready(self) -> list[str]:
        """A line for each workload and pod that is not ready, with the reason."""
        return self._ask(lambda: not_ready(self._cluster.store))

    def wait_until_ready(self, timeout: float = 30.0) -> None:
        """Wait until all workloads and pods are ready. Raises TimeoutError that says what is not, and why."""
        wait = until_ready(self._cluster.store, self._cluster.clock, timeout)
        waiting = asyncio.run_coroutine_threadsafe(wait, self._loop).result()
        if waiting:
            raise TimeoutError(f"not ready after {timeout:g} s:\n" + "\n".join(shown(waiting)))

    def explain(self, pod: str) -> str:
        """Why a pod (`namespace/name`) is where it is, or is pending."""
        found = self._ask(lambda: self._cluster.scheduler.explain(pod))
        if found is None:
            raise LookupError(f"the scheduler knows no pod {pod}")
        text: str = found.text()
        return text

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        """The answer to a question that has to be asked in the cluster's own thread."""

        async def ask() -> _Answer:
            return question()

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()


@contextmanager
def live_cluster(
    nodes: Nodes = None,
    *,
    load: Sequence[str | Path | Json] = (),
    config: str | Path | None = None,
    plugins: Sequence[type[Plugin] | str] = (),
    pretend: Mapping[str, Any] | None = None,
    fast: bool = True,
    seed: int | None = 0,
    release: str = DEFAULT.name,
) -> Iterator[LiveCluster]:
    """A cluster as `stowplan up` runs it, in a separate thread, for the duration of the block.

    `nodes` is their number (3 unless some are loaded), or a list of shapes as in the file of `--shapes`.
    `load` has paths of manifests, or objects. `config` is a KubeSchedulerConfiguration, as a path or text;
    `plugins` are classes or references such as `file.py:Class`. `pretend` is the content of the file of
    `--pretend`; with `fast` pods start and stop at once by default. `release` is that of Kubernetes, such as
    "1.36".
    """
    manifests = _manifests(load)
    plan = ClusterPlan(
        shapes=_shapes(nodes, manifests),
        settings=_settings(config, plugins, release_of(release)),
        kubelets=replace(
            KubeletSettings(start_delay=0.0, start_jitter=0.0, stop_delay=0.0) if fast else KubeletSettings(),
            adopt=True,
            as_found=bool(manifests),
            pretend=Pretend() if pretend is None else pretend_of(dict(pretend)),
        ),
        loaded=manifests,
        seed=seed,
    )
    with tempfile.TemporaryDirectory(prefix="stowplan-") as folder:
        life = _Life(plan, Path(folder) / "kubeconfig")
        thread = threading.Thread(target=life.live, name="stowplan", daemon=True)
        thread.start()
        try:
            yield life.started.result(START_TIMEOUT)
        finally:
            life.stop()
            thread.join(START_TIMEOUT)


class _Life:
    """The life of a cluster in a thread."""

    def __init__(self, plan: ClusterPlan, kubeconfig: Path) -> None:
        self._plan = plan
        self._kubeconfig = kubeconfig
        self._stop: Callable[[], None] = lambda: None
        self.started: Future[LiveCluster] = Future()

    def live(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - raised where the cluster is waited for
            if not self.started.done():
                self.started.set_exception(error)

    def stop(self) -> None:
        self._stop()

    async def _live(self) -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()

        def stop() -> None:
            loop.call_soon_threadsafe(stopped.set)

        self._stop = stop
        problems: list[str] = []
        cluster = LocalCluster(self._plan, report=problems.append)
        async with cluster.running():
            write_kubeconfig(self._kubeconfig, cluster.server.kubeconfig())
            self.started.set_result(LiveCluster(cluster, loop, self._kubeconfig, problems))
            await stopped.wait()


def _manifests(given: Sequence[str | Path | Json]) -> list[Manifest]:
    objects = [Manifest(f"load[{number}]", one) for number, one in enumerate(given) if isinstance(one, dict)]
    return [*read_manifests([Path(one) for one in given if not isinstance(one, dict)]), *objects]


def _shapes(nodes: Nodes, manifests: Sequence[Manifest]) -> Sequence[NodeShape]:
    if nodes is None:
        nodes = 0 if any(one.kind == "Node" for one in manifests) else 3
    if isinstance(nodes, int):
        return (NodeShape(count=nodes, zones=_ZONES),) if nodes else ()
    return shapes_of([dict(shape) for shape in nodes])


def _settings(config: str | Path | None, plugins: Sequence[type[Plugin] | str], release: Release) -> Settings:
    classes = [load_plugin(plugin) if isinstance(plugin, str) else plugin for plugin in plugins]
    return Settings.of(loaded_config(config, [cls.name for cls in classes], release), classes)
