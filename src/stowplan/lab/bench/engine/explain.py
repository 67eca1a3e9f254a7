"""Duration of explanations: from the start of the command to its answer, and from a running scheduler.

The cluster is in a separate process: an API server with a scheduler in it, no controllers and no kubelets.
Besides the running pods there are pods that fit nowhere, of some templates. Commands are started as a person
starts them, so that their figures include everything: Python, imports, lists over HTTPS, the table.
"""

import asyncio
import os
import random
import resource
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from stowplan.api.catalogue import PODS
from stowplan.api.requests import Json
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.config.dump import dump
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.http import Extension
from stowplan.lab.bench.engine.loop import LoopRun, fill, running_scheduler
from stowplan.lab.bench.engine.workloads import node_name
from stowplan.lab.bench.servers.http import BenchError
from stowplan.localcluster.admission import create_bootstrap_objects, publish_server
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.store import FieldManager, Store
from stowplan.runtime.clock import RealClock
from stowplan.runtime.gc_tuning import calm_collector

_READY: Final = b"ready"
_TIMEOUT: Final = 600.0
_PLACES: Final = (f"nodes/{node_name(0)}", "nodes", "queue", "decisions?limit=200", "pods?search=waiting-1")
_COMMAND: Final = "from stowplan.cli.main import main; main()"
_SERVE: Final = "import sys; from stowplan.lab.bench.engine.explain import serve; serve(sys.argv[1:])"


@dataclass(frozen=True, slots=True)
class ExplainRun:
    """Parameters of a measurement."""

    nodes: int = 5000
    pods: int = 50_000
    waiting: int = 10_000
    templates: int = 50
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class ExplainFigures:
    """Seconds, the median of all rounds. Those of commands are from their start to their end.

    On a busy machine `…_cpu_s`, the CPU time of a command, is closer to what it takes on an idle one.
    """

    explain_from_lists_s: float
    explain_from_lists_cpu_s: float
    explain_from_running_s: float
    explain_api_s: float
    """One request to the API of the running scheduler."""
    node_api_s: float
    nodes_api_s: float
    queue_api_s: float
    decisions_api_s: float
    search_api_s: float
    pending_from_lists_s: float
    pending_from_lists_cpu_s: float
    pending_from_running_s: float
    pending_api_s: float
    causes: int
    setup_s: float


def measure(run: ExplainRun) -> ExplainFigures:
    """Start a cluster, and ask it. Raises BenchError."""
    return asyncio.run(_measure(run))


async def _measure(run: ExplainRun) -> ExplainFigures:
    began = perf_counter()
    async with _cluster(run) as kubeconfig:
        setup = perf_counter() - began
        cache = kubeconfig.parent
        pod, options = waiting_name(0), ("--kubeconfig", str(kubeconfig), "-o", "json")
        client = HttpClient(load_kubeconfig(kubeconfig), clock=RealClock(), rng=random.Random(0), qps=-1)
        async with client:
            api = await _times(run.rounds, client, f"/stowplan/v1/pods/default/{pod}")
            pending_api = await _times(run.rounds, client, "/stowplan/v1/pending")
            node_api, nodes_api, queue_api, decisions_api, search_api = [
                await _times(run.rounds, client, f"/stowplan/v1/{path}") for path in _PLACES
            ]
            document = await client.get_path("/stowplan/v1/pending")
        if document["pods"] != run.waiting:
            raise BenchError(f"expected {run.waiting} waiting pods, got {document['pods']}")
        explained, explained_cpu = await _command(run, cache, "explain", "--offline", pod, *options)
        pending, pending_cpu = await _command(run, cache, "pending", "--offline", *options)
        told, _ = await _command(run, cache, "explain", pod, *options)
        told_pending, _ = await _command(run, cache, "pending", *options)
        return ExplainFigures(
            explain_from_lists_s=explained,
            explain_from_lists_cpu_s=explained_cpu,
            explain_from_running_s=told,
            explain_api_s=api,
            node_api_s=node_api,
            nodes_api_s=nodes_api,
            queue_api_s=queue_api,
            decisions_api_s=decisions_api,
            search_api_s=search_api,
            pending_from_lists_s=pending,
            pending_from_lists_cpu_s=pending_cpu,
            pending_from_running_s=told_pending,
            pending_api_s=pending_api,
            causes=len(document["causes"]),
            setup_s=round(setup, 1),
        )


