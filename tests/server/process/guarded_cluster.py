"""An API server with a door: who comes in is remembered, and some are not let in as they would like."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import yaml
from aiohttp import web

from observed.files import recorded
from server.process.processes import RunningScheduler, begin
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.apiserver.bodies import as_json
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock

Act = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

TOKENS = {
    "anonymous": "",
    "invalid-token": "wrong",
    "authenticated-without-rights": "nobody-token",
    "system:monitoring-group": "monitor-token",
    "system:masters": "bench-admin-token",
}
"""The recorded callers of a secure port, and the tokens they showed."""


@dataclass(frozen=True)
class Asked:
    """A request as it came in, and the code of its answer (0 as long as there is none)."""

    at: float
    method: str
    path: str
    query: dict[str, str]
    agent: str
    content_type: str
    body: Any
    code: int = 0

    @property
    def is_write(self) -> bool:
        return self.method != "GET" and not self.path.endswith("reviews")


@dataclass
class Door:
    """A layer between the sockets and the handler of an API server.

    A request whose path ends with a key of `rules` is answered by its rule instead. A client probes a server
    it has not heard from for a second, which on a loaded machine may be at any time: such probes are counted
    separately.
    """

    handler: Any
    rules: dict[str, Act] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    probes: int = 0

    @property
    def reads(self) -> Any:
        return self.handler.reads

    @property
    def health(self) -> Any:
        return self.handler.health

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if (request.method, request.path) == ("GET", "/readyz"):
            self.probes += 1
            return await self._answer(request)
        number = len(self.asked)
        self.asked.append(_asked(request, await request.read()))
        found = await self._answer(request)
        self.asked[number] = Asked(**{**vars(self.asked[number]), "code": found.status})
        return found

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("reviews"):
            return _review(json.loads(as_json(await request.read(), request.content_type)))
        act = next((act for end, act in self.rules.items() if request.path.endswith(end)), self.handler)
        answer: web.StreamResponse = await act(request)
        return answer


class WatchedServer(ApiServer):
    """An API server with a door. Reviews of users and rights are answered as recorded."""

    handler: Any

    def __init__(self, store: Store, listening: Listening) -> None:
        super().__init__(store, listening, clock=RealClock(), rng=random.Random(1))
        self.door = Door(self.handler)
        self.handler = self.door


@dataclass
class GuardedCluster:
    """A cluster behind a door, and the schedulers that were started there."""

    store: Store
    server: WatchedServer
    folder: Path
    started: list[RunningScheduler] = field(default_factory=list)

    @property
    def door(self) -> Door:
        return self.server.door

    def kubeconfig(self, name: str = "kubeconfig", **user: Any) -> Path:
        """A way in: with the server's own token, or as `user` says."""
        data = yaml.safe_load(self.server.kubeconfig())
        data["users"][0]["user"].update(user)
        path = self.folder / name
        path.write_text(yaml.safe_dump(data))
        return path

    async def start(self, *arguments: str) -> RunningScheduler:
        scheduler = await begin(*arguments)
        self.started.append(scheduler)
        return scheduler


@asynccontextmanager
async def guarded_cluster(folder: Path) -> AsyncIterator[GuardedCluster]:
    store = Store(
        RealClock(),
        random.Random(1),
        admission=ClusterAdmission(disabled=["ServiceAccount", "TaintNodesByCondition"]),
    )
    create_bootstrap_objects(store)
    async with WatchedServer(store, Listening()) as server:
        assert isinstance(server, WatchedServer)
        place = GuardedCluster(store, server, folder)
        try:
            yield place
        finally:
            for one in place.started:
                await one.clear_away()


def delegating(kubeconfig: Path, port: int) -> list[str]:
    """The flags with which most schedulers were recorded."""
    where = [f"--{use}kubeconfig={kubeconfig}" for use in ("", "authentication-", "authorization-")]
    return [*where, "--bind-address=127.0.0.1", f"--secure-port={port}", "-v=2"]


async def broken(request: web.BaseRequest) -> web.StreamResponse:
    """An answer of a server that is not well, as it was injected in the recordings."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "injected", "code": 500}
    return web.json_response({**body, "reason": "InternalError"}, status=500)


async def reset(request: web.BaseRequest) -> web.StreamResponse:
    """No answer: the connection is gone."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def hanging(request: web.BaseRequest) -> web.StreamResponse:
    """No answer, and a connection that stays."""
    await asyncio.sleep(600)
    return web.Response()


def _asked(request: web.BaseRequest, body: bytes) -> Asked:
    return Asked(
        asyncio.get_running_loop().time(),
        request.method,
        request.path,
        dict(parse_qsl(request.query_string)),
        request.headers.get("User-Agent", ""),
        request.content_type if body else "",
        _json(body, request.content_type),
    )


def _json(body: bytes, content_type: str) -> Any:
    if not body:
        return None
    return json.loads(body if content_type.endswith("+json") else as_json(body, content_type))


def _review(body: Any) -> web.Response:
    """Recorded answer to the same review; users and rights that were not recorded are denied."""
    same = (
        one["status"]
        for one in recorded("wire/reviews")
        if (one["request"]["kind"], one["request"]["spec"]) == (body["kind"], body["spec"])
    )
    return web.json_response({**body, "status": next(same, {})}, status=201)
