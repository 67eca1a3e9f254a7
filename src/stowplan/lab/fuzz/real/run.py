"""The corpus on a real API server: how long ordinary pods wait for a node while a case is there.

Every scheduler has the API server to itself, one after the other, so that neither is slowed down by what the
other does. Ordinary pods are created one after the other before and during a case; the longest wait counts.
"""

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from stowplan.api.catalogue import NAMESPACES, PODS
from stowplan.lab.fuzz.cases import FuzzCase, pod
from stowplan.lab.fuzz.real.controlplane import GATES, ControlPlane, RealApiServer, started, until_ready
from stowplan.lab.fuzz.real.writing import RealWorld
from stowplan.testing.ports import free_port
from stowplan.testing.processes import STOWPLAN, Process

LIVEZ_EVERY: Final = 0.5
LIVEZ_WITHIN: Final = 1.0
_RESTART_AFTER: Final = 1.0
"""Seconds until a scheduler that has exited is started again."""

_CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}, qps: 500, burst: 1000}}
"""


class OtherScheduler:
    """A scheduler of the default name. Made by `running_scheduler`."""

    def __init__(self, name: str, command: Sequence[str], kubeconfig: Path, folder: Path) -> None:
        self.name = name
        self.process = Process(name)
        self.exits: list[int] = []
        """The codes with which it has ended, without having been told to."""
        self.livez_answered = 0
        self.livez_failed = 0
        self._command = command
        self._config = folder / f"{name}.yaml"
        self._config.write_text(_CONFIG.format(kubeconfig=kubeconfig), encoding="utf-8")
        self._livez = ""
        self._session: aiohttp.ClientSession | None = None
        self._told_to_end = False

    async def start(self) -> None:
        """Start it and wait until it is ready. Raises StartError."""
        await self._launch()
        await until_ready(self.process, self._is_alive)

    async def _launch(self) -> None:
        port = free_port()
        self._livez = f"https://127.0.0.1:{port}/livez"
        await started(
            self.process,
            *self._command,
            f"--config={self._config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--feature-gates={','.join(f'{name}=true' for name in GATES)}",
        )

    async def restart(self) -> None:
        """End it at once and start it again: what it holds is gone. Raises StartError."""
        self._told_to_end = True
        try:
            await self.process.kill()
            await self.start()
        finally:
            self._told_to_end = False

    async def close(self) -> None:
        self._told_to_end = True
        await self.process.kill()
        if self._session is not None:
            await self._session.close()

    async def supervise(self) -> None:
        """Start it again whenever it has ended by itself; never returns."""
        while True:
            if self.process.code is not None and not self._told_to_end:
                self.exits.append(self.process.code)
                await asyncio.sleep(_RESTART_AFTER)
                await self._launch()
            await asyncio.sleep(0.1)

    async def ask_livez(self) -> None:
        """Count what /livez answers; never returns."""
        while True:
            if await self._is_alive():
                self.livez_answered += 1
            else:
                self.livez_failed += 1
            await asyncio.sleep(LIVEZ_EVERY)

    async def _is_alive(self) -> bool:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LIVEZ_WITHIN))
        try:
            async with self._session.get(self._livez, ssl=False) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False


@asynccontextmanager
async def running_scheduler(
    name: str, command: Sequence[str], kubeconfig: Path, folder: Path
) -> AsyncIterator[OtherScheduler]:
    """A scheduler that runs for as long as the block takes. Raises StartError."""
    scheduler = OtherScheduler(name, command, kubeconfig, folder)
    try:
        await scheduler.start()
        supervising = asyncio.create_task(scheduler.supervise())
        try:
            yield scheduler
        finally:
            supervising.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await supervising
    finally:
        await scheduler.close()


MORE: Final = 1.0
"""Seconds that an ordinary pod may wait longer than without the case."""

PATIENCE: Final = 60.0
"""Seconds after which a pod counts as never bound."""

SETTLED: Final = 5.0
"""Seconds for which ordinary pods are created after the last write of a case."""

GROWTH: Final = 0.10
SLACK: Final = 8 << 20
"""Share and bytes by which memory may be larger after a case than before: allocators keep some pages."""

_ORDINARY: Final = "ordinary"
_BEFORE: Final = 5
_PAUSE: Final = 0.1
_POLL: Final = 0.02
_SHRINKS_WITHIN: Final = 15.0
_WARM_UP: Final = 20


@dataclass(slots=True)
class Measured:
    """One case with one scheduler. Seconds for ordinary pods, bytes of memory."""

    scheduler: str
    case: str
    admitted: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    without: float = 0.0
    during: float = 0.0
    livez_asked: int = 0
    livez_failed: int = 0
    memory_before: int = 0
    memory_after: int = 0
    exits: list[int] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    recovered: bool = True

    def broken(self) -> list[str]:
        """The bounds that the scheduler has not kept."""
        found: list[str] = []
        if self.exits:
            codes = ", ".join(map(str, self.exits))
            found.append(f"exited {len(self.exits)} times ({codes})")
        if self.during > self.without + MORE:
            found.append(
                f"an ordinary pod waited {seconds(self.during)}, without the case {seconds(self.without)}"
            )
        if self.livez_failed:
            found.append(f"/livez failed {self.livez_failed} of {self.livez_asked} times")
        if not self.recovered:
            found.append("ordinary pods are not bound after the objects are gone")
        elif self.memory_after > self.memory_before * (1 + GROWTH) + SLACK:
            before, after = self.memory_before >> 20, self.memory_after >> 20
            found.append(f"memory grew from {before} to {after} MiB")
        return found


def seconds(value: float) -> str:
    """A wait, as text."""
    return f"> {PATIENCE:.0f} s" if value >= PATIENCE else f"{value:.2f} s"


@dataclass(frozen=True, slots=True)
class RealRun:
    """A run: the binaries, on how many nodes, and for how long ordinary pods follow each case."""

    etcd: Path
    apiserver: Path
    scheduler: Path | None = None
    nodes: int = 100
    settled: float = SETTLED

    @property
    def commands(self) -> dict[str, Sequence[str]]:
        """The schedulers by name; ours is the last."""
        others = {} if self.scheduler is None else {self.scheduler.name: (str(self.scheduler),)}
        return {**others, "stowplan": (*STOWPLAN, "run")}


async def run_real(
    run: RealRun, cases: Sequence[FuzzCase], show: Callable[[Measured], None] = lambda row: None
) -> list[Measured]:
    """Every case with every scheduler. Raises StartError if a program cannot be started."""
    with tempfile.TemporaryDirectory(prefix="stowplan-fuzz-") as folder:
        async with ControlPlane(run.etcd, run.apiserver, Path(folder)) as api:
            return await run_on(api, run, cases, Path(folder), show)


async def run_on(
    api: RealApiServer,
    run: RealRun,
    cases: Sequence[FuzzCase],
    folder: Path,
    show: Callable[[Measured], None],
) -> list[Measured]:
    """The same on an API server that is there."""
    world = RealWorld(api, run.nodes)
    await world.create_base()
    await world.create(NAMESPACES, {"metadata": {"name": _ORDINARY}})
    rows: list[Measured] = []
    for name, command in run.commands.items():
        async with running_scheduler(name, command, api.kubeconfig, folder) as scheduler:
            prober = _Prober(world)
            for _ in range(_WARM_UP):
                await prober.probe()
            for case in cases:
                rows.append(await _measure(world, scheduler, prober, case, run.settled))
                show(rows[-1])
    return rows


async def _measure(
    world: RealWorld, scheduler: OtherScheduler, prober: "_Prober", case: FuzzCase, settled: float
) -> Measured:
    row = Measured(scheduler.name, case.name)
    scheduler.exits = row.exits
    row.without = statistics.median([await prober.probe() for _ in range(_BEFORE)])
    row.memory_before = scheduler.process.resident()
    scheduler.livez_answered = scheduler.livez_failed = 0
    background = [asyncio.create_task(scheduler.ask_livez()), asyncio.create_task(prober.probe_on())]
    try:
        await world.play(case)
        await asyncio.sleep(settled)
        await prober.finish()
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
    row.during = prober.longest
    row.admitted, row.refusals = world.admitted, dict(world.refusals)
    row.livez_failed = scheduler.livez_failed
    row.livez_asked = scheduler.livez_answered + scheduler.livez_failed
    row.left = await world.clear(case)
    row.recovered = await prober.probe() < PATIENCE
    if not row.recovered:
        await scheduler.restart()
    row.memory_after = await _smallest(scheduler, row.memory_before)
    return row


async def _smallest(scheduler: OtherScheduler, wanted: int) -> int:
    """The memory of a scheduler when it is as small again as it was, or when that has had time."""
    deadline = time.monotonic() + _SHRINKS_WITHIN
    while True:
        held = scheduler.process.resident()
        if held <= wanted * (1 + GROWTH) or time.monotonic() > deadline:
            return held
        await asyncio.sleep(0.5)


class _Prober:
    """Creates ordinary pods one after the other and measures how long each waits for a node."""

    def __init__(self, world: RealWorld) -> None:
        self._world = world
        self._number = 0
        self._is_ending = False
        self._ended = asyncio.Event()
        self.longest = 0.0

    async def probe(self) -> float:
        """The seconds until an ordinary pod has a node, at most PATIENCE."""
        self._number += 1
        body = pod(f"{_ORDINARY}-{self._number}", _ORDINARY, _ORDINARY)
        key = (_ORDINARY, body["metadata"]["name"])
        await self._world.create(PODS, body)
        began = time.monotonic()
        try:
            while (waited := time.monotonic() - began) < PATIENCE:
                if await self._world.node_of(PODS, key):
                    return waited
                await asyncio.sleep(_POLL)
            return PATIENCE
        finally:
            with contextlib.suppress(OSError, TimeoutError):
                await self._world.delete(PODS, key)

    async def probe_on(self) -> None:
        """Pods until `finish` is called; `longest` is the longest wait of all."""
        self.longest, self._is_ending = 0.0, False
        self._ended.clear()
        while not self._is_ending:
            self.longest = max(self.longest, await self.probe())
            await asyncio.sleep(_PAUSE)
        self._ended.set()

    async def finish(self) -> None:
        """The pod at hand is the last; wait for it."""
        self._is_ending = True
        await self._ended.wait()
