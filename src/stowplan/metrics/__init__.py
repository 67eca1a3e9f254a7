"""What the scheduler counts and times, under the names kube-scheduler has for it.

Counting is plain arithmetic on plain objects, because one pod is counted dozens of times on its way. Only
when somebody asks for the figures are they turned into what Prometheus reads.
"""

from stowplan.metrics.evaluations import Tally
from stowplan.metrics.scheduling import (
    BINDING,
    ERROR,
    PRIORITIZING_EXTENDER,
    SCHEDULED,
    UNSCHEDULABLE_RESULT,
    SchedulerMetrics,
)

__all__ = [
    "BINDING",
    "ERROR",
    "PRIORITIZING_EXTENDER",
    "SCHEDULED",
    "UNSCHEDULABLE_RESULT",
    "SchedulerMetrics",
    "Tally",
]
