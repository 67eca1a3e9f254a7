"""Cost of a request for the client: CPU per create, bind and patch over loopback HTTPS.

The server runs in a separate process, so this process's CPU time is the client's alone: building the request,
TLS, the event loop, reading the answer. The answers are as large as a server sends them. The same is done by
way of aiohttp, for comparison.
"""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, Protocol

import aiohttp
import msgspec

from stowplan.api.catalogue import NODES, PODS, Resource
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.api.requests import Json, PatchType
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.client.http.decoder import Decoding
from stowplan.client.http.pool import MOST_CONNECTIONS
from stowplan.client.http.requests import body_of, collection_path, object_path
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.lab.bench.servers.processes import server_process
from stowplan.runtime.clock import RealClock

_NODES: Final = 100
_BATCH: Final = 250
_NAMESPACE: Final = "default"


_BINDINGS: Final = Resource("", "v1", "bindings", "Binding")


class ClientUnderTest(Protocol):
    """A client that is measured."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Json: ...

    async def create(self, resource: Resource, body: Json) -> Json: ...

    async def bind(self, binding: Binding) -> None: ...

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Json, *, subresource: str = ""
    ) -> Json: ...

    async def watch_pods(self) -> int:
        """Watch all pods that exist; how many there are."""
        ...


@dataclass(frozen=True, slots=True)
class ClientRun:
    """Amount of work: pods to create, bind and patch, and the concurrency."""

    pods: int = 3000
    at_once: int = 16


@dataclass(frozen=True, slots=True)
class ClientFigures:
    """Microseconds of this process's CPU for one request of each kind and for one object that is watched."""

    create_us: float
    bind_us: float
    patch_us: float
    watched_us: float
    binds_per_s: float


def measure(run: ClientRun) -> dict[str, ClientFigures]:
    """Cost of each client by name. Each has its own server, in a separate process."""
    clients: dict[str, Callable[[Path], AbstractAsyncContextManager[ClientUnderTest]]] = {
        "stowplan": _stowplan,
        "aiohttp": _aiohttp,
    }
    return {name: asyncio.run(_measure(run, make)) for name, make in clients.items()}


async def _measure(
    run: ClientRun, make: "Callable[[Path], AbstractAsyncContextManager[ClientUnderTest]]"
) -> ClientFigures:
    async with server_process() as kubeconfig, make(kubeconfig) as client:
        for number in range(_NODES):
            await client.create(NODES, {"metadata": {"name": f"node-{number}"}})
        bodies = [_pod(number) for number in range(run.pods)]
        await _many(run, 200, lambda i: client.get(NODES, "", f"node-{i % _NODES}"))
        create, _ = await _many(run, run.pods, lambda i: client.create(PODS, bodies[i]))
        bindings = [_binding(number) for number in range(run.pods)]
        bind, seconds = await _many(run, run.pods, lambda i: client.bind(bindings[i]))
        patch, _ = await _many(run, run.pods, lambda i: _patch(client, i))
        watched = await _watch(client, run.pods)
    per_s = run.pods / seconds
    return ClientFigures(*(round(one, 1) for one in (create, bind, patch, watched, per_s)))


async def _many(run: ClientRun, count: int, work: Callable[[int], Awaitable[Any]]) -> tuple[float, float]:
    """Do it for every number, some at once; gives the CPU of each in µs and the seconds of all.

    The CPU is the median of batches: what others do on this machine shows less.
    """
    costs: list[float] = []
    began = perf_counter()
    for first in range(0, count, _BATCH):
        numbers = iter(range(first, min(first + _BATCH, count)))

        async def worker(numbers: Iterator[int] = numbers) -> None:
            for number in numbers:
                await work(number)

        cpu = process_time()
        await asyncio.gather(*(worker() for _ in range(run.at_once)))
        costs.append((process_time() - cpu) / min(_BATCH, count - first) * 1e6)
    return median(costs), perf_counter() - began


