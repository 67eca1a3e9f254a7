"""All pages behind a real socket, without authentication."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from time import perf_counter

import msgspec
from aiohttp import ClientSession, web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict
from yarl import URL

from releases import GATES_1_36
from stowplan.api.pod import Pod
from stowplan.config import default_config
from stowplan.config.types import ClientConnection, SchedulerConfig
from stowplan.runtime.logs import Logger
from stowplan.scheduler.metrics import HealthMetrics, PodResources, ProcessMetrics, SchedulerMetrics
from stowplan.server.serving.filters import Pages, Router, set_common_headers
from stowplan.server.serving.pages import Check, Component, Sources, all_pages, checks
from stowplan.server.serving.responses import not_found

STARTED = 1_794_771_678.84
"""When the recorded process was started."""
UP = 123


class StoppedClock:
    """Always the moment of the recording."""

    def now(self) -> float:
        return STARTED + UP

    def monotonic(self) -> float:
        return self.now()


@dataclass
class World:
    """State behind the pages, to be changed by a test."""

    electing: bool = True
    leading: bool = True
    synced: bool = True
    stopping: bool = False
    profiling: bool = True
    pods: list[Pod] = field(default_factory=list)
    flags: Mapping[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    more_checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        self.logger = Logger(lambda level, message, values: self.lines.append(message))
        self.scheduling = SchedulerMetrics(perf_counter, GATES_1_36, Random(0))
        self.metrics = ProcessMetrics(GATES_1_36, timer=perf_counter)
        self.metrics.show(self.scheduling)
        self.slis = HealthMetrics(STARTED)

    def config(self) -> SchedulerConfig:
        config = default_config(GATES_1_36).config
        election = msgspec.structs.replace(config.leader_election, leader_elect=self.electing)
        name = "sched" if self.electing else "sched-direct"
        connection = ClientConnection(kubeconfig=f"$DIR/{name}.kubeconfig")
        return msgspec.structs.replace(
            config, leader_election=election, client_connection=connection, enable_profiling=self.profiling
        )

    def pages(self) -> Pages:
        healthz, readyz = checks(
            electing=(lambda: None) if self.electing else None,
            stopping=lambda: self.stopping,
            synced=lambda: self.synced,
        )
        return all_pages(
            Sources(
                component=Component("kube-scheduler", STARTED, "1.36", "1.36"),
                clock=StoppedClock(),
                logger=self.logger,
                metrics=self.metrics,
                slis=self.slis,
                pod_resources=PodResources(lambda: self.pods).pieces,
                leads=lambda: self.leading,
                checked=self.slis.checked,
                config=self.config,
                flags=lambda: self.flags,
                healthz=healthz,
                readyz=(*readyz, *self.more_checks),
                profiling=self.profiling,
            )
        )


@dataclass(frozen=True)
class Answer:
    """Answer of the server."""

    code: int
    headers: CIMultiDict[str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Port:
    """Asks for pages. Nothing is unpacked or followed."""

    def __init__(self, session: ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    async def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        accept: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        said = {"Accept-Encoding": "gzip", "Accept": accept, "User-Agent": "test", **(headers or {})}
        url = URL(self._address + path, encoded=True)
        async with self._session.request(
            method, url, headers=said, data=body, allow_redirects=False
        ) as response:
            return Answer(response.status, CIMultiDict(response.headers), await response.read())


@asynccontextmanager
async def open_port(pages: Pages) -> AsyncIterator[Port]:
    """Serve pages on a free port of this machine."""
    router = Router(pages)

    @web.middleware
    async def route(request: web.Request, handler: Handler) -> web.StreamResponse:
        page = router.page(request.path)
        return not_found() if page is None else await page(request)

    application = web.Application(middlewares=[route])
    application.on_response_prepare.append(set_common_headers)
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with ClientSession() as session:
            yield Port(session, f"http://{host}:{port}")
    finally:
        await runner.cleanup()


def answers_of(world: World, *requests: tuple[str, str]) -> list[Answer]:
    """The answers to some (method, path), one after the other."""

    async def ask_all() -> list[Answer]:
        async with open_port(world.pages()) as port:
            return [await port.ask(path, method) for method, path in requests]

    return asyncio.run(ask_all())


def answer_of(world: World, path: str, method: str = "GET", **more: object) -> Answer:
    """The answer to one request."""

    async def ask_one() -> Answer:
        async with open_port(world.pages()) as port:
            return await port.ask(path, method, **more)  # type: ignore[arg-type]

    return asyncio.run(ask_one())
