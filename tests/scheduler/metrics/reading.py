"""Metrics on a clock that stands still, and what a scrape of them says."""

from random import Random

from prometheus_client.parser import text_string_to_metric_families

from scheduler.queue.still_queue import Patient, rig
from stowplan.api.gates.feature_gates import FeatureGates, gates_with
from stowplan.api.releases import DEFAULT
from stowplan.scheduler.framework.events import NODE_ADD
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.testing import node, pod

ALL_GATES = gates_with(DEFAULT.gates)


class Timer:
    """A timer set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Chance(Random):
    """Draws always the same number: 0.0 means that everything is sampled."""

    def __init__(self, drawn: float) -> None:
        super().__init__(0)
        self.drawn = drawn

    def random(self) -> float:
        return self.drawn


def made(
    gates: FeatureGates = ALL_GATES, *, timer: Timer | None = None, drawn: float = 0.0
) -> SchedulerMetrics:
    return SchedulerMetrics(timer or Timer(), gates, Chance(drawn))


def scraped(metrics: SchedulerMetrics, name: str) -> dict[tuple[str, ...], float]:
    """The values of all samples of a name, by label values in the alphabetical order of the labels."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if sample.name == f"scheduler_{name}"
    }


def touch_everything(metrics: SchedulerMetrics) -> None:
    """Leaves a series in every family that anything is ever counted in."""
    metrics.algorithm(0.002)
    metrics.event_handled("NodeAdd", 0.001)
    metrics.preemption_attempted()
    metrics.preempted(2)
    metrics.preemption_executed("success", 0.0)
    metrics.bound("default-scheduler", 0.003, 1, 0.5, True)
    metrics.point("Filter", "Success", "default-scheduler", 0.0001)
    metrics.plugin("NodeName", "Filter", "Success", 0.00001)
    metrics.evaluated("NodeName", "Filter", "default-scheduler", 3)
    metrics.permit_waited("Success", 1.0)
    metrics.goroutines("binding", 1)
    metrics.rejected("NodeName", "default-scheduler", 1)
    touch_queue(metrics)
    touch_optional(metrics)


def touch_queue(metrics: SchedulerMetrics) -> None:
    """Add a pod that is rejected, and an event that makes the queue call a hint."""
    r = rig(Patient, instrument=metrics)
    r.waiting(pod("p"), "Patient")
    r.queue.move_all(NODE_ADD, None, node("n").obj())


def touch_optional(metrics: SchedulerMetrics) -> None:
    """Batches, devices, volumes, asynchronous calls, groups."""
    metrics.batches.attempted("default-scheduler", "no_hint")
    metrics.batches.flushed("default-scheduler", "expired")
    metrics.batches.asked(True, "default-scheduler", 0.1)
    metrics.batches.stored("default-scheduler", 0.1)
    metrics.devices.claim_created(True)
    metrics.devices.waited("default-scheduler", "gpu.example.com", "timeout", 600.0)
    metrics.devices.allocated("default-scheduler", "gpu.example.com", "timeout")
    metrics.volumes.failed("bind")
    metrics.async_calls.executed("pod_binding", "success", 0.01)
    metrics.async_calls.pending("pod_binding", 1)
    metrics.pod_groups.attempt("waiting_on_preemption", "default-scheduler", 0.1)
    metrics.pod_groups.algorithm(0.1)
