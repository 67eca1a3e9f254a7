"""Real processes for the campaign: an API server, schedulers, and the network between them."""

import asyncio
import contextlib
import os
import signal
import ssl
import struct
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import aiohttp

from stowplan.embedded.apiserver.server import kubeconfig, self_signed, write_kubeconfig

TOKEN: Final = "campaign"
LEASE: Final = 4.0
RENEW: Final = 3.0
RETRY: Final = 0.5
"""Seconds of --leader-elect-lease-duration, -renew-deadline and -retry-period."""

JITTER: Final = 1.2
"""A candidate waits for up to 1 + 1.2 retry periods between two tries, as client-go does."""

_STARTED_WITHIN: Final = 60.0
_MAIN: Final = "from stowplan.cli.main import main; main()"
_CHUNK: Final = 1 << 16

Json = dict[str, Any]


class Link:
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


def _send(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """By its id: `send_signal` looks first whether the child has ended, and asyncio then never learns how."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, number)


class Process:
    """A child process and the lines it has written to stderr."""

    warm_after = 3
    """Rounds after which it has seen everything once, so that its memory should not grow any more."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.paused = False
        self.expected_codes: set[int] = set()
        """Exit codes that the campaign has asked for: 0 after SIGTERM, -9 after SIGKILL."""
        self._child: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def _spawn(self, *command: str) -> None:
        self.lines, self.expected_codes, self.paused = [], set(), False
        self._child = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        self._reading = asyncio.create_task(self._read(self._child))

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        async for line in child.stdout:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        return None if self._child is None else self._child.returncode

    def says(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def signal(self, number: signal.Signals, expected: int | None = None) -> None:
        if self._child is not None and self.code is None:
            _send(self._child, number)
            self.paused = number == signal.SIGSTOP or (self.paused and number != signal.SIGCONT)
            if expected is not None:
                self.expected_codes.add(expected)

    @property
    def pid(self) -> int:
        """The id of the process, 0 if it does not run; another one means that it was started again."""
        return 0 if self._child is None or self.code is not None else self._child.pid

    def resident(self) -> int:
        """Bytes of memory that the process holds, 0 if it does not run."""
        with contextlib.suppress(OSError):
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
        return 0

    async def kill(self) -> None:
        if self._child is None:
            return
        if self.code is None:
            _send(self._child, signal.SIGKILL)
        await self._child.wait()
        if self._reading is not None:
            await self._reading


class SchedulerProcess(Process):
    """`stowplan run` behind a link of its own, with a wall clock of its own."""

    def __init__(self, number: int, folder: Path, server_port: int) -> None:
        super().__init__(f"scheduler-{number}")
        self.link = Link(server_port)
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
        await self._spawn(
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
        """Set the wall clock of the process so many seconds ahead of the machine's."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", seconds))

    @property
    def is_candidate(self) -> bool:
        """Whether it has synced its caches and takes part in the election."""
        return any("Attempting to acquire leader lease" in line for line in self.lines)

    @property
    def leads(self) -> bool:
        """Whether the last it said about the lease is that it has it."""
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
        await self._spawn(
            "-c",
            _MAIN,
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
