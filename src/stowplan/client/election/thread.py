"""Holding the lease from a separate thread, so that nothing the rest of the process does can lose it.

The scheduling loop may be busy for seconds: a plugin that computes or sleeps, a large answer that is decoded.
The lease is renewed meanwhile, by an `Elector` in another thread with a separate event loop and HTTP clients.
It can still be lost by a single call that holds the interpreter for longer than the renew deadline (a C
extension that does not release the GIL), and by a process that is stopped as a whole. In both cases
`is_leader` has become false by the time another candidate may lead, because it reads a clock.

A scheduling loop that hangs for good keeps its lease this way. It fails its liveness probe: `/livez` is
answered by the loop that schedules, so the probe gets no answer and the kubelet restarts the process.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from stowplan.client.election.candidate import Candidate
from stowplan.client.election.elector import Elector

R = TypeVar("R")

ENDED_WITHIN: Final = 3.0
"""Seconds that the thread is given to end; it does not keep the process from ending."""


class Participant(NamedTuple):
    """Contents of the thread: an elector, and our candidate if the election is coordinated."""

    elector: Elector
    candidate: Candidate | None = None


SetUp = Callable[[AsyncExitStack], Awaitable[Participant]]
"""Creates a participant in the thread it is going to run in. The stack is closed in the end."""


class ElectionThread:
    """An elector as the rest of the process sees it. `async with` begins and ends its thread.

    Entering it raises the errors of `set_up`.
    """

    def __init__(self, set_up: SetUp) -> None:
        self._set_up = set_up
        self._thread = threading.Thread(target=self._run, name="leader election", daemon=True)
        self._ready: Future[Participant] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    async def __aenter__(self) -> "ElectionThread":
        self._thread.start()
        await asyncio.wrap_future(self._ready)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDED_WITHIN):
                await asyncio.wrap_future(self._ended)

    @property
    def elector(self) -> Elector:
        """The elector, to be read from any thread: leader, metrics, health."""
        return self._ready.result(0).elector

    @property
    def candidate(self) -> Candidate | None:
        """Our candidate, if the election is coordinated."""
        return self._ready.result(0).candidate

    @property
    def is_leader(self) -> bool:
        """True if we may act as the leader at this moment, also if the thread is stuck."""
        return self._ready.done() and self.elector.is_leader

    async def acquire(self, *, again: bool = False) -> None:
        await self._call(self.elector.acquire(again=again))

    async def renew(self) -> NoReturn:
        await self._call(self.elector.renew())
        raise AssertionError("renewing a lease ends only with its loss")

    async def release(self, seconds: float) -> bool:
        return await self._call(self.elector.release(seconds))

    async def _call(self, work: Coroutine[Any, Any, R]) -> R:
        """Have the thread do something, and wait for it; who gives up waiting cancels it."""
        assert self._loop is not None
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except asyncio.CancelledError:
            if self._ended.done():
                raise RuntimeError("the thread of the leader election has ended") from None
            raise

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - passed to the waiting thread
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        async with AsyncExitStack() as stack:
            participant = await self._set_up(stack)
            self._loop = asyncio.get_running_loop()
            async with asyncio.TaskGroup() as tasks:
                candidate = participant.candidate
                running = None if candidate is None else tasks.create_task(candidate.run(), name="candidate")
                self._ready.set_result(participant)
                await self._stop.wait()
                if running is not None:
                    running.cancel()
