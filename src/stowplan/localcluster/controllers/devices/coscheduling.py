"""The controller of scheduler-plugins' PodGroups: writes into their status how far their pods are."""

from collections.abc import Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import PODS
from stowplan.api.coscheduling import POD_GROUP_LABEL, POD_GROUPS
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.objects.fields import (
    count_in,
    key_of,
    labels_of,
    namespace_of,
    owners_of,
    phase_of,
    spec_of,
    status_of,
)

PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
RUNNING: Final = "Running"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"


def group_key_of(pod: Json) -> list[str]:
    """The key of the group that a pod is labelled as part of, if it is part of one."""
    name = labels_of(pod).get(POD_GROUP_LABEL)
    return [f"{namespace_of(pod)}/{name}"] if name else []


def next_status(group: Json, pods: Sequence[Json]) -> Json:
    """Next status of the group; a group goes from phase to phase, one step at a time."""
    status, needed = status_of(group), count_in(spec_of(group), "minMember")
    phase = status.get("phase") or ""
    if phase in (FINISHED, FAILED):
        return {}
    if not phase:
        return {"phase": PENDING}
    if phase == PENDING:
        if len(pods) < needed:
            return {}
        owners = (
            sorted(f"{namespace_of(pods[0])}/{one['name']}" for one in owners_of(pods[0])) if pods else []
        )
        return {"phase": SCHEDULING, **({"occupiedBy": ",".join(owners)} if owners else {})}
    counts = {
        name: sum(phase_of(pod) == in_phase for pod in pods)
        for name, in_phase in (("running", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed"))
    }
    return {"phase": _phase(len(pods), needed, **counts), **counts}


def _phase(pods: int, needed: int, *, running: int, succeeded: int, failed: int) -> str:
    if pods < needed:
        return PENDING
    if succeeded >= needed:
        return FINISHED
    if failed and failed + running + succeeded >= needed:
        return FAILED
    return RUNNING if succeeded + running >= needed else SCHEDULING


class CoschedulingController(Controller):
    """Keeps the status of scheduler-plugins' PodGroups."""

    name: ClassVar[str] = "podgroup-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._groups = self.follow(POD_GROUPS)
        pods = self.informer(PODS)
        self._members = pods.index(group_key_of)
        pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        for pod in (old, new):
            for key in () if pod is None else group_key_of(pod):
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None:
            return
        members = sorted(self._members[key].values(), key=key_of)
        status = next_status(group, members)
        if status:
            await self.set_status(POD_GROUPS, group, status)