async def _watch(client: ClientUnderTest, count: int) -> float:
    """The CPU of one object that a watch brings, in µs."""
    cpu = process_time()
    seen = await client.watch_pods()
    if seen != count:
        raise RuntimeError(f"expected to see {count} pods, got {seen}")
    return (process_time() - cpu) / count * 1e6


class _Stowplan(HttpClient):
    async def watch_pods(self) -> int:
        watch = self.watch(PODS, Pod, initial_events=True)
        seen = 0
        async for event in watch:
            batch = [event, *watch.ready(200)]
            seen += sum(not one.synced for one in batch)
            if batch[-1].synced:
                break
        await watch.aclose()
        return seen


@asynccontextmanager
async def _stowplan(kubeconfig: Path) -> AsyncIterator[ClientUnderTest]:
    server = load_kubeconfig(kubeconfig)
    async with _Stowplan(server, clock=RealClock(), rng=random.Random(0), qps=-1) as client:
        assert isinstance(client, _Stowplan)
        yield client


class _Aiohttp:
    """The same requests by way of aiohttp, with the same encoder and decoders: no limits, no retries."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._decoder: Decoding[Pod] = Decoding(PODS, Pod)

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        return await self._sent("GET", object_path(resource, namespace, name))

    async def create(self, resource: Resource, body: Json) -> Json:
        path = collection_path(resource, body["metadata"].get("namespace", ""))
        return await self._sent("POST", path, body_of(resource, body))

    async def bind(self, binding: Binding) -> None:
        metadata = binding.metadata
        path = object_path(PODS, metadata.namespace, metadata.name, "binding")
        await self._sent("POST", path, body_of(_BINDINGS, binding))

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        path = object_path(resource, namespace, name, subresource)
        return await self._sent("PATCH", path, msgspec.json.encode(patch), PatchType.STRATEGIC.value)

    async def watch_pods(self) -> int:
        query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        seen = 0
        async with self._session.get(f"{collection_path(PODS)}?{query}") as answer:
            async for line in answer.content:
                event = self._decoder.event(line)
                if event is not None and event.synced:
                    break
                seen += 1
        return seen

    async def _sent(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> Json:
        headers = {"Content-Type": content_type} if body is not None else {}
        async with self._session.request(method, path, data=body, headers=headers) as answer:
            answer.raise_for_status()
            return msgspec.json.decode(await answer.read(), type=dict[str, Any])


@asynccontextmanager
async def _aiohttp(kubeconfig: Path) -> AsyncIterator[ClientUnderTest]:
    server = load_kubeconfig(kubeconfig)
    context = ssl.create_default_context(cadata=server.trust.authority.data.decode())
    headers = {"Authorization": f"Bearer {server.identity.token}", "Accept": "application/json, */*"}
    async with aiohttp.ClientSession(
        str(server.address),
        headers=headers,
        connector=aiohttp.TCPConnector(ssl=context, limit=MOST_CONNECTIONS),
        read_bufsize=1 << 20,
    ) as session:
        yield _Aiohttp(session)


async def _patch(client: ClientUnderTest, number: int) -> Json:
    condition = {"type": "PodScheduled", "status": "True", "reason": f"r{number}"}
    patch = {"status": {"conditions": [condition]}}
    return await client.patch(PODS, _NAMESPACE, f"pod-{number}", patch, subresource="status")


def _pod(number: int) -> Json:
    data: Json = msgspec.to_builtins(WORKLOADS["basic"].pod(number))
    data["metadata"] = {**data["metadata"], "name": f"pod-{number}", "namespace": _NAMESPACE}
    data["metadata"].pop("uid", None)
    for container in data["spec"]["containers"]:
        container.setdefault("name", "main")
        container.setdefault("image", "registry.example/app:1")
    return data


def _binding(number: int) -> Binding:
    metadata = ObjectMeta(namespace=_NAMESPACE, name=f"pod-{number}")
    return Binding(metadata=metadata, target=ObjectReference(kind="Node", name=f"node-{number % _NODES}"))
