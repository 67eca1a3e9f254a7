"""Processes of a benchmark: the memory of this one, and an API server in one of its own."""

import asyncio
import resource
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

MIB = 1 << 20


def rss() -> int:
    """The memory this process holds now, in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def peak_rss() -> int:
    """The most memory this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


_START_TIMEOUT: Final = 20.0
"""Seconds a server may take to listen."""


@asynccontextmanager
async def server_process(data_dir: str | None = None) -> AsyncIterator[Path]:
    """Run `stowplan apiserver` for as long as the block takes; gives the path of its kubeconfig."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from stowplan.cli.main import main; main()",
            "apiserver",
            "--kubeconfig-out",
            str(kubeconfig),
            *([] if data_dir is None else ["--data-dir", data_dir]),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), _START_TIMEOUT)
            if not line.startswith(b"listening"):
                raise RuntimeError(f"expected the server to listen, got {line.decode()!r}")
            await process.stdout.readline()
            yield kubeconfig
        finally:
            process.terminate()
            await process.wait()
