"""The server itself: sockets, TLS, start and stop, and the kubeconfig that clients connect with."""

import asyncio
import base64
import contextlib
import logging
import os
import random
import secrets
import ssl
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from stowplan.api.catalogue import Resource
from stowplan.api.releases import DEFAULT, Release
from stowplan.localcluster.apiserver.bodies import BODY_LIMIT
from stowplan.localcluster.apiserver.handler import RequestHandler
from stowplan.localcluster.apiserver.verbs import Notices
from stowplan.localcluster.apiserver.watch import BUFFER_LIMIT as LIMIT_OF_WATCHES
from stowplan.localcluster.auth.authentication import Authenticator
from stowplan.localcluster.auth.certificates import CertificateAuthority
from stowplan.localcluster.auth.tokens import DEFAULT_ISSUER, SigningKey, TokenIssuer
from stowplan.localcluster.objects.usage import PretendUsage
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import Clock, RealClock
from stowplan.runtime.gc_tuning import return_free_memory
from stowplan.server.serving import certificates
from stowplan.server.serving.certificates import Certificate

_HOSTS: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "127.0.0.1",
    "::1",
)


def self_signed(addresses: list[str], now: float) -> Certificate:
    """A new certificate for these addresses and for this machine's own names."""
    return certificates.self_signed("stowplan", [*_HOSTS, *addresses], now)


_NAME: Final = "stowplan"


def kubeconfig(url: str, certificate: bytes | None, token: str | None) -> str:
    """The text of a kubeconfig for one server."""
    cluster: dict[str, Any] = {"server": url}
    if certificate is not None:
        cluster["certificate-authority-data"] = base64.b64encode(certificate).decode()
    user = {} if token is None else {"token": token}
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }
    text: str = yaml.safe_dump(data, sort_keys=False)
    return text


def write_kubeconfig(path: Path, text: str) -> None:
    """Write it so that only its owner can read it."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def kubeconfig_path(wanted: Path | None) -> Path:
    """Path of the kubeconfig: the requested one, or a new file in the temporary folder."""
    if wanted is not None:
        return wanted.absolute()
    with tempfile.NamedTemporaryFile(prefix="stowplan-", suffix=".kubeconfig", delete=False) as file:
        return Path(file.name)


BOOKMARKS: Final = 30.0
"""Seconds between two bookmarks of a watch."""

_MANY_WATCHES: Final = 20
_MANY_BYTES: Final = 4 * 1024 * 1024
"""Watches ended, or bytes of history dropped, between two bookmarks: then free memory is given back."""

IDLE: Final = 90.0
"""Seconds that a connection may be without a complete request, as with kube-apiserver."""

_GRACE: Final = 2.0
"""Seconds that requests under way are given when the server stops."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen and whom to let in.

    Port 0 takes any free one. Without a token one is made up; `open_to_all` asks for none. `plain` leaves
    TLS out. `issuer` is the URL that tokens of service accounts name as theirs.
    """

    bind: str = "127.0.0.1"
    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    open_to_all: bool = False
    plain: bool = False
    issuer: str = DEFAULT_ISSUER


class ApiServer:
    """A store behind HTTPS. `async with` begins and ends it.

    `signing_key` signs the tokens of service accounts, `authority` certificates; new ones if they are None.
    `watch_limit` is the number of bytes a watcher may lag behind before it is disconnected. `stored_only` are
    kinds without a controller: their writers get a warning, and those that `notices` has for an object. With
    `usage`, metrics.k8s.io is served.
    """

    def __init__(
        self,
        store: Store,
        listening: Listening | None = None,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        signing_key: SigningKey | None = None,
        watch_limit: int = LIMIT_OF_WATCHES,
        stored_only: Collection[Resource] = (),
        usage: PretendUsage | None = None,
        release: Release = DEFAULT,
        notices: Notices = lambda resource, obj: (),
        authority: CertificateAuthority | None = None,
    ) -> None:
        self._store = store
        self._listening = Listening() if listening is None else listening
        self._clock = RealClock() if clock is None else clock
        rng = rng or random.Random()
        self.issuer = TokenIssuer(
            store, self._clock, rng, key=signing_key or SigningKey(), issuer=self._listening.issuer
        )
        token = None if self._listening.open_to_all else self._listening.token
        self._authenticator = Authenticator(token, self.issuer)
        self.handler = RequestHandler(
            store,
            self._authenticator,
            self.issuer,
            self._clock,
            rng,
            watch_limit,
            stored_only,
            usage,
            release,
            notices,
        )
        self._runner: web.ServerRunner | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self.authority = CertificateAuthority(self._clock.now()) if authority is None else authority
        self.port = 0

    @property
    def address(self) -> str:
        """Where clients find it: the address it is bound to, loopback if it is bound to all."""
        bind = self._listening.bind
        return "127.0.0.1" if bind in ("", "0.0.0.0", "::") else bind

    async def __aenter__(self) -> "ApiServer":
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen. Raises OSError if the address cannot be had."""
        server = web.Server(
            self.handler,
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            logger=_connection_log(),
            keepalive_timeout=IDLE,
            auto_decompress=False,
        )
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=_GRACE)
        await self._runner.setup()
        listening = self._listening
        site = web.TCPSite(
            self._runner, listening.bind, listening.port, ssl_context=self._tls(), backlog=1024
        )
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._upkeep = asyncio.create_task(self._keep_up())

    async def stop(self) -> None:
        """End all watches, let requests under way finish, and listen no more."""
        if self._upkeep is not None:
            self._upkeep.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._upkeep
        self.handler.health.is_stopping = True
        self.handler.reads.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        scheme = "http" if self._listening.plain else "https"
        host = self._listening.bind
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def token(self) -> str | None:
        return self._authenticator.token

    @property
    def certificate(self) -> bytes | None:
        """CA of the server's certificate, None without TLS."""
        return None if self._listening.plain else self.authority.certificate

    def kubeconfig(self) -> str:
        """How clients get in."""
        return kubeconfig(self.url, self.certificate, self.token)

    def _tls(self) -> ssl.SSLContext | None:
        if self._listening.plain:
            return None
        hosts = [*_HOSTS, self._listening.bind]
        context = self.authority.serving_certificate(hosts, self._clock.now()).context()
        # Clients may have a certificate: whom it names is their user.
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.authority.certificate.decode())
        return context

    async def _keep_up(self) -> None:
        """Limit the history every second; send bookmarks, and return memory to the system, less often."""
        dropped, due = 0, BOOKMARKS
        while True:
            await asyncio.sleep(min(1.0, due))
            due -= 1.0
            dropped += self._store.compact_history(self._clock.monotonic())
            if due <= 0.0:
                self._store.send_bookmarks()
                ended = self.handler.reads.take_ended_watches()
                if ended >= _MANY_WATCHES or dropped >= _MANY_BYTES:
                    return_free_memory()
                dropped, due = 0, BOOKMARKS


def _connection_log() -> logging.Logger:
    """The log of the HTTP implementation, which has a traceback for every request that is not HTTP.

    That is the client's affair: there is an answer for it, and a line for those who debug.
    """
    log = logging.getLogger(f"{__name__}.connections")
    if not log.filters:
        log.addFilter(_is_our_affair)
    return log


def _is_our_affair(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    logging.getLogger(__name__).debug("request refused: %.200s", " ".join(str(error).split()))
    return False


def _request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: "asyncio.Task[None]"
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)
