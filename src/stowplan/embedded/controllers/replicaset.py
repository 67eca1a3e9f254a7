"""The ReplicaSet controller: as many pods as asked for, no more and no less."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import PODS, REPLICA_SETS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import (
    MAX_BURST,
    Context,
    Controller,
    gather_writes,
    slow_start_batch,
)
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.objects import (
    annotations_of,
    available_in,
    controller_of,
    count_in,
    created_at,
    is_active,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    node_of,
    phase_of,
    ready_since,
    selector_in,
    spec_of,
    status_of,
    with_condition,
    without_condition,
)
from stowplan.embedded.controllers.podcontrol import claim_objects, pod_from

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "": 1, "Running": 2}


class ReplicaSetController(Controller):
    """Creates and deletes the pods of ReplicaSets and counts them."""

    name: ClassVar[str] = "replicaset-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.follow(REPLICA_SETS)
        self.pods = self.follow_owned(PODS, REPLICA_SETS.kind, self.sets)

    async def sync(self, key: str) -> None:
        replica_set = self.sets.get(key)
        if replica_set is None:
            return
        pods = await claim_objects(self, self.pods, REPLICA_SETS, replica_set, selector_in(replica_set))
        self.rest(key, len(pods))
        active = [pod for pod in pods if is_active(pod)]
        failure: ApiError | None = None
        if not is_deleting(replica_set):
            try:
                await self._manage(key, replica_set, active)
            except ApiError as error:
                failure = error
        min_ready = count_in(spec_of(replica_set), "minReadySeconds")
        ages = [available_in(pod, min_ready, self.now()) for pod in active]
        terminating = sum(1 for pod in pods if is_deleting(pod) and not is_finished(pod))
        status = set_status(replica_set, active, ages, terminating)
        status["conditions"] = _conditions(replica_set, failure, len(active), self.stamp()) or None
        await self.set_status(REPLICA_SETS, replica_set, status)
        waiting = [age for age in ages if age]
        if waiting:
            self.queue.add_after(key, min(waiting))
        if failure is not None:
            raise failure

    async def _manage(self, key: str, replica_set: Json, active: Sequence[Json]) -> None:
        wanted = count_in(spec_of(replica_set), "replicas", 1)
        if len(active) < wanted:
            await self._create(key, replica_set, wanted - len(active))
        elif len(active) > wanted:
            going = pods_to_delete(active, len(active) - wanted, self._crowds(replica_set))
            await gather_writes(self._delete(replica_set, pod) for pod in going)

    async def _create(self, key: str, replica_set: Json, count: int) -> None:
        """Create pods, many at a time, for as long as the same number is asked for."""
        pod = pod_from(spec_of(replica_set).get("template") or {}, REPLICA_SETS, replica_set)

        async def one(number: int) -> None:
            try:
                made = await self.create(PODS, pod)
            except ApiError as error:
                await self.record_event(replica_set, "FailedCreate", f"Error creating: {error}", WARNING)
                raise
            await self.record_event(replica_set, "SuccessfulCreate", f"Created pod: {name_of(made)}")

        generation = replica_set["metadata"].get("generation")
        done = 0
        while done < count:
            done += await slow_start_batch(min(count - done, MAX_BURST), one)
            now = self.sets.get(key)
            if now is None or now["metadata"].get("generation") != generation:
                return

    async def _delete(self, replica_set: Json, pod: Json) -> None:
        await self.delete(PODS, pod)
        await self.record_event(replica_set, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")

    def _crowds(self, replica_set: Json) -> Mapping[str, int]:
        """How many active pods of this set and of its siblings there are on each node."""
        owner = controller_of(replica_set)
        siblings = [replica_set] if owner is None else self.sets.by_owner[owner["uid"]].values()
        crowds: Counter[str] = Counter()
        for sibling in siblings:
            for pod in self.pods.by_owner[sibling["metadata"]["uid"]].values():
                if is_active(pod):
                    crowds[node_of(pod)] += 1
        return crowds


def set_status(
    replica_set: Json, active: Sequence[Json], ages: Sequence[float | None], terminating: int
) -> Json:
    """The counts of a ReplicaSet; `ages` say how long each pod lacks to be available."""
    wanted = (spec_of(replica_set).get("template") or {}).get("metadata", {}).get("labels") or {}
    return {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(1 for pod in active if wanted.items() <= labels_of(pod).items()),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(1 for age in ages if age == 0.0),
        "terminatingReplicas": terminating,
        "observedGeneration": replica_set["metadata"].get("generation", 1),
    }


def pods_to_delete(active: Sequence[Json], count: int, crowds: Mapping[str, int]) -> list[Json]:
    """The pods that are missed least: not placed, not running, not ready, cheap, crowded, young."""

    def worth(pod: Json) -> tuple[object, ...]:
        ready = is_ready(pod)
        statuses = status_of(pod).get("containerStatuses") or ()
        restarts = max((count_in(one, "restartCount") for one in statuses), default=0)
        return (
            bool(node_of(pod)),
            _PHASES.get(phase_of(pod), 2),
            ready,
            _cost(pod),
            -crowds.get(node_of(pod), 0),
            -ready_since(pod) if ready else 0.0,
            -restarts,
            -created_at(pod),
            name_of(pod),
        )

    return sorted(active, key=worth)[:count]


def _cost(pod: Json) -> int:
    try:
        return int(annotations_of(pod).get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _conditions(replica_set: Json, failure: ApiError | None, active: int, stamp: str) -> list[Json]:
    held = status_of(replica_set).get("conditions") or ()
    if failure is None:
        return without_condition(held, "ReplicaFailure")
    few = active < count_in(spec_of(replica_set), "replicas", 1)
    new = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate" if few else "FailedDelete",
        "message": failure.message,
    }
    return with_condition(held, new, stamp)
