"""Kill and pause campaigns: scheduler processes with leader election, one fault a round, pods all the time.

A round creates pods, injects one fault, ends it, waits until all pods are bound and compares. Random choices
come from the seed of the round; real time does not repeat, so a failing round reproduces only to that extent.
"""

import asyncio
import math
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from stowplan.lab.chaos.campaign_claims import UNREACHABLE, CampaignClaims
from stowplan.lab.chaos.processes import JITTER, LEASE, RETRY, Json, SchedulerProcess, ServerProcess
from stowplan.testing.ports import free_port
from stowplan.testing.processes import Process

NODES: Final = 12
PODS_PER_NODE: Final = 8
PODS: Final = NODES * PODS_PER_NODE - 6
"""Pods of a round: nearly as many as fit, so that a node that is counted wrongly shows."""

PODS_PER_SECOND: Final = 30.0
MARGIN: Final = 3.0
"""Seconds on top of what the settings of the election allow, for starting and for a busy machine."""

LEADER_WITHIN: Final = LEASE + RETRY * (1 + JITTER) + MARGIN
STARTED_WITHIN: Final = 6.0
"""Seconds that a process may need from its start to its first try for the lease."""

ALL_BOUND_WITHIN: Final = 60.0
GROWTH: Final = 1.25
"""By how much the memory of a process may grow once it has warmed up, as long as it lives."""
OVERLOADED: Final = 1.5
"""Seconds by which the campaign's own timers may be late before a round counts as inconclusive."""

_LEASE_PATH: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_PODS_PATH: Final = "/api/v1/namespaces/default/pods"
_LOST: Final = "lost"


