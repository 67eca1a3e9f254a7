"""What the scheduler counts and times, under the names kube-scheduler has for it.

Counting is plain arithmetic on plain objects, because one pod is counted dozens of times on its way. Only
when somebody asks for the figures are they turned into what Prometheus reads.
"""

from stowplan.metrics.access import AccessMetrics
from stowplan.metrics.evaluations import Tally
from stowplan.metrics.health import HealthMetrics
from stowplan.metrics.options import MetricsOptions
from stowplan.metrics.podresources import PodResources
from stowplan.metrics.process import Build, ProcessMetrics
from stowplan.metrics.requests import RequestMetrics
from stowplan.metrics.scheduling import (
    BINDING,
    ERROR,
    PRIORITIZING_EXTENDER,
    UNSCHEDULABLE_RESULT,
    SchedulerMetrics,
)

__all__ = [
    "BINDING",
    "ERROR",
    "PRIORITIZING_EXTENDER",
    "UNSCHEDULABLE_RESULT",
    "AccessMetrics",
    "Build",
    "HealthMetrics",
    "MetricsOptions",
    "PodResources",
    "ProcessMetrics",
    "RequestMetrics",
    "SchedulerMetrics",
    "Tally",
]
