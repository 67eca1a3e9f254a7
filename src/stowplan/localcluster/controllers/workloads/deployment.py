"""The Deployment controller: a ReplicaSet for each revision of its template, and its status."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import DEPLOYMENTS, PODS, REPLICA_SETS
from stowplan.api.meta import timestamp
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllers.workloads.podcontrol import claim_objects
from stowplan.localcluster.controllers.workloads.rollout import (
    DESIRED_REPLICAS,
    REVISION,
    RolloutPart,
    RolloutStrategy,
    annotations_for,
    find_new,
    grow_new,
    is_scaling,
    new_set,
    outdated,
    revision_of,
    same_template,
    scale,
    shrink_old,
)
from stowplan.localcluster.objects.fields import (
    annotations_of,
    condition_of,
    controller_of,
    count_in,
    is_deleting,
    is_finished,
    name_of,
    namespace_of,
    omit_empty,
    selector_in,
    spec_of,
    status_of,
    time_of,
    uid_of,
    without_condition,
)

AVAILABLE_REASON: Final = "NewReplicaSetAvailable"
PAUSED_REASON: Final = "DeploymentPaused"
TIMED_OUT_REASON: Final = "ProgressDeadlineExceeded"
NO_DEADLINE: Final = 2**31 - 1


def status_counts(deployment: Json, new: Json | None, sets: Sequence[Json]) -> Json:
    """The numbers in a Deployment's status, zeros included."""

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
    """True if all pods are new and available."""
    wanted = count_in(spec_of(deployment), "replicas", 1)
    same = ("updatedReplicas", "replicas", "availableReplicas")
    return all(count_in(numbers, field) == wanted for field in same)


def has_progressed(deployment: Json, numbers: Json) -> bool:
    """True if the rollout has advanced beyond its status."""
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


def progress_condition(
    deployment: Json, new: Json | None, numbers: Json, held: Json | None, now: float
) -> Json | None:
    """The condition Progressing as it is to be, None if it stays as it is held."""
    deadline = deadline_of(deployment)
    over = held is not None and held.get("reason") == AVAILABLE_REASON
    if deadline is None or (over and numbers["replicas"] == numbers["updatedReplicas"]):
        return None
    subject = f'ReplicaSet "{name_of(new)}"' if new is not None else f'Deployment "{name_of(deployment)}"'
    if is_complete(deployment, numbers):
        return _progressing("True", AVAILABLE_REASON, f"{subject} has successfully progressed.", now)
    if has_progressed(deployment, numbers):
        return _progressing("True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
    if held is None or held.get("reason") in (AVAILABLE_REASON, TIMED_OUT_REASON):
        return None
    if time_of(held.get("lastUpdateTime")) + deadline < now:
        return _progressing("False", TIMED_OUT_REASON, f"{subject} has timed out progressing.", now)
    return None


def new_set_condition(deployment: Json, new: Json, now: float, *, created: bool) -> Json | None:
    """Progressing because a set was created; or was found, if nothing was said before."""
    if created:
        note = f'Created new replica set "{name_of(new)}"'
        return _progressing("True", "NewReplicaSetCreated", note, now)
    if condition_of(deployment, "Progressing") is None:
        return _progressing("True", "FoundNewReplicaSet", f'Found new replica set "{name_of(new)}"', now)
    return None


def pause_condition(deployment: Json, now: float) -> Json | None:
    """Progressing because a Deployment was paused or resumed; no progress is missed meanwhile."""
    reason = (condition_of(deployment, "Progressing") or {}).get("reason")
    if reason == TIMED_OUT_REASON:
        return None
    if spec_of(deployment).get("paused"):
        return _progressing("Unknown", PAUSED_REASON, "Deployment is paused", now)
    if reason == PAUSED_REASON:
        return _progressing("Unknown", "DeploymentResumed", "Deployment is resumed", now)
    return None


def creation_failure(name: str, error: ApiError, now: float) -> Json:
    """Progressing no more because the new set cannot be created."""
    note = f'Failed to create new replica set "{name}": {error.message}'
    return _progressing("False", "ReplicaSetCreateError", note, now)


def _progressing(status: str, reason: str, message: str, now: float) -> Json:
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": timestamp(now),
    }


def availability_condition(deployment: Json, numbers: Json, now: float) -> Json:
    """The condition Available."""
    enough = numbers["availableReplicas"] >= RolloutStrategy.of(deployment).least_available
    return {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        "lastUpdateTime": timestamp(now),
    }


