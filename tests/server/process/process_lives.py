"""Whole lives of schedulers as processes, told once for all tests: a leader with a standby, and others.

A story is lived before any test looks at it, and what is left of it is plain data.
"""

import asyncio
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from observed.files import recorded
from scheduler.recording_client import Write
from server.process.guarded_cluster import TOKENS, Asked, GuardedCluster, broken, delegating, guarded_cluster
from server.process.processes import RunningScheduler
from server.serving.secureports import Authority, authentication_settings_in, trusting_all
from stowplan.api.catalogue import NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from stowplan.api.requests import DeleteOptions
from stowplan.testing.ports import free_port
from waiting import eventually

RENEWAL = ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
CODES: dict[str, dict[str, int]] = recorded("ports/codes")
LABELS = {"topology.kubernetes.io/zone": "z1"}
_PREEMPTS = "PreemptLowerPriority"
CLASSES = {"low": (10, _PREEMPTS), "high": (1000, _PREEMPTS), "polite": (1000, "Never")}
SCENARIOS = {
    "obs-a": ("a-plain-bind",),
    "obs-b": ("b-unschedulable", "b-no-nodes"),
    "obs-c": ("c-pending", "c-node-added"),
    "obs-d": ("d-fill", "d-preempt", "d-victims-gone", "d-policy-never"),
}


@dataclass(frozen=True)
class Answer:
    code: int
    content_type: str
    text: str


Answers = dict[tuple[str, str], Answer]
"""Answers of a port, by caller and path."""


@dataclass
class Ended:
    """A scheduler that is no more: what it was asked, what it said, and how it ended."""

    answers: Answers
    log: list[str]
    code: int


@dataclass
class Lives:
    """A leader and its standby, and what their API server was asked: at the start of the leader, and in all.

    `writes` are those of the recorded scenarios, by namespace.
    """

    leader: Ended
    standby: Ended
    at_start: list[Asked]
    asked: list[Asked]
    writes: dict[str, list[Write]]


async def leader_and_standby(folder: Path) -> Lives:
    """A leader goes through the recorded scenarios a to d; a standby comes, and both end."""
    async with guarded_cluster(folder) as place:
        clients = Authority("cluster-ca")
        authentication_settings_in(place.store, clients.pem)
        port, other = free_port(), free_port()
        leader = await place.start(*delegating(place.kubeconfig(), port))
        await leader.says("Successfully acquired lease")
        await eventually(lambda: _first_renewal(place) > 0, lambda: "no lease was renewed")
        at_start = place.door.asked[: _first_renewal(place) + 1]
        joining = asyncio.create_task(_standby(place, other))
        await _scenarios(place)
        standby = await joining
        answers = await ask_all(port, CODES)
        answers |= await ask_all(port, INSPECTION, ["anonymous", "system:masters"])
        context = clients.issue("admin", "system:masters").context(folder)
        answers |= await ask(port, "client-certificate", ["/metrics"], context)
        quiet = await ask_all(other, CODES, ["system:masters"])
        standby.signal(signal.SIGUSR2)
        await standby.says("Dump of scheduling queue")
        ended_standby = await ended(standby, quiet)
        ended_leader = await ended(leader, answers)
        asked = place.door.asked
        writes = {space: _writes(space, asked) for space in SCENARIOS}
        return Lives(ended_leader, ended_standby, at_start, asked, writes)


def _first_renewal(place: GuardedCluster) -> int:
    """When the lease was first renewed, as a number among the requests; 0 if it was not."""
    renewals = (
        number
        for number, one in enumerate(place.door.asked)
        if one.code and (one.method, one.path) == RENEWAL
    )
    return next(renewals, 0)


async def _standby(place: GuardedCluster, port: int) -> RunningScheduler:
    flags = delegating(place.kubeconfig("standby"), port)
    standby = await place.start(*flags, "--logging-format=json")
    await standby.says("Attempting to acquire leader lease")
    return standby


INSPECTION = ("/stowplan/v1", "/stowplan/v1/nodes", "/stowplan/v1/pods", "/stowplan/v1/queue", "/stowplan/")
"""Paths that only stowplan has."""


