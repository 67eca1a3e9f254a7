"""Time of `stowplan run` from its start to being ready, and to its first binding.

An API server in a separate process has nodes with running pods on them (`running`), and one pod that waits.
Then the scheduler is started, a few times in a row, each time from scratch: Python, imports, configuration,
secure port, lease, lists. The first start, for which nothing is in the system's file cache, does not count.
CPU time and memory are those of its process.
"""

import asyncio
import random
import shlex
import ssl
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from stowplan.api.catalogue import NAMESPACES, NODES, PODS, Resource
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, FieldTerm, Json, PatchType, Selection
from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.lab.bench.engine.workloads import node_name
from stowplan.lab.bench.running import NAMESPACE, running_node, running_pod
from stowplan.lab.bench.servers.http import STOWPLAN_COMMAND, BenchError, MeasuredProcess, scheduler_process
from stowplan.lab.bench.servers.processes import server_process
from stowplan.localcluster.durable import open_data_dir
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from stowplan.testing.ports import free_port

FIRST: Final = "stowplan-bench-first"
"""The pod whose binding is waited for."""

_GIVEN: Final = ("name", "namespace", "labels", "annotations", "ownerReferences", "generateName")
"""Metadata sent to an API server for an object; it generates the rest."""

_CONNECT_EVERY: Final = 0.01
_ASK_EVERY: Final = 0.05
"""Seconds between two questions: every answer costs the scheduler some CPU time."""
_SERVER_SECONDS: Final = 300.0
_TIMEOUT: Final = 300.0
_AT_ONCE: Final = 48
"""Requests under way while a cluster is filled or emptied."""


@dataclass(frozen=True, slots=True)
class StartRun:
    """Parameters of a measurement. Without a `kubeconfig` an embedded API server is started and filled.

    With one, the cluster is taken as it is, and a pod is created that is deleted afterwards; with `fill`
    nodes and running pods are, too. `command` starts another scheduler; `{config}` in it stands for the
    configuration file, and `{port}` for the port of its readiness endpoint.
    """

    nodes: int = 5000
    pods: int = 30_000
    rounds: int = 3
    kubeconfig: str = ""
    fill: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class StartFigures:
    """Medians over the rounds. Times are from the start of the process; `bound_s` and the CPU time until the
    first binding are 0 if there is no node to bind to."""

    ready_s: float
    bound_s: float
    ready_cpu_s: float
    bound_cpu_s: float
    peak_rss_mib: float


def measure(run: StartRun) -> StartFigures:
    """Start the server once and the scheduler a few times. Raises BenchError."""
    try:
        return asyncio.run(_measure(run))
    except ApiError as error:
        raise BenchError(str(error)) from None


async def _measure(run: StartRun) -> StartFigures:
    async with AsyncExitStack() as stack:
        kubeconfig = run.kubeconfig
        if not kubeconfig:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory()), "data")
            await _prepare(run, data)
            server = server_process(str(data), seconds=_SERVER_SECONDS)
            kubeconfig = str(await stack.enter_async_context(server))
        client = HttpClient(
            load_kubeconfig(kubeconfig),
            clock=RealClock(),
            rng=random.Random(0),
            qps=-1,
            user_agent="stowplan-bench",
        )
        await stack.enter_async_context(client)
        if run.kubeconfig and run.fill:
            await stack.enter_async_context(_filled(run, client))
        nodes = len((await client.list(NODES, Node)).items) if run.kubeconfig else run.nodes
        binds = nodes > 0
        await _start(run, client, kubeconfig, binds=binds)
        rounds = [await _start(run, client, kubeconfig, binds=binds) for _ in range(run.rounds)]
    return StartFigures(
        *(round(median(values), 3) for values in zip(*(_values(one) for one in rounds), strict=True))
    )


def _values(figures: StartFigures) -> tuple[float, ...]:
    return (
        figures.ready_s,
        figures.bound_s,
        figures.ready_cpu_s,
        figures.bound_cpu_s,
        figures.peak_rss_mib,
    )


