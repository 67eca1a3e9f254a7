"""The secure port of a process and the pages it serves."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from stowplan.api.pod import Pod
from stowplan.config.dump import dump
from stowplan.explain.web import PREFIX, Inspection, Routes, Viewer
from stowplan.explain.web.http import PAGE, respond
from stowplan.scheduler import Scheduler
from stowplan.scheduler.metrics import HealthMetrics, PodResources
from stowplan.server.clients import Clients
from stowplan.server.serving import Pages, SecureServer
from stowplan.server.serving.filters import USER
from stowplan.server.serving.keys import NewKey
from stowplan.server.serving.pages import PING, Component, Sources, all_pages, checks

if TYPE_CHECKING:
    from stowplan.server.process import Process


class SecurePort:
    """The secure port of a process, with all its pages."""

    def __init__(self, process: "Process", clients: Clients, key_for: NewKey) -> None:
        self._process = process
        self._key_for = key_for
        self._clients = clients
        self._started = process.clock.now()
        self._health = HealthMetrics(self._started)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Answer for as long as the block takes, if a port is wanted. Raises ServingError and ConfigError."""
        process, options = self._process, self._process.options
        if not options.serving.enabled:
            yield
            return
        async with AsyncExitStack() as stack:
            knowing = self._clients.delegate(options.authentication_kubeconfig)
            allowing = self._clients.delegate(options.authorization_kubeconfig)
            for client in (knowing, allowing):
                if client is not None:
                    await stack.enter_async_context(client)
            inspection = Inspection(
                self._scheduler,
                cluster="kubernetes",
                release=process.options.gates.release.version,
                leads=lambda: process.is_leading,
            )
            routes = Routes(inspection, lambda: dump(process.resolved.built.config), process.questions)
            server = SecureServer(
                {**self._pages(), **self._inspection_pages(routes, lambda: server)},
                options.serving,
                options.authentication,
                options.authorization,
                authentication_client=knowing,
                authorization_client=allowing,
                clock=process.clock,
                logger=process.logger,
                observer=process.metrics.access,
                key_for=self._key_for,
            )
            async with server, inspection.following():
                try:
                    yield
                finally:
                    routes.close()
            process.logger.info(0, "[graceful-termination] secure server has stopped listening")
        process.logger.info(0, "[graceful-termination] secure server is exiting")

    def _inspection_pages(self, routes: Routes, server: Callable[[], SecureServer]) -> Pages:
        """The API /stowplan/v1, and the page if it is wanted. Viewers see what they may read."""

        async def page(request: web.Request) -> web.StreamResponse:
            user = request[USER]
            viewer = Viewer(lambda plural, namespace: server().may_read(user, plural, namespace))
            return await respond(routes, request, viewer)

        paths = (PREFIX, f"{PREFIX}/", *((PAGE,) if self._process.options.page else ()))
        return dict.fromkeys(paths, page)

    def _scheduler(self) -> Scheduler | None:
        instance = self._process.instance
        return None if instance is None else instance.scheduler

    def _pages(self) -> Pages:
        process, options = self._process, self._process.options
        candidate = process.candidate
        health, ready = checks(
            electing=None if process.elector is None else process.election_health.problem,
            stopping=lambda: process.is_stopping,
            synced=lambda: process.is_synced,
            candidate_synced=None if candidate is None else lambda: candidate.has_synced,
        )
        gates = options.loaded.gates
        return all_pages(
            Sources(
                component=Component.of(self._started, gates.release),
                clock=process.clock,
                logger=process.logger,
                metrics=process.metrics,
                slis=self._health,
                pod_resources=PodResources(self._pods).pieces,
                leads=lambda: process.is_leading,
                checked=self._health.checked,
                config=lambda: process.resolved.built.config,
                flags=(lambda: options.flag_values) if gates["ComponentFlagz"] else None,
                healthz=health or (PING,),
                livez=(PING,),
                readyz=ready,
                profiling=options.profiling,
                statusz=gates["ComponentStatusz"],
            )
        )

    def _pods(self) -> Iterable[Pod]:
        instance = self._process.instance
        return () if instance is None else instance.scheduler.informers.pods.objects.values()
