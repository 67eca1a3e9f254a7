"""How fast a scheduler is over the network, and what it costs its process.

This process plays the load: it creates nodes and pods and watches them being bound. The scheduler's CPU time
is read from the system, so it is all that its process does and nothing else: watches, decisions, bindings,
events, its lease. Any other scheduler can be measured the same way, on any API server. Pods are created as
fast as they are bound, or at a given rate; the time to be bound is from the request that creates a pod to the
watch event with its node. Or all pods are there before the scheduler starts, and its start counts.
"""

import asyncio
import os
import random
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Final

from stowplan.api.catalogue import EVENTS, NODES, PODS, PRIORITY_CLASSES, Resource
from stowplan.api.meta import AnyObject
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, Json
from stowplan.api.status import ApiError
from stowplan.client import Reflector
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.lab.bench.engine.loop import UNSCHEDULABLE_EVERY, document, make_unschedulable
from stowplan.lab.bench.engine.workloads import WORKLOADS, node, node_name
from stowplan.lab.bench.servers.processes import server_process
from stowplan.runtime.clock import RealClock

NAMESPACE: Final = "default"
PREFIX: Final = "stowplan-bench-"
MAX_UNBOUND: Final = 1000
"""Maximum number of pods created but not bound."""

WARM_UP: Final = f"{PREFIX}warm-up"

PREEMPTION: Final = "preemption"
"""Pods of high priority on nodes that are full of pods of low priority."""

VICTIMS: Final = 3
LOW_PODS: Final = VICTIMS + 1
"""Pods of low priority on a node, of which all but one must go for a preemptor."""

_HIGH: Final = f"{PREFIX}high"

_CONNECTIONS: Final = 32
_START_TIMEOUT: Final = 120.0
_IDLE_INTERVAL: Final = 0.5
_TICK: Final = os.sysconf("SC_CLK_TCK")

_CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}, qps: 100000, burst: 100000}}
"""


STOWPLAN_COMMAND: Final = (
    sys.executable,
    "-c",
    "from stowplan.cli.main import main; main()",
    "run",
    "--config={config}",
    "--secure-port=0",
)


class BenchError(Exception):
    """Something without which there are no figures; one line."""


@dataclass(frozen=True, slots=True)
class HttpRun:
    """Parameters of a measurement. Without a `kubeconfig` an embedded API server is started.

    `command` starts another scheduler; `{config}` in it stands for the configuration file. `rate` is the
    number of pods created per second; 0: as many as possible. With `waiting` all pods are created first, and
    CPU and rate count from the start of the scheduler. With `unschedulable` every tenth pod fits nowhere.
    `bare` measures a client that sends a scheduler's requests and decides nothing (`bare_client`).
    """

    workload: str = "basic"
    nodes: int = 5000
    pods: int = 10_000
    kubeconfig: str = ""
    command: str = ""
    rate: float = 0.0
    waiting: bool = False
    unschedulable: bool = False
    bare: bool = False
    stall_timeout: float = 60.0
    """Seconds without a binding after which the measurement is aborted."""


@dataclass(frozen=True, slots=True)
class HttpFigures:
    """Measured figures; `cpu_s` is the CPU time of the scheduler's process alone.

    `late_ms` is the delay of pod creations against the rate, the 99th percentile. `first_s` is when the first
    pod was bound, from the beginning.
    """

    pods_per_s: float
    cpu_us_per_pod: float
    cpu_s: float
    seconds: float
    bound: int
    first_s: float
    events: int
    peak_rss_mib: float
    bound_p50_ms: float
    bound_p99_ms: float
    late_ms: float


def measure(run: HttpRun) -> HttpFigures:
    """Start everything, place the pods, clean up. Raises BenchError."""
    try:
        return asyncio.run(_measure(run))
    except ApiError as error:
        raise BenchError(str(error)) from None
    except BaseExceptionGroup as several:
        raise BenchError(str(several.exceptions[0])) from None


async def _measure(run: HttpRun) -> HttpFigures:
    async with AsyncExitStack() as stack:
        kubeconfig = run.kubeconfig or str(await stack.enter_async_context(server_process()))
        client = HttpClient(
            load_kubeconfig(kubeconfig),
            clock=RealClock(),
            rng=random.Random(0),
            qps=-1,
            connections=_CONNECTIONS,
            user_agent="stowplan-bench",
        )
        await stack.enter_async_context(client)
        load = LoadGenerator(client, run)
        if run.kubeconfig:
            stack.push_async_callback(load.clean_up)
        await load.create_nodes()
        if run.waiting:
            await load.create_pods()
        await stack.enter_async_context(load.watching())
        scheduler = await stack.enter_async_context(scheduler_process(_command(run, kubeconfig), kubeconfig))
        if not run.waiting:
            await load.warm_up(scheduler)
        return await load.work(scheduler)


def _command(run: HttpRun, kubeconfig: str) -> Sequence[str]:
    """Command line of the scheduler."""
    if run.bare:
        arguments = f"{kubeconfig!r}, {NAMESPACE!r}, {VICTIMS if run.workload == PREEMPTION else 0}"
        return (
            sys.executable,
            "-c",
            f"from stowplan.lab.bench.servers.bare_client import main; main({arguments})",
        )
    return shlex.split(run.command) or STOWPLAN_COMMAND


class MeasuredProcess:
    """A process that is measured from outside. `started` is when it was, in seconds of `perf_counter`."""

    def __init__(self, process: asyncio.subprocess.Process, started: float) -> None:
        self.process = process
        self.started = started

    @property
    def cpu(self) -> float:
        """Seconds of CPU it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    @property
    def peak_rss_mib(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)

    def check(self) -> None:
        """Raises BenchError if it is gone."""
        if self.process.returncode is not None:
            raise BenchError(f"the scheduler ended with exit code {self.process.returncode}")

    async def wait_idle(self) -> float:
        """Wait until it is idle; gives the CPU seconds it had used by then."""
        before = self.cpu
        while True:
            await asyncio.sleep(_IDLE_INTERVAL)
            now = self.cpu
            if now - before <= _IDLE_INTERVAL / 10:
                return now
            before = now


@asynccontextmanager
async def scheduler_process(command: Sequence[str], kubeconfig: str) -> AsyncIterator[MeasuredProcess]:
    """Run a scheduler for the duration of the block. If it fails, its last line is shown.

    It may keep the bytecode of its modules, as that of an installation is kept.
    """
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        config, log = Path(folder, "config.yaml"), Path(folder, "log")
        config.write_text(_CONFIG.format(kubeconfig=kubeconfig))
        started = perf_counter()
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *(part.replace("{config}", str(config)) for part in command),
                stdout=out,
                stderr=out,
                env=environ,
            )
        try:
            yield MeasuredProcess(process, started)
        except BenchError as error:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise BenchError(f"{error}{': ' if last else ''}{''.join(last)[:300]}") from None
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