async def _prepare(run: StartRun, folder: Path) -> None:
    """Keep nodes and pods in a data directory."""
    store = Store(RealClock(), random.Random(0))
    keeper = open_data_dir(store, folder)
    try:
        store.load(NAMESPACES, {"metadata": {"name": NAMESPACE}}, handed_over=True)
        for number in range(run.nodes):
            store.load(NODES, running_node(number), handed_over=True)
        for number in range(run.pods if run.nodes else 0):
            store.load(PODS, running_pod(number, node_name(number % run.nodes)), handed_over=True)
        lost = await store.settled()
        if lost is not None:
            raise lost
    finally:
        keeper.close()


@asynccontextmanager
async def _filled(run: StartRun, client: HttpClient) -> AsyncIterator[None]:
    """Have nodes and running pods on an API server that is not ours for as long as the block takes."""
    made: list[tuple[Resource, str, str]] = []

    async def create(resource: Resource, obj: Json) -> None:
        given = obj["metadata"]
        metadata = {name: given[name] for name in _GIVEN if name in given}
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        await client.create(resource, {"metadata": metadata, "spec": obj["spec"]})
        made.append((resource, namespace, name))
        status = {"status": obj["status"]}
        await client.patch(resource, namespace, name, status, PatchType.MERGE, subresource="status")

    async def delete(resource: Resource, namespace: str, name: str) -> None:
        try:
            await client.delete(resource, namespace, name, DeleteOptions(0))
        except ApiError as error:
            if not error.is_not_found:
                raise

    try:
        await _several(create(NODES, running_node(number)) for number in range(run.nodes))
        await _several(
            create(PODS, running_pod(number, node_name(number % run.nodes)))
            for number in range(run.pods if run.nodes else 0)
        )
        yield
    finally:
        await _several(delete(*one) for one in reversed(made))


async def _several(requests: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Carry out requests, several at a time."""

    async def worker() -> None:
        for request in requests:
            await request

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _start(run: StartRun, client: HttpClient, kubeconfig: str, *, binds: bool) -> StartFigures:
    """One start of the scheduler, measured, and its end. `binds`: there are nodes for pods."""
    async with AsyncExitStack() as stack:
        since = ""
        if binds:
            created = await client.create(PODS, _waiting_pod())
            since = created["metadata"]["resourceVersion"]
            stack.push_async_callback(client.delete, PODS, NAMESPACE, FIRST, DeleteOptions(0))
        port = free_port()
        ours = [part for part in STOWPLAN_COMMAND if not part.startswith("--secure-port")]
        command = shlex.split(run.command) or [*ours, "--secure-port={port}"]
        began = perf_counter()
        process = await stack.enter_async_context(
            scheduler_process([part.replace("{port}", str(port)) for part in command], kubeconfig)
        )
        try:
            async with asyncio.timeout(_TIMEOUT):
                ready, bound = await asyncio.gather(
                    _until_ready(process, port, began), _until_bound(client, process, began, since)
                )
        except TimeoutError:
            process.check()
            raise BenchError(f"the scheduler was not ready within {_TIMEOUT:.0f} s") from None
        return StartFigures(ready[0], bound[0], ready[1], bound[1], process.peak_rss_mib)


async def _until_ready(process: MeasuredProcess, port: int, began: float) -> tuple[float, float]:
    """Ask /readyz until it answers with 200: seconds since the beginning, and of CPU time."""
    while True:
        process.check()
        with suppress(OSError):
            async with _connection(port) as (reader, writer):
                while await _status(reader, writer) != 200:
                    await asyncio.sleep(_ASK_EVERY)
                return perf_counter() - began, process.cpu
        await asyncio.sleep(_CONNECT_EVERY)


@asynccontextmanager
async def _connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the secure port, whose certificate it has made itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])


async def _until_bound(
    client: HttpClient, process: MeasuredProcess, began: float, since: str
) -> tuple[float, float]:
    """Wait for the binding of the pod, if there is one: seconds since the beginning, and of CPU time."""
    if not since:
        return 0.0, 0.0
    chosen = Selection(fields=(FieldTerm("metadata.name", FIRST, equal=True),))
    while True:
        process.check()
        watch = client.watch(PODS, Pod, namespace=NAMESPACE, selection=chosen, since=since)
        async with aclosing(watch) as events:
            async for event in events:
                if event.object is not None and event.object.spec.node_name:
                    return perf_counter() - began, process.cpu


def _waiting_pod() -> Json:
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}
    return {
        "metadata": {"name": FIRST, "namespace": NAMESPACE, "labels": {"app": "first"}},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }
