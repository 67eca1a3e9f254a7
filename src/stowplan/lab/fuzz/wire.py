"""Cases that go over the wire: a scheduler with the HTTP client, and bodies that only text can hold.

Every case is met twice: while the scheduler watches, and by another scheduler in the lists with which it
begins. Time is real here, so nothing is bounded by it: the loop may not be held for long in CPU time, the
scheduler has to survive, and an ordinary pod that comes after the case has to be bound.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.client.http import Address, HttpClient, Server
from stowplan.config import default_config
from stowplan.lab.fuzz.cases import FuzzCase, FuzzStep, base, pod
from stowplan.lab.fuzz.recorded_server import RecordedServer
from stowplan.lab.fuzz.run import (
    GOES_ON,
    GROUP_GATES,
    LONGEST_HOLD,
    NO_ERRORS,
    NO_HOLD,
    NOTICED,
    QUICK,
    SURVIVES,
    FuzzHold,
    FuzzResult,
    FuzzRun,
)
from stowplan.runtime.clock import LoopWatchdog, RealClock
from stowplan.runtime.logs import Logger
from stowplan.scheduler import Scheduler, Settings

NEVER: Final = 30.0
"""Seconds after which a pod that was not bound will not be any more."""

BOUNDED: Final = "a client stops reading an object without end"
LONGEST_OBJECT: Final = 32 << 20
"""Bytes of one object that a client may be sent, with what waits in the buffers of sockets."""


def run_wire(
    run: FuzzRun, cases: Iterable[FuzzCase], show: Callable[[FuzzCase], None] = lambda case: None
) -> FuzzResult:
    """Run cases one after the other, each on a server with nothing else; `show` is called after each."""
    watchdog = LoopWatchdog(limit=NOTICED, by_cpu=True)
    result = FuzzResult()

    async def main() -> None:
        for case in cases:
            await _Wire(run, case, watchdog, result).meet()
            result.cases += 1
            show(case)

    with asyncio.Runner(loop_factory=watchdog.new_loop) as runner, watchdog:
        runner.run(main())
    return result


class _Wire:
    """One case with two schedulers."""

    def __init__(self, run: FuzzRun, case: FuzzCase, watchdog: LoopWatchdog, result: FuzzResult) -> None:
        self._run = run
        self._case = case
        self._watchdog = watchdog
        self._result = result
        self._probes = 0

    async def meet(self) -> None:
        self._watchdog.longest = NO_HOLD
        async with RecordedServer() as server:
            if self._case.is_endless:
                await self._list_without_end(server)
                return
            for resource, body in base(self._run.nodes):
                server.put(resource, "/".join(FuzzStep("create", resource, body).key), body)
            await self._with_scheduler(server, self._write)
            await self._with_scheduler(server, lambda server: None)
        self._check_hold()

    async def _list_without_end(self, server: RecordedServer) -> None:
        server.endless = PODS.plural
        async with _client(server) as client:
            try:
                await client.list(PODS, Pod)
            except ApiError:
                self._result.counts["refused"] += 1
        if server.sent > LONGEST_OBJECT:
            self._find(BOUNDED, f"{server.sent >> 20} MiB")

    def _write(self, server: RecordedServer) -> None:
        for number, step in enumerate(self._case.steps):
            if step.verb != "create":
                continue
            self._result.counts["writes"] += 1
            metadata = step.body["metadata"]
            readable = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
            server.put(step.resource, "/".join(step.key) if readable else str(number), step.body)

    async def _with_scheduler(self, server: RecordedServer, write: Callable[[RecordedServer], None]) -> None:
        """A scheduler, the case, and then an ordinary pod."""
        try:
            async with asyncio.timeout(NEVER), _client(server) as client:
                settings = Settings.of(default_config(GROUP_GATES) if self._case.groups else None)
                scheduler = Scheduler(
                    client, settings, clock=RealClock(), rng=Random("fuzz"), logger=Logger(self._log)
                )
                async with scheduler.running():
                    write(server)
                    await self._schedule_probe(server)
        except TimeoutError:
            self._find(GOES_ON, f"an ordinary pod was not bound within {NEVER:g} s")
        except Exception as failure:  # noqa: BLE001 - any exception is the finding
            self._find(SURVIVES, f"{type(failure).__name__}: {failure}")

    async def _schedule_probe(self, server: RecordedServer) -> None:
        self._probes += 1
        body = pod(f"ordinary-{self._probes}")
        key = "/".join(FuzzStep("create", PODS, body).key)
        server.put(PODS, key, body)
        while key not in server.bound:
            await asyncio.sleep(0.01)
        self._result.counts["bound"] += 1

    def _find(self, rule: str, detail: str) -> None:
        self._result.add(self._case, rule, detail)

    def _log(self, level: int, text: str, values: Mapping[str, object]) -> None:
        """Errors are findings, except reports of objects that cannot be read or that are made up."""
        shown = f"{text} {' '.join(f'{name}={value}' for name, value in values.items())}"
        if level < 0 and not self._case.lies and not text.startswith("Object cannot be read"):
            self._find(NO_ERRORS, shown)

    def _check_hold(self) -> None:
        longest = self._watchdog.longest
        holder = longest.holder.where or "somebody"
        hold = FuzzHold(round(longest.cpu * 1000, 1), holder, self._case.name, self._case.fields)
        self._result.holds.append(hold)
        limit = self._run.limit_ms
        if hold.ms > 1000 * LONGEST_HOLD or (limit is not None and hold.ms > limit):
            self._find(QUICK, f"{hold.ms:,.0f} ms by {hold.holder}, with {hold.fields}")


def _client(server: RecordedServer) -> HttpClient:
    address = Server(Address.parse(server.url))
    return HttpClient(address, clock=RealClock(), rng=Random("wire"), qps=-1, environ={})
