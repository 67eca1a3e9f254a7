"""Real processes for the campaign: an API server, schedulers, and the network between them."""

import asyncio
import contextlib
import ssl
import struct
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import aiohttp

from stowplan.localcluster.apiserver.server import kubeconfig, self_signed, write_kubeconfig
from stowplan.testing.processes import STOWPLAN, Process

TOKEN: Final = "campaign"
LEASE: Final = 4.0
RENEW: Final = 3.0
RETRY: Final = 0.5
"""Seconds of --leader-elect-lease-duration, -renew-deadline and -retry-period."""

JITTER: Final = 1.2
"""A candidate waits for up to 1 + 1.2 retry periods between two tries, as client-go does."""

_STARTED_WITHIN: Final = 60.0
_CHUNK: Final = 1 << 16

Json = dict[str, Any]


class ProxyLink:
    """The network between one scheduler and the API server: HTTPS on the near side, cut in any direction.

    `cut` drops bytes on their way to the server, to the client, or both, while connections stay established
    (half-open). `refuse` resets connections and refuses new ones. `restore` ends either; connections from
    before a cut are reset then, as by a firewall that has lost its state.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._certificate = self_signed([], time.time())
        self._context: ssl.SSLContext = self._certificate.context()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[_Connection] = set()
        self._to_server = self._to_client = True
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self.refuse()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def kubeconfig(self) -> str:
        return kubeconfig(f"https://127.0.0.1:{self.port}", self._certificate.certificate, TOKEN)

    def cut(self, *, to_server: bool = False, to_client: bool = False) -> None:
        self._to_server, self._to_client = not to_server, not to_client

    def refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._reset()

    async def restore(self) -> None:
        if not (self._to_server and self._to_client):
            self._reset()
        self._to_server = self._to_client = True
        if self._server is None:
            await self.open()

    def _reset(self) -> None:
        """Whatever was sent before and has not arrived is lost."""
        for connection in self._open:
            connection.is_lost = True
            connection.near.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = _Connection(writer)
        self._open.add(connection)
        try:
            with contextlib.suppress(OSError):
                await self._forward(reader, connection)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            self._open.discard(connection)
            self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, connection: "_Connection") -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        copies = [
            asyncio.ensure_future(self._copy(connection, reader, far_writer, "_to_server")),
            asyncio.ensure_future(self._copy(connection, far_reader, connection.near, "_to_client")),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            far_writer.close()

    async def _copy(
        self, connection: "_Connection", reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str
    ) -> None:
        while data := await reader.read(_CHUNK):
            if getattr(self, way) and not connection.is_lost:
                writer.write(data)
                await writer.drain()


class _Connection:
    """A connection of a link, by its near side."""

    def __init__(self, near: asyncio.StreamWriter) -> None:
        self.near = near
        self.is_lost = False


class SchedulerProcess(Process):
    """`stowplan run` behind a separate link, with a separate wall clock."""

    def __init__(self, number: int, folder: Path, server_port: int) -> None:
        super().__init__(f"scheduler-{number}")
        self.link = ProxyLink(server_port)
        self._clock = folder / f"{self.name}.clock"
        self._clock.write_bytes(struct.pack("d", 0.0))
        self._kubeconfig = folder / f"{self.name}.kubeconfig"
        self.config = folder / f"{self.name}.yaml"
        self.may_lose_until = 0.0
        """Until when (monotonic) this process may find that it has lost its lease, and end with 1 for it."""

    async def start(self) -> None:
        if not self.link.port:
            await self.link.open()
        self.may_lose_until = 0.0
        self.step_clock(0.0)
        write_kubeconfig(self._kubeconfig, self.link.kubeconfig())
        self.write_config()
        await self.spawn(
            sys.executable,
            str(Path(__file__).with_name("launcher.py")),
            str(self._clock),
            "run",
            f"--config={self.config}",
            "--secure-port=0",
            f"--leader-elect-lease-duration={LEASE:g}s",
            f"--leader-elect-renew-deadline={RENEW:g}s",
            f"--leader-elect-retry-period={RETRY:g}s",
        )

    def write_config(self, backoff: int = 1) -> None:
        """The configuration file; another backoff makes it another one, for reloads."""
        self.config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"podInitialBackoffSeconds: {backoff}\n"
            f"clientConnection: {{kubeconfig: {self._kubeconfig}, qps: 200, burst: 400}}\n"
        )

    def step_clock(self, seconds: float) -> None:
        """Set the wall clock of the process ahead of the machine's."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", seconds))

    @property
    def is_candidate(self) -> bool:
        """True if it has synced its caches and takes part in the election."""
        return any("Attempting to acquire leader lease" in line for line in self.lines)

    @property
    def leads(self) -> bool:
        """True if its last message about the lease is that it has it."""
        for line in reversed(self.lines):
            if "Successfully acquired lease" in line:
                return True
            if "Lost the lease" in line:
                return False
        return False

    async def close(self) -> None:
        await self.kill()
        await self.link.close()


class ServerProcess(Process):
    """`stowplan apiserver` with its data on disk, so that it can be killed and started again."""

    warm_after = 60
    """It keeps the last 8,192 changes of every resource for watches; a round makes a few hundred."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__("apiserver")
        self._folder = folder
        self.port = port
        self.kubeconfig = folder / "admin.kubeconfig"
        self.session: aiohttp.ClientSession | None = None
        self._looked_at = 0

    async def start(self) -> None:
        self._looked_at = 0
        await self.spawn(
            *STOWPLAN,
            "apiserver",
            f"--port={self.port}",
            f"--token={TOKEN}",
            "--insecure-http",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--data-dir={self._folder / 'data'}",
            f"--kubeconfig-out={self.kubeconfig}",
        )
        deadline = time.monotonic() + _STARTED_WITHIN
        while not self.says("listening on"):
            if self.code is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the API server did not start: {' / '.join(self.lines[-3:])}")
            await asyncio.sleep(0.05)

    def new_failures(self) -> list[str]:
        """The requests since the last call that the server answered with a 500 it could not explain."""
        lines, self._looked_at = self.lines[self._looked_at :], len(self.lines)
        return [before for before, line in pairwise(lines) if line.startswith("Traceback (most recent call")]

    async def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """One request. Raises `aiohttp.ClientError` or OSError if the server is not there."""
        if self.session is None:
            self.session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, json=body) as answer:
            found: Json = await answer.json()
            if answer.status >= 400 and answer.status not in (404, 409):
                raise aiohttp.ClientError(f"{method} {path}: {found.get('message')}")
            return found

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()
        await self.kill()
