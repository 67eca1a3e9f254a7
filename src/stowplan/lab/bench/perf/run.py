"""One workload of upstream's benchmarks: a cluster, a scheduler as configured, and the operations."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.gates.flag import parse_feature_gates
from stowplan.api.releases import DEFAULT, Release, release
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.config.load import ConfigError, LoadedConfig, default_config, load_file
from stowplan.lab.bench.perf.declaredfeatures import GATE, made_up_features, needing
from stowplan.lab.bench.perf.definitions import Benchmark, DefinitionError
from stowplan.lab.bench.perf.figures import DataItem, PerfVerdict, verdict
from stowplan.lab.bench.perf.operations import WorkloadExecutor
from stowplan.lab.bench.perf.pods import PodTracker
from stowplan.lab.bench.servers.http import BenchError
from stowplan.lab.bench.servers.processes import MIB, peak_rss
from stowplan.localcluster.admission.chain import ClusterAdmission
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.devices.resourceclaim import ResourceClaimController
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.objects.groupfeatures import GroupFeatures
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from stowplan.runtime.gc_tuning import calm_collector
from stowplan.scheduler import Scheduler, Settings

_CLAIMS: Final = "DynamicResourceAllocation"
"""With this gate upstream runs the claim controller, and so do we with what takes claims away again."""
_CONNECTIONS: Final = 32
_HISTORY: Final = 1 << 18
"""Number of changes that may wait for a watcher: pods are created faster than they are scheduled."""
_DISABLED: Final = ("ServiceAccount", "TaintNodesByCondition", "Priority")
"""Admission plugins that upstream switches off: what they need is not there."""


@dataclass(frozen=True, slots=True)
class PerfOutcome:
    """Result of a workload; with a `reason` it did not run."""

    name: str
    reason: str = ""
    verdict: PerfVerdict | None = None
    items: list[DataItem] = field(default_factory=list)
    pods: int = 0
    seconds: float = 0.0
    cpu_us_per_pod: float = 0.0
    total_s: float = 0.0
    peak_rss_mib: float = 0.0


def measure(benchmark: Benchmark, *, seed: int = 0, kubeconfig: str = "") -> PerfOutcome:
    """Run one workload, in process or on an API server."""
    try:
        return asyncio.run(_measure(benchmark, seed, kubeconfig))
    except (BenchError, DefinitionError, ConfigError, ApiError) as error:
        return PerfOutcome(benchmark.name, reason=_one_line(error))
    except BaseExceptionGroup as several:
        first = several.exceptions[0]
        if not isinstance(first, BenchError | DefinitionError | ConfigError | ApiError):
            raise
        return PerfOutcome(benchmark.name, reason=_one_line(first))


async def _measure(benchmark: Benchmark, seed: int, kubeconfig: str) -> PerfOutcome:
    began = perf_counter()
    settings = _settings(benchmark)
    rng = random.Random(seed)
    clock = RealClock()
    async with AsyncExitStack() as running:
        client: Client
        if kubeconfig:
            server = load_kubeconfig(kubeconfig)
            http = HttpClient(server, clock=clock, rng=rng, qps=-1, connections=_CONNECTIONS)
            client = await running.enter_async_context(http)
        else:
            admission = ClusterAdmission(disabled=_DISABLED, gates=settings.gates)
            store = Store(clock, random.Random(seed), history=_HISTORY, admission=admission)
            client = InProcessClient(store)
            if benchmark.feature_gates.get(_CLAIMS):
                await running.enter_async_context(_controllers(client, settings.gates, seed))
        scheduler = Scheduler(client, settings, clock=clock, rng=rng, timer=perf_counter)
        await running.enter_async_context(scheduler.running())
        pods = PodTracker()
        scheduler.informers.pods.add_handler(pods)
        executor = WorkloadExecutor(benchmark, client, scheduler, pods, random.Random(seed))
        if kubeconfig:
            running.push_async_callback(executor.clean_up)
        with calm_collector():
            await executor.run()
        return PerfOutcome(
            benchmark.name,
            verdict=verdict(executor.items, benchmark.selector, benchmark.threshold),
            items=executor.items,
            pods=executor.measured,
            seconds=executor.seconds,
            cpu_us_per_pod=executor.cpu / executor.measured * 1e6 if executor.measured else 0.0,
            total_s=perf_counter() - began,
            peak_rss_mib=peak_rss() / MIB,
        )


def _settings(benchmark: Benchmark) -> Settings:
    """The scheduler's configuration and gates. Raises ConfigError.

    A gate that needs one which is switched off is switched off too, unless the workload says otherwise.
    """
    wanted = benchmark.feature_gates
    # It cannot be off in the release the definitions are for: as upstream, the one before it is emulated.
    emulated = DEFAULT if wanted.get(GATE, True) else release("1.36")
    off = {name for name, gate in emulated.gates.items() if gate.default and _lacks(name, wanted, emulated)}
    settings = {**dict.fromkeys(sorted(off - wanted.keys()), False), **wanted}
    gates = parse_feature_gates([f"{name}={str(on).lower()}" for name, on in settings.items()], emulated)
    return needing(Settings.of(_config(benchmark, gates)), made_up_features(benchmark))


def _lacks(name: str, wanted: Mapping[str, bool], emulated: Release) -> bool:
    """True if a gate is switched off, or one that it needs."""
    if name in wanted:
        return not wanted[name]
    gate = emulated.gates.get(name)
    return gate is not None and any(_lacks(needed, wanted, emulated) for needed in gate.needs)


def _config(benchmark: Benchmark, gates: FeatureGates) -> LoadedConfig:
    path = benchmark.case.scheduler_config_path
    return load_file(benchmark.path(path), gates) if path else default_config(gates)


def _controllers(
    client: Client, gates: FeatureGates, seed: int
) -> AbstractAsyncContextManager[ControllerManager]:
    """Controllers that run with the scheduler: claims from templates, and garbage collection."""
    context = ControllerContext.of(client, RealClock(), random.Random(seed))
    claims = ResourceClaimController(context, groups=GroupFeatures.of(gates).claims)
    return ControllerManager(context, [claims, GarbageCollector(context)]).running()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