class LoadGenerator:
    """Creates nodes and pods, and waits for the pods to be bound."""

    def __init__(self, client: HttpClient, run: HttpRun) -> None:
        self._client = client
        self._run = run
        self._created: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        self._late: list[float] = []
        self._progress = asyncio.Event()
        self._made: list[tuple[Resource, str, str]] = []
        self._bodies = [_pod(run.workload, number, f"{PREFIX}{number}") for number in range(run.pods)]
        self._expected = run.pods
        if run.unschedulable:
            make_unschedulable(self._bodies)
            self._expected -= len(self._bodies[::UNSCHEDULABLE_EVERY])

    async def create_nodes(self) -> None:
        """Make the nodes, and what is on them."""
        nodes = range(self._run.nodes)
        await self._create_all(NODES, (_node(number) for number in nodes))
        if self._run.workload == PREEMPTION:
            await self._create_all(PRIORITY_CLASSES, iter([_high_priority()]))
            await self._create_all(PODS, (_low_pod(node, n) for node in nodes for n in range(LOW_PODS)))

    async def create_pods(self) -> None:
        """Make all pods that are to be placed."""
        await self._create_all(PODS, iter(self._bodies))

    async def warm_up(self, scheduler: MeasuredProcess) -> None:
        """Have one pod bound: then the scheduler knows the cluster, and leads."""
        began = perf_counter()
        await self._create_all(PODS, iter([_pod(self._run.workload, 0, WARM_UP)]))
        while perf_counter() - began < _START_TIMEOUT:
            scheduler.check()
            pod = await self._client.get(PODS, NAMESPACE, WARM_UP)
            if pod["spec"].get("nodeName"):
                await scheduler.wait_idle()
                return
            await asyncio.sleep(0.1)
        raise BenchError(f"the scheduler bound no pod within {_START_TIMEOUT:.0f} s")

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Notice pods being bound for as long as the block takes."""
        reflector = Reflector(
            self._client,
            PODS,
            Pod,
            self,
            clock=RealClock(),
            rng=random.Random(0),
            report=lambda text: None,
            namespace=NAMESPACE,
        )
        task = asyncio.create_task(reflector.run())
        try:
            await reflector.wait_synced()
            yield
        finally:
            task.cancel()

    async def work(self, scheduler: MeasuredProcess) -> HttpFigures:
        """Have all pods placed, and measure that."""
        if self._run.waiting:
            cpu, began = 0.0, scheduler.started
            self._created = dict.fromkeys(self._created, began)
        else:
            cpu, began = scheduler.cpu, perf_counter()
        await self._create_and_wait(scheduler)
        seconds = max(self._bound.values()) - began
        used = await scheduler.wait_idle() - cpu
        events = await self._count_events()
        waited = sorted((bound - self._created[name]) * 1e3 for name, bound in self._bound.items())
        return HttpFigures(
            pods_per_s=round(len(self._bound) / seconds, 1),
            cpu_us_per_pod=round(used / len(self._bodies) * 1e6, 1),
            cpu_s=round(used, 2),
            seconds=round(seconds, 2),
            bound=len(self._bound),
            first_s=round(min(self._bound.values()) - began, 2),
            events=events,
            peak_rss_mib=round(scheduler.peak_rss_mib, 1),
            bound_p50_ms=_percentile(waited, 0.5),
            bound_p99_ms=_percentile(waited, 0.99),
            late_ms=_percentile(sorted(late * 1e3 for late in self._late), 0.99),
        )

    async def _create_and_wait(self, scheduler: MeasuredProcess) -> None:
        bodies = [] if self._run.waiting else self._bodies
        if self._run.rate:
            creating = asyncio.create_task(self._offer(bodies))
        else:
            creating = asyncio.create_task(self._create_all(PODS, iter(bodies), ahead=MAX_UNBOUND))
        try:
            while len(self._bound) < self._expected:
                self._progress.clear()
                try:
                    async with asyncio.timeout(self._run.stall_timeout):
                        await self._progress.wait()
                except TimeoutError:
                    scheduler.check()
                    waiting = self._expected - len(self._bound)
                    raise BenchError(
                        f"no pod was bound for {self._run.stall_timeout:.0f} s, {waiting:,} are left"
                        f"{await self._why_pending()}"
                    ) from None
            await creating
        finally:
            creating.cancel()

    async def _why_pending(self) -> str:
        """Scheduler's message about a pod that is not bound; "" if there is none."""
        listed = await self._client.list(PODS, Pod, namespace=NAMESPACE)
        for pod in listed.items:
            if not pod.spec.node_name and pod.name.startswith(PREFIX):
                for condition in pod.status.conditions:
                    if condition.type == "PodScheduled" and condition.message:
                        return f"; of {pod.name} the scheduler says: {condition.message}"
        return ""

    async def _create_all(self, resource: Resource, bodies: Iterator[Json], ahead: int = 0) -> None:
        """Create objects, several at a time; with `ahead`, at most that many more than bound pods."""
        made = 0

        async def worker() -> None:
            nonlocal made
            for body in bodies:
                while ahead and made - len(self._bound) >= ahead:
                    await asyncio.sleep(0.005)
                made += 1
                await self._create(resource, body)

        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(worker())

    async def _offer(self, bodies: list[Json]) -> None:
        """Create pods at the rate that is wanted, whether they are bound or not."""
        began = perf_counter()
        async with asyncio.TaskGroup() as group:
            for number, body in enumerate(bodies):
                due = began + number / self._run.rate
                await asyncio.sleep(max(due - perf_counter(), 0.0))
                self._late.append(perf_counter() - due)
                group.create_task(self._create(PODS, body))

    async def _create(self, resource: Resource, body: Json) -> None:
        self._created[body["metadata"]["name"]] = perf_counter()
        created = await self._client.create(resource, body)
        metadata = created["metadata"]
        self._made.append((resource, metadata.get("namespace", ""), metadata["name"]))

    def added(self, new: Pod) -> None:
        """A pod is there, with or without a node."""
        if new.spec.node_name and new.name.removeprefix(PREFIX).isdigit():
            self._bound.setdefault(new.name, perf_counter())
            self._progress.set()

    def updated(self, old: Pod, new: Pod) -> None:
        self.added(new)

    def deleted(self, last: Pod) -> None:
        """Only victims are deleted while pods are counted."""

    async def _count_events(self) -> int:
        found = await self._client.list(EVENTS, AnyObject, namespace=NAMESPACE)
        return sum(one.name.startswith(PREFIX) for one in found.items)

    async def clean_up(self) -> None:
        """Leave an API server that is not ours as it was: pods go first, then the nodes."""
        for wanted in (PODS, NODES, PRIORITY_CLASSES):
            left = iter([made for made in self._made if made[0] is wanted])

            async def worker(left: Iterator[tuple[Resource, str, str]] = left) -> None:
                for resource, namespace, name in left:
                    try:
                        await self._client.delete(resource, namespace, name, DeleteOptions(0))
                    except ApiError as error:
                        if not error.is_not_found:
                            raise

            async with asyncio.TaskGroup() as group:
                for _ in range(_CONNECTIONS):
                    group.create_task(worker())


