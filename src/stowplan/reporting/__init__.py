"""What the scheduler writes about pods: events, conditions and nominated nodes."""

from stowplan.reporting.events import NORMAL, WARNING, EventRecorder, reference
from stowplan.reporting.podstatus import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    failure_patch,
    is_replaced,
    nomination_patch,
    patch_status,
    victim_patch,
)

__all__ = [
    "NORMAL",
    "SCHEDULER_ERROR",
    "UNSCHEDULABLE",
    "WARNING",
    "EventRecorder",
    "failure_patch",
    "is_replaced",
    "nomination_patch",
    "patch_status",
    "reference",
    "victim_patch",
]