@dataclass(slots=True)
class Life:
    """The memory of one process from its start to its end, in bytes after every round."""

    process: str
    pid: int
    warm: int
    """Rounds after which it has warmed up."""
    resident: list[int] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Final memory as a ratio of the memory after warm-up."""
        return self.resident[-1] / self._when_warm

    @property
    def _when_warm(self) -> int:
        return self.resident[min(self.warm, len(self.resident)) - 1]

    def __str__(self) -> str:
        shown = " → ".join(f"{size / 2**20:.0f}" for size in (self._when_warm, self.resident[-1]))
        return f"{self.process}: {shown} MiB in {len(self.resident)} rounds"


@dataclass(slots=True)
class RoundResult:
    """Result of one round."""

    number: int
    seed: str
    fault: str
    bound: int = 0
    claims: int = 0
    """Claims that have devices at the end of the round."""
    without_leader: float = 0.0
    """The longest time without a renewal of the lease while the API server could be reached."""
    exits: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    overloaded: bool = False

    def __str__(self) -> str:
        state = "ok" if not self.findings else "; ".join(self.findings)
        ended = f", ended: {', '.join(self.exits)}" if self.exits else ""
        slow = ", machine overloaded" if self.overloaded else ""
        return (
            f"round {self.number} (seed {self.seed}) {self.fault}: {self.bound} bound, {self.claims} claims, "
            f"at most {self.without_leader:.1f} s without a leader{ended}{slow}: {state}"
        )


@dataclass(slots=True)
class CampaignResult:
    rounds: list[RoundResult] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    """Of every process that has lived through a round."""

    def longest(self) -> list[Life]:
        """The longest life of every process, by name."""
        found: dict[str, Life] = {}
        for life in self.lives:
            if life.process not in found or len(life.resident) > len(found[life.process].resident):
                found[life.process] = life
        return [found[name] for name in sorted(found)]

    @property
    def failed(self) -> list[RoundResult]:
        return [one for one in self.rounds if one.findings]


Fault = Callable[["_Campaign", Random], Awaitable[None]]


def run_campaign(
    seeds: Iterable[str],
    *,
    schedulers: int = 2,
    faults: Sequence[str] = (),
    show: Callable[[RoundResult], None] = lambda result: None,
) -> CampaignResult:
    """Run one round per seed; `faults` are the names to choose from (none: all of them)."""

    async def main() -> CampaignResult:
        with tempfile.TemporaryDirectory() as folder:
            campaign = _Campaign(Path(folder), schedulers)
            try:
                await campaign.start()
                result = CampaignResult(lives=campaign.lives)
                for number, seed in enumerate(seeds, start=1):
                    result.rounds.append(await campaign.round(number, seed, faults or tuple(FAULTS)))
                    show(result.rounds[-1])
                return result
            finally:
                await campaign.close()

    return asyncio.run(main())


class _Campaign:
    def __init__(self, folder: Path, schedulers: int) -> None:
        self.server = ServerProcess(folder, free_port())
        self.schedulers = [SchedulerProcess(one, folder, self.server.port) for one in range(schedulers)]
        names = [f"node-{number}" for number in range(NODES)]
        self.claims = CampaignClaims(self.server, names, PODS_PER_NODE, self.server.kubeconfig)
        self.lives: list[Life] = []
        self._where: dict[str, str] = {}
        self._result = RoundResult(0, "", "start")
        self._renewed = ("", 0.0)
        self._tasks: list[asyncio.Task[None]] = []
        self.reachable_since = 0.0
        """When the API server was last started; without a leader counts from then."""

    async def start(self) -> None:
        await self.start_server()
        for number in range(NODES):
            await self.server.request("POST", "/api/v1/nodes", _node(number))
        await self.claims.start()
        for one in self.schedulers:
            await one.start()
        self._renewed = ("", time.monotonic())
        self._tasks = [asyncio.create_task(self._supervise()), asyncio.create_task(self._follow_lease())]
        await self.leader()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.claims.close()
        for one in self.schedulers:
            await one.close()
        await self.server.close()

    async def start_server(self) -> None:
        await self.server.start()
        self.reachable_since = time.monotonic()

    async def leader(self) -> SchedulerProcess:
        """The process that leads, once there is one, and every other is a warm standby.

        A process that was restarted a moment ago is none: the time until the next leader would be that of a
        start.
        """
        deadline = time.monotonic() + ALL_BOUND_WITHIN
        while time.monotonic() < deadline:
            now = time.monotonic()
            leading = [one for one in self.schedulers if one.leads and one.code is None]
            settled = all(one.may_lose_until < now and one.is_candidate for one in self.schedulers)
            if leading and settled and now - self._renewed[1] < LEASE / 2:
                return leading[-1]
            await asyncio.sleep(0.1)
        raise RuntimeError(f"there is no leader: {[one.lines[-2:] for one in self.schedulers]}")

    # One round

    async def round(self, number: int, seed: str, faults: Sequence[str]) -> RoundResult:
        rng = Random(f"round {seed}")
        name = rng.choice(sorted(faults))
        self._result = result = RoundResult(number, seed, name)
        self._renewed = (self._renewed[0], time.monotonic())
        creating = asyncio.create_task(self._create_pods(f"r{number}"))
        await asyncio.sleep(0.5 + rng.random())
        await FAULTS[name](self, rng)
        await creating
        await self._until_all_bound(f"r{number}")
        await self._check(f"r{number}")
        await self._delete_pods()
        for problem in await self.claims.end_round(f"r{number}"):
            self._find(problem)
        for process in (self.server, *self.schedulers):
            self._measure(process)
        return result

    def _measure(self, process: Process) -> None:
        """Note the memory of a process, which may not grow with the rounds it lives through."""
        resident = process.resident()
        if not resident:
            return
        life = next((one for one in self.lives if one.pid == process.pid), None)
        if life is None:
            life = Life(process.name, process.pid, process.warm_after)
            self.lives.append(life)
        life.resident.append(resident)
        if life.growth > GROWTH:
            self._find(f"memory grows: {life}")

    async def _create_pods(self, prefix: str) -> None:
        for path, body in self.claims.bodies(prefix, PODS):
            await self._create(path, body)
        for number in range(PODS):
            pod = self.claims.with_devices(_pod(f"{prefix}-{number}"), prefix, number)
            await self._create(_PODS_PATH, pod)
            await asyncio.sleep(1 / PODS_PER_SECOND)

    async def _create(self, path: str, body: Json) -> None:
        while True:
            try:
                await self.server.request("POST", path, body)
                return
            except UNREACHABLE:
                await asyncio.sleep(0.2)

    async def _until_all_bound(self, prefix: str) -> None:
        deadline = time.monotonic() + ALL_BOUND_WITHIN
        while time.monotonic() < deadline:
            pods = await self._pods()
            for problem in await self.claims.check_devices():
                self._find(problem)
            if sum(1 for pod in pods if pod["spec"].get("nodeName")) == PODS:
                return
            await asyncio.sleep(0.2)

    async def _pods(self) -> list[Json]:
        """All pods; notes where each is, and whether one has moved."""
        while True:
            try:
                listing = await self.server.request("GET", _PODS_PATH)
                break
            except UNREACHABLE:
                await asyncio.sleep(0.2)
        pods: list[Json] = listing["items"]
        for pod in pods:
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
            before = self._where.setdefault(uid, node)
            if before and node != before:
                self._find(f"pod {pod['metadata']['name']} moved from {before} to {node or 'nowhere'}")
            self._where[uid] = node
        return pods

    async def _check(self, prefix: str) -> None:
        pods = await self._pods()
        names = [pod["metadata"]["name"] for pod in pods]
        missing = PODS - len(set(names))
        if missing:
            self._find(f"{missing} pods are gone")
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        self._result.bound = len(bound)
        waiting = [_waiting(pod) for pod in pods if not pod["spec"].get("nodeName")]
        if waiting:
            shown = ", ".join(waiting[:3])
            self._find(f"{len(waiting)} pods are not bound after {ALL_BOUND_WITHIN:.0f} s: {shown}")
        for node, count in Counter(pod["spec"]["nodeName"] for pod in bound).items():
            if count > PODS_PER_NODE:
                self._find(f"{node} has {count} pods, and room for {PODS_PER_NODE}")
        for problem in await self.claims.check(pods):
            self._find(problem)
        failures = self.server.new_failures()
        if failures:
            self._find(f"the API server failed {len(failures)} times: {failures[0]}")
        self._result.claims = sum(1 for claim in await self.claims.all() if claim["status"].get("allocation"))
        await self._check_events(names)
        allowed = LEADER_WITHIN + (STARTED_WITHIN if self._result.fault in STARTING else 0.0)
        if self._result.without_leader > allowed and not self._result.overloaded:
            self._find(f"{self._result.without_leader:.1f} s without a leader, {allowed:.1f} s are allowed")

    async def _check_events(self, names: Sequence[str]) -> None:
        """No pod is reported as scheduled twice: two leaders would both have bound it."""
        events = await self.server.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        told = Counter(one["regarding"]["uid"] for one in events["items"] if one.get("reason") == "Scheduled")
        twice = [uid for uid, times in told.items() if times > 1]
        if twice:
            self._find(f"{len(twice)} pods were reported as scheduled twice")

    async def _delete_pods(self) -> None:
        await self.server.request("DELETE", f"{_PODS_PATH}?gracePeriodSeconds=0")
        await self.server.request("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events")
        self._where.clear()

    def _find(self, text: str) -> None:
        if text not in self._result.findings:
            self._result.findings.append(text)

    # Meanwhile

    async def _supervise(self) -> None:
        """Start again what has ended, as a kubelet would, and note what should not have ended."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.1)
            self._result.overloaded |= time.monotonic() - before > OVERLOADED
            for one in self.schedulers:
                if one.code is not None:
                    self._note_exit(one)
                    await one.start()

    def _note_exit(self, one: SchedulerProcess) -> None:
        code = one.code
        assert code is not None
        self._result.exits.append(f"{one.name} with {code}")
        lost = code == 1 and any(_LOST in line.lower() for line in one.lines)
        may_lose = time.monotonic() < one.may_lose_until or self._result.overloaded
        if code not in one.expected_codes and not (lost and may_lose):
            self._find(f"{one.name} ended with {code}: {' / '.join(one.lines[-2:])}")

    async def _follow_lease(self) -> None:
        """Measure the time without a renewal of the lease, while the API server is reachable."""
        while True:
            await asyncio.sleep(0.1)
            try:
                lease = await self.server.request("GET", _LEASE_PATH)
            except UNREACHABLE:
                continue
            spec: Mapping[str, str] = lease.get("spec") or {}
            renewed, now = f"{spec.get('holderIdentity')} {spec.get('renewTime')}", time.monotonic()
            if spec.get("holderIdentity") and renewed != self._renewed[0]:
                self._renewed = (renewed, now)
            since = max(self._renewed[1], self.reachable_since)
            self._result.without_leader = max(self._result.without_leader, now - since)


