"""A whole cluster in virtual time that acts on JobSets and LeaderWorkerSets, for stories about them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any

import yaml

from stowplan.api.catalogue import EVENTS, JOBS, PODS, Resource
from stowplan.api.gates.feature_gates import DEFAULT_GATES, gates_with
from stowplan.api.pod_groups import GATES
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.config import default_config
from stowplan.localcluster.kubelets import KubeletSettings, NodeShape
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Settings

NAMESPACE = "default"
PATIENCE = 120.0
Story = Callable[["SetCluster"], Awaitable[None]]


class SetCluster:
    """A running cluster, with short words for what stories do."""

    def __init__(self, cluster: LocalCluster, clock: VirtualClock, problems: list[str]) -> None:
        self.store = cluster.store
        self.problems = problems
        self._clock = clock

    def kind(self, dotted: str) -> Resource:
        found = self.store.catalogue.named(dotted)
        assert found is not None, f"{dotted} is not defined"
        return found

    def apply(self, text: str) -> None:
        for body in yaml.safe_load_all(text):
            resource = self.store.catalogue.of_kind(body["apiVersion"], body["kind"])
            assert resource is not None, body["kind"]
            self.store.create(resource, body, NAMESPACE)

    def get(self, resource: Resource, name: str) -> Json:
        return self.store.get(resource, NAMESPACE, name)

    def patch(self, resource: Resource, name: str, patch: Json) -> None:
        self.store.patch(resource, NAMESPACE, name, patch, PatchType.MERGE)

    def delete(self, resource: Resource, name: str) -> None:
        self.store.delete(resource, NAMESPACE, name, DeleteOptions())

    def names(self, resource: Resource, **labels: str) -> list[str]:
        return [one["metadata"]["name"] for one in self.all(resource, **labels)]

    def all(self, resource: Resource, **labels: str) -> list[Json]:
        """Objects in the namespace, those with some labels; `_` in their names stands for `-`."""
        wanted = {name.replace("_", "-"): value for name, value in labels.items()}
        return [
            one
            for one in self.store.list(resource, NAMESPACE).items
            if wanted.items() <= _short(one["metadata"].get("labels") or {}).items()
        ]

    def pods(self, phase: str = "", **labels: str) -> list[str]:
        """Names of pods without their random suffix."""
        found = [one for one in self.all(PODS, **labels) if phase in ("", one["status"].get("phase"))]
        return sorted(_without_suffix(one) for one in found if "deletionTimestamp" not in one["metadata"])

    def events(self, about: str) -> list[tuple[str, str]]:
        found = self.store.list(EVENTS, NAMESPACE).items
        return [(one["reason"], one["note"]) for one in found if one["regarding"]["name"] == about]

    async def until(self, holds: Callable[[], Any], seconds: float = PATIENCE) -> None:
        end = self._clock.now() + seconds
        while not holds():
            assert self._clock.now() < end, f"still not so after {seconds} s: {self.problems[-5:]}"
            await asyncio.sleep(0.2)

    async def settle(self, seconds: float = 3.0) -> None:
        await asyncio.sleep(seconds)


def _short(labels: dict[str, str]) -> dict[str, str]:
    return {key.rpartition("/")[2]: value for key, value in labels.items()}


def _without_suffix(pod: Json) -> str:
    name: str = pod["metadata"]["name"]
    owner = pod["metadata"].get("ownerReferences", [{}])[0]
    return name.rpartition("-")[0] if owner.get("kind") == JOBS.kind else name


def conditions_of(obj: Json) -> dict[str, tuple[str, str]]:
    """Status and reason by type."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def play(
    story: Story,
    add_ons: Collection[AddOn] = (AddOn.JOBSET, AddOn.LWS),
    *,
    gangs: bool = False,
    shapes: tuple[NodeShape, ...] = (NodeShape(count=3, zones=("a", "b", "c")),),
) -> None:
    async def begin(clock: VirtualClock) -> None:
        gates = gates_with(GATES) if gangs else DEFAULT_GATES
        quick = replace(KubeletSettings(), start_delay=1.0, start_jitter=0.0, stop_delay=0.2)
        plan = ClusterPlan(
            shapes=shapes,
            settings=Settings.of(default_config(gates)),
            kubelets=quick,
            seed=0,
            add_ons=frozenset(add_ons),
        )
        problems: list[str] = []
        cluster = LocalCluster(plan, clock=clock, report=problems.append)
        async with cluster.running(listen=False):
            await story(SetCluster(cluster, clock, problems))
        assert problems == []

    run(begin)
