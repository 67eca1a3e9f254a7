"""A watchdog of the event loop: the length of each hold, and its cause.

One thread serves scheduling, watches, probes and bindings. Code that computes for long without yielding makes
all of the others late, and nothing shows why. The loop goes through its selector once per turn, so the time
between two calls of `select` is the length of one turn. A second thread looks at the stack of the first one
while a turn takes too long; that is how a hold gets a name. It sleeps while the loop waits, so an idle
process has no thread that wakes up 40 times a second. The scheduling path is not touched.
"""

import asyncio
import gc
import inspect
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Protocol

LIMIT: Final = 0.05
"""Seconds of one turn from which on it counts as a hold."""

REPORT_EVERY: Final = 10.0
"""Seconds between two reports; holds in between are counted."""

_PACKAGE: Final = "stowplan."
_SUBJECTS: Final = ("queued", "assignment", "cycle", "info", "pod")
"""Local variables in which frames of the scheduler keep the pod at hand."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Holder of the loop: the running task, the innermost function, the pod and the plugin."""

    activity: str = ""
    where: str = ""
    pod: str = ""
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """One turn of the loop that took too long: in all, on the CPU, and in garbage collection (seconds)."""

    seconds: float
    cpu: float
    collecting: float
    holder: Holder

    def values(self) -> dict[str, object]:
        """The values of a log line."""
        values: dict[str, object] = {
            "duration": f"{self.seconds * 1000:.0f}ms",
            "cpu": f"{self.cpu * 1000:.0f}ms",
        }
        if self.collecting >= 0.001:
            values["garbageCollection"] = f"{self.collecting * 1000:.0f}ms"
        named = {
            "activity": self.holder.activity,
            "where": self.holder.where,
            "pod": self.holder.pod,
            "plugin": self.holder.plugin,
        }
        return values | {name: text for name, text in named.items() if text}


class Turns(Protocol):
    """Observer of the beginning and end of a loop's turns."""

    def begins(self) -> None: ...

    def ends(self) -> None: ...