async def ended(scheduler: RunningScheduler, answers: Answers) -> Ended:
    scheduler.signal(signal.SIGTERM)
    return Ended(answers, scheduler.lines, await scheduler.ends())


# Asking


async def ask_all(port: int, paths: Iterable[str], callers: Iterable[str] = TOKENS) -> Answers:
    found: Answers = {}
    for caller in callers:
        found |= await ask(port, caller, paths)
    return found


async def ask(port: int, caller: str, paths: Iterable[str], context: Any = None) -> Answers:
    token = TOKENS.get(caller, "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    found: Answers = {}
    connector = aiohttp.TCPConnector(ssl=context or trusting_all())
    async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
        for path in paths:
            async with session.get(path, headers=headers) as answer:
                kind = answer.headers.get("Content-Type", "")
                found[caller, path] = Answer(answer.status, kind, await answer.text())
    return found


# The recorded scenarios


async def _scenarios(place: GuardedCluster) -> None:
    for name, (value, policy) in CLASSES.items():
        metadata = {"name": name}
        place.store.create(
            PRIORITY_CLASSES, {"metadata": metadata, "value": value, "preemptionPolicy": policy}
        )
    for space in SCENARIOS:
        place.store.create(NAMESPACES, {"metadata": {"name": space}})
    await _bound(place)
    await _fits_nowhere(place)
    await _fits_later(place)
    await _preempts(place)


async def _bound(place: GuardedCluster) -> None:
    add_node(place, "node-a1")
    add_pod(place, "obs-a", "plain")
    await _written(place, "obs-a", "a-plain-bind")
    await _clear(place, "obs-a", "plain", nodes=["node-a1"])


async def _fits_nowhere(place: GuardedCluster) -> None:
    add_node(place, "node-b1", cpu="2")
    taint = {"key": "example.com/mine", "value": "0", "effect": "NoSchedule"}
    add_node(place, "node-b2", spec={"taints": [taint]})
    add_pod(place, "obs-b", "big", cpu="4")
    await _written(place, "obs-b", "b-unschedulable")
    await _clear(place, "obs-b", "big", nodes=["node-b1", "node-b2"])
    add_pod(place, "obs-b", "nonodes")
    await _written(place, "obs-b", "b-unschedulable", "b-no-nodes")
    await _clear(place, "obs-b", "nonodes")


async def _fits_later(place: GuardedCluster) -> None:
    add_node(place, "node-c1", cpu="2")
    add_pod(place, "obs-c", "waiter", cpu="4")
    await _written(place, "obs-c", "c-pending")
    add_node(place, "node-c2", cpu="8")
    await _written(place, "obs-c", "c-pending", "c-node-added")
    await _clear(place, "obs-c", "waiter", nodes=["node-c1", "node-c2"])


async def _preempts(place: GuardedCluster) -> None:
    add_node(place, "node-d1")
    done = ["d-fill"]
    for number, name in enumerate(("low-1", "low-2"), 1):
        add_pod(place, "obs-d", name, cpu="2", priorityClassName="low")
        await _wrote(place, "obs-d", 2 * number)
        running = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
        place.store.patch(PODS, "obs-d", name, running, subresource="status")
    add_pod(place, "obs-d", "high", cpu="3", priorityClassName="high")
    done.append("d-preempt")
    await _written(place, "obs-d", *done)
    for name in ("low-1", "low-2"):
        _delete(place, "obs-d", name)
        await asyncio.sleep(0.1)
    done.append("d-victims-gone")
    await _written(place, "obs-d", *done)
    add_pod(place, "obs-d", "never", cpu="3", priorityClassName="polite")
    await _written(place, "obs-d", *done, "d-policy-never")


def add_node(place: GuardedCluster, name: str, cpu: str = "4", **node: Any) -> None:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": room, "allocatable": room, "conditions": ready}
    place.store.create(NODES, {"metadata": {"name": name, "labels": LABELS}, **node, "status": status})


def add_pod(place: GuardedCluster, namespace: str, name: str, cpu: str = "1", **spec: Any) -> None:
    requests = {"cpu": cpu, "memory": "128Mi"}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": namespace}
    place.store.create(PODS, {"metadata": metadata, "spec": {"containers": [container], **spec}})


def _delete(place: GuardedCluster, namespace: str, name: str) -> None:
    place.store.delete(PODS, namespace, name, DeleteOptions(grace_period_seconds=0))


async def _clear(place: GuardedCluster, namespace: str, pod: str, nodes: Iterable[str] = ()) -> None:
    _delete(place, namespace, pod)
    for node in nodes:
        place.store.delete(NODES, "", node)
    await asyncio.sleep(0.1)


def _writes(namespace: str, asked: Iterable[Asked]) -> list[Write]:
    return [
        Write(one.at, one.method, one.path, one.content_type, one.body, one.code)
        for one in asked
        if one.is_write and f"/namespaces/{namespace}/" in one.path
    ]


async def _written(place: GuardedCluster, namespace: str, *scenarios: str) -> None:
    await _wrote(place, namespace, sum(len(recorded("wire/writes")[one]) for one in scenarios))


async def _wrote(place: GuardedCluster, namespace: str, count: int) -> None:
    def enough() -> bool:
        return len([one for one in _writes(namespace, place.door.asked) if one.code]) >= count

    await eventually(enough, lambda: f"{count} writes expected, got {_writes(namespace, place.door.asked)}")


# Lives without election


async def without_election(folder: Path) -> dict[str, Ended]:
    """Three schedulers: one without users, one that shows metrics to all, one that cannot see pods."""
    async with guarded_cluster(folder) as place:
        config = place.kubeconfig()
        blind = place.kubeconfig("blind")
        add_node(place, "node-u1")
        place.store.create(NAMESPACES, {"metadata": {"name": "obs-dump"}})
        add_pod(place, "obs-dump", "small", nodeName="node-u1")
        add_pod(place, "obs-dump", "toolarge", cpu="100")
        add_pod(place, "obs-dump", "gated", schedulingGates=[{"name": "example.com/gate"}])
        lonely, open_ = await asyncio.gather(_lonely(place, config), _open(place, config))
        return {"lonely": lonely, "open": open_, "blind": await _blind(place, blind)}


async def _lonely(place: GuardedCluster, config: Path) -> Ended:
    """Nobody tells it who asks. It is sent every signal there is."""
    port = free_port()
    flags = [f"--kubeconfig={config}", "--bind-address=127.0.0.1", f"--secure-port={port}", "-v=2"]
    scheduler = await place.start(*flags, "--leader-elect=false")
    await scheduler.says("Unable to schedule pod; no fit; waiting")
    answers = await ask_all(
        port, ["/healthz", "/metrics", "/configz", "/nosuch"], ["anonymous", "system:masters"]
    )
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        scheduler.signal(number)
    await scheduler.says("Dump of scheduling queue")
    scheduler.signal(signal.SIGHUP)
    await scheduler.says("Configuration was not reloaded")
    return await ended(scheduler, answers)


async def _open(place: GuardedCluster, config: Path) -> Ended:
    port = free_port()
    allowed = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"
    more = ("--leader-elect=false", "--profiling=false", "--logging-format=json", allowed)
    scheduler = await place.start(*delegating(config, port), *more)
    await scheduler.says("Unable to schedule pod; no fit; waiting")
    health = ["/healthz?verbose", "/livez?verbose", "/readyz?verbose", "/healthz", "/readyz"]
    others = ["/metrics/slis", "/configz", "/debug/pprof/", "/debug/flags/v", "/metrics"]
    answers = await ask_all(port, [*health, *others], ["anonymous", "system:masters"])
    scheduler.signal(signal.SIGUSR2)
    await scheduler.says("Dump of scheduling queue")
    return await ended(scheduler, answers)


async def _blind(place: GuardedCluster, config: Path) -> Ended:
    place.door.rules["/api/v1/pods"] = broken
    port = free_port()
    scheduler = await place.start(*delegating(config, port), "--leader-elect=false")
    await scheduler.says("Failed to watch.*pods")
    await scheduler.says("Serving securely on")
    health = ["/healthz?verbose", "/livez?verbose", "/readyz?verbose", "/healthz", "/readyz"]
    others = ["/readyz/sched-handler-sync", "/readyz/shutdown", "/metrics/slis"]
    answers = await ask_all(port, [*health, *others], ["anonymous", "system:masters"])
    return await ended(scheduler, answers)
