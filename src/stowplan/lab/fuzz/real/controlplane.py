"""A control plane of real binaries on this machine: etcd and kube-apiserver, for as long as a block takes.

Everything listens on loopback, on free ports, with its data in a folder that goes with it. There are no
controllers and no kubelets, so what would wait for them (service accounts, taints of new nodes, finalizers
of storage) is switched off.
"""

import asyncio
import ssl
import time
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from stowplan.localcluster.apiserver.server import kubeconfig, write_kubeconfig
from stowplan.server.serving.certificates import Certificate, self_signed
from stowplan.testing.ports import free_port
from stowplan.testing.processes import Process

GATES: Final = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
"""Feature gates of API server and schedulers beyond the defaults: groups, and groups of groups."""

STARTED_WITHIN: Final = 120.0
"""Seconds for a process to be ready; kube-apiserver takes 10 on a busy machine."""

_TOKEN: Final = "fuzz"
_WITHOUT: Final = (
    "ServiceAccount",
    "TaintNodesByCondition",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
)
_CONNECTIONS: Final = 32
_POLL: Final = 0.1


class StartError(Exception):
    """A program could not be started; the text is for the user."""


class Reply(msgspec.Struct, frozen=True):
    """The answer to a request: its code and its text."""

    code: int
    text: bytes

    @property
    def is_ok(self) -> bool:
        return self.code < 300

    def json(self) -> Any:
        return msgspec.json.decode(self.text)

    @property
    def message(self) -> str:
        """The message of a Status, or the text itself."""
        try:
            found = self.json()
        except msgspec.MsgspecError:
            found = None
        if isinstance(found, dict) and isinstance(found.get("message"), str):
            return str(found["message"])
        return self.text.decode(errors="replace")


class RealApiServer:
    """An API server that answers at `url`, and a kubeconfig for it. Any number of requests at a time."""

    def __init__(self, url: str, certificate: bytes, token: str, folder: Path) -> None:
        self.url = url
        self.kubeconfig = folder / "kubeconfig"
        write_kubeconfig(self.kubeconfig, kubeconfig(url, certificate, token))
        self._trust = ssl.create_default_context(cadata=certificate.decode())
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> Reply:
        """One request. Raises `aiohttp.ClientError`, OSError or TimeoutError without an answer."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {self._token}"},
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=self._trust),
                timeout=aiohttp.ClientTimeout(total=60),
            )
        headers = {"Content-Type": kind}
        async with self._session.request(method, self.url + path, data=body, headers=headers) as answer:
            return Reply(answer.status, await answer.read())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class ControlPlane:
    """etcd and kube-apiserver; `async with` starts and ends both. Raises StartError."""

    def __init__(self, etcd: Path, apiserver: Path, folder: Path) -> None:
        self._etcd_binary = etcd
        self._apiserver_binary = apiserver
        self._folder = folder
        self._etcd = Process("etcd")
        self._apiserver = Process("kube-apiserver")
        port = free_port()
        certificate = self_signed("kube-apiserver", ["127.0.0.1", "localhost"], time.time())
        self._certificate_file, self._key_file = folder / "server.crt", folder / "server.key"
        certificate.write(self._certificate_file, self._key_file)
        self._port = port
        self.api = RealApiServer(f"https://127.0.0.1:{port}", certificate.certificate, _TOKEN, folder)
        self.certificate: Certificate = certificate

    async def __aenter__(self) -> RealApiServer:
        try:
            etcd_url = await self._start_etcd()
            await self._start_apiserver(etcd_url)
        except BaseException:
            await self._stop()
            raise
        return self.api

    async def __aexit__(self, *exc: object) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await self.api.close()
        await self._apiserver.kill()
        await self._etcd.kill()

    async def _start_etcd(self) -> str:
        url, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        await started(
            self._etcd,
            str(self._etcd_binary),
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )
        async with aiohttp.ClientSession() as session:

            async def is_healthy() -> bool:
                async with session.get(f"{url}/health") as answer:
                    return answer.status == 200

            await until_ready(self._etcd, is_healthy)
        return url

    async def _start_apiserver(self, etcd_url: str) -> None:
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f'{_TOKEN},fuzz,fuzz,"system:masters"\n', encoding="utf-8")
        gates = ",".join(f"{name}=true" for name in GATES)
        await started(
            self._apiserver,
            str(self._apiserver_binary),
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self._folder}",
            f"--tls-cert-file={self._certificate_file}",
            f"--tls-private-key-file={self._key_file}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=AlwaysAllow",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._key_file}",
            f"--service-account-signing-key-file={self._key_file}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--enable-priority-and-fairness=false",
            "--delete-collection-workers=16",
            f"--disable-admission-plugins={','.join(_WITHOUT)}",
            "--runtime-config=api/all=true",
            f"--feature-gates={gates}",
        )

        async def is_ready() -> bool:
            return (await self.api.request("GET", "/readyz")).code == 200

        await until_ready(self._apiserver, is_ready)


async def started(process: Process, *command: str) -> None:
    """Start a process. Raises StartError if the program cannot be run."""
    try:
        await process.spawn(*command)
    except OSError as error:
        raise StartError(f"{command[0]}: {error.strerror or error}") from None


async def until_ready(process: Process, is_ready: Any) -> None:
    """Wait until a process that was started is ready. Raises StartError if it ends or takes too long."""
    deadline = time.monotonic() + STARTED_WITHIN
    while True:
        if process.code is not None:
            raise StartError(f"{process.name} ended with {process.code}: {_last_words(process)}")
        try:
            if await is_ready():
                return
        except (aiohttp.ClientError, OSError, TimeoutError):
            pass
        if time.monotonic() > deadline:
            raise StartError(f"{process.name} was not ready within {STARTED_WITHIN:g} s")
        await asyncio.sleep(_POLL)


def _last_words(process: Process) -> str:
    """The last line that says something: kube-apiserver prints its error first, then all flags."""
    lines = [line for line in process.lines if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "err:", "f1", "e1"))]
    return (errors or lines or ["it said nothing"])[-1][:300]
