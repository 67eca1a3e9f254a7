"""What the scheduler writes about pods: events, conditions and promised nodes."""

from stowplan.reporting.event import NORMAL, WARNING, reference
from stowplan.reporting.podstatus import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    failure_patch,
    is_replaced,
    nomination_patch,
    patch_status,
    victim_patch,
)
from stowplan.reporting.recorder import EventRecorder

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