# Faults


@contextmanager
def _may_lose(*disturbed: SchedulerProcess) -> Iterator[None]:
    """Events in the block may cost processes the lease; they notice it some time afterwards."""
    for one in disturbed:
        one.may_lose_until = math.inf
    yield
    for one in disturbed:
        one.may_lose_until = time.monotonic() + LEASE + RETRY * (1 + JITTER) + MARGIN


async def _nothing(campaign: _Campaign, rng: Random) -> None:
    await asyncio.sleep(1)


async def _kill_leader(campaign: _Campaign, rng: Random) -> None:
    (await campaign.leader()).signal(signal.SIGKILL, expected=-signal.SIGKILL)


async def _kill_all(campaign: _Campaign, rng: Random) -> None:
    for one in campaign.schedulers:
        one.signal(signal.SIGKILL, expected=-signal.SIGKILL)


async def _pause_leader(campaign: _Campaign, rng: Random) -> None:
    leader = await campaign.leader()
    with _may_lose(leader):
        leader.signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE + RETRY + 1 + 2 * rng.random())
        leader.signal(signal.SIGCONT)


async def _cut_requests(campaign: _Campaign, rng: Random) -> None:
    await _cut(campaign, rng, to_server=True, to_client=False)


async def _cut_answers(campaign: _Campaign, rng: Random) -> None:
    await _cut(campaign, rng, to_server=False, to_client=True)


