"""A small varied workload, narrated: the requests, the nodes chosen, and the reasons."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from stowplan.api.catalogue import DEPLOYMENTS, EVENTS, JOBS, PODS, PRIORITY_CLASSES, STATEFUL_SETS
from stowplan.api.requests import Json
from stowplan.explain.layout import hanging
from stowplan.explain.terminal.pod import render
from stowplan.localcluster.up.cluster import LocalCluster

NAMESPACE: Final = "default"
PATIENCE: Final = 30.0
"""Seconds after which a step is narrated as it stands."""

_ZONE: Final = "topology.kubernetes.io/zone"
_HOSTNAME: Final = "kubernetes.io/hostname"
_IMAGE: Final = "registry.k8s.io/pause:3.10"


async def narrate(cluster: LocalCluster) -> AsyncIterator[str]:
    """Apply the workload step by step; yields the lines of the story."""
    story = _Story(cluster)
    async for line in story.lines():
        yield line


class _Story:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store

    async def lines(self) -> AsyncIterator[str]:
        yield "Six web servers, spread over zones, and a database with pod anti-affinity by hostname:"
        self._store.create(
            DEPLOYMENTS, _deployment("web", 6, cpu="500m", topologySpreadConstraints=[_spread("web")])
        )
        self._store.create(STATEFUL_SETS, _stateful_set("db", 3, cpu="1", affinity=_apart("db")))
        await self._until(lambda: self._count("web", "Running") >= 6 and self._count("db", "Running") >= 3)
        yield f"  web  {self._where('web')}"
        yield f"  db   {self._where('db')}"
        yield ""
        yield "A job of four pods:"
        self._store.create(JOBS, _job("report", 4, cpu="250m"))
        await self._until(lambda: self._count("report", "Succeeded") >= 4)
        yield f"  report  {self._count('report', 'Succeeded')} of 4 done"
        yield ""
        yield "A pod that requests more CPU than any node has:"
        self._store.create(PODS, _pod("giant", cpu="1000"))
        await self._until(lambda: bool(self._message("giant")))
        for line in hanging("  giant is pending: ", self._message("giant")):
            yield line
        yield ""
        async for line in self._push_in():
            yield line
        yield ""
        for question, name in (("Why is giant pending", "giant"), ("Why is urgent on its node", "urgent")):
            explained = await self._cluster.routes.inspection.pod(NAMESPACE, name)
            if explained is not None:
                yield f"{question}?   stowplan explain pod/{name}"
                yield ""
                for line in render(explained).rstrip().splitlines():
                    yield f"  {line}"
                yield ""

    async def _push_in(self) -> AsyncIterator[str]:
        nodes = self._cluster.scheduler.context.cache.table.node_count
        yield "Low-priority pods fill the cluster, then a high-priority pod arrives:"
        self._store.create(PRIORITY_CLASSES, _priority("urgent", 1000))
        self._store.create(PRIORITY_CLASSES, _priority("unimportant", -10))
        self._store.create(
            DEPLOYMENTS, _deployment("filler", nodes * 8, cpu="1", priorityClassName="unimportant")
        )
        await self._until(lambda: self._count("filler", "Pending") > 0 and self._all_tried("filler"))
        self._store.create(PODS, _pod("urgent", cpu="3", priorityClassName="urgent"))
        await self._until(lambda: self._count("urgent", "Running") > 0)
        gone = [event["regarding"]["name"] for event in self._events("Preempted")]
        yield f"  urgent runs on {self._node_of('urgent')}; {len(gone)} low-priority pods were preempted"

    async def _until(self, holds: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return

    def _pods(self, app: str) -> list[Json]:
        return [
            pod
            for pod in self._store.list(PODS, NAMESPACE).items
            if pod["metadata"].get("labels", {}).get("app") == app
        ]

    def _count(self, app: str, phase: str) -> int:
        return sum(pod["status"].get("phase") == phase for pod in self._pods(app))

    def _all_tried(self, app: str) -> bool:
        pods = self._pods(app)
        return all(pod["spec"].get("nodeName") or pod["status"].get("conditions") for pod in pods)

    def _where(self, app: str) -> str:
        by_node = Counter(pod["spec"].get("nodeName", "nowhere yet") for pod in self._pods(app))
        return ", ".join(f"{node} {count}" for node, count in sorted(by_node.items()))

    def _node_of(self, name: str) -> str:
        node: str = self._store.get(PODS, NAMESPACE, name)["spec"].get("nodeName", "no node yet")
        return node

    def _message(self, name: str) -> str:
        conditions = self._store.get(PODS, NAMESPACE, name)["status"].get("conditions", [])
        return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")

    def _events(self, reason: str) -> list[Json]:
        return [event for event in self._store.list(EVENTS, NAMESPACE).items if event.get("reason") == reason]


def _template(app: str, cpu: str, **spec: Any) -> Json:
    container = {"name": "main", "image": _IMAGE, "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def _pod(name: str, cpu: str, **spec: Any) -> Json:
    made = _template(name, cpu, **spec)
    return {"metadata": {"name": name, "namespace": NAMESPACE, **made["metadata"]}, "spec": made["spec"]}


def _deployment(name: str, replicas: int, cpu: str, **spec: Any) -> Json:
    return _scaled(name, {"replicas": replicas, "template": _template(name, cpu, **spec)})


def _stateful_set(name: str, replicas: int, cpu: str, **spec: Any) -> Json:
    template = _template(name, cpu, **spec)
    return _scaled(
        name,
        {"replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel", "template": template},
    )


def _scaled(name: str, spec: Json) -> Json:
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"selector": selector, **spec}}


def _job(name: str, pods: int, cpu: str) -> Json:
    template = _template(name, cpu, restartPolicy="Never")
    spec = {"completions": pods, "parallelism": pods, "template": template}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _priority(name: str, value: int) -> Json:
    return {"metadata": {"name": name}, "value": value}


def _spread(app: str) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": _ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _apart(app: str) -> Json:
    term = {"topologyKey": _HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
