"""How fast a day is simulated: arrivals, bursts and failures, with the whole scheduler."""

from dataclasses import asdict, dataclass
from hashlib import sha256
from time import perf_counter, process_time
from typing import Any

from stowplan.lab.bench.servers.processes import MIB, peak_rss
from stowplan.localcluster.kubelets.config import NodeShape
from stowplan.scheduler.settings import Settings
from stowplan.simulate.scenario import Scenario, report_of, run
from stowplan.simulate.scenario.model import Burst, Lifetime, NodeGroup, Rate, Workload

HOUR = 3600.0
SERVICES, JOBS = 0.36, 0.54
"""The shares of pods that are services and jobs; the rest comes in four bursts."""


@dataclass(frozen=True, slots=True)
class DayRun:
    """Parameters of the simulation."""

    nodes: int = 5000
    pods: int = 200_000
    hours: int = 24
    seed: int = 1


@dataclass(frozen=True, slots=True)
class DayFigures:
    """`digest` is that of the report: the same for the same run."""

    seconds: float
    cpu_seconds: float
    created: int
    bound: int
    preempted: int
    evicted: int
    pending: int
    peak_rss_mib: float
    digest: str

    def document(self) -> dict[str, Any]:
        return asdict(self)


def measure(day: DayRun) -> DayFigures:
    """Simulate a day once."""
    began, cpu = perf_counter(), process_time()
    measures = run(scenario(day), Settings.of())
    report = report_of(measures, "the default configuration").json()
    return DayFigures(
        round(perf_counter() - began, 2),
        round(process_time() - cpu, 2),
        measures.created_pods,
        len(measures.waits_of_all),
        measures.preemptions,
        measures.evicted,
        measures.pending,
        round(peak_rss() / MIB, 1),
        sha256(report.encode()).hexdigest()[:16],
    )


def scenario(day: DayRun) -> Scenario:
    """Services that come and go with the time of day, jobs, and bursts that the cluster barely holds."""
    length = day.hours * HOUR
    zones = ("a", "b", "c")
    large = max(day.nodes // 5, 1)
    shape = NodeShape(name="general", cpu=32, memory="128Gi", zones=zones)
    larger = NodeShape(name="large", cpu=64, memory="256Gi", zones=zones)
    services = Rate(day.pods * SERVICES / length, 0, length, 0.5, 14 * HOUR)
    jobs = Rate(day.pods * JOBS / length, 0, length)
    at_once = max(round(day.pods * (1 - SERVICES - JOBS) / 4), 1)
    bursts = Burst(at_once, length / 12, length / 4, length)
    return Scenario(
        "day",
        length,
        day.seed,
        length / 288,
        [
            NodeGroup("general", shape, max(day.nodes - large, 1), 1.2, mtbf=2000 * HOUR, repair=HOUR / 3),
            NodeGroup("large", larger, large, 2.1),
        ],
        (),
        [
            _workload("web", 1000, ("2", "4Gi"), services, Lifetime("lognormal", 4 * HOUR, 1.0)),
            _workload("job", 0, ("4", "8Gi"), jobs, Lifetime("exponential", 3 * HOUR)),
            _workload("report", 100, ("8", "30Gi"), bursts, Lifetime("uniform", HOUR / 2, 2 * HOUR)),
        ],
    )


def _workload(
    name: str, priority: int, amounts: tuple[str, str], arrivals: Rate | Burst, lifetime: Lifetime
) -> Workload:
    requests = dict(zip(("cpu", "memory"), amounts, strict=True))
    template = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": name, "labels": {"app": name}},
        "spec": {
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "priority": priority,
            "containers": [{"name": "main", "image": "pretend", "resources": {"requests": requests}}],
        },
    }
    return Workload(name, name, template, True, arrivals, lifetime)