class LoopWatchdog:
    """Measures the turns of one loop. `report` is called for long ones, but not more often than every 10 s.

    With `by_cpu` time on the CPU counts instead of wall time: for tests and benchmarks on shared machines.
    """

    def __init__(
        self,
        report: Callable[[Hold, int], None] | None = None,
        *,
        limit: float = LIMIT,
        by_cpu: bool = False,
    ) -> None:
        self._report = report
        self._limit = limit
        self._by_cpu = by_cpu
        self._turn = 0
        self._began = 0.0
        self._cpu_began = 0.0
        self._collecting = 0.0
        self._collection_began = 0.0
        self._is_busy = False
        self._owner = 0
        self._seen: tuple[int, Holder] = (-1, Holder())
        self._next_report = float("-inf")
        self._unreported = 0
        self._stopped = False
        self._is_asleep = False
        self._alarm = threading.Event()
        self._sampler: threading.Thread | None = None
        self.longest = Hold(0.0, 0.0, 0.0, Holder())
        """The longest hold so far."""
        self.holds: dict[str, int] = {}
        """Number of turns longer than the limit, by activity."""

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that is watched; for `asyncio.Runner(loop_factory=...)`."""
        return asyncio.SelectorEventLoop(_TimedSelector(self))

    # Life

    def start(self) -> None:
        """Begin to look at the stack of this thread when a turn takes long."""
        self._owner = threading.get_ident()
        gc.callbacks.append(self._collection)
        self._sampler = threading.Thread(target=self._sample, name="loop watchdog", daemon=True)
        self._sampler.start()

    def reset(self) -> None:
        """Forget what was measured so far."""
        self.longest = Hold(0.0, 0.0, 0.0, Holder())
        self.holds = {}

    def stop(self) -> None:
        self._stopped = True
        self._alarm.set()
        if self._sampler is not None:
            self._sampler.join(timeout=1.0)
            gc.callbacks.remove(self._collection)
            self._sampler = None

    def __enter__(self) -> "LoopWatchdog":
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # Calls from the loop

    def begins(self) -> None:
        """The loop has waited and begins a turn."""
        self._turn += 1
        self._began = time.monotonic()
        if self._by_cpu:
            self._cpu_began = time.thread_time()
        self._is_busy = True
        if self._is_asleep:
            self._rouse_sampler()

    def ends(self) -> None:
        """The turn is over; the loop waits, or looks whether there is more to do."""
        if not self._is_busy:
            return
        self._is_busy = False
        if self._by_cpu:
            took = time.thread_time() - self._cpu_began
        else:
            took = time.monotonic() - self._began
        if took >= self._limit:
            self._note(took)
        self._collecting = 0.0

    def could_yield(self) -> None:
        """A place where the loop would get control back if the time slice were over: a new turn begins.

        For virtual time, in which no slice is ever over.
        """
        if self._is_busy:
            self.ends()
            self.begins()

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave out what the block does: it is no part of what is watched, as the checks of a test."""
        began, cpu_began = time.monotonic(), time.thread_time()
        is_busy, self._is_busy = self._is_busy, False
        try:
            yield
        finally:
            self._is_busy = is_busy
            self._began += time.monotonic() - began
            self._cpu_began += time.thread_time() - cpu_began
            if self._is_asleep:
                self._rouse_sampler()

    def _rouse_sampler(self) -> None:
        self._is_asleep = False
        self._alarm.set()

    def _note(self, took: float) -> None:
        turn, holder = self._seen
        hold = Hold(
            time.monotonic() - self._began,
            took if self._by_cpu else 0.0,
            self._collecting,
            holder if turn == self._turn else Holder(),
        )
        self.holds[hold.holder.activity] = self.holds.get(hold.holder.activity, 0) + 1
        if took > (self.longest.cpu if self._by_cpu else self.longest.seconds):
            self.longest = hold
        self._unreported += 1
        now = time.monotonic()
        if self._report is not None and now >= self._next_report:
            others, self._unreported = self._unreported - 1, 0
            self._next_report = now + REPORT_EVERY
            self._report(hold, others)

    def _collection(self, phase: str, info: Mapping[str, Any]) -> None:
        if threading.get_ident() != self._owner:
            return
        # On the clock of the turn: the wall time of a collection may exceed the CPU time of its whole turn.
        now = time.thread_time() if self._by_cpu else time.monotonic()
        if phase == "start":
            self._collection_began = now
        else:
            self._collecting += now - self._collection_began

    # The other thread

    def _sample(self) -> None:
        """Look at the stack whenever a turn has taken half of what it may. Sleep while the loop waits."""
        while not self._stopped:
            time.sleep(self._limit / 2)
            turn = self._turn
            if not self._is_busy:
                self._sleep(turn)
            elif self._seen[0] != turn and time.monotonic() - self._began >= self._limit / 2:
                self._look(turn)

    def _sleep(self, turn: int) -> None:
        """Wait until the next turn begins, unless it has begun meanwhile."""
        self._alarm.clear()
        self._is_asleep = True
        if self._turn == turn and not self._stopped:
            self._alarm.wait()
        self._is_asleep = False

    def _look(self, turn: int) -> None:
        """Name the holder. The frame is dropped at once: it would keep all objects of its functions alive."""
        frame = sys._current_frames().get(self._owner)
        if frame is None:
            return
        try:
            holder = holder_of(frame)
        except Exception:  # noqa: BLE001 - objects of a thread at work may be in any state: the hold stays unnamed
            holder = Holder()
        self._seen = (turn, holder)


def holder_of(frame: FrameType) -> Holder:
    """Holder according to a stack of calls."""
    frames = list(_callers(frame))
    ours = [one for one in frames if _module(one).startswith(_PACKAGE) and _module(one) != __name__]
    where = f"{_module(frame)}.{frame.f_code.co_qualname}:{frame.f_lineno}"
    activity = ours[-1].f_code.co_qualname if ours else frame.f_code.co_qualname
    return Holder(activity, where, _pod_of(frames), _plugin_of(frames))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _locals(frame: FrameType, *names: str) -> list[object]:
    """Local variables of a running frame.

    Reading them leaves a copy with the frame (until Python 3.13). It is emptied, lest a frame that never
    ends, as the scheduling loop's, keeps the objects of that moment alive.
    """
    copied = frame.f_locals
    found = [copied.get(name) for name in names]
    if isinstance(copied, dict) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        copied.clear()
    return found


def _pod_of(frames: list[FrameType]) -> str:
    for frame in frames:
        for found in _locals(frame, *_SUBJECTS):
            key = getattr(found, "key", None) or getattr(getattr(found, "pod", None), "key", None)
            if isinstance(key, str):
                return key
    return ""


def _plugin_of(frames: list[FrameType]) -> str:
    """The innermost plugin: it is known by the handle it was given."""
    for frame in frames:
        (found,) = _locals(frame, "self")
        name = getattr(found, "name", None)
        if isinstance(name, str) and hasattr(found, "handle"):
            return name
    return ""


class _TimedSelector(selectors.DefaultSelector):
    """The usual selector, which tells a watchdog when turns begin and end."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turns.ends()
        try:
            return super().select(timeout)
        finally:
            self._turns.begins()