def failure_condition(new: Json | None, sets: Iterable[Json]) -> Json | None:
    """The condition ReplicaFailure: what keeps a set, first of all the newest, from having its pods."""
    first = [] if new is None else [new]
    for one in (*first, *sets):
        found = condition_of(one, "ReplicaFailure")
        if found is not None:
            return {**found, "lastUpdateTime": found.get("lastTransitionTime")}
    return None


def merged_conditions(held: Sequence[Json], new: Json, now: float) -> list[Json]:
    """Conditions with one set, which comes last; one that says the same as before stays as it is."""
    old = next((one for one in held if one.get("type") == new["type"]), None)
    same = old is not None and (old.get("status"), old.get("reason")) == (new["status"], new["reason"])
    if same and new["reason"] != "ReplicaSetUpdated":
        return list(held)
    since = new.get("lastTransitionTime") or timestamp(now)
    if old is not None and old.get("status") == new["status"]:
        since = old.get("lastTransitionTime", since)
    return [*without_condition(held, new["type"]), {**new, "lastTransitionTime": since}]


def conditions_for(
    deployment: Json,
    new: Json | None,
    sets: Sequence[Json],
    numbers: Json,
    events: Sequence[Json],
    now: float,
) -> list[Json]:
    """The conditions in the middle of a rollout; `events` are those that something has just led to."""
    held = list(status_of(deployment).get("conditions") or ())
    has_deadline = deadline_of(deployment) is not None
    for one in events if has_deadline else ():
        held = merged_conditions(held, one, now)
    held = merged_conditions(held, availability_condition(deployment, numbers, now), now)
    progressing = next((one for one in held if one.get("type") == "Progressing"), None)
    moved = progress_condition(deployment, new, numbers, progressing, now)
    if moved is not None:
        held = merged_conditions(held, moved, now)
    if not has_deadline:
        held = without_condition(held, "Progressing")
    failing = failure_condition(new, sets)
    return (
        without_condition(held, "ReplicaFailure")
        if failing is None
        else merged_conditions(held, failing, now)
    )


