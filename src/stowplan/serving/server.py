"""The secure port: HTTPS, who may ask, and the pages behind it."""

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from stowplan.client import Client, Writer
from stowplan.client.http.certfiles import FileStamps
from stowplan.clock import Clock, RealClock
from stowplan.logs import Journal
from stowplan.serving.authentication import Authenticator
from stowplan.serving.authorization import Authorizer
from stowplan.serving.certificates import Certificates, CertificateSource, subject_of
from stowplan.serving.connections import Connections
from stowplan.serving.contexts import Contexts
from stowplan.serving.conversation import Conversation
from stowplan.serving.errors import ServingError
from stowplan.serving.gate import Gate, dress
from stowplan.serving.limits import Limits
from stowplan.serving.listening import listen
from stowplan.serving.observer import UNOBSERVED, AccessObserver
from stowplan.serving.routing import Pages
from stowplan.serving.settings import AuthenticationSettings, AuthorizationSettings, ServingSettings
from stowplan.serving.tokens import TokenReviews
from stowplan.serving.trust import Trust

RELOAD_EVERY: Final = 1.0
"""Seconds between two looks at the files."""

_GRACE: Final = 2.0
"""Seconds that requests under way are given when the port closes."""

_SILENT: Final = logging.Logger("stowplan.serving", level=logging.CRITICAL + 1)
"""Takes what aiohttp says of malformed requests: anybody can send those, and nobody wants to read of each."""


class SecureServer:
    """Pages behind HTTPS. `async with` begins and ends it; with port 0 it does nothing at all.

    Settings that cannot be used raise `ServingError`, here or when it starts. The clients are for asking the
    API server who somebody is and what they may do; without them tokens mean nothing, and only what is always
    allowed is answered (and the rest to system:masters, who need a certificate then).
    """

    def __init__(
        self,
        pages: Pages,
        serving: ServingSettings | None = None,
        authentication: AuthenticationSettings | None = None,
        authorization: AuthorizationSettings | None = None,
        *,
        authentication_client: Client | None = None,
        authorization_client: Writer | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        journal: Journal | None = None,
        limits: Limits | None = None,
        observer: AccessObserver = UNOBSERVED,
        reload_every: float = RELOAD_EVERY,
    ) -> None:
        clock, rng, journal = clock or RealClock(), rng or random.Random(), journal or Journal()
        known_by = authentication or AuthenticationSettings()
        self._settings = serving or ServingSettings()
        self._clock = clock
        self._journal = journal
        self._limits = limits or Limits()
        self._reload_every = reload_every
        self._contexts = Contexts(self._settings, journal)
        self._trust = Trust(
            known_by, authentication_client, self._apply, clock=clock, rng=rng, journal=journal
        )
        self._tokens = (
            None
            if authentication_client is None
            else TokenReviews(authentication_client, clock, rng, known_by.token_cache_ttl, observer)
        )
        self._authorizer = Authorizer(
            authorization or AuthorizationSettings(),
            authorization_client,
            clock=clock,
            rng=rng,
            journal=journal,
            observer=observer,
        )
        self._gate = Gate(
            pages,
            Authenticator(self._trust, self._tokens, clock, observer),
            self._authorizer,
            most_requests=self._limits.requests,
            clock=clock,
            journal=journal,
            observer=observer,
        )
        self._source: CertificateSource | None = None
        self._certificates: Certificates | None = None
        self._stamps = FileStamps(())
        self._runner: web.AppRunner | None = None
        self._connections: Connections | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._address = ""
        self.port = 0

    async def __aenter__(self) -> "SecureServer":
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def open_connections(self) -> int:
        return 0 if self._connections is None else len(self._connections)

    async def start(self) -> None:
        """Listen. Raises `ServingError`."""
        if not self._settings.enabled:
            return
        listener = listen(self._settings)
        try:
            await self._prepare()
            factory = await self._set_up()
        except BaseException:
            listener.close()
            await self.stop()
            raise
        self._connections = Connections(
            listener, factory, self._contexts.for_address, self._limits, self._journal
        )
        self._connections.start()
        self._reloading = asyncio.create_task(self._reload())
        host, self.port = listener.getsockname()[:2]
        self._address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._journal.plain(0, f"Serving securely on {self._address}")

    async def stop(self) -> None:
        """Let requests under way finish, and listen no more."""
        if self._reloading is not None:
            self._reloading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reloading
        if self._connections is not None:
            await self._connections.stop()
            self._journal.plain(0, f"Stopped listening on {self._address}")
        if self._runner is not None:
            await self._runner.cleanup()
        await self._trust.stop()
        if self._tokens is not None:
            self._tokens.forget()
        self._authorizer.forget()

    async def _prepare(self) -> None:
        """Find certificates and authorities."""
        self._source = CertificateSource(self._settings, self._clock, self._journal)
        self._stamps = FileStamps(self._source.files)
        self._certificates = self._source.read()
        await self._trust.start()
        try:
            self._contexts.replace(self._certificates, self._trust.pem)
        except ssl.SSLError as error:
            raise ServingError(f"certificates or authorities cannot be used: {error}") from None
        self._journal.info(2, "Loaded serving cert", certDetail=subject_of(self._certificates.default))

    async def _set_up(self) -> Callable[[], Conversation]:
        """Everything up to the socket, which is ours: aiohttp could not change certificates under way."""
        application = web.Application(middlewares=[self._answer], client_max_size=self._limits.body)
        application.on_response_prepare.append(dress)
        self._runner = web.AppRunner(
            application, handle_signals=False, handler_cancellation=True, shutdown_timeout=_GRACE
        )
        await self._runner.setup()
        server = self._runner.server
        if server is None:
            raise AssertionError("a runner that is set up has a server")
        return partial(
            Conversation,
            server,
            most_unread=self._limits.head,
            loop=asyncio.get_running_loop(),
            logger=_SILENT,
            access_log=_SILENT,
            keepalive_timeout=self._limits.idle,
            max_line_size=self._limits.line,
            max_field_size=self._limits.header,
            max_headers=self._limits.headers,
            lingering_time=_GRACE,
            auto_decompress=False,
        )

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Stands in front of an application without routes, so nothing is answered but by the gate."""
        if self._connections is None:
            return await self._gate.answer(request)
        with self._connections.busy(request):
            return await self._gate.answer(request)

    async def _reload(self) -> None:
        while True:
            await asyncio.sleep(self._reload_every)
            self._reread()
            self._trust.reread()

    def _reread(self) -> None:
        if self._source is None or not self._stamps.changed():
            return
        try:
            self._certificates = self._source.read()
        except ServingError as error:
            self._journal.problem("Certificates cannot be reloaded; keeping those in use", err=str(error))
            return
        self._journal.info(2, "Loaded serving cert", certDetail=subject_of(self._certificates.default))
        self._apply()

    def _apply(self) -> None:
        """Let new connections begin with the certificates and authorities of now."""
        if self._certificates is None:
            return
        try:
            self._contexts.replace(self._certificates, self._trust.pem)
        except ssl.SSLError as error:
            self._journal.problem(
                "Certificates or authorities cannot be used; keeping the last", err=str(error)
            )
