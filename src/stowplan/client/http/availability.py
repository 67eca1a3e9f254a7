"""Reachability of an API server: checked once, for all clients of it.

Every client reports connections that were refused or lost. A probe then checks if the server is gone: one
cheap `GET /readyz`, for which any answer but a server error will do. While the server is gone there is one
probe a second, over a fresh connection; when one is answered, all paused requests continue at once.

A server may also go silent: packets vanish while connections look established (a firewall or a load balancer
that lost its state, a frozen machine). So when something is expected of the server (a watch is open, a
request is under way) and no byte has come for a second, a probe goes over a connection that has served
before. While only watches are open and every probe is answered, the time between two of them grows to five
seconds, because an idle cluster has nothing to send. If a probe stays silent while a fresh connection is
answered, the old connections are dead even if the kernel considers them established, and are ended; watches
resume from their last version. TCP keepalive alone would not do: it takes several times as long, and behind a
proxy or load balancer it only proves that the proxy lives.
"""

import asyncio
import gc
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Protocol

from stowplan.runtime.logs import Logger

QUIET: Final = 1.0
"""Seconds without an expected byte from a server until it is probed."""

QUIET_AT_MOST: Final = 5.0
"""The same while only watches are open, after several answered probes with nothing heard in between."""

LOOK_EVERY: Final = 0.5
KEPT_WITHIN: Final = 0.75
"""Seconds in which a probe over a connection that has served before should be answered."""

GONE_AFTER: Final = 5.0
"""Seconds without an answer to any probe until the server counts as gone. One that refuses does at once."""

PROBE_EVERY: Final = 1.0
PROBE_JITTER: Final = 0.2
PROBES_AT_ONCE: Final = 5
"""Probes of a server that is gone may overlap, so that one that answers slowly is not taken for gone."""

SPREAD: Final = 0.25
"""Seconds over which those who wait are woken, so that a server that is back is not asked by all at once."""


KEPT_WARM: Final = 20.0
"""Seconds after which the connection for probes is used, lest the server closes it."""


COLLECT_EVERY: Final = 20
"""Probes of a server that is gone after which garbage is collected. Attempts to connect leave reference
cycles, with TLS objects whose size Python does not see, and a process that waits allocates so little that the
collector would not run for hours.
"""


class ProbeError(Exception):
    """A probe that was not answered, or with a server error. `closed`: the server ended the connection."""

    def __init__(self, problem: str, *, closed: bool = False) -> None:
        super().__init__(problem)
        self.closed = closed


class Connections(Protocol):
    """The connections of one client."""

    @property
    def last_heard(self) -> float | None:
        """When the last byte came over any of them, by the loop's time; None if there are none."""
        ...

    @property
    def expects_answer(self) -> bool:
        """True if a watch is open or a request under way."""
        ...

    @property
    def only_watches(self) -> bool:
        """True if no request is under way."""
        ...

    def kept_probe(self) -> Coroutine[Any, Any, None] | None:
        """A probe over the connection that served the last one; None if there is none. Raises ProbeError."""
        ...

    async def fresh_probe(self) -> None:
        """A probe over a new connection, which is kept for the next one. Raises ProbeError."""
        ...

    def end_silent(self, since: float, until: float) -> None:
        """End connections over which nothing came from one time to another, made before or in between.

        The same for attempts to make one.
        """
        ...


