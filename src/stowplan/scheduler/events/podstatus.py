"""Patches of a pod's status (strategic merge patches).

A patch has only the difference between the current and the wanted status: of an existing condition only the
keys that change, and without changes there is no patch.
"""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from stowplan.api.catalogue import PODS
from stowplan.api.meta import timestamp
from stowplan.api.pod import Pod, PodCondition
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.client import Writer
from stowplan.client.retry import is_unwell, retried

POD_SCHEDULED: Final = "PodScheduled"
DISRUPTION_TARGET: Final = "DisruptionTarget"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"


def failure_patch(
    pod: Pod, *, reason: str, message: str, now: float, nominated_node: str | None = None
) -> Json | None:
    """The PodScheduled=False condition of a pod; None if the status has it already.

    `nominated_node` is the nomination to set, "" to clear it, None to leave it.
    """
    return conditions_patch(pod, (not_scheduled(pod, reason, message),), now, nominated_node)


def not_scheduled(pod: Pod, reason: str, message: str) -> PodCondition:
    """The condition of a pod that has no node."""
    return PodCondition(
        type=POD_SCHEDULED,
        status="False",
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
    )


def victim_patch(pod: Pod, *, scheduler_name: str, now: float, preemptor: str = "pod") -> Json | None:
    """The DisruptionTarget condition of a preemption victim, written before it is deleted.

    `preemptor` is the kind of what preempts: `pod`, `podgroup` or `compositepodgroup`.
    """
    wanted = PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTION_BY_SCHEDULER,
        message=f"{scheduler_name}: preempting to accommodate a higher priority {preemptor}",
        observed_generation=pod.metadata.generation,
    )
    return conditions_patch(pod, (wanted,), now)


def nomination_patch(pod: Pod, nominated_node: str) -> Json | None:
    """The nominated node alone; "" clears it.

    Written before a binding cycle that takes long, and to clear lower nominations after a preemption.
    """
    nomination = _nomination(pod, nominated_node)
    return {"status": nomination} if nomination else None


async def patch_status(client: Writer, pod: Pod, patch: Json | None, rng: random.Random) -> None:
    """Write a patch of a pod's status; None is nothing to write.

    The pod's uid is a precondition, so that a pod created under the same name since is left alone (see
    `is_replaced`). Retriable errors are retried for less than half a second; the patch is idempotent. Raises
    the last `ApiError`.
    """
    if patch is None:
        return
    patch = {"metadata": {"uid": pod.metadata.uid}, **patch}
    write = partial(
        client.patch_unseen, PODS, pod.namespace, pod.name, patch, PatchType.STRATEGIC, subresource="status"
    )
    await retried(write, is_retriable, rng.random)


def is_replaced(error: ApiError) -> bool:
    """True if a write was refused because another object has the name by now."""
    if error.is_conflict:
        return "precondition" in error.message.lower()
    return error.code == 422 and "metadata.uid" in error.message


def is_retriable(error: ApiError) -> bool:
    """True if a failed write of a status is worth another try."""
    if is_replaced(error):
        return False
    is_conflict = error.is_conflict or (error.code == 409 and error.reason in ("", "Unknown"))
    return error.is_unreachable or is_conflict or is_unwell(error)


def conditions_patch(
    pod: Pod, wanted: Sequence[PodCondition], now: float, nominated_node: str | None = None
) -> Json | None:
    """Conditions of a pod and its nomination; None if the status has them already.

    If anything is written at all, so is an observedGeneration or a time that differs.
    """
    nomination = _nomination(pod, nominated_node)
    held = {one.type: one for one in pod.status.conditions}
    if not nomination and all(one.type in held and _is_same(held[one.type], one) for one in wanted):
        return None
    status = {**_conditions(held, wanted, now), **nomination}
    return {"status": status} if status else None


def _nomination(pod: Pod, nominated_node: str | None) -> Json:
    if nominated_node is None or nominated_node == pod.status.nominated_node_name:
        return {}
    return {"nominatedNodeName": nominated_node or None}


def _is_same(existing: PodCondition, wanted: PodCondition) -> bool:
    """True if two conditions are equal except for times and observedGeneration."""
    return (
        existing.status == wanted.status
        and existing.reason == wanted.reason
        and existing.message == wanted.message
        and existing.last_probe_time is None
    )


def _conditions(held: Mapping[str, PodCondition], wanted: Sequence[PodCondition], now: float) -> Json:
    """The part of the patch that changes the existing conditions into the wanted ones."""
    changes: list[Json] = []
    for one in wanted:
        existing = held.get(one.type)
        kept = existing is not None and existing.status == one.status
        since = existing.last_transition_time if existing is not None and kept else timestamp(now)
        full = {**_data(one), "lastTransitionTime": since}
        if existing is None:
            changes.append(full)
        elif difference := _difference(_data(existing), full):
            changes.append({**difference, "type": one.type})
    if not changes:
        return {}
    if not held:
        return {"conditions": changes}
    order = [{"type": kind} for kind in dict.fromkeys((*held, *(one["type"] for one in changes)))]
    return {"$setElementOrder/conditions": order, "conditions": changes}


def _data(condition: PodCondition) -> Json:
    """A condition as JSON: times even if unset, other fields only if not empty."""
    optional = {
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
    }
    return {
        "type": condition.type,
        "status": condition.status,
        "lastProbeTime": condition.last_probe_time,
        "lastTransitionTime": condition.last_transition_time,
        **{key: value for key, value in optional.items() if value},
    }


def _difference(old: Json, new: Json) -> dict[str, Any]:
    changed = {key: value for key, value in new.items() if key not in old or old[key] != value}
    return {**changed, **{key: None for key in old if key not in new}}
