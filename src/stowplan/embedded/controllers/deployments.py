"""Deployments: ReplicaSets for each version of a template, and a gentle way from one to the next."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from stowplan.api.catalogue import DEPLOYMENTS, PODS, REPLICA_SETS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers import deploymentstatus as statuses
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.informers import namespace_of
from stowplan.embedded.controllers.objects import (
    annotations_of,
    controller_of,
    count_in,
    is_deleting,
    is_finished,
    name_of,
    selector_in,
    spec_of,
    status_of,
    time_of,
    uid_of,
    without_condition,
)
from stowplan.embedded.controllers.ownership import claimed
from stowplan.embedded.controllers.revisions import (
    REVISION,
    annotations_for,
    find_new,
    new_set,
    outdated,
    revision_of,
    same_template,
)
from stowplan.embedded.controllers.rollouts import (
    DESIRED,
    MOST,
    Part,
    Strategy,
    grow_new,
    is_scaling,
    scale,
    shrink_old,
)


class Deployments(Controller):
    """Rolls Deployments out."""

    name: ClassVar[str] = "deployment-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.deployments = self.follow(DEPLOYMENTS)
        self.sets = self.follow_owned(REPLICA_SETS, DEPLOYMENTS.kind, self.deployments)
        self.pods = self.informer(PODS)
        self.pods.listen(self._pod_changed)

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
            if found is not None and Strategy.of(found).recreate:
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        deployment = self.deployments.get(key)
        if deployment is None:
            return
        sets = await claimed(self, self.sets, DEPLOYMENTS, deployment, selector_in(deployment))
        new = find_new(deployment, sets)
        if is_deleting(deployment):
            await self._write_status(deployment, new, sets)
            return
        strategy = Strategy.of(deployment)
        if spec_of(deployment).get("paused"):
            await self._scale(deployment, strategy, new, sets)
            await self._write_status(deployment, new, sets, statuses.paused(self.now()))
            return
        if is_scaling(strategy, [Part.of(one) for one in sets]):
            await self._scale(deployment, strategy, new, sets)
            await self._write_status(deployment, new, sets)
            return
        await self._roll(deployment, strategy, new, sets)

    # Going from old to new

    async def _roll(
        self, deployment: Json, strategy: Strategy, new: Json | None, sets: Sequence[Json]
    ) -> None:
        old = [one for one in sets if one is not new]
        if strategy.recreate and await self._clear(deployment, new, old, sets):
            return
        created: Json | None = None
        if new is None:
            new = created = await self._create(deployment, strategy, old)
            if new is None:
                return
            sets = [*old, new]
        else:
            fresh = await self._refresh(deployment, strategy, new, old)
            sets, new = [fresh if one is new else one for one in sets], fresh
        began = statuses.began(deployment, new, self.now(), created=created is not None)
        if not await self._resize(deployment, strategy, new, old):
            await self._tidy(deployment, new, old, sets)
        await self._write_status(deployment, new, sets, began)

    async def _resize(self, deployment: Json, strategy: Strategy, new: Json, old: Sequence[Json]) -> bool:
        """One step of the rollout; whether there was one."""
        part, rest = Part.of(new), [Part.of(one) for one in old]
        wanted = grow_new(strategy, part, rest)
        if wanted != part.replicas:
            await self._set_replicas(deployment, strategy, new, wanted)
            return True
        if strategy.recreate or not any(one.replicas for one in rest):
            return False
        shrunk = shrink_old(strategy, part, rest)
        return await self._apply(deployment, strategy, old, shrunk)

    async def _clear(
        self, deployment: Json, new: Json | None, old: Sequence[Json], sets: Sequence[Json]
    ) -> bool:
        """Recreating: old pods go before new ones come. Whether there are still some."""
        strategy = Strategy.of(deployment)
        shrunk = await self._apply(deployment, strategy, old, {name_of(one): 0 for one in old})
        running = any(not is_finished(pod) for one in old for pod in self.pods.by_owner[uid_of(one)].values())
        if shrunk or running:
            await self._write_status(deployment, new, sets)
            return True
        return False

    async def _create(self, deployment: Json, strategy: Strategy, old: Sequence[Json]) -> Json | None:
        """Create the set of the present template, None if its name is taken by something else."""
        revision = max(map(revision_of, old), default=0) + 1
        empty = new_set(deployment, 0, revision, strategy)
        replicas = grow_new(strategy, Part(empty, 0, 0), [Part.of(one) for one in old])
        body = new_set(deployment, replicas, revision, strategy)
        name = body["metadata"]["name"]
        try:
            new = await self.create(REPLICA_SETS, body)
        except ApiError as error:
            if not error.is_already_exists:
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

    async def _refresh(self, deployment: Json, strategy: Strategy, new: Json, old: Sequence[Json]) -> Json:
        """An existing set of the present template: its annotations follow, its revision is the latest."""
        revision = max(max(map(revision_of, old), default=0) + 1, revision_of(new))
        wanted = annotations_for(deployment, annotations_of(new), revision, strategy)
        change: Json = {}
        if wanted != annotations_of(new):
            change["metadata"] = {"annotations": wanted}
        min_ready = count_in(spec_of(deployment), "minReadySeconds")
        if count_in(spec_of(new), "minReadySeconds") != min_ready:
            change["spec"] = {"minReadySeconds": min_ready}
        return await self.change(REPLICA_SETS, new, change) if change else new

    # Sizes

    async def _scale(
        self, deployment: Json, strategy: Strategy, new: Json | None, sets: Sequence[Json]
    ) -> None:
        parts = [Part.of(one) for one in sets if one is not new]
        wanted = scale(strategy, None if new is None else Part.of(new), parts)
        for one in sets:
            name = name_of(one)
            resized = name in wanted and wanted[name] != Part.of(one).replicas
            told = annotations_of(one).get(DESIRED) == str(strategy.replicas)
            if resized or (not told and Part.of(one).replicas):
                size = wanted.get(name, Part.of(one).replicas)
                await self._set_replicas(deployment, strategy, one, size)

    async def _apply(
        self, deployment: Json, strategy: Strategy, sets: Sequence[Json], wanted: Mapping[str, int]
    ) -> bool:
        changed = [one for one in sets if wanted[name_of(one)] != Part.of(one).replicas]
        for one in changed:
            await self._set_replicas(deployment, strategy, one, wanted[name_of(one)])
        return bool(changed)

    async def _set_replicas(self, deployment: Json, strategy: Strategy, one: Json, replicas: int) -> None:
        annotations = {DESIRED: str(strategy.replicas), MOST: str(strategy.most)}
        change = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
        await self.change(REPLICA_SETS, one, change)
        before = Part.of(one).replicas
        if before != replicas:
            await self._told_scaled(deployment, name_of(one), before, replicas)

    async def _told_scaled(self, deployment: Json, name: str, before: int, now: int) -> None:
        way = "up" if now > before else "down"
        note = f"Scaled {way} replica set {name} from {before} to {now}"
        await self.tell(deployment, "ScalingReplicaSet", note)

    async def _tidy(self, deployment: Json, new: Json, old: Sequence[Json], sets: Sequence[Json]) -> None:
        """Forget old revisions when the rollout is over."""
        if statuses.is_complete(deployment, statuses.counts(deployment, new, sets)):
            for one in outdated(deployment, old):
                await self.delete(REPLICA_SETS, one)

    # Status

    async def _write_status(
        self, deployment: Json, new: Json | None, sets: Sequence[Json], told: Json | None = None
    ) -> None:
        now = self.now()
        revision = "" if new is None else annotations_of(new).get(REVISION, "")
        if revision and annotations_of(deployment).get(REVISION) != revision:
            change = {"metadata": {"annotations": {REVISION: revision}}}
            deployment = await self.change(DEPLOYMENTS, deployment, change)
        numbers = statuses.counts(deployment, new, sets)
        held = list(status_of(deployment).get("conditions") or ())
        held = statuses.merged(held, statuses.available(deployment, numbers, now), now)
        moved = told if told is not None else statuses.progress(deployment, new, numbers, now)
        if moved is not None and statuses.deadline_of(deployment) is not None:
            held = statuses.merged(held, moved, now)
        failing = statuses.failure(sets)
        held = without_condition(held, "ReplicaFailure") + ([] if failing is None else [failing])
        await self.set_status(DEPLOYMENTS, deployment, {**numbers, "conditions": held})
        self._look_again(deployment, held)

    def _look_again(self, deployment: Json, held: Sequence[Json]) -> None:
        """A rollout that stands still is looked at when its time is over."""
        progressing = next((one for one in held if one.get("type") == "Progressing"), None)
        deadline = statuses.deadline_of(deployment)
        if progressing is None or deadline is None or spec_of(deployment).get("paused"):
            return
        if progressing.get("reason") in (statuses.DONE, statuses.TIMED_OUT):
            return
        left = time_of(progressing.get("lastUpdateTime")) + deadline - self.now()
        self.queue.add_after(f"{namespace_of(deployment)}/{name_of(deployment)}", max(left, 0) + 1)