class ServerAvailability:
    """One server, as all clients of it in one event loop see it."""

    def __init__(self, rng: random.Random, logger: Logger | None = None, name: str = "") -> None:
        self._rng = rng
        self._logger = Logger() if logger is None else logger
        self._name = name
        self._members: list[Connections] = []
        self._timer: asyncio.TimerHandle | None = None
        self.is_dozing = False
        """True if the next look at the server is too far away for a request that begins now."""
        self._quiet = QUIET
        self._heard = 0.0
        self._checking: asyncio.Task[None] | None = None
        self._decided = asyncio.Event()
        self._decided.set()
        self._is_back = asyncio.Event()
        self._is_back.set()
        self._wake = asyncio.Event()
        self._down_since: float | None = None
        self._probed_at = 0.0
        self._recoveries = 0
        self.outages = 0

    @property
    def is_reachable(self) -> bool:
        """Last known state, without a probe."""
        return self._down_since is None

    def add(self, member: Connections) -> None:
        self._members.append(member)

    def remove(self, member: Connections) -> None:
        """A client is closed. With the last one looking after the server ends."""
        if member in self._members:
            self._members.remove(member)
        if not self._members:
            for pending in (self._timer, self._checking):
                if pending is not None:
                    pending.cancel()
            self._timer = None

    def begin_watching(self) -> None:
        """A connection was made: look from time to time whether the server is still heard."""
        if self._timer is None and self._members:
            self._look_after(LOOK_EVERY)

    def rouse(self) -> None:
        """A request begins while nothing was expected for the moment: look again within `LOOK_EVERY`."""
        if self._timer is not None:
            self._timer.cancel()
        self._look_after(LOOK_EVERY)

    def _look_after(self, seconds: float) -> None:
        self.is_dozing = seconds > LOOK_EVERY
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def suspect(self) -> None:
        """A connection was refused or lost, or the server answered with an error: start a probe."""
        if self._checking is None and self._members and self._down_since is None:
            self._decided.clear()
            self._checking = asyncio.get_running_loop().create_task(self._check(), name="API server probe")
            self._checking.add_done_callback(self._checked)

    async def check(self) -> bool:
        """True if the server can be reached, after a probe if that is in doubt.

        False also if it was unreachable, and came back during the probe.
        """
        recoveries = self._recoveries
        self.suspect()
        await self._decided.wait()
        return self._down_since is None and self._recoveries == recoveries

    async def pause(self, seconds: float) -> None:
        """Wait before the next try: `seconds`, or until the server is back if it goes away meanwhile."""
        wake = self._wake
        try:
            async with asyncio.timeout(seconds):
                await wake.wait()
        except TimeoutError:
            return
        await self._spread()

    async def back(self) -> None:
        """Wait until the server can be reached."""
        if not self._is_back.is_set():
            await self._is_back.wait()
            await self._spread()

    async def _spread(self) -> None:
        await asyncio.sleep(SPREAD * self._rng.random())

    def _look(self) -> None:
        self._timer = None
        heard = max((at for member in self._members if (at := member.last_heard) is not None), default=None)
        if heard is None:
            self.is_dozing = False
            return
        if heard > self._heard:
            self._heard, self._quiet = heard, QUIET
        if not any(member.expects_answer for member in self._members):
            self.is_dozing = True
            return
        now = asyncio.get_running_loop().time()
        only_watches = all(member.only_watches for member in self._members)
        quiet = self._quiet if only_watches else QUIET
        due = min(max(heard, self._probed_at) + quiet, self._probed_at + KEPT_WARM)
        if now >= due:
            self.suspect()
        self._look_after(max(due - now, LOOK_EVERY) if only_watches else LOOK_EVERY)

    def _checked(self, task: "asyncio.Task[None]") -> None:
        self._checking = None
        self._decided.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._logger.error("Probing the API server failed", err=f"{type(error).__name__}: {error}")

    async def _check(self) -> None:
        """Ask for a sign of life; if there is none, go on asking until the server is back."""
        self._probed_at = began = asyncio.get_running_loop().time()
        probes = _Probes()
        try:
            kept = next((probe for one in self._members if (probe := one.kept_probe()) is not None), None)
            over_kept = None if kept is None else probes.start(kept)
            if over_kept is not None and await probes.answered(KEPT_WITHIN):
                self._quiet = min(2 * self._quiet, QUIET_AT_MOST)
                return
            if await self._ask_again(probes, began + GONE_AFTER):
                if over_kept is not None and probes.latest is not over_kept and not probes.closed:
                    self._recover(began)
                return
            self._go_down(probes.problem)
            await self._ask_again(probes)
            self._come_back(began)
        finally:
            probes.cancel()

    async def _ask_again(self, probes: "_Probes", until: float | None = None) -> bool:
        """One probe a second over a fresh connection until one is answered: then True.

        With `until` it ends at that time, or when every probe has failed: then False.
        """
        loop = asyncio.get_running_loop()
        if until is None:
            await asyncio.sleep(PROBE_EVERY * self._rng.random())
        number = 0
        while True:
            number += 1
            if until is None and not number % COLLECT_EVERY:
                gc.collect(1)
            probes.limit(PROBES_AT_ONCE - 1)
            probes.start(self._fresh_probe())
            pause = PROBE_EVERY * (1 + PROBE_JITTER * (2 * self._rng.random() - 1))
            next_probe = loop.time() + pause
            if await probes.answered(pause):
                return True
            if until is not None and (not probes or loop.time() >= until):
                return False
            await asyncio.sleep(max(next_probe - loop.time(), 0))

    async def _fresh_probe(self) -> None:
        if not self._members:
            raise ProbeError("the client is closed")
        await self._members[0].fresh_probe()

    def _go_down(self, problem: str) -> None:
        self._down_since = asyncio.get_running_loop().time()
        self.outages += 1
        self._is_back.clear()
        self._decided.set()
        self._logger.error("API server is unreachable", server=self._name, err=problem)

    def _come_back(self, began: float) -> None:
        assert self._down_since is not None
        seconds = asyncio.get_running_loop().time() - began
        self._down_since = None
        self._logger.info(
            0, "API server is reachable again", server=self._name, unreachableFor=f"{seconds:.1f}s"
        )
        self._recover(began)

    def _recover(self, began: float) -> None:
        """Resume all paused requests. Connections silent since before the outage are considered dead."""
        self._is_back.set()
        self._wake.set()
        self._wake = asyncio.Event()
        self._recoveries += 1
        loop = asyncio.get_running_loop()
        loop.call_later(SPREAD, self._end_silent, began, loop.time())

    def _end_silent(self, began: float, recovered: float) -> None:
        for member in list(self._members):
            member.end_silent(began, recovered)


class _Probes:
    """Probes under way, the latest last."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self.latest: asyncio.Task[None] | None = None
        """The one that was answered."""
        self.problem = "no answer"
        self.closed = False
        """True if one failed because the server closed its connection in good order."""

    def __bool__(self) -> bool:
        """True if any is still under way."""
        return bool(self._tasks)

    def start(self, probe: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(probe, name="API server probe")
        self._tasks.append(task)
        return task

    async def answered(self, seconds: float) -> bool:
        """Wait for an answer to any of them, at most `seconds`; less if all fail."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._tasks:
            left = max(deadline - loop.time(), 0)
            await asyncio.wait(self._tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # an answer that came in the same turn as the end of patience counts
            if self._take_results():
                return True
            if loop.time() >= deadline:
                break
        return False

    def limit(self, most: int) -> None:
        """Give up the oldest if there are more."""
        self._end(self._tasks[: max(len(self._tasks) - most, 0)])

    def cancel(self) -> None:
        self._end(list(self._tasks))

    def _take_results(self) -> bool:
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.remove(task)
            try:
                task.result()
            except ProbeError as error:
                self.problem = str(error)
                self.closed = self.closed or error.closed
            else:
                self.latest = task
                return True
        return False

    def _end(self, tasks: "Sequence[asyncio.Task[None]]") -> None:
        for task in tasks:
            self._tasks.remove(task)
            task.cancel()
