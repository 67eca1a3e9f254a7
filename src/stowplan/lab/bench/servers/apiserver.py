"""Throughput of the API server over loopback HTTPS while watchers follow: creates and binds per second.

The server runs in a separate process, as usual; this process plays all clients. Requests go over several
connections that are kept, one at a time on each. Every watcher has to see every change, in order; if one does
not, there are no figures.
"""

import asyncio
import base64
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import msgspec

from stowplan.gocompat.yamltext import load_yaml
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.lab.bench.servers.processes import server_process

_WATCH_TIMEOUT: Final = 60.0
_VERSION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
_NODES: Final = 100


@dataclass(frozen=True, slots=True)
class ServerRun:
    """Amount of work: pods to create and bind, watchers that follow, connections that write.

    With a `data_dir` (a folder that need not exist) the server keeps everything there.
    """

    pods: int = 5000
    watchers: int = 10
    connections: int = 16
    data_dir: str | None = None


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """Requests per second from the first request to the last answer; times of single requests in ms."""

    creates_per_s: float
    binds_per_s: float
    create_ms_p50: float
    create_ms_p99: float
    bind_ms_p50: float
    bind_ms_p99: float
    watched_events: int
    watch_lag_ms: float


class _Server:
    """Where the server is and how to get in."""

    def __init__(self, kubeconfig: Path) -> None:
        data: Any = load_yaml(kubeconfig.read_text("utf-8"))
        cluster = data["clusters"][0]["cluster"]
        self.host, port = cluster["server"].removeprefix("https://").split(":")
        self.port = int(port)
        self.token = data["users"][0]["user"]["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=authority)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port, ssl=self.tls, limit=1 << 20)

    def head(self, method: str, path: str, length: int = 0) -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            f"Authorization: Bearer {self.token}",
            "Accept: application/json",
        ]
        if method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", ""]).encode()


def measure(run: ServerRun) -> ServerFigures:
    """Start a server, let clients work on it, end it."""
    return asyncio.run(_measure(run))


async def _measure(run: ServerRun) -> ServerFigures:
    async with server_process(run.data_dir) as kubeconfig:
        server = _Server(kubeconfig)
        await _create_nodes(server)
        watchers = [asyncio.create_task(_watch(server, 2 * run.pods)) for _ in range(run.watchers)]
        await asyncio.sleep(0.3)
        bodies = [_pod(number) for number in range(run.pods)]
        path = "/api/v1/namespaces/default/pods"
        creates, create_times = await _send(server, run, lambda i: (path, bodies[i]))
        binds, bind_times = await _send(server, run, lambda i: (f"{path}/pod-{i}/binding", _binding(i)))
        ended = perf_counter()
        seen = await asyncio.wait_for(asyncio.gather(*watchers), _WATCH_TIMEOUT)
        lag = max([at - ended for _, at in seen], default=0.0)
    return ServerFigures(
        round(run.pods / creates, 1),
        round(run.pods / binds, 1),
        *_quantiles(create_times),
        *_quantiles(bind_times),
        sum(count for count, _ in seen),
        round(max(lag, 0.0) * 1000, 1),
    )


async def _create_nodes(server: _Server) -> None:
    """Nodes for pods to be bound to."""
    reader, writer = await server.connect()
    for number in range(_NODES):
        body = msgspec.json.encode({"metadata": {"name": f"node-{number}"}})
        await _request(server, reader, writer, "/api/v1/nodes", body)
    writer.close()


async def _send(
    server: _Server, run: ServerRun, request: Callable[[int], tuple[str, bytes]]
) -> tuple[float, list[float]]:
    """Send all requests over all connections; gives the time it took, and the time of each request."""
    numbers = iter(range(run.pods))
    times: list[float] = []
    lines = [await server.connect() for _ in range(run.connections)]

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in numbers:
            path, body = request(number)
            began = perf_counter()
            await _request(server, reader, writer, path, body)
            times.append(perf_counter() - began)

    began = perf_counter()
    await asyncio.gather(*(work(reader, writer) for reader, writer in lines))
    took = perf_counter() - began
    for _, writer in lines:
        writer.close()
    return took, times


async def _request(
    server: _Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes
) -> bytes:
    writer.write(server.head("POST", path, len(body)) + body)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    answer = await reader.readexactly(length)
    if b" 201 " not in head[:16]:
        raise RuntimeError(f"{path}: expected 201, got {head[:12].decode()}: {answer[:200].decode()}")
    return answer


async def _watch(server: _Server, expected: int) -> tuple[int, float]:
    """Watch pods until `expected` changes were seen, in order; returns their number and when it was
    reached."""
    reader, writer = await server.connect()
    writer.write(server.head("GET", "/api/v1/pods?watch=true&timeoutSeconds=600"))
    await reader.readuntil(b"\r\n\r\n")
    count = last = 0
    text = b""
    while count < expected:
        size = int((await reader.readuntil(b"\r\n"))[:-2], 16)
        text += (await reader.readexactly(size + 2))[:-2]
        *lines, text = text.split(b"\n")
        for line in lines:
            found = _VERSION.search(line)
            version = int(found[1]) if found else 0
            if version <= last:
                raise RuntimeError(f"expected a version after {last}, got {version}")
            last = version
            count += 1
    writer.close()
    return count, perf_counter()


def _pod(number: int) -> bytes:
    data = msgspec.to_builtins(WORKLOADS["basic"].pod(number))
    data["metadata"] = {**data["metadata"], "name": f"pod-{number}", "namespace": "default"}
    data["metadata"].pop("uid", None)
    for container in data["spec"]["containers"]:
        container.setdefault("name", "main")
        container.setdefault("image", "registry.example/app:1")
    return msgspec.json.encode(data)


def _binding(number: int) -> bytes:
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % _NODES}"}
    return msgspec.json.encode({"metadata": {"name": f"pod-{number}"}, "target": target})


def _quantiles(times: list[float]) -> tuple[float, float]:
    ordered = sorted(times)
    half, most = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return round(half * 1000, 2), round(most * 1000, 2)
