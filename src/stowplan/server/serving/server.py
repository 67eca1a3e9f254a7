"""The secure port: HTTPS, delegated authentication and authorization, and the pages behind them."""

import asyncio
import contextlib
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from stowplan.client import Client, Writer
from stowplan.client.http.certfiles import FileStamps
from stowplan.runtime.clock import Clock, RealClock
from stowplan.runtime.logs import Logger
from stowplan.server.serving.authentication import DelegatedAuthenticator, TokenAuthenticator
from stowplan.server.serving.authorization import Authorizer
from stowplan.server.serving.certificates import Certificates, CertificateSource, subject_of
from stowplan.server.serving.clientca import ClientCAs
from stowplan.server.serving.clientcertificates import CertificateUser
from stowplan.server.serving.connections import ConnectionHandler, PortConnections
from stowplan.server.serving.filters import FilterChain, Pages, set_common_headers
from stowplan.server.serving.keys import NewKey, new_key
from stowplan.server.serving.reviews import UNOBSERVED, AccessObserver, ReviewError
from stowplan.server.serving.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    Limits,
    ServingError,
    ServingSettings,
)
from stowplan.server.serving.tls import TLSContexts

RELOAD_EVERY: Final = 1.0
"""Seconds between two checks of the files."""

_GRACE: Final = 2.0
"""Seconds that requests in flight have to finish when the port closes."""

_SILENT: Final = logging.Logger("stowplan.server.serving", level=logging.CRITICAL + 1)
"""Discards aiohttp's messages about malformed requests, which any client can trigger."""


