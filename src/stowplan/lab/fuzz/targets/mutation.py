"""Campaigns without a coverage tool: seeds are mutated, and what behaves in a new way becomes a seed.

An input is interesting if its outcome is new. That costs nothing, so an input takes microseconds, and it
finds what depends on the shape of an input. Coverage (guided.py) finds deeper branches.
"""

import contextlib
import math
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Final, NamedTuple

from stowplan.lab.fuzz.targets.target import FuzzTarget, Violation

LONGEST: Final = 4096
"""Bytes of an input. Costs that grow faster than the input are looked for with larger ones."""

CPU_LIMIT: Final = 5.0
"""Seconds of CPU time for one input, in campaigns."""

_MOST_KEPT: Final = 2000
_GROWTH_EVERY: Final = 400
"""Inputs between two that are made large."""

_SMALL, _LARGE = 4_000, 32_000
_GROWTH: Final = 3.0
"""Allowed growth of the CPU time beyond that of the size, for an input eight times as long."""
_ROUNDS: Final = (0, 1, 0, 1, 0, 1)
"""Which of the two is measured, one after the other. The least counts: caches of the machine are shared."""
_NOTICED: Final = 0.05
"""Seconds of CPU time below which growth is not looked at."""

NO_ESCAPE: Final = "only documented errors are raised"
IN_TIME: Final = "an input takes little time"
LINEAR: Final = "the cost grows with the size"


class TargetFinding(NamedTuple):
    """An input that breaks a rule, and where."""

    target: str
    rule: str
    detail: str
    place: str
    data: bytes

    def __str__(self) -> str:
        shown = self.data if len(self.data) <= 200 else self.data[:200] + b"..."
        return f"{self.target}: {self.rule}: {self.detail} ({self.place}) for {shown!r}"


@dataclass
class TargetRun:
    """The result of a campaign against one target."""

    target: FuzzTarget
    executions: int = 0
    outcomes: int = 0
    findings: list[TargetFinding] = field(default_factory=list)
    guided: bool = False

    def add(self, finding: TargetFinding) -> None:
        """Keep a finding unless there is one at the same place by the same rule."""
        if not any((one.rule, one.place) == (finding.rule, finding.place) for one in self.findings):
            self.findings.append(finding)


class _OverrunError(BaseException):
    """An input that takes too long. Not an Exception, so that no parser catches it."""


def tried(target: FuzzTarget, data: bytes) -> tuple[str, TargetFinding | None]:
    """Feed one input: its outcome, and what is wrong with it."""
    try:
        return target.check(data), None
    except Violation as broken:
        return "", TargetFinding(target.name, broken.rule, broken.detail, broken.rule, data)
    except _OverrunError as error:
        return "", TargetFinding(
            target.name, IN_TIME, f"more than {CPU_LIMIT:g} s of CPU", _place(error), data
        )
    except Exception as error:  # noqa: BLE001 - any undocumented exception is the finding
        detail = f"{type(error).__name__}: {error}"[:300]
        return "", TargetFinding(target.name, NO_ESCAPE, detail, _place(error), data)


def _place(error: BaseException) -> str:
    """The innermost line of the product in a traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/stowplan/" in frame.filename]
    own = [frame for frame in frames if "/fuzz/" not in frame.filename] or frames
    if not own:
        return type(error).__name__
    return f"{type(error).__name__} in {Path(own[-1].filename).name}:{own[-1].name}"


def mutate(target: FuzzTarget, rng: Random, number: int) -> list[TargetFinding]:
    """Feed a number of mutated inputs: the short campaign of the tests, the same for the same generator."""
    run = TargetRun(target)
    with _limited():
        for _ in _fed(run, rng, lambda: run.executions < number, grow=False):
            continue
    return run.findings


def campaign(target: FuzzTarget, seconds: float, rng: Random, show: Callable[[TargetRun], None]) -> TargetRun:
    """Mutate inputs for some seconds, within limits of CPU time for each."""
    run = TargetRun(target)
    ends = time.monotonic() + seconds
    with _limited():
        for number in _fed(run, rng, lambda: time.monotonic() < ends, grow=True):
            if not number % 1000:
                show(run)
    return run


def _fed(run: TargetRun, rng: Random, goes_on: Callable[[], bool], *, grow: bool) -> Iterator[int]:
    target = run.target
    known: dict[str, int] = {}
    kept: list[bytes] = []
    waiting = [*target.failed_once, *target.seeds]
    while goes_on():
        data = waiting.pop() if waiting else _mutated(rng.choice(kept), kept, target, rng)
        with _clocked():
            outcome, finding = tried(target, data)
        run.executions += 1
        if finding is not None:
            run.add(finding)
        elif outcome not in known or (data not in kept and len(kept) < len(target.seeds)):
            known[outcome] = len(kept)
            kept.append(data)
            del kept[: max(0, len(kept) - _MOST_KEPT)]
        if not kept:
            kept.append(b"")
        if grow and not run.executions % _GROWTH_EVERY:
            _check_growth(run, rng.choice(kept), rng)
        run.outcomes = len(known)
        yield run.executions


def _mutated(data: bytes, kept: list[bytes], target: FuzzTarget, rng: Random) -> bytes:
    """An input with one to eight changes."""
    made = bytearray(data)
    for _ in range(1 << rng.randrange(4)):
        at = rng.randrange(len(made) + 1)
        end = min(len(made), at + 1 + rng.randrange(16))
        match rng.randrange(9):
            case 0:
                made[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 5)))
            case 1:
                del made[at:end]
            case 2 if at < len(made):
                made[at] ^= 1 << rng.randrange(8)
            case 3 if at < len(made):
                made[at] = rng.choice((0, 1, 9, 10, 13, 32, 127, 128, 255))
            case 4:
                made[at:at] = made[at:end] * rng.randrange(1, 8)
            case 5 if target.words:
                made[at:at] = rng.choice(target.words)
            case 6 if target.words:
                made[at:end] = rng.choice(target.words)
            case 7:
                other = rng.choice(kept)
                begin = rng.randrange(len(other) + 1)
                made[at:end] = other[begin : begin + rng.randrange(1, 64)]
            case _:
                begin = rng.randrange(len(made) + 1)
                made[at:at] = made[begin : begin + rng.randrange(1, 32)]
    return bytes(made[:LONGEST])


def _check_growth(run: TargetRun, data: bytes, rng: Random) -> None:
    """Repeat a part of an input until it is large, and compare what that costs with a smaller one."""
    if not data:
        return
    at = rng.randrange(len(data))
    part = data[at : at + 1 + rng.randrange(24)]
    sizes = [data[:at] + part * (size // len(part)) + data[at:] for size in (_SMALL, _LARGE)]
    costs = [math.inf, math.inf]
    for which in _ROUNDS:
        began = time.process_time()
        with _clocked():
            _, finding = tried(run.target, sizes[which])
        run.executions += 1
        costs[which] = min(costs[which], time.process_time() - began)
        if finding is not None:
            run.add(finding)
            return
        if which and costs[1] <= _NOTICED:
            return
    if costs[1] > _NOTICED and costs[1] > costs[0] * (_LARGE / _SMALL) * _GROWTH:
        detail = f"{costs[0] * 1000:.1f} ms for {_SMALL} bytes, {costs[1] * 1000:.1f} ms for {_LARGE}"
        run.add(TargetFinding(run.target.name, LINEAR, f"{detail}, of {part!r}", LINEAR, sizes[1]))


def _overrun(signum: int, frame: FrameType | None) -> None:
    raise _OverrunError


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """A block in which inputs can be ended by a timer of CPU time."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _overrun)
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def _clocked() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
