"""Exits of schedulers in recordings, and the same stories with ours.

Every story has a separate process, but all share one API server: separate leases keep them from waiting for
each other.
"""

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from observed.files import recorded
from server.process.guarded_cluster import Act, GuardedCluster, broken, guarded_cluster, hanging, reset
from server.process.process_lives import ask
from server.process.processes import RunningScheduler
from stowplan.api.catalogue import LEASES
from stowplan.api.meta import micro_timestamp
from stowplan.runtime.clock import RealClock
from stowplan.testing.ports import free_port
from waiting import eventually

CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in recorded("cli/cases")}
AT_ONCE = 3
"""Number of processes that are started at the same time."""

SHORT = [
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
]
ELECTED = "Successfully acquired lease"
STARTED = "Starting Kubernetes Scheduler"
_HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
_NODE_AFFINITY = (
    "profiles: [{schedulerName: a, plugins: {%s: {enabled: [{name: NodeAffinity, weight: %d}]}}}]\n"
)
FILES = {
    "both.yaml": "leaderElection: {leaderElect: false}\n",
    "le.yaml": "leaderElection: {leaderElect: true}\n",
    "w0.yaml": f"leaderElection: {{leaderElect: false}}\n{_NODE_AFFINITY % ('score', 0)}",
    "wov.yaml": _NODE_AFFINITY % ("multiPoint", 2**31 - 1),
}


@dataclass
class Outcome:
    """How a process ended, what it said, how long it took after what ended it, and how it felt meanwhile."""

    code: int
    log: list[str]
    seconds: float = 0.0
    health: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Scene:
    """A process and what it lives in."""

    name: str
    place: GuardedCluster
    scheduler: RunningScheduler
    port: int
    health: list[tuple[int, str]] = field(default_factory=list)

    @property
    def lease(self) -> str:
        return f"/leases/{self.name}"

    def asked_for_lease(self, method: str) -> int:
        return sum(one.method == method and one.path.endswith(self.lease) for one in self.place.door.asked)

    async def more_asked_for_lease(self, method: str) -> None:
        before = self.asked_for_lease(method)
        await eventually(
            lambda: self.asked_for_lease(method) > before,
            lambda: f"{self.name}: no {method}\n{self.scheduler.log}",
        )


Play = Callable[[Scene], Awaitable[None]]


def told(what: str, *numbers: signal.Signals) -> Play:
    """Wait for a line, then send signals."""

    async def play(scene: Scene) -> None:
        await scene.scheduler.says(what)
        for number in numbers or (signal.SIGTERM,):
            scene.scheduler.signal(number)
            await asyncio.sleep(0.002)

    return play


def without_lease(act: Act) -> Play:
    """A leader whose requests for the lease go wrong from some moment on."""

    async def play(scene: Scene) -> None:
        await scene.scheduler.says(ELECTED)
        await scene.more_asked_for_lease("PUT")
        scene.place.door.rules[scene.lease] = act

    return play


async def unwell_lease(scene: Scene) -> None:
    """As above; who asks for its health meanwhile hears that all is well, as the process ends by itself."""
    await without_lease(broken)(scene)
    await scene.scheduler.says("Failed to update lease optimistically")
    answers = await ask(scene.port, "anonymous", ["/healthz?verbose"])
    scene.health = [(one.code, one.text) for one in answers.values()]


async def interrupted_leader(scene: Scene) -> None:
    """A second signal comes while the lease is being given back, which takes long."""
    await scene.scheduler.says(ELECTED)
    await scene.more_asked_for_lease("PUT")
    scene.place.door.rules[scene.lease] = hanging
    scene.scheduler.signal(signal.SIGINT)
    await scene.more_asked_for_lease("GET")
    scene.scheduler.signal(signal.SIGINT)


async def alone(scene: Scene) -> None:
    """It ends by itself."""


PLAYS: dict[str, Play] = {
    "config-score-weight-zero-ok": told(STARTED),
    "config-weight-overflow": told(ELECTED),
    "config-and-deprecated-flags": told(STARTED),
    "leader-elect-flag-over-config": told("Caches populated"),
    "unreachable-server-leader-elect": told("Failed to watch.*connection refused"),
    "unreachable-server-no-leader-elect": told("Failed to watch.*connection refused"),
    "unreachable-server-authn-lookup": told("Failed to watch.*connection refused"),
    "authn-lookup-intolerant": alone,
    "port-in-use": alone,
    "cert-file-missing": alone,
    "bad-token-401": told("Failed to watch.*pods: Unauthorized"),
    "no-rbac-403": told("Failed to watch.*pods is forbidden"),
    "signal-sigint-leader": told(ELECTED, signal.SIGINT),
    "signal-sigterm-candidate": told("New leader observed"),
    "signal-sigint-twice": told("Caches populated", signal.SIGINT, signal.SIGINT),
    "signal-sigint-twice-leader": interrupted_leader,
    "lease-lost-connection-reset": without_lease(reset),
    "lease-lost-renew-500": unwell_lease,
    "lease-lost-renew-hangs": without_lease(hanging),
}


async def all_endings(folder: Path) -> dict[str, Outcome]:
    """Every story, a few of them at the same time."""
    turns = asyncio.Semaphore(AT_ONCE)
    slow_first = sorted(PLAYS, key=lambda name: not name.startswith("lease-lost"))
    async with guarded_cluster(folder) as place:
        resolve_config(place)

        async def one(name: str) -> Outcome:
            async with turns:
                return await outcome(name, place)

        return dict(zip(slow_first, await asyncio.gather(*map(one, slow_first)), strict=True))


def resolve_config(place: GuardedCluster) -> None:
    """Files with the recorded names, and a lease with another holder."""
    for name in ("sched.kubeconfig", "sched-direct.kubeconfig"):
        place.kubeconfig(name)
    place.kubeconfig("badtok.kubeconfig", token="made-up")
    place.kubeconfig("norbac.kubeconfig", **{"as": "nobody"})
    unreachable = place.kubeconfig("unreach.kubeconfig")
    unreachable.write_text(unreachable.read_text().replace(place.server.url, "https://127.0.0.1:1"))
    client = f"clientConnection: {{kubeconfig: {place.folder}/sched-direct.kubeconfig}}\n"
    for name, text in FILES.items():
        (place.folder / name).write_text(f"{_HEADER}{client}{text}")
    now = micro_timestamp(RealClock().now())
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    metadata = {"name": "signal-sigterm-candidate", "namespace": "kube-system"}
    place.store.create(LEASES, {"metadata": metadata, "spec": spec})


async def outcome(name: str, place: GuardedCluster) -> Outcome:
    port = free_port()
    with ExitStack() as stack:
        if name == "port-in-use":
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        scheduler = await place.start(*arguments(name, place.folder, port))
        scene = Scene(name, place, scheduler, port)
        await PLAYS[name](scene)
        began = time.monotonic()
        code = await scheduler.ends()
        return Outcome(code, scheduler.lines, time.monotonic() - began, scene.health)


def arguments(name: str, folder: Path, port: int) -> list[str]:
    """The recorded ones, with a port that is free, a lease of their own and less patience about it."""
    given = [one.replace("$DIR", str(folder)) for one in CASES[name]["argv"][1:]]
    for number, one in enumerate(given):
        if one == "--secure-port" and given[number + 1] != "0":
            given[number + 1] = str(port)
        elif one.startswith("--secure-port=") and one != "--secure-port=0":
            given[number] = f"--secure-port={port}"
    if name == "cert-file-missing":
        given.append("--bind-address=127.0.0.1")
    lease = [f"--leader-elect-resource-name={name}", *SHORT]
    return [*given, *lease]