class SecureServer:
    """Serves pages over HTTPS. `async with` starts and stops it; with port 0 it does nothing.

    Invalid settings raise `ServingError`, here or in `start`. The clients are for TokenReviews and
    SubjectAccessReviews. Without them bearer tokens are ignored, and beyond the paths that are always allowed
    only system:masters with a client certificate get a response.
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
        logger: Logger | None = None,
        limits: Limits | None = None,
        observer: AccessObserver = UNOBSERVED,
        reload_every: float = RELOAD_EVERY,
        key_for: NewKey = new_key,
    ) -> None:
        clock, rng, logger = clock or RealClock(), rng or random.Random(), logger or Logger()
        authentication = authentication or AuthenticationSettings()
        self._settings = serving or ServingSettings()
        self._clock = clock
        self._logger = logger
        self._limits = limits or Limits()
        self._reload_every = reload_every
        self._key_for = key_for
        self._contexts = TLSContexts(self._settings, logger)
        self._client_cas = ClientCAs(
            authentication, authentication_client, self._apply, clock=clock, rng=rng, logger=logger
        )
        self._tokens = (
            None
            if authentication_client is None
            else TokenAuthenticator(
                authentication_client, clock, rng, authentication.token_cache_ttl, observer
            )
        )
        self._authorizer = Authorizer(
            authorization or AuthorizationSettings(),
            authorization_client,
            clock=clock,
            rng=rng,
            logger=logger,
            observer=observer,
        )
        self._filters = FilterChain(
            pages,
            DelegatedAuthenticator(self._client_cas, self._tokens, clock, observer),
            self._authorizer,
            max_in_flight=self._limits.requests,
            clock=clock,
            logger=logger,
            observer=observer,
        )
        self._source: CertificateSource | None = None
        self._certificates: Certificates | None = None
        self._stamps = FileStamps(())
        self._runner: web.AppRunner | None = None
        self._connections: PortConnections | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._address = ""
        self.port = 0

    async def may_read(self, user: CertificateUser, resource: str, namespace: str) -> bool:
        """True if a user may get objects of a resource; False if the review fails."""
        try:
            return await self._authorizer.may_read(user, resource, namespace)
        except ReviewError as error:
            self._logger.error("Failed to make webhook authorizer request", err=str(error))
            return False

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
            await self._load()
            factory = await self._start_http()
        except BaseException:
            listener.close()
            await self.stop()
            raise
        self._connections = PortConnections(
            listener, factory, self._contexts.for_address, self._limits, self._logger
        )
        self._connections.start()
        self._reloading = asyncio.create_task(self._reload())
        host, self.port = listener.getsockname()[:2]
        self._address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._logger.plain(0, f"Serving securely on {self._address}")

    async def stop(self) -> None:
        """Stop listening, and let requests in flight finish."""
        if self._reloading is not None:
            self._reloading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reloading
        if self._connections is not None:
            await self._connections.stop()
            self._logger.plain(0, f"Stopped listening on {self._address}")
        if self._runner is not None:
            await self._runner.cleanup()
        await self._client_cas.stop()
        if self._tokens is not None:
            self._tokens.clear()
        self._authorizer.clear()

    async def _load(self) -> None:
        """Load certificates and client CAs. Finding a new key takes long, so others run meanwhile."""
        self._source = await asyncio.to_thread(
            CertificateSource, self._settings, self._clock, self._logger, self._key_for
        )
        self._stamps = FileStamps(self._source.files)
        self._certificates = self._source.read()
        await self._client_cas.start()
        try:
            self._contexts.replace(self._certificates, self._client_cas.pem)
        except ssl.SSLError as error:
            raise ServingError(f"certificates or authorities cannot be used: {error}") from None
        self._logger.info(2, "Loaded serving cert", certDetail=subject_of(self._certificates.default))

    async def _start_http(self) -> Callable[[], ConnectionHandler]:
        """The HTTP server without a socket: aiohttp's own could not change certificates while it runs."""
        application = web.Application(middlewares=[self._handle], client_max_size=self._limits.body)
        application.on_response_prepare.append(set_common_headers)
        self._runner = web.AppRunner(
            application, handle_signals=False, handler_cancellation=True, shutdown_timeout=_GRACE
        )
        await self._runner.setup()
        server = self._runner.server
        if server is None:
            raise AssertionError("a runner that is set up has a server")
        return partial(
            ConnectionHandler,
            server,
            max_unread=self._limits.head,
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
    async def _handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The application has no routes: every request goes to the filter chain."""
        if self._connections is None:
            return await self._filters.handle(request)
        with self._connections.busy(request):
            return await self._filters.handle(request)

    async def _reload(self) -> None:
        while True:
            await asyncio.sleep(self._reload_every)
            self._reread()
            self._client_cas.reread()

    def _reread(self) -> None:
        if self._source is None or not self._stamps.changed():
            return
        try:
            self._certificates = self._source.read()
        except ServingError as error:
            self._logger.error("Certificates cannot be reloaded; keeping those in use", err=str(error))
            return
        self._logger.info(2, "Loaded serving cert", certDetail=subject_of(self._certificates.default))
        self._apply()

    def _apply(self) -> None:
        """Use the current certificates and client CAs for new connections."""
        if self._certificates is None:
            return
        try:
            self._contexts.replace(self._certificates, self._client_cas.pem)
        except ssl.SSLError as error:
            self._logger.error("Certificates or authorities cannot be used; keeping the last", err=str(error))


def listen(settings: ServingSettings) -> socket.socket:
    """The listening socket. Raises `ServingError` if the address cannot be bound.

    SO_REUSEADDR is always set, as in kube-scheduler; SO_REUSEPORT only with `permit_port_sharing`.
    """
    try:
        address = ip_address(settings.bind_address)
    except ValueError:
        raise ServingError(f"--bind-address: expected an IP address, got {settings.bind_address!r}") from None
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    port = 0 if settings.any_free_port else settings.port
    try:
        return socket.create_server(
            (settings.bind_address, port),
            family=family,
            backlog=1024,
            reuse_port=settings.permit_port_sharing,
            dualstack_ipv6=address.version == 6 and address.is_unspecified,
        )
    except OSError as error:
        host = f"[{address}]" if address.version == 6 else str(address)
        where = f"{host}:{port}"
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise ServingError(
            f"failed to create listener: failed to listen on {where}: listen tcp {where}: bind: {why}"
        ) from None
