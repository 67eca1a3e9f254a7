"""Waiting for something in real time, on a machine that may be slow.

Tests return as soon as what they wait for holds, so the limit costs nothing: it only ends a test that
would wait for ever, and is far beyond what a loaded machine needs.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 120.0
"""Seconds after which what has not happened never will."""
KUBECTL_PATIENCE = f"--timeout={PATIENCE:.0f}s"
"""The same for `kubectl wait`, `rollout status`, `drain` and `delete`."""


def until(
    holds: Callable[[], object], why: Callable[[], object] = lambda: "", *, pause: float = 0.02
) -> None:
    """Wait until something holds; `why` tells what was there instead.

    A question that starts a process, such as kubectl, deserves a longer `pause`: it costs more than an answer
    that comes a little later.
    """
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(pause)


@contextmanager
def within_cpu(seconds: float) -> Iterator[None]:
    """The block takes less than this much of the process's CPU, which does not depend on other processes."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    assert took < seconds, f"{took:.1f} s of CPU"


async def eventually(holds: Callable[[], object], why: Callable[[], object] = lambda: "") -> None:
    """Wait until something holds while the loop runs."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while not holds():
        assert loop.time() < deadline, why()
        await asyncio.sleep(0.01)
