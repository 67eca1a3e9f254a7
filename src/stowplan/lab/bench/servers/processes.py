"""Processes of a benchmark: the memory and event loop of this one, and an API server in another one."""

import asyncio
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from stowplan.runtime.clock import LoopWatchdog

T = TypeVar("T")

MIB = 1 << 20


def rss() -> int:
    """The memory this process holds now, in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def peak_rss() -> int:
    """The most memory this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def run_watched(main: Callable[[LoopWatchdog], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on an event loop whose holds are measured, by CPU time: others may use the machine."""
    watchdog = LoopWatchdog(by_cpu=True)
    with asyncio.Runner(loop_factory=watchdog.new_loop) as runner, watchdog:
        return runner.run(main(watchdog))


def longest_hold_ms(watchdog: LoopWatchdog) -> float:
    """The longest time the loop was held, garbage collection left out: 0 if never past the limit."""
    hold = watchdog.longest
    return round((hold.cpu - hold.collecting) * 1e3, 1)


_START_TIMEOUT: Final = 20.0
"""Seconds a server may take to listen."""


@asynccontextmanager
async def server_process(
    data_dir: str | None = None, *, seconds: float = _START_TIMEOUT
) -> AsyncIterator[Path]:
    """Run `stowplan apiserver` for the duration of the block; yields the path of its kubeconfig.

    It has to listen within `seconds`.

    No controllers run with it, so features that wait for them are switched off: accounts of pods, taints of
    new nodes.
    """
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from stowplan.cli.main import main; main()",
            "apiserver",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--kubeconfig-out",
            str(kubeconfig),
            *([] if data_dir is None else ["--data-dir", data_dir]),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), seconds)
            if not line.startswith(b"listening"):
                raise RuntimeError(f"expected the server to listen, got {line.decode()!r}")
            await process.stdout.readline()
            yield kubeconfig
        finally:
            process.terminate()
            # Reads its output to the end: a pipe that is left open cannot be closed after its loop.
            await process.communicate()
