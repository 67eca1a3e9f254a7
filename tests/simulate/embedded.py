"""A whole cluster in virtual time that commands ask and change."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import patch

from click.testing import CliRunner, Result

from stowplan.api.catalogue import BUILT_IN, PODS
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.requests import Json
from stowplan.cli.main import stowplan
from stowplan.client.http import HttpClient
from stowplan.config import default_config
from stowplan.localcluster.kubelets import KubeletSettings, NodeShape
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.runtime.clock import VirtualClock, VirtualTimeLoop
from stowplan.scheduler import Settings
from troubles.requests import client_of
from virtual_clusters import running

T = TypeVar("T")
_RESOURCES = {one.kind: one for one in reversed(BUILT_IN)}
_CONNECTING = [f"stowplan.cli.simulate.{name}.connect" for name in ("simulation", "plan", "snapshot")]


class Embedded:
    """The cluster. Pods start `start_delay` seconds after they are bound."""

    def __init__(
        self, runner: asyncio.Runner, shapes: Sequence[NodeShape], settings: Settings, start_delay: float
    ) -> None:
        self._runner = runner
        clock = VirtualClock(runner.get_loop())
        kubelets = replace(
            KubeletSettings(), start_delay=start_delay, start_jitter=0.0, stop_delay=0.0, run_seconds=1e6
        )
        self.cluster = LocalCluster(
            ClusterPlan(shapes=shapes, settings=settings, kubelets=kubelets, seed=0), clock=clock
        )
        self.client: HttpClient = client_of(self.cluster, clock)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in the cluster's time."""
        return self._runner.run(work)

    def pass_time(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def create(self, *documents: Json) -> None:
        for body in documents:
            resource = _RESOURCES[body["kind"]]
            namespace = body["metadata"].get("namespace", "default") if resource.namespaced else ""
            self.run(self.client.create(resource, body, namespace=namespace))

    def running(self, prefix: str) -> int:
        """Number of pods of a name that run."""
        return sum(
            1
            for pod in self.cluster.store.within(PODS, "default")
            if pod["metadata"]["name"].startswith(prefix) and pod["status"].get("phase") == "Running"
        )

    def command(self, *arguments: object) -> Result:
        """Run a command on this cluster."""

        @asynccontextmanager
        async def connected(*_: Any) -> Any:
            yield self.client, "embedded:80", "default"

        with ExitStack() as stack:
            stack.enter_context(patch("asyncio.run", self.run))
            for name in _CONNECTING:
                stack.enter_context(patch(name, connected))
            found = CliRunner().invoke(stowplan, [str(one) for one in arguments])
            if found.exception is not None and not isinstance(found.exception, SystemExit):
                raise found.exception
            return found


@contextmanager
def embedded(
    *shapes: NodeShape,
    gates: FeatureGates = DEFAULT_GATES,
    settings: Settings | None = None,
    start_delay: float = 0.0,
) -> Iterator[Embedded]:
    """A cluster of nodes of these shapes, from its start until the block ends."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop()
        found = Embedded(runner, shapes, settings or Settings.of(default_config(gates)), start_delay)
        with running(runner, found.cluster):
            found.pass_time(2)
            yield found
