"""Outages of an API server as schedulers see them: real processes, real sockets.

A pod is created while the scheduler cannot know of it; measured is the time from the server's return to its
binding. All stories run at the same time, each with its own server and scheduler.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from client.http.served_stores import node, pod, serving
from server.process.processes import RunningScheduler, begin
from stowplan.api.catalogue import EVENTS, NODES, PODS
from stowplan.api.pod import Pod
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.localcluster.store import Store, StoreChange
from stowplan.runtime.clock import RealClock
from stowplan.testing.ports import free_port
from stowplan.testing.proxy import OutageProxy
from waiting import PATIENCE, eventually

SECONDS = float(os.environ.get("STOWPLAN_OUTAGE", "10"))
"""How long an outage lasts. Pauses between tries have grown to several seconds by then."""

WAITING = 20
BURST = int(os.environ.get("STOWPLAN_OUTAGE_PODS", "250"))
TOKEN = "outages"


@dataclass
class Outcome:
    """How long after the server's return the first and the last pod were bound, and what was said."""

    first: float
    last: float
    log: str
    bound: dict[str, int]
    """How often each pod was bound."""
    events: dict[str, int]
    """How often each pod's binding was told."""
    memory: float
    """The scheduler's resident memory after the outage, in parts of what it was before."""
    late: float = 0.0
    """By how much the test's own timers were late meanwhile, at most: how busy the machine was."""


@dataclass
class Bindings:
    """Times of bindings, as seen by a client that was not cut off."""

    at: dict[str, list[float]] = field(default_factory=dict)

    def bound(self, name: str) -> None:
        self.at.setdefault(name, []).append(_now())

    async def all_of(self, names: list[str], why: Callable[[], str]) -> None:
        await eventually(lambda: all(name in self.at for name in names), why)

    def follow(self, store: Store) -> None:
        def seen(change: StoreChange) -> None:
            before = "" if change.previous is None else change.previous["spec"].get("nodeName", "")
            if change.object["spec"].get("nodeName", "") != before:
                self.bound(change.object["metadata"]["name"])

        store.watch(PODS, seen)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _names(prefix: str, count: int = WAITING) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def resident(scheduler: RunningScheduler) -> int:
    """Resident memory in KiB."""
    text = Path(f"/proc/{scheduler.process.pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS:")).split()[1])


async def behind_a_proxy(folder: Path, cut: Callable[[OutageProxy], None], seconds: float) -> Outcome:
    """The network before the server goes; pods are created behind it meanwhile."""
    async with serving(folder) as (store, server, kubeconfig), OutageProxy(server.port) as proxy:
        kubeconfig.write_text(kubeconfig.read_text().replace(f":{server.port}", f":{proxy.port}"))
        bindings = Bindings()
        bindings.follow(store)
        for number in range(5):
            store.create(NODES, node(f"n{number}"))
        async with _scheduler(f"--kubeconfig={kubeconfig}") as scheduler:
            await _warm_up(store, bindings, scheduler)
            before = resident(scheduler)
            cut(proxy)
            await asyncio.sleep(seconds / 2)
            for name in _names("waiting"):
                store.create(PODS, pod(name))
            await asyncio.sleep(seconds / 2)
            await proxy.restore()
            returned = _now()
            await bindings.all_of(_names("waiting"), lambda: scheduler.log)
            await _events_of(store, WAITING)
            await _said_to_be_back(scheduler, seconds)
            return _outcome(bindings, returned, scheduler, before, store, _names("waiting"))


