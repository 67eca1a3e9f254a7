"""A whole cluster in virtual time that is asked and changed from outside, as people do it."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar
from unittest.mock import patch

from click.testing import CliRunner

from stowplan.api.catalogue import NAMESPACES, NODES, PODS, REPLICA_SETS, RESOURCE_SLICES
from stowplan.api.gates.feature_gates import DEFAULT_GATES, gates_with
from stowplan.api.pod_groups import GATES
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.cli.main import stowplan
from stowplan.client.http import HttpClient
from stowplan.config import default_config
from stowplan.localcluster.kubelets import KubeletSettings
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.runtime.clock import VirtualClock, VirtualTimeLoop
from stowplan.scheduler import Settings
from troubles.corpus import NAMESPACE, Instance, shapes
from troubles.kubectl import CommandError, Kubectl
from troubles.requests import client_of
from virtual_clusters import running

T = TypeVar("T")

PATIENCE: Final = 45.0
"""Seconds of virtual time after which a remedy has not worked: backoff ends after 10 s at the latest."""
_HEAD_OF_SLICE: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
_LATER: Final = 3.0
_FIRST: Final = ("Namespace", "PriorityClass", "RuntimeClass")
"""Kinds that pods which fill up nodes may name."""
_LOOK_EVERY: Final = 0.5


class World:
    """A cluster with one trouble (or two). Made by `world`."""

    def __init__(self, runner: asyncio.Runner, instance: Instance) -> None:
        self._runner = runner
        self.instance = instance
        self._clock = VirtualClock(runner.get_loop())
        gates = gates_with(GATES) if instance.gangs else DEFAULT_GATES
        # Not at once: events of one pod at one instant of virtual time would have one name.
        quick = replace(KubeletSettings(), start_delay=0.1, start_jitter=0.0, stop_delay=0.0, adopt=True)
        plan = ClusterPlan(
            shapes=shapes(instance.size),
            settings=Settings.of(default_config(gates)),
            kubelets=quick,
            seed=0,
        )
        self.cluster = LocalCluster(plan, clock=self._clock)
        self.client: HttpClient = client_of(self.cluster, self._clock)
        self._kubectl = Kubectl(self.client, self.cluster.store.catalogue, asyncio.sleep)

    # Time

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in the cluster's time."""
        return self._runner.run(work)

    def pass_time(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def wait(self, until: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Wait until something holds; False if it does not in time."""

        async def waiting() -> bool:
            end = self._clock.now() + seconds
            while not until():
                if self._clock.now() >= end:
                    return False
                await asyncio.sleep(_LOOK_EVERY)
            return True

        return self.run(waiting())

    # The trouble

    def begin(self) -> None:
        """Create the objects of the trouble and wait until it shows."""
        self.cluster.store.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        self.pass_time(1)
        objects, pod = self.instance.objects(), self.instance.pod()
        classes = [one for one in objects if one["kind"] in _FIRST]
        self.create(classes)
        fill = self.instance.fill()
        self.create(fill)
        if fill:
            self.pass_time(_LATER)
        self.create([one for one in objects if one["kind"] not in _FIRST])
        for line in self.instance.before():
            self.kubectl(line)
        self.create([] if pod is None else [pod])
        later = self.instance.later()
        if later:
            self.pass_time(_LATER)
            self.create(later)
        self.pass_time(self.instance.seconds)

    def create(self, objects: Sequence[Json]) -> None:
        for body in objects:
            resource = self.cluster.store.catalogue.of_kind(body["apiVersion"], body["kind"])
            assert resource is not None, body
            namespace = body["metadata"].get("namespace", NAMESPACE) if resource.namespaced else ""
            self.run(self.client.create(resource, body, namespace=namespace))

    # Asking

    def command(self, *arguments: str) -> str:
        """Output of a command on a terminal of this cluster. Raises CommandError."""

        @asynccontextmanager
        async def connected(*_: Any) -> Any:
            yield self.client, "troubles:80", NAMESPACE

        with (
            patch("stowplan.cli.explain.explain.connect", connected),
            patch("asyncio.run", self.run),
        ):
            result = CliRunner().invoke(stowplan, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code and not result.stdout:
            raise CommandError(result.stderr)
        return result.stdout

    def document(self, *arguments: str) -> Json:
        found: Json = json.loads(self.command(*arguments, "-o", "json"))
        return found

    def page(self, path: str) -> Json | None:
        """A document of the page; None if there is none."""
        try:
            return self.run(self.client.get_path(f"/stowplan/v1{path}"))
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    # Acting

    def kubectl(self, script: str) -> None:
        """Run what was printed. Raises CommandError."""
        self.run(self._kubectl.run(script))

    def do(self, action: Json) -> None:
        """An action that no command stands for."""
        [(verb, name)] = action.items()
        if verb != "addNode":
            raise CommandError(f"no command for {verb} {name}")
        node = self.cluster.store.get(NODES, "", name)
        fresh = f"{name}-more"
        labels = {k: fresh if v == name else v for k, v in node["metadata"]["labels"].items()}
        spec = {key: value for key, value in node["spec"].items() if key == "taints"}
        spec["taints"] = [t for t in spec.get("taints", ()) if not t["key"].startswith("node.kubernetes.io/")]
        status = {key: node["status"][key] for key in ("capacity", "allocatable")}
        made = {"metadata": {"name": fresh, "labels": labels}, "spec": spec, "status": status}
        self.create([{"apiVersion": "v1", "kind": "Node", **made}, *self._slices_for(fresh, like=name)])

    def _slices_for(self, node: str, like: str) -> Iterator[Json]:
        """The devices of a node once more, as the driver of a new node publishes them."""
        for one in self.cluster.store.all(RESOURCE_SLICES):
            spec = one["spec"]
            if spec.get("nodeName") == like:
                spec = {**spec, "nodeName": node, "pool": {**spec["pool"], "name": node}}
                name = one["metadata"]["name"].replace(like, node)
                yield {**_HEAD_OF_SLICE, "metadata": {"name": name}, "spec": spec}

    # Watching

    def pods(self) -> list[Json]:
        """The pods of what was asked for."""
        kind, _, name = self.instance.ask.partition("/")
        return [one for one in self.cluster.store.within(PODS, NAMESPACE) if self._belongs(one, kind, name)]

    def _belongs(self, pod: Json, kind: str, name: str) -> bool:
        if kind == "pod":
            return bool(pod["metadata"]["name"] == name)
        if kind == "podgroup":
            return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == name
        owners = pod["metadata"].get("ownerReferences") or ()
        if kind != "deployment":
            return any(one["kind"].lower() == kind and one["name"] == name for one in owners)
        sets = self.cluster.store.within(REPLICA_SETS, NAMESPACE)
        mine = {
            one["metadata"]["name"]
            for one in sets
            if any(owner["name"] == name for owner in one["metadata"].get("ownerReferences") or ())
        }
        return any(one["kind"] == "ReplicaSet" and one["name"] in mine for one in owners)

    def running(self) -> int:
        """The number of these pods that run and are ready, or have done so and succeeded."""
        return sum(1 for pod in self.pods() if _runs(pod))


def _runs(pod: Json) -> bool:
    status = pod["status"]
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    return status.get("phase") == "Succeeded" or conditions.get("Ready") == "True"


@contextmanager
def world(instance: Instance) -> Iterator[World]:
    """A cluster with a trouble, from its beginning until the block ends."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop()
        found = World(runner, instance)
        with running(runner, found.cluster):
            found.begin()
            yield found
