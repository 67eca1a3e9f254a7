"""What a Deployment says of itself: counts, and whether it is available, progressing or failing."""

from collections.abc import Iterable, Sequence
from typing import Final

from stowplan.api.meta import timestamp
from stowplan.api.requests import Json
from stowplan.embedded.controllers.objects import (
    condition_of,
    count_in,
    name_of,
    spec_of,
    status_of,
    time_of,
)
from stowplan.embedded.controllers.rollouts import Strategy

DONE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
NO_DEADLINE: Final = 2**31 - 1


def counts(deployment: Json, new: Json | None, sets: Sequence[Json]) -> Json:
    """The numbers in a Deployment's status."""

    def added(field: str) -> int:
        return sum(count_in(status_of(one), field) for one in sets)

    wanted = sum(count_in(spec_of(one), "replicas", 1) for one in sets)
    available = added("availableReplicas")
    return {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": added("replicas"),
        "updatedReplicas": 0 if new is None else count_in(status_of(new), "replicas"),
        "readyReplicas": added("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(wanted - available, 0),
        "terminatingReplicas": added("terminatingReplicas"),
    }


def is_complete(deployment: Json, numbers: Json) -> bool:
    """Whether all pods there are, are new and available."""
    wanted = count_in(spec_of(deployment), "replicas", 1)
    same = ("updatedReplicas", "replicas", "availableReplicas")
    return all(numbers[field] == wanted for field in same)


def has_moved(deployment: Json, numbers: Json) -> bool:
    """Whether the rollout has come further than its status says."""
    old = status_of(deployment)

    def was(field: str) -> int:
        return count_in(old, field)

    return bool(
        numbers["updatedReplicas"] > was("updatedReplicas")
        or numbers["replicas"] - numbers["updatedReplicas"] < was("replicas") - was("updatedReplicas")
        or numbers["readyReplicas"] > was("readyReplicas")
        or numbers["availableReplicas"] > was("availableReplicas")
    )


def deadline_of(deployment: Json) -> int | None:
    """Seconds a rollout may take without coming further, None if that does not matter."""
    seconds = count_in(spec_of(deployment), "progressDeadlineSeconds", 600)
    return None if seconds == NO_DEADLINE else seconds


def progress(deployment: Json, new: Json | None, numbers: Json, now: float) -> Json | None:
    """The condition Progressing as it is to be, None if it stays as it is."""
    held = condition_of(deployment, "Progressing")
    deadline = deadline_of(deployment)
    over = held is not None and held.get("reason") == DONE
    if deadline is None or (over and numbers["replicas"] == numbers["updatedReplicas"]):
        return None
    subject = f'ReplicaSet "{name_of(new)}"' if new is not None else f'Deployment "{name_of(deployment)}"'
    if is_complete(deployment, numbers):
        return _condition("True", DONE, f"{subject} has successfully progressed.", now)
    if has_moved(deployment, numbers):
        return _condition("True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
    if held is None or held.get("reason") in (DONE, TIMED_OUT):
        return None
    if time_of(held.get("lastUpdateTime")) + deadline < now:
        return _condition("False", TIMED_OUT, f"{subject} has timed out progressing.", now)
    return None


def began(deployment: Json, new: Json, now: float, *, created: bool) -> Json | None:
    """Progressing because a set was created; or was found, if nothing was said before."""
    if created:
        note = f'Created new replica set "{name_of(new)}"'
        return _condition("True", "NewReplicaSetCreated", note, now)
    if condition_of(deployment, "Progressing") is None:
        return _condition("True", "FoundNewReplicaSet", f'Found new replica set "{name_of(new)}"', now)
    return None


def paused(now: float) -> Json:
    return _condition("Unknown", "DeploymentPaused", "Deployment is paused", now)


def _condition(status: str, reason: str, message: str, now: float) -> Json:
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": timestamp(now),
    }


def available(deployment: Json, numbers: Json, now: float) -> Json:
    """The condition Available."""
    enough = numbers["availableReplicas"] >= Strategy.of(deployment).least_available
    return {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        "lastUpdateTime": timestamp(now),
    }


def failure(sets: Iterable[Json]) -> Json | None:
    """The condition ReplicaFailure: what keeps a set from having its pods."""
    return next((found for one in sets if (found := condition_of(one, "ReplicaFailure"))), None)


def merged(held: Sequence[Json], new: Json, now: float) -> list[Json]:
    """Conditions with one set; one that says the same as before keeps its times."""
    old = next((one for one in held if one.get("type") == new["type"]), None)
    same = old is not None and (old.get("status"), old.get("reason")) == (new["status"], new["reason"])
    if same and new["reason"] != "ReplicaSetUpdated":
        return list(held)
    since = timestamp(now)
    if old is not None and old.get("status") == new["status"]:
        since = old.get("lastTransitionTime", since)
    complete = {**new, "lastTransitionTime": since}
    if old is None:
        return [*held, complete]
    return [complete if one is old else one for one in held]
