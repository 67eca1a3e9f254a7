"""What a request costs the client: CPU per create, bind and patch over loopback HTTPS.

The server runs in a process of its own, so this process's CPU time is the client's alone: building the
request, TLS, the event loop, reading the answer. The answers are as large as a server sends them.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.bench.processes import server_process
from stowplan.bench.workloads import WORKLOADS
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.clock import RealClock

_NODES: Final = 100
_BATCH: Final = 250
_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class ClientRun:
    """How much to do: pods to create, bind and patch, by so many at once."""

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


def measure(run: ClientRun) -> ClientFigures:
    """Start a server, let one client work on it, end it."""
    return asyncio.run(_measure(run))


async def _measure(run: ClientRun) -> ClientFigures:
    async with _running_server() as client:
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


async def _watch(client: HttpClient, count: int) -> float:
    """The CPU of one object that a watch brings, in µs."""
    cpu = process_time()
    watch = client.watch(PODS, Pod, initial_events=True)
    seen = 0
    async for event in watch:
        batch = [event, *watch.ready(200)]
        seen += sum(not one.synced for one in batch)
        if batch[-1].synced:
            break
    await watch.aclose()
    if seen != count:
        raise RuntimeError(f"expected to see {count} pods, got {seen}")
    return (process_time() - cpu) / count * 1e6


@asynccontextmanager
async def _running_server() -> AsyncIterator[HttpClient]:
    async with server_process() as kubeconfig:
        server = load_kubeconfig(kubeconfig)
        async with HttpClient(server, clock=RealClock(), rng=random.Random(0), qps=-1) as client:
            yield client


async def _patch(client: HttpClient, number: int) -> Json:
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


if __name__ == "__main__":
    print(measure(ClientRun()))
