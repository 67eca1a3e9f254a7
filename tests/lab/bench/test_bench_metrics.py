"""The benchmark of the metrics: it runs, and both sides count the same; how fast they are is not tested."""

import json
from random import Random
from time import perf_counter

from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.cli.lab.bench import bench
from stowplan.lab.bench.engine.metrics import ClientMetrics, client_counter, record_pod, stowplan_counter
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.table import ClusterTable


def counted(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All figures but those of time, and those that are 0 on both sides."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith(("_sum", "_bucket", "_created")) and sample.value
    }


def test_both_sides_count_the_same() -> None:
    ours = SchedulerMetrics(perf_counter, DEFAULT_GATES, Random(0))
    theirs = ClientMetrics(perf_counter, Random(0))
    queued = QueuedPod(ClusterTable().info(WORKLOADS["basic"].pod(0)), 0.0)
    for metrics, count in ((ours, stowplan_counter(ours)), (theirs, client_counter(theirs))):
        for sampled in (True, False, False):
            record_pod(metrics, count, queued, sampled)
    assert counted(ours.registry) == counted(theirs.registry)


def test_the_command_prints_both_figures() -> None:
    result = CliRunner().invoke(bench, ["metrics", "--pods", "3", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    assert figures["pods"] == 3
    assert figures["us_per_pod"] > 0
    assert figures["us_per_pod_prometheus_client"] > 0
    assert "µs" in result.output