async def _half_open(campaign: _Campaign, rng: Random) -> None:
    await _cut(campaign, rng, to_server=True, to_client=True)


async def _cut(campaign: _Campaign, rng: Random, *, to_server: bool, to_client: bool) -> None:
    leader = await campaign.leader()
    with _may_lose(leader):
        leader.link.cut(to_server=to_server, to_client=to_client)
        await asyncio.sleep(rng.choice((1.0, LEASE + 2)))
        await leader.link.restore()


async def _refuse(campaign: _Campaign, rng: Random) -> None:
    leader = await campaign.leader()
    with _may_lose(leader):
        leader.link.refuse()
        await asyncio.sleep(rng.choice((1.0, LEASE + 2)))
        await leader.link.restore()


async def _step_clock(campaign: _Campaign, rng: Random) -> None:
    """Forwards or back, and after some seconds to where it was."""
    chosen = rng.choice(campaign.schedulers)
    chosen.step_clock(rng.choice((31_536_000.0, 3600.0, -60.0, -86_400.0)))
    await asyncio.sleep(1 + rng.random())
    chosen.step_clock(0.0)


async def _reload(campaign: _Campaign, rng: Random) -> None:
    leader = await campaign.leader()
    for backoff in range(2, 5):
        leader.write_config(backoff)
        leader.signal(signal.SIGHUP)
        await asyncio.sleep(rng.random() / 2)


async def _terminate(campaign: _Campaign, rng: Random) -> None:
    """SIGTERM to the leader, sometimes a second one while it shuts down: then it exits at once."""
    leader = await campaign.leader()
    leader.signal(signal.SIGTERM, expected=0)
    if rng.random() < 0.5:
        leader.signal(signal.SIGTERM, expected=1)


async def _restart_server(campaign: _Campaign, rng: Random) -> None:
    with _may_lose(*campaign.schedulers):
        await campaign.server.kill()
        await asyncio.sleep(rng.choice((0.0, 1.0, LEASE + 2)))
        await campaign.start_server()


FAULTS: Final[dict[str, Fault]] = {
    "calm": _nothing,
    "kill-leader": _kill_leader,
    "kill-all": _kill_all,
    "pause-leader": _pause_leader,
    "cut-requests": _cut_requests,
    "cut-answers": _cut_answers,
    "half-open": _half_open,
    "refuse": _refuse,
    "step-clock": _step_clock,
    "reload": _reload,
    "terminate": _terminate,
    "restart-server": _restart_server,
}
STARTING: Final = frozenset(("kill-all",))
"""The faults after which no process is left that could take over at once."""


def _node(number: int) -> Json:
    allocatable = {"cpu": str(PODS_PER_NODE), "memory": "64Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"node-{number}"}
    status = {"capacity": allocatable, "allocatable": allocatable}
    return {"metadata": {"name": f"node-{number}", "labels": labels}, "status": status}


def _pod(name: str) -> Json:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _waiting(pod: Json) -> str:
    """A pod that is not bound, and why the scheduler says so."""
    conditions = pod.get("status", {}).get("conditions") or ()
    why = [one.get("message", "") for one in conditions if one["type"] == "PodScheduled"]
    return f"{pod['metadata']['name']} ({why[0] if why else 'never tried'})"
