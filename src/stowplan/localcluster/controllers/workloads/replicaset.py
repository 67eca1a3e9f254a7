"""The ReplicaSet and the ReplicationController controller: as many pods as asked for, no more and no less."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Resource
from stowplan.api.labels import Selector, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import (
    MAX_BURST,
    Controller,
    ControllerContext,
    gather_writes,
    slow_start_batch,
)
from stowplan.localcluster.controllers.workloads.podcontrol import claim_objects, pod_from
from stowplan.localcluster.objects.fields import (
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
    node_of,
    omit_empty,
    phase_of,
    ready_since,
    selector_in,
    spec_of,
    status_of,
    uid_of,
    without_condition,
)

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "": 1, "Running": 2}


class ReplicaSetController(Controller):
    """Creates and deletes the pods of ReplicaSets and counts them."""

    name: ClassVar[str] = "replicaset-controller"
    workers: ClassVar[int] = 4
    resource: ClassVar[Resource] = REPLICA_SETS
    counts_terminating: ClassVar[bool] = True

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.sets = self.follow(self.resource)
        self.pods = self.follow_owned(PODS, self.resource.kind, self.sets)

    def selector(self, replica_set: Json) -> Selector:
        return selector_in(replica_set)

    async def sync(self, key: str) -> None:
        replica_set = self.sets.get(key)
        if replica_set is None:
            return
        pods = await claim_objects(self, self.pods, self.resource, replica_set, self.selector(replica_set))
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
        status = set_status(replica_set, active, ages)
        if self.counts_terminating:
            status["terminatingReplicas"] = sum(
                1 for pod in pods if is_deleting(pod) and not is_finished(pod)
            )
        status["conditions"] = _conditions(replica_set, failure, len(active), self.stamp()) or None
        await self.set_status(self.resource, replica_set, status)
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
            crowds = self._crowds(replica_set)
            going = pods_to_delete(active, len(active) - wanted, crowds, self.now())
            await gather_writes(self.delete_pod(replica_set, pod) for pod in going)

    async def _create(self, key: str, replica_set: Json, count: int) -> None:
        """Create pods, many at a time, as long as the requested number stays the same."""
        pod = pod_from(spec_of(replica_set).get("template") or {}, self.resource, replica_set)
        generation = replica_set["metadata"].get("generation")
        done = 0
        while done < count:
            batch = min(count - done, MAX_BURST)
            done += await slow_start_batch(batch, lambda number: self.create_pod(replica_set, pod))
            now = self.sets.get(key)
            if now is None or now["metadata"].get("generation") != generation:
                return

    def _crowds(self, replica_set: Json) -> Mapping[str, int]:
        """Number of active pods of this set and of its siblings by node."""
        owner = controller_of(replica_set)
        siblings = [replica_set] if owner is None else self.sets.by_owner[owner["uid"]].values()
        crowds: Counter[str] = Counter()
        for sibling in siblings:
            for pod in self.pods.by_owner[uid_of(sibling)].values():
                if is_active(pod):
                    crowds[node_of(pod)] += 1
        return crowds


class ReplicationControllerController(ReplicaSetController):
    """The same for ReplicationControllers, whose selector is a plain map of labels."""

    name: ClassVar[str] = "replication-controller"
    resource: ClassVar[Resource] = REPLICATION_CONTROLLERS
    counts_terminating: ClassVar[bool] = False

    def selector(self, replica_set: Json) -> Selector:
        labels = spec_of(replica_set).get("selector")
        return compile_selector(LabelSelector(match_labels=labels) if labels else None)


def set_status(replica_set: Json, active: Sequence[Json], ages: Sequence[float | None]) -> Json:
    """The counts of a ReplicaSet; `ages` say how long each pod lacks to be available, None if not ready."""
    wanted = (spec_of(replica_set).get("template") or {}).get("metadata", {}).get("labels") or {}
    counts = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(1 for pod in active if wanted.items() <= labels_of(pod).items()),
        "readyReplicas": sum(1 for age in ages if age is not None),
        "availableReplicas": sum(1 for age in ages if age == 0.0),
        "observedGeneration": replica_set["metadata"].get("generation", 1),
    }
    return omit_empty(counts, "replicas")


def pods_to_delete(active: Sequence[Json], count: int, crowds: Mapping[str, int], now: float) -> list[Json]:
    """The pods that are missed least: not placed, not running, not ready, cheap, crowded, young.

    Ages are compared by their order of magnitude, and chance (the uid) decides between those of one.
    """

    def worth(pod: Json) -> tuple[object, ...]:
        ready = is_ready(pod)
        return (
            bool(node_of(pod)),
            _PHASES.get(phase_of(pod), 2),
            ready,
            _cost(pod),
            -crowds.get(node_of(pod), 0),
            _magnitude(now - ready_since(pod)) if ready else 0,
            -_restarts(pod),
            _magnitude(now - created_at(pod)),
            uid_of(pod),
        )

    return sorted(active, key=worth)[:count]


def _magnitude(seconds: float) -> int:
    """How often a nanosecond has to be doubled to be as long, -1 if no time has passed."""
    return int(math.log2(seconds * 1e9)) if seconds > 0 else -1


def _restarts(pod: Json) -> int:
    """How often the container of a pod was restarted that was restarted most often."""
    statuses = status_of(pod).get("containerStatuses") or ()
    return max((count_in(one, "restartCount") for one in statuses), default=0)


def _cost(pod: Json) -> int:
    try:
        return int(annotations_of(pod).get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _conditions(replica_set: Json, failure: ApiError | None, active: int, stamp: str) -> list[Json]:
    """ReplicaFailure while pods cannot be created or deleted; it stays as it is while its reason does."""
    held = list(status_of(replica_set).get("conditions") or ())
    if failure is None:
        return without_condition(held, "ReplicaFailure")
    reason = "FailedCreate" if active < count_in(spec_of(replica_set), "replicas", 1) else "FailedDelete"
    if any(one.get("type") == "ReplicaFailure" and one.get("reason") == reason for one in held):
        return held
    new = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": reason,
        "message": failure.message,
        "lastTransitionTime": stamp,
    }
    return [*without_condition(held, "ReplicaFailure"), new]