def _percentile(ordered: list[float], share: float) -> float:
    """The value that so large a share of all values does not exceed; 0 if there are none."""
    return round(ordered[ceil(share * len(ordered)) - 1], 2) if ordered else 0.0


def _node(number: int) -> Json:
    made = document(node(number))
    made["metadata"].pop("uid", None)
    made["metadata"]["name"] = f"{PREFIX}{made['metadata']['name']}"
    return made


def _pod(workload: str, number: int, name: str) -> Json:
    made = document(WORKLOADS["basic" if workload == PREEMPTION else workload].pod(number))
    made["metadata"] = {"labels": made["metadata"].get("labels", {}), "name": name, "namespace": NAMESPACE}
    for place, container in enumerate(made["spec"]["containers"]):
        container.setdefault("name", f"c{place}")
        container.setdefault("image", "registry.example/app:1")
    made["spec"]["automountServiceAccountToken"] = False
    if workload == PREEMPTION:
        made["spec"]["priorityClassName"] = _HIGH
        _request_cpu(made, 8 * VICTIMS)
    return made


def _low_pod(number: int, place: int) -> Json:
    """A pod of low priority that runs already: those of a node share its CPU evenly."""
    made = _pod("basic", number, f"{PREFIX}low-{number}-{place}")
    made["spec"]["nodeName"] = f"{PREFIX}{node_name(number)}"
    made["spec"]["terminationGracePeriodSeconds"] = 0
    _request_cpu(made, 8)
    return made


def _request_cpu(pod: Json, cpus: int) -> None:
    for container in pod["spec"]["containers"]:
        container["resources"] = {"requests": {"cpu": str(cpus)}}


def _high_priority() -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": _HIGH},
        "value": 1000,
    }
