"""Schedulers as processes: `stowplan run` or another program that takes kube-scheduler's flags.

A scheduler that exits is started again, as a kubelet would do it, and its exits are counted. Its `/livez` is
probed twice a second, with a second to answer, as by a strict kubelet.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp

from stowplan.lab.fuzz.real.controlplane import GATES, started, until_ready
from stowplan.testing.ports import free_port
from stowplan.testing.processes import Process

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