async def in_a_burst(folder: Path, cut: Callable[[OutageProxy], None], seconds: float, pods: int) -> Outcome:
    """The network goes while bindings are being sent, more than the rate limit allows to send at once."""
    names = _names("waiting", pods)
    async with serving(folder) as (store, server, kubeconfig), OutageProxy(server.port) as proxy:
        kubeconfig.write_text(kubeconfig.read_text().replace(f":{server.port}", f":{proxy.port}"))
        bindings = Bindings()
        bindings.follow(store)
        for number in range(pods // 50 + 1):
            store.create(NODES, node(f"n{number}"))
        async with _scheduler(f"--kubeconfig={kubeconfig}", "--kube-api-burst=100") as scheduler:
            await _warm_up(store, bindings, scheduler)
            for name in names:
                store.create(PODS, pod(name))
            await eventually(lambda: len(bindings.at) > WAITING + pods // 10, lambda: scheduler.log)
            cut(proxy)
            await asyncio.sleep(1)
            before = resident(scheduler)
            await asyncio.sleep(seconds)
            assert len(bindings.at) < WAITING + pods, "pods wait to be bound"
            grown = resident(scheduler) / before
            await proxy.restore()
            returned = _now()
            await bindings.all_of(names, lambda: scheduler.log)
            await _events_of(store, pods)
            await _said_to_be_back(scheduler)
            late = [at[0] - returned for at in bindings.at.values() if at[0] > returned]
            found = _outcome(bindings, returned, scheduler, before, store, names)
            found.first, found.last, found.memory = min(late), max(late), grown
            return found


async def _warm_up(store: Store, bindings: Bindings, scheduler: RunningScheduler) -> None:
    for name in _names("early"):
        store.create(PODS, pod(name))
    await bindings.all_of(_names("early"), lambda: scheduler.log)
    await asyncio.sleep(2.5)


async def _events_of(store: Store, count: int) -> None:
    def told() -> int:
        events = store.list(EVENTS).items
        return sum(
            one["reason"] == "Scheduled" and one["regarding"]["name"].startswith("waiting") for one in events
        )

    await eventually(lambda: told() >= count, lambda: f"{told()} events of {count} pods")


async def _said_to_be_back(scheduler: RunningScheduler, seconds: float = SECONDS) -> None:
    """The log is written a little later. An outage that was very short may not have been noticed."""
    await asyncio.sleep(0.2)

    def is_said() -> bool:
        gone, back = (
            scheduler.log.count(f"API server is {what}") for what in ("unreachable", "reachable again")
        )
        return gone == back and (gone > 0 or seconds < SECONDS)

    await eventually(is_said, lambda: scheduler.log)


def _outcome(
    bindings: Bindings,
    returned: float,
    scheduler: RunningScheduler,
    before: int,
    store: Store,
    names: list[str],
) -> Outcome:
    times = [bindings.at[name][0] - returned for name in names]
    events = dict.fromkeys(names, 0)
    for one in store.list(EVENTS).items:
        if one["reason"] == "Scheduled" and one["regarding"]["name"] in events:
            events[one["regarding"]["name"]] += 1
    return Outcome(
        min(times),
        max(times),
        scheduler.log,
        {name: len(at) for name, at in bindings.at.items()},
        events,
        resident(scheduler) / before,
    )


@asynccontextmanager
async def _scheduler(*flags: str) -> AsyncIterator[RunningScheduler]:
    scheduler = await begin(*flags, "--secure-port=0", "--leader-elect=false")
    try:
        await scheduler.says("Starting Kubernetes Scheduler")
        yield scheduler
    finally:
        await scheduler.clear_away()


# A server in a separate process


class ServerProcess:
    """`stowplan apiserver` with a folder to keep its objects in, at one port, through restarts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.kubeconfig = folder / "kubeconfig"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from stowplan.cli.main import main; main()",
            "apiserver",
            f"--port={self.port}",
            f"--token={TOKEN}",
            "--insecure-http",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--data-dir={self._folder / 'data'}",
            f"--kubeconfig-out={self.kubeconfig}",
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line.startswith(b"listening"), line

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        assert self._process is not None
        self.signal(signal.SIGKILL)
        await self._process.wait()

    async def clear_away(self) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.kill()

    def client(self) -> HttpClient:
        return HttpClient(
            load_kubeconfig(self.kubeconfig), clock=RealClock(), rng=random.Random(3), qps=-1, environ={}
        )


async def of_a_process(folder: Path, gone: Callable[[ServerProcess], Awaitable[None]]) -> Outcome:
    """The server itself stops and starts; the first event after its return is a pod to be bound."""
    server = ServerProcess(folder)
    await server.start()
    try:
        async with server.client() as client:
            for number in range(5):
                await client.create(NODES, node(f"n{number}"))
            async with _scheduler(f"--kubeconfig={server.kubeconfig}") as scheduler:
                for name in _names("early"):
                    await client.create(PODS, pod(name))
                await _all_bound(client, _names("early"), scheduler)
                await asyncio.sleep(2.5)
                before = resident(scheduler)
                await gone(server)
                returned = _now()
                for name in _names("waiting"):
                    await client.create(PODS, pod(name))
                first, last = await _all_bound(client, _names("waiting"), scheduler)
                await _said_to_be_back(scheduler)
                found = Outcome(
                    first - returned, last - returned, scheduler.log, {}, {}, resident(scheduler) / before
                )
                listing = await client.list(PODS, Pod)
                found.bound = {one.metadata.name: 1 for one in listing.items if one.spec.node_name}
                return found
    finally:
        await server.clear_away()


async def _all_bound(
    client: HttpClient, names: list[str], scheduler: RunningScheduler
) -> tuple[float, float]:
    """When the first and the last of them had a node."""
    times: list[float] = []
    deadline = _now() + PATIENCE
    while len(times) < len(names):
        assert _now() < deadline, scheduler.log
        listing = await client.list(PODS, Pod)
        bound = {one.metadata.name for one in listing.items if one.spec.node_name}
        times += [_now()] * (len(bound & set(names)) - len(times))
        await asyncio.sleep(0.05)
    return times[0], times[-1]


async def killed(server: ServerProcess) -> None:
    await server.kill()
    await asyncio.sleep(SECONDS)
    await server.start()


async def frozen(server: ServerProcess) -> None:
    server.signal(signal.SIGSTOP)
    await asyncio.sleep(SECONDS)
    server.signal(signal.SIGCONT)


async def all_outages(folder: Path) -> dict[str, Outcome]:
    stories = {
        "refusing": lambda place: behind_a_proxy(place, OutageProxy.refuse, SECONDS),
        "half-open": lambda place: behind_a_proxy(place, OutageProxy.vanish, SECONDS),
        "state lost": lambda place: behind_a_proxy(place, OutageProxy.vanish, 0.2),
        "burst, refusing": lambda place: in_a_burst(place, OutageProxy.refuse, SECONDS, BURST),
        "burst, half-open": lambda place: in_a_burst(place, OutageProxy.vanish, SECONDS, BURST),
        "killed": lambda place: of_a_process(place, killed),
        "frozen": lambda place: of_a_process(place, frozen),
    }

    async def one(name: str) -> Outcome:
        place = folder / "".join(filter(str.isalpha, name))
        place.mkdir()
        return await stories[name](place)

    late = [0.0]
    lateness = asyncio.create_task(_measure_lateness(late))
    outcomes = await asyncio.gather(*map(one, stories))
    lateness.cancel()
    return {name: replace(outcome, late=late[0]) for name, outcome in zip(stories, outcomes, strict=True)}


async def _measure_lateness(late: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + 0.05
        await asyncio.sleep(0.05)
        late[0] = max(late[0], loop.time() - due)