async def _times(rounds: int, client: HttpClient, path: str) -> float:
    taken = []
    for _ in range(rounds):
        began = perf_counter()
        await client.get_path(path)
        taken.append(perf_counter() - began)
    return round(median(taken), 4)


async def _command(run: ExplainRun, cache: Path, *arguments: str) -> tuple[float, float]:
    """How long a command takes, and its CPU time.

    An installed package has its bytecode: the first run, which is not counted, writes it to `cache`.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    taken, cpu = [], []
    for round_ in range(run.rounds + 1):
        began, used = perf_counter(), _cpu_of_children()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _COMMAND, *arguments, stdout=asyncio.subprocess.DEVNULL, env=environment
        )
        if await process.wait():
            raise BenchError(f"stowplan {' '.join(arguments)} failed")
        if not round_:
            continue
        taken.append(perf_counter() - began)
        cpu.append(_cpu_of_children() - used)
    return round(median(taken), 3), round(median(cpu), 3)


def _cpu_of_children() -> float:
    """The CPU seconds of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# The cluster, in a separate process


@asynccontextmanager
async def _cluster(run: ExplainRun) -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        figures = (str(figure) for figure in (run.nodes, run.pods, run.waiting, run.templates))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SERVE, str(kubeconfig), *figures, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), _TIMEOUT)
            if not line.startswith(_READY):
                raise BenchError("the cluster could not be started")
            yield kubeconfig
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()


def serve(arguments: list[str]) -> None:
    """The other process: a cluster until it is terminated."""
    kubeconfig, *figures = arguments
    asyncio.run(_serve(Path(kubeconfig), ExplainRun(*map(int, figures))))


async def _serve(kubeconfig: Path, run: ExplainRun) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    clock = RealClock()
    store = Store(clock, random.Random(0), fields=FieldManager())
    fill(store, LoopRun(nodes=run.nodes, existing_per_node=max(run.pods // run.nodes, 1)))
    for number in range(run.waiting):
        store.create(PODS, waiting_pod(number, number % run.templates))
    create_bootstrap_objects(store)
    server = ApiServer(store, Listening(), clock=clock)
    async with server, running_scheduler(store, 0) as scheduler:
        publish_server(store, server.address, server.port)
        inspection = Inspection(lambda: scheduler, cluster="bench", release="bench")
        config = scheduler.settings.config.config
        server.handler.extension = Extension(Routes(inspection, lambda: dump(config)))
        with calm_collector():
            while scheduler.context.queue.counts()["active"] or scheduler.context.queue.in_flight:
                await asyncio.sleep(0.2)
            kubeconfig.write_text(server.kubeconfig())
            sys.stdout.buffer.write(_READY + b"\n")
            sys.stdout.flush()
            await ended.wait()


def waiting_name(number: int) -> str:
    return f"waiting-{number}"


def waiting_pod(number: int, template: int) -> Json:
    """A pod that fits nowhere: by its request if its template is even, by its node selector if it is odd.

    Each is a near miss on every node.
    """
    amounts: dict[str, Any] = {"cpu": f"{31_901 + template}m" if template % 2 == 0 else "100m"}
    spec: Json = {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "main", "image": "app", "resources": {"requests": amounts}}],
    }
    if template % 2:
        spec["nodeSelector"] = {"example.com/pool": f"pool-{template}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": waiting_name(number), "namespace": "default", "uid": f"uid-waiting-{number}"},
        "spec": spec,
        "status": {"phase": "Pending"},
    }
