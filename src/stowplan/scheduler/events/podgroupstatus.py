"""Patches of a PodGroup's status: whether the group was given a place for the first time."""

import random
from functools import partial

from stowplan.api.catalogue import POD_GROUPS
from stowplan.api.meta import timestamp
from stowplan.api.pod_groups import INITIALLY_SCHEDULED, GroupCondition, PodGroup
from stowplan.api.requests import Json, PatchType
from stowplan.client import Writer
from stowplan.client.retry import retried
from stowplan.scheduler.events.podstatus import is_retriable


def initially_scheduled(group: PodGroup) -> GroupCondition | None:
    """The condition as the object has it."""
    return next((one for one in group.status.conditions if one.type == INITIALLY_SCHEDULED), None)


def condition_patch(group: PodGroup, wanted: GroupCondition, now: float) -> Json | None:
    """Patch that gives the status of a group a condition; None if it has it already.

    The time of transition stays while the status does.
    """
    existing = initially_scheduled(group)
    kept = existing is not None and existing.status == wanted.status
    since = existing.last_transition_time if existing is not None and kept else timestamp(now)
    full = {
        "lastTransitionTime": since,
        "message": wanted.message,
        "observedGeneration": wanted.observed_generation or None,
        "reason": wanted.reason,
        "status": wanted.status,
        "type": wanted.type,
    }
    if existing is not None:
        before = {
            "lastTransitionTime": existing.last_transition_time,
            "message": existing.message,
            "observedGeneration": existing.observed_generation or None,
            "reason": existing.reason,
            "status": existing.status,
        }
        full = {key: value for key, value in full.items() if key == "type" or before[key] != value}
        if len(full) == 1:
            return None
    else:
        full = {key: value for key, value in full.items() if value is not None}
    order = dict.fromkeys((*(one.type for one in group.status.conditions), wanted.type))
    return {
        "status": {
            "$setElementOrder/conditions": [{"type": kind} for kind in order],
            "conditions": [full],
        }
    }


async def patch_group_status(client: Writer, group: PodGroup, patch: Json, rng: random.Random) -> None:
    """Write a patch of exactly this group's status: not of a group created under its name since.

    Retriable errors are retried for less than half a second. Raises the last `ApiError`.
    """
    patch = {"metadata": {"uid": group.metadata.uid}, **patch}
    write = partial(
        client.patch_unseen,
        POD_GROUPS,
        group.namespace,
        group.name,
        patch,
        PatchType.STRATEGIC,
        subresource="status",
    )
    await retried(write, is_retriable, rng.random)
