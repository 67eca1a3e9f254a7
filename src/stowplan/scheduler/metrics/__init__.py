"""The metrics of kube-scheduler, under its names.

Counting is plain arithmetic on plain objects, because every pod is counted dozens of times. Only when metrics
are collected are they turned into Prometheus families.
"""

from stowplan.scheduler.metrics.buffers import CallCounter
from stowplan.scheduler.metrics.options import MetricsOptions
from stowplan.scheduler.metrics.podresources import PodResources
from stowplan.scheduler.metrics.process import (
    AccessMetrics,
    Build,
    HealthMetrics,
    ProcessMetrics,
    RequestMetrics,
)
from stowplan.scheduler.metrics.scheduling import (
    BINDING,
    ERROR,
    PRIORITIZING_EXTENDER,
    UNSCHEDULABLE_RESULT,
    CycleTotals,
    SchedulerMetrics,
)

__all__ = [
    "BINDING",
    "ERROR",
    "PRIORITIZING_EXTENDER",
    "UNSCHEDULABLE_RESULT",
    "AccessMetrics",
    "Build",
    "CallCounter",
    "CycleTotals",
    "HealthMetrics",
    "MetricsOptions",
    "PodResources",
    "ProcessMetrics",
    "RequestMetrics",
    "SchedulerMetrics",
]
