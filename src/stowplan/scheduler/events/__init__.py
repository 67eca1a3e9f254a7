"""The scheduler's writes about pods: events, conditions and nominated nodes."""

from stowplan.scheduler.events.events import NORMAL, WARNING, EventRecorder, Related, reference, related
from stowplan.scheduler.events.podgroupstatus import condition_patch, initially_scheduled, patch_group_status
from stowplan.scheduler.events.podstatus import (
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
    "Related",
    "condition_patch",
    "conditions_patch",
    "failure_patch",
    "initially_scheduled",
    "is_replaced",
    "nomination_patch",
    "not_scheduled",
    "patch_group_status",
    "patch_status",
    "reference",
    "related",
    "victim_patch",
]
