"""What the scheduler writes about pods: events, conditions and nominated nodes."""

from stowplan.reporting.events import NORMAL, WARNING, EventRecorder, reference
from stowplan.reporting.podstatus import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    conditions_patch,
    failure_patch,
    is_replaced,
    nomination_patch,
    not_scheduled,
    patch_status,
    victim_patch,
)

__all__ = [
    "NORMAL",
    "SCHEDULER_ERROR",
    "UNSCHEDULABLE",
    "WARNING",
    "EventRecorder",
    "conditions_patch",
    "failure_patch",
    "is_replaced",
    "nomination_patch",
    "not_scheduled",
    "patch_status",
    "reference",
    "victim_patch",
]
