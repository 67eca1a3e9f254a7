"""An event loop that never waits: when nothing is ready, time jumps to the next timer.

The idea is trio's autojump clock. All times are multiples of a microsecond-sized fraction of a second that
floating point represents exactly, also when added to a current date; so a task that sleeps until a deadline
finds, on waking, that the deadline has been reached, and a run repeats bit for bit.
"""

import asyncio
import math
import selectors
import threading
from asyncio import TimerHandle
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple, Unpack

from stowplan.runtime.clock.watchdog import Turns

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TICKS_PER_SECOND: Final = 2**20
"""The grain of virtual time. A date of this century in these units still fits a float's 53 bits."""

DEFAULT_START: Final = 1_767_225_600.0
"""When virtual time begins unless told otherwise: 2026-01-01T00:00:00Z."""

DEFAULT_PATIENCE: Final = 10_000_000
"""Turns of the loop without time passing before a run is taken for stuck."""


class VirtualTimeError(RuntimeError):
    """Something that has no meaning in virtual time, or a run that can never go on."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose `time()` counts virtual seconds from 0.

    It waits for timers only. Sockets, pipes, subprocesses, threads and signals live in real time and are
    refused with an error. A `watchdog` is called when turns begin and end (watchdog.py).
    """

    def __init__(self, *, patience: int = DEFAULT_PATIENCE, watchdog: Turns | None = None) -> None:
        self._jumps = _JumpingSelector(patience, watchdog)
        self._owner = threading.get_ident()
        self._timers = 0
        super().__init__(self._jumps)
        self._clock_resolution = 1 / TICKS_PER_SECOND
        """How early a timer counts as due. A finer one is lost in the rounding after half a year."""
        self._jumps.closed_to_files = True

    def time(self) -> float:
        return self._jumps.now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        """Set a timer, rounded up to the grain of time: late by less than a microsecond, never early."""
        if not math.isfinite(when):
            raise VirtualTimeError(f"a timer cannot be set for second {when} of virtual time")
        moment = _Moment(math.ceil(when * TICKS_PER_SECOND) / TICKS_PER_SECOND)
        moment.order = self._timers
        self._timers += 1
        return super().call_at(moment, callback, *args, context=context)

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if threading.get_ident() != self._owner:
            raise VirtualTimeError("virtual time knows one thread: another one cannot call into its loop")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: object, func: object, *args: object) -> NoReturn:
        raise VirtualTimeError("virtual time knows one thread: nothing can run in an executor")

    async def subprocess_exec(self, protocol_factory: object, *args: object, **kwargs: object) -> NoReturn:
        raise VirtualTimeError("virtual time waits for timers only: a subprocess would never end")

    async def subprocess_shell(self, protocol_factory: object, *args: object, **kwargs: object) -> NoReturn:
        raise VirtualTimeError("virtual time waits for timers only: a subprocess would never end")

    def add_signal_handler(self, sig: int, callback: object, *args: object) -> NoReturn:
        raise VirtualTimeError("virtual time waits for timers only: a signal would never be noticed")


class VirtualClock:
    """The date under a virtual-time loop: its start plus the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: float = DEFAULT_START) -> None:
        self._loop = loop
        self._start = math.floor(start * TICKS_PER_SECOND) / TICKS_PER_SECOND

    def now(self) -> float:
        return self._start + self._loop.time()

    def monotonic(self) -> float:
        return self.now()


def run(
    main: Callable[[VirtualClock], Coroutine[Any, Any, T]],
    *,
    start: float = DEFAULT_START,
    patience: int = DEFAULT_PATIENCE,
    watchdog: Turns | None = None,
) -> T:
    """Run a coroutine function in virtual time and give back its result.

    It is handed the clock. Tasks still waiting when it returns are cancelled, as `asyncio.run` does. Inside
    a running event loop, such as that of a notebook, it runs in a thread, and the loop stands still.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        again: Callable[[], T] = partial(run, main, start=start, patience=patience, watchdog=watchdog)
        with ThreadPoolExecutor(1, "virtual-time") as threads:
            result: T = threads.submit(copy_context().run, again).result()
            return result

    async def begin() -> T:
        return await main(VirtualClock(asyncio.get_running_loop(), start))

    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(patience=patience, watchdog=watchdog)) as runner:
        return runner.run(begin())


class _Moment(float):
    """A time for a timer. Of two timers set for the same time, the one set first comes first."""

    __slots__ = ("order",)
    order: int

    def __lt__(self, other: float) -> bool:
        if isinstance(other, _Moment) and self == other:
            return self.order < other.order
        return float.__lt__(self, other)


class _JumpingSelector(selectors.BaseSelector):
    """Replaces the wait for files: instead of waiting it advances the time.

    The loop registers its own wake-up pipe when it is built; any other registration is refused.
    """

    def __init__(self, patience: int, watchdog: Turns | None = None) -> None:
        self.now = 0.0
        self._watchdog = watchdog
        self.closed_to_files = False
        self._patience = patience
        self._turns = 0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._watchdog is None:
            return self._jump(timeout)
        self._watchdog.ends()
        try:
            return self._jump(timeout)
        finally:
            self._watchdog.begins()

    def _jump(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise VirtualTimeError(_deadlock())
        if timeout > 0:
            self.now += timeout
            self._turns = 0
            return []
        self._turns += 1
        if self._turns > self._patience:
            self._turns = 0
            raise VirtualTimeError(
                f"stuck at virtual second {self.now}: time stood still for {self._patience} turns of the loop"
            )
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.closed_to_files:
            raise VirtualTimeError("virtual time waits for timers only: sockets, pipes and files are refused")
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


def _deadlock() -> str:
    waiting = sorted(task.get_name() for task in asyncio.all_tasks(asyncio.get_running_loop()))
    named = ", ".join(waiting[:10]) + (", …" if len(waiting) > 10 else "")
    return f"nothing will ever happen: no timer is set and {len(waiting)} task(s) wait ({named})"
