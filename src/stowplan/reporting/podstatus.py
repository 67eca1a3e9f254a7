"""What the scheduler says in a pod's status, as strategic merge patches.

A patch holds the difference between the status as it is and as it shall be, and nothing else: a condition
that exists is patched by the keys that change, and nothing is written where nothing changes.
"""

import asyncio
import random
from typing import Any, Final

from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod, PodCondition
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.api.timestamps import timestamp
from stowplan.client import Writer

POD_SCHEDULED: Final = "PodScheduled"
DISRUPTION_TARGET: Final = "DisruptionTarget"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

FIRST_PAUSE: Final = 0.01
PAUSE_FACTOR: Final = 5.0
PAUSE_JITTER: Final = 0.1
TRIES: Final = 4

_RETRIED: Final = {"InternalError": 500, "ServiceUnavailable": 503, "Conflict": 409}
_NAMELESS: Final = ("", "Unknown")


def failure_patch(
    pod: Pod, *, reason: str, message: str, now: float, nominated_node: str | None = None
) -> Json | None:
    """Why a pod could not be placed. None if its status says so already.

    `nominated_node` is the node the pod shall be promised, "" to take a promise back, None to leave it.
    """
    wanted = PodCondition(
        type=POD_SCHEDULED,
        status="False",
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
    )
    return _patch(pod, wanted, now, nominated_node)


def victim_patch(pod: Pod, *, scheduler_name: str, now: float) -> Json | None:
    """That a pod has to make room for a more important one; written before it is deleted."""
    wanted = PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTION_BY_SCHEDULER,
        message=f"{scheduler_name}: preempting to accommodate a higher priority pod",
        observed_generation=pod.metadata.generation,
    )
    return _patch(pod, wanted, now, None)


def nomination_patch(pod: Pod, nominated_node: str) -> Json | None:
    """The node a pod is promised, and no condition; "" takes a promise back.

    Others shall know where a pod is going when its binding takes long, and that a pod of lower priority
    can no longer count on its place.
    """
    nomination = _nomination(pod, nominated_node)
    return {"status": nomination} if nomination else None


async def patch_status(client: Writer, pod: Pod, patch: Json | None, rng: random.Random) -> None:
    """Write a patch of a pod's status; None is nothing to write.

    The pod's uid goes with it, so that a pod that was created under the same name since is left alone: the
    server refuses the patch then (see `is_replaced`). It is tried again at once and for less than half a
    second where another try may help: the patch says the same however often it comes. Raises the last
    `ApiError`.
    """
    if patch is None:
        return
    patch = {"metadata": {"uid": pod.metadata.uid}, **patch}
    pause = FIRST_PAUSE
    for attempt in range(1, TRIES + 1):
        try:
            await client.patch(
                PODS, pod.namespace, pod.name, patch, PatchType.STRATEGIC, subresource="status"
            )
        except ApiError as error:
            if attempt == TRIES or not _may_pass(error):
                raise
        else:
            return
        await asyncio.sleep(pause * (1 + PAUSE_JITTER * rng.random()))
        pause *= PAUSE_FACTOR


def is_replaced(error: ApiError) -> bool:
    """Whether a write was refused because another object has the name by now."""
    if error.is_conflict:
        return "precondition" in error.message.lower()
    return error.code == 422 and "metadata.uid" in error.message


def _may_pass(error: ApiError) -> bool:
    if is_replaced(error):
        return False
    if error.is_unreachable or error.reason in _RETRIED:
        return True
    return error.reason in _NAMELESS and error.code in _RETRIED.values()


def _patch(pod: Pod, wanted: PodCondition, now: float, nominated_node: str | None) -> Json | None:
    nomination = _nomination(pod, nominated_node)
    existing = next((held for held in pod.status.conditions if held.type == wanted.type), None)
    if existing is not None and _says_the_same(existing, wanted) and not nomination:
        return None
    status = {**_conditions(pod, existing, wanted, now), **nomination}
    return {"status": status} if status else None


def _nomination(pod: Pod, nominated_node: str | None) -> Json:
    if nominated_node is None or nominated_node == pod.status.nominated_node_name:
        return {}
    return {"nominatedNodeName": nominated_node or None}


def _says_the_same(existing: PodCondition, wanted: PodCondition) -> bool:
    """Whether a condition need not be written. The generation it was observed at is no reason to."""
    return (
        existing.status == wanted.status
        and existing.reason == wanted.reason
        and existing.message == wanted.message
        and existing.last_probe_time is None
    )


def _conditions(pod: Pod, existing: PodCondition | None, wanted: PodCondition, now: float) -> Json:
    """The part of the patch that turns the existing condition into the wanted one."""
    kept = existing is not None and existing.status == wanted.status
    since = existing.last_transition_time if existing is not None and kept else timestamp(now)
    full = {**_data(wanted), "lastTransitionTime": since}
    if not pod.status.conditions:
        return {"conditions": [full]}
    order = [{"type": held.type} for held in pod.status.conditions]
    if existing is None:
        return {"$setElementOrder/conditions": [*order, {"type": wanted.type}], "conditions": [full]}
    changes = _difference(_data(existing), full)
    if not changes:
        return {}
    return {"$setElementOrder/conditions": order, "conditions": [{**changes, "type": wanted.type}]}


def _data(condition: PodCondition) -> Json:
    """A condition as it is written: times also if they are unset, other things only if they say something."""
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