class DeploymentController(Controller):
    """Rolls Deployments out."""

    name: ClassVar[str] = "deployment-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.deployments = self.follow(DEPLOYMENTS)
        self.sets = self.follow_owned(REPLICA_SETS, DEPLOYMENTS.kind, self.deployments)
        self.pods = self.informer(PODS)
        self.pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        """Whoever recreates waits for the last of the old pods to go."""
        if new is not None or old is None:
            return
        owner = controller_of(old)
        if owner is None or owner.get("kind") != REPLICA_SETS.kind:
            return
        replica_set = self.sets.get(f"{namespace_of(old)}/{owner.get('name', '')}")
        above = None if replica_set is None else controller_of(replica_set)
        if above is not None and above.get("kind") == DEPLOYMENTS.kind:
            key = f"{namespace_of(old)}/{above.get('name', '')}"
            found = self.deployments.get(key)
            if found is not None and RolloutStrategy.of(found).recreate:
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        deployment = self.deployments.get(key)
        if deployment is None:
            return
        sets = await claim_objects(self, self.sets, DEPLOYMENTS, deployment, selector_in(deployment))
        new = find_new(deployment, sets)
        if is_deleting(deployment):
            await self._write_counts(deployment, new, sets, None)
            return
        strategy, paused = RolloutStrategy.of(deployment), bool(spec_of(deployment).get("paused"))
        pause = pause_condition(deployment, self.now())
        if paused or is_scaling(strategy, [RolloutPart.of(one) for one in sets]):
            await self._scale(deployment, strategy, new, sets)
            if paused:
                await self._forget_old(deployment, [one for one in sets if one is not new])
            await self._write_counts(deployment, new, sets, pause)
            return
        await self._roll(deployment, strategy, new, sets, [] if pause is None else [pause])

    # Going from old to new

    async def _roll(
        self,
        deployment: Json,
        strategy: RolloutStrategy,
        new: Json | None,
        sets: Sequence[Json],
        events: Sequence[Json],
    ) -> None:
        old = [one for one in sets if one is not new]
        if strategy.recreate and await self._clear(deployment, strategy, old):
            await self._write_status(deployment, new, sets, events)
            return
        created: Json | None = None
        if new is None:
            new = created = await self._create(deployment, strategy, old)
            if new is None:
                return
            sets = [*old, new]
        else:
            fresh = await self._refresh(deployment, new, old)
            sets, new = [fresh if one is new else one for one in sets], fresh
        began = new_set_condition(deployment, new, self.now(), created=created is not None)
        if not await self._resize(deployment, strategy, new, old) and _was_complete(deployment):
            await self._forget_old(deployment, old)
        await self._write_status(deployment, new, sets, [*events, *([] if began is None else [began])])

    async def _resize(
        self, deployment: Json, strategy: RolloutStrategy, new: Json, old: Sequence[Json]
    ) -> bool:
        """One step of the rollout; whether there was one."""
        part, rest = RolloutPart.of(new), [RolloutPart.of(one) for one in old]
        wanted = grow_new(strategy, part, rest)
        if wanted != part.replicas:
            await self._set_replicas(deployment, strategy, new, wanted)
            return True
        if strategy.recreate or not any(one.replicas for one in rest):
            return False
        shrunk = shrink_old(strategy, part, rest)
        return await self._apply(deployment, strategy, old, shrunk)

    async def _clear(self, deployment: Json, strategy: RolloutStrategy, old: Sequence[Json]) -> bool:
        """Recreating: old pods go before new ones come. True if there are still some."""
        if await self._apply(deployment, strategy, old, {name_of(one): 0 for one in old}):
            return True
        return any(
            count_in(status_of(one), "replicas")
            or any(not is_finished(pod) for pod in self.pods.by_owner[uid_of(one)].values())
            for one in old
        )

    async def _create(self, deployment: Json, strategy: RolloutStrategy, old: Sequence[Json]) -> Json | None:
        """Create the set of the present template, None if its name is taken by something else."""
        revision = max(map(revision_of, old), default=0) + 1
        empty = new_set(deployment, 0, revision, strategy)
        replicas = grow_new(strategy, RolloutPart(empty, 0, 0), [RolloutPart.of(one) for one in old])
        body = new_set(deployment, replicas, revision, strategy)
        name = body["metadata"]["name"]
        try:
            new = await self.create(REPLICA_SETS, body)
        except ApiError as error:
            if not error.is_already_exists:
                await self._told_failure(deployment, name, error)
                raise
            taken = await self.client.get(REPLICA_SETS, namespace_of(deployment), name)
            mine = (controller_of(taken) or {}).get("uid") == uid_of(deployment)
            if mine and same_template(spec_of(taken)["template"], body["spec"]["template"]):
                new = taken
            else:
                again = count_in(status_of(deployment), "collisionCount") + 1
                await self.set_status(DEPLOYMENTS, deployment, {"collisionCount": again})
                return None
        if replicas:
            await self._told_scaled(deployment, name, 0, replicas)
        return new

    async def _told_failure(self, deployment: Json, name: str, error: ApiError) -> None:
        condition = creation_failure(name, error, self.now())
        if deadline_of(deployment) is not None:
            held = merged_conditions(status_of(deployment).get("conditions") or (), condition, self.now())
            await self.set_status(DEPLOYMENTS, deployment, {"conditions": held})
        await self.record_event(deployment, condition["reason"], condition["message"], WARNING)

    async def _refresh(self, deployment: Json, new: Json, old: Sequence[Json]) -> Json:
        """An existing set of the present template: its annotations follow, its revision is the latest."""
        revision = max(max(map(revision_of, old), default=0) + 1, revision_of(new))
        wanted = annotations_for(deployment, annotations_of(new), revision)
        change: Json = {}
        if wanted != annotations_of(new):
            change["metadata"] = {"annotations": wanted}
        min_ready = count_in(spec_of(deployment), "minReadySeconds")
        if count_in(spec_of(new), "minReadySeconds") != min_ready:
            change["spec"] = {"minReadySeconds": min_ready}
        return await self.change(REPLICA_SETS, new, change) if change else new

    # Sizes

    async def _scale(
        self, deployment: Json, strategy: RolloutStrategy, new: Json | None, sets: Sequence[Json]
    ) -> None:
        parts = [RolloutPart.of(one) for one in sets if one is not new]
        actual = sum(count_in(status_of(one), "replicas") for one in sets)
        wanted = scale(strategy, None if new is None else RolloutPart.of(new), parts, actual)
        for one in sets:
            name = name_of(one)
            resized = name in wanted and wanted[name] != RolloutPart.of(one).replicas
            annotated = annotations_of(one).get(DESIRED_REPLICAS) == str(strategy.replicas)
            if resized or (not annotated and RolloutPart.of(one).replicas):
                size = wanted.get(name, RolloutPart.of(one).replicas)
                await self._set_replicas(deployment, strategy, one, size)

    async def _apply(
        self, deployment: Json, strategy: RolloutStrategy, sets: Sequence[Json], wanted: Mapping[str, int]
    ) -> bool:
        changed = [one for one in sets if wanted[name_of(one)] != RolloutPart.of(one).replicas]
        for one in changed:
            await self._set_replicas(deployment, strategy, one, wanted[name_of(one)])
        return bool(changed)

    async def _set_replicas(
        self, deployment: Json, strategy: RolloutStrategy, one: Json, replicas: int
    ) -> None:
        change = {"metadata": {"annotations": strategy.annotations}, "spec": {"replicas": replicas}}
        await self.change(REPLICA_SETS, one, change)
        before = RolloutPart.of(one).replicas
        if before != replicas:
            await self._told_scaled(deployment, name_of(one), before, replicas)

    async def _told_scaled(self, deployment: Json, name: str, before: int, now: int) -> None:
        way = "up" if now > before else "down"
        note = f"Scaled {way} replica set {name} from {before} to {now}"
        await self.record_event(deployment, "ScalingReplicaSet", note)

    async def _forget_old(self, deployment: Json, old: Sequence[Json]) -> None:
        for one in outdated(deployment, old):
            await self.delete(REPLICA_SETS, one)

    # Status

    async def _write_status(
        self, deployment: Json, new: Json | None, sets: Sequence[Json], events: Sequence[Json]
    ) -> None:
        """The status in the middle of a rollout."""
        deployment = await self._write_revision(deployment, new)
        numbers = status_counts(deployment, new, sets)
        held = conditions_for(deployment, new, sets, numbers, events, self.now())
        await self._set_status(deployment, numbers, held)
        self._look_again(deployment, held)

    async def _write_counts(
        self, deployment: Json, new: Json | None, sets: Sequence[Json], pause: Json | None
    ) -> None:
        """The status of a Deployment that is scaled, paused or deleted: its progress is not judged."""
        deployment = await self._write_revision(deployment, new)
        numbers, now = status_counts(deployment, new, sets), self.now()
        held = list(status_of(deployment).get("conditions") or ())
        if pause is not None and deadline_of(deployment) is not None:
            held = merged_conditions(held, pause, now)
        held = merged_conditions(held, availability_condition(deployment, numbers, now), now)
        await self._set_status(deployment, numbers, held)

    async def _write_revision(self, deployment: Json, new: Json | None) -> Json:
        revision = "" if new is None else annotations_of(new).get(REVISION, "")
        if not revision or annotations_of(deployment).get(REVISION) == revision:
            return deployment
        patch = {"metadata": {"annotations": {REVISION: revision}}}
        return await self.change(DEPLOYMENTS, deployment, patch, subresource="status")

    async def _set_status(self, deployment: Json, numbers: Json, conditions: Sequence[Json]) -> None:
        status = {**omit_empty(numbers, "terminatingReplicas"), "conditions": list(conditions) or None}
        await self.set_status(DEPLOYMENTS, deployment, status)

    def _look_again(self, deployment: Json, held: Sequence[Json]) -> None:
        """A rollout that stands still is looked at when its time is over."""
        progressing = next((one for one in held if one.get("type") == "Progressing"), None)
        deadline = deadline_of(deployment)
        if progressing is None or deadline is None or spec_of(deployment).get("paused"):
            return
        if progressing.get("reason") in (AVAILABLE_REASON, TIMED_OUT_REASON):
            return
        left = time_of(progressing.get("lastUpdateTime")) + deadline - self.now()
        self.queue.add_after(f"{namespace_of(deployment)}/{name_of(deployment)}", max(left, 0) + 1)


def _was_complete(deployment: Json) -> bool:
    """True if the rollout was complete when its status was last written."""
    status = status_of(deployment)
    seen = count_in(status, "observedGeneration") >= deployment["metadata"].get("generation", 0)
    return seen and is_complete(deployment, status)
