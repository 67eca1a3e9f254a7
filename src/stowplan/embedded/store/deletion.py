"""What a request to delete does to an object: it is marked, removed, both, or left alone.

Pods are given time to end; every other kind goes at once. An object with finalizers stays until they are
gone, marked as being deleted. A namespace has such finalizers in its spec too, for what it contains.
"""

from typing import Final, NamedTuple

from stowplan.api.catalogue import NAMESPACES, PODS, Resource
from stowplan.api.meta import seconds_of, timestamp
from stowplan.api.requests import DeleteOptions, Json
from stowplan.embedded.store.objects import with_metadata
from stowplan.embedded.store.preconditions import check_deletion

_PROPAGATION: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_ENDED: Final = ("Succeeded", "Failed")


class Deletion(NamedTuple):
    """The object as it is to be written (itself if it stays as it is), and whether to remove it then."""

    marked: Json
    remove: bool


def deletion_of(resource: Resource, obj: Json, options: DeleteOptions, now: float) -> Deletion:
    """What deleting an object comes to. Raises `ApiError` 409 if another object is meant."""
    check_deletion(resource, obj, options)
    obj = _held_for_others(obj, options.propagation)
    held = bool(obj["metadata"].get("finalizers"))
    if resource == NAMESPACES and _contents_held(obj):
        return Deletion(_terminating(_mark(obj, now)), remove=False)
    if resource == PODS:
        grace = _pod_grace(obj, options, now)
        if grace is not None:
            marked, seconds = grace
            return Deletion(marked, remove=not held and seconds == 0)
    return Deletion(_mark(obj, now), remove=False) if held else Deletion(obj, remove=True)


def _held_for_others(obj: Json, propagation: str) -> Json:
    """The object, held until what it owns is gone or has been let go, if that is to be so."""
    finalizer = _PROPAGATION.get(propagation)
    held = obj["metadata"].get("finalizers") or []
    if finalizer is None or finalizer in held or "deletionTimestamp" in obj["metadata"]:
        return obj
    return with_metadata(obj, finalizers=[*held, finalizer])


def ends_with_update(obj: Json, updated: Json) -> bool:
    """Whether an update takes the last finalizer of an object that only waited for that."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or updated["metadata"].get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds") and not _contents_held(updated)


def _contents_held(obj: Json) -> bool:
    return obj["kind"] == NAMESPACES.kind and bool(obj.get("spec", {}).get("finalizers"))


def _terminating(namespace: Json) -> Json:
    if namespace.get("status", {}).get("phase") == "Terminating":
        return namespace
    return {**namespace, "status": {**namespace.get("status", {}), "phase": "Terminating"}}


def _pod_grace(pod: Json, options: DeleteOptions, now: float) -> tuple[Json, int] | None:
    """The pod with its time to end, and that time; None if it has had its time already."""
    asked = options.grace_period_seconds
    if asked is not None and asked < 0:
        asked = 1
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        seconds = _grace_of(pod, asked)
        marked = _with_deadline(pod, now + seconds, seconds)
        return _next_generation(marked), seconds
    current = metadata.get("deletionGracePeriodSeconds")
    if not current:
        return None
    if asked is None or asked >= current:
        return pod, current
    begun = seconds_of(metadata["deletionTimestamp"]) - current
    if begun + asked < now:
        return _with_deadline(pod, now, min(asked, 1)), min(asked, 1)
    return _with_deadline(pod, begun + asked, asked), asked


def _grace_of(pod: Json, asked: int | None) -> int:
    """How long a pod may take to end: one that never ran or has ended needs no time."""
    spec = pod.get("spec", {})
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in _ENDED:
        return 0
    seconds = spec.get("terminationGracePeriodSeconds") if asked is None else asked
    if not isinstance(seconds, int):
        return 0
    return 1 if seconds < 0 else seconds


def _mark(obj: Json, now: float) -> Json:
    """The object as being deleted, for those who hold it by a finalizer to see."""
    metadata = obj["metadata"]
    since = metadata.get("deletionTimestamp")
    if since is None:
        return _next_generation(_with_deadline(obj, now, 0))
    if seconds_of(since) > now:
        return _with_deadline(obj, now, 0)
    return obj if metadata.get("deletionGracePeriodSeconds") == 0 else _with_grace(obj, 0)


def _with_deadline(obj: Json, deadline: float, seconds: int) -> Json:
    return with_metadata(obj, deletionTimestamp=timestamp(deadline), deletionGracePeriodSeconds=seconds)


def _with_grace(obj: Json, seconds: int) -> Json:
    return with_metadata(obj, deletionGracePeriodSeconds=seconds)


def _next_generation(obj: Json) -> Json:
    generation = obj["metadata"].get("generation")
    return with_metadata(obj, generation=generation + 1) if generation else obj
