"""The kinds of pod groups that objects and manifests use: they decide how a scheduler has to see pods."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from stowplan.api.coscheduling import POD_GROUP_LABEL, CoschedulingPodGroup
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import CompositePodGroup, PodGroup
from stowplan.api.requests import Json

if TYPE_CHECKING:
    from stowplan.simulate.creation.manifests import Manifests
    from stowplan.simulate.creation.workloads import Workload

_BUILT_IN: Final = (PodGroup, CompositePodGroup)


class GroupsInUse(NamedTuple):
    """Groups of `scheduling.k8s.io`, and those of scheduler-plugins."""

    built_in: bool
    coscheduling: bool


def groups_in_use(objects: Iterable[Object], manifests: "Manifests | None" = None) -> GroupsInUse:
    """The groups that a cluster and manifests have, or whose members they have."""
    found = [one for one in objects if isinstance(one, Pod | PodGroup | CompositePodGroup)]
    workloads: list[Workload] = []
    if manifests is not None:
        found += [one for one in manifests.objects if isinstance(one, PodGroup | CompositePodGroup)]
        workloads = manifests.workloads
    return GroupsInUse(
        any(type(one) in _BUILT_IN or _names_group(one) for one in found)
        or any(_asks_for_group(one) for one in workloads),
        any(isinstance(one, CoschedulingPodGroup) for one in found)
        or any(POD_GROUP_LABEL in _labels(one) for one in workloads),
    )


def _names_group(obj: Object) -> bool:
    return isinstance(obj, Pod) and obj.spec.scheduling_group is not None


def _asks_for_group(workload: "Workload") -> bool:
    spec: Json = workload.job_spec if workload.kind in ("Job", "CronJob") else {}
    template: Json = _template(workload).get("spec") or {}
    return template.get("schedulingGroup") is not None or spec.get("scheduling") is not None


def _labels(workload: "Workload") -> Json:
    return (_template(workload).get("metadata") or {}).get("labels") or {}


def _template(workload: "Workload") -> Json:
    """Source of the pods of a workload."""
    if workload.kind == "Pod":
        return workload.document
    spec: Json = workload.job_spec if workload.kind == "CronJob" else workload.document.get("spec") or {}
    found: Json = spec.get("template") or {}
    return found
