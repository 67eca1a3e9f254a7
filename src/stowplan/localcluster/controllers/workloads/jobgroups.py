"""Groups of Jobs (the gate WorkloadWithJob): a Job has a Workload and a PodGroup, which its pods belong to.

A Job without a controller gets both. One that another object controls gets a PodGroup alone, if it names a
template (by an annotation) of the Workload of its owner; without that, the owner manages groups. Groups are
created only for a Job that has not started. The Job's `spec.scheduling` has the scheduling policy of its
pods; without that they are a group with the basic policy.
"""

from collections.abc import Sequence
from typing import Final

from stowplan.api.catalogue import JOBS, POD_GROUPS, WORKLOADS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, RetryLater
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.objects.fields import (
    annotations_of,
    condition_of,
    controller_of,
    controller_reference,
    is_controlled_by,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)

TEMPLATE_ANNOTATION: Final = "scheduling.k8s.io/group-template-name"
"""Which template of its owner's Workload a Job makes its group from."""

_MAX_NAME: Final = 253
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class JobGroups:
    """Creates and finds the groups of Jobs, for the Job controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        workloads, groups = controller.informer(WORKLOADS), controller.informer(POD_GROUPS)
        self._workloads = workloads.index(_controller_key)
        self._groups = groups.index(_workload_key)

    async def group_of(self, job: Json, pods: Sequence[Json]) -> Json | None:
        """The group that new pods of a Job belong to; None if they belong to none, or to one of their own."""
        template = (spec_of(job).get("template") or {}).get("spec") or {}
        if template.get("schedulingGroup") is not None:
            return None
        if controller_of(job) is None:
            return await self._own(job, is_new=is_new(job, pods))
        if TEMPLATE_ANNOTATION in annotations_of(job):
            return await self._delegated(job, is_new=is_new(job, pods))
        return None

    async def _own(self, job: Json, *, is_new: bool) -> Json | None:
        """The group of a Job without a controller, from the Job's own Workload."""
        wanted = workload_for(job)
        key = f"{namespace_of(job)}/batch/{JOBS.kind}/{name_of(job)}"
        found = [one for one in self._workloads[key].values() if is_controlled_by(one, job)]
        if len(found) > 1 or (not found and not is_new):
            return None
        workload = found[0] if found else await self._create_workload(job, wanted)
        templates: Sequence[Json] = spec_of(workload).get("podGroupTemplates") or ()
        if len(templates) != 1:
            raise RetryLater
        groups = self._groups_of(workload, job)
        if len(groups) > 1 or (not groups and not is_new):
            return None
        if groups:
            group = groups[0]
        else:
            group = await self._create_group(job, workload, templates[0], owned_by_workload=True)
        minimum = _minimum(spec_of(wanted)["podGroupTemplates"][0])
        if minimum is not None and _minimum(templates[0]) not in (None, minimum):
            changed = {**templates[0], "schedulingPolicy": {"gang": {"minCount": minimum}}}
            await self._controller.change(WORKLOADS, workload, {"spec": {"podGroupTemplates": [changed]}})
        return await self._with_minimum(group, minimum)

    async def _delegated(self, job: Json, *, is_new: bool) -> Json | None:
        """The group of a Job whose owner has the Workload."""
        owner = controller_of(job) or {}
        api_group = str(owner.get("apiVersion", "")).rpartition("/")[0]
        key = f"{namespace_of(job)}/{api_group}/{owner.get('kind')}/{owner.get('name')}"
        workload = next(iter(self._workloads[key].values()), None)
        if workload is None:
            return None
        name = annotations_of(job)[TEMPLATE_ANNOTATION]
        templates = spec_of(workload).get("podGroupTemplates") or ()
        template = next((one for one in templates if not name or one.get("name") == name), None)
        if template is None:
            return None
        groups = self._groups_of(workload, job)
        if not groups and not is_new:
            return None
        if groups:
            group = groups[0]
        else:
            group = await self._create_group(job, workload, template, owned_by_workload=False)
        return await self._with_minimum(group, _minimum(template))

    def _groups_of(self, workload: Json, job: Json) -> list[Json]:
        key = f"{namespace_of(workload)}/{name_of(workload)}"
        return [group for group in self._groups[key].values() if is_controlled_by(group, job)]

    async def _with_minimum(self, group: Json, minimum: int | None) -> Json:
        """The group, needing as many pods as its Job or Workload says now."""
        held = _minimum(spec_of(group))
        if minimum is None or held in (None, minimum):
            return group
        patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}}
        return await self._controller.change(POD_GROUPS, group, patch)

    async def _create_workload(self, job: Json, wanted: Json) -> Json:
        try:
            made = await self._controller.create(WORKLOADS, wanted, namespace_of(job))
        except ApiError as error:
            note = f"Failed to create Workload for Job {name_of(job)}: {error.message}"
            await self._controller.record_event(job, "FailedWorkloadCreate", note, WARNING)
            raise
        note = f"Created Workload {name_of(made)} for Job {name_of(job)}"
        await self._controller.record_event(job, "WorkloadCreated", note)
        return made

    async def _create_group(
        self, job: Json, workload: Json, template: Json, *, owned_by_workload: bool
    ) -> Json:
        body = group_for(job, workload, template, owned_by_workload=owned_by_workload)
        made = await self._controller.create(POD_GROUPS, body, namespace_of(job))
        note = f"Created PodGroup {name_of(made)} for Job {name_of(job)}"
        await self._controller.record_event(job, "PodGroupCreated", note)
        return made


def in_group(pod: Json, group: Json) -> Json:
    """A pod that is to be created, as a member of a group.

    kube-controller-manager 1.37 also makes the group an owner of the pod. A Job that is deleted then leaves
    its pods behind for ever: the group keeps them, and is itself kept by its finalizer while they run.
    """
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": name_of(group)}}}


def is_new(job: Json, pods: Sequence[Json]) -> bool:
    """True if a Job has never started: objects of started ones are left as they are."""
    status = status_of(job)
    if pods or status.get("startTime") or status.get("succeeded") or status.get("failed"):
        return False
    return condition_of(job, "Suspended") is None


def workload_for(job: Json) -> Json:
    """The Workload of a Job without a controller."""
    spec = spec_of(job)
    scheduling = spec.get("scheduling") or {}
    template: Json = {"name": f"{name_of(job)}-pgt-0", "schedulingPolicy": _policy(scheduling, spec)}
    for field in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        if scheduling.get(field):
            template[field] = scheduling[field]
    priority = ((spec.get("template") or {}).get("spec") or {}).get("priorityClassName")
    if priority:
        template["priorityClassName"] = priority
    return {
        "metadata": {"name": workload_name(job), "ownerReferences": [controller_reference(JOBS, job)]},
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": name_of(job)},
            "podGroupTemplates": [template],
        },
    }


def _policy(scheduling: Json, spec: Json) -> Json:
    """A gang that does not say how many pods it needs needs as many as run at a time."""
    gang = (scheduling.get("schedulingPolicy") or {}).get("gang")
    if gang is None:
        return {"basic": {}}
    count = gang.get("minCount")
    return {"gang": {"minCount": max(1, spec.get("parallelism", 1)) if count is None else count}}


def group_for(job: Json, workload: Json, template: Json, *, owned_by_workload: bool) -> Json:
    """The PodGroup of a Job, from a template of a Workload."""
    owners = [controller_reference(JOBS, job)]
    if owned_by_workload:
        owners.append(_owner(workload))
    reference = {"workloadName": name_of(workload), "templateName": template["name"]}
    copied = (
        "schedulingPolicy",
        "schedulingConstraints",
        "disruptionMode",
        "priorityClassName",
        "resourceClaims",
        "priority",
    )
    spec = {field: template[field] for field in copied if template.get(field) is not None}
    name = group_name(name_of(workload), template["name"])
    return {
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"workloadRef": reference, **spec},
    }


def _owner(workload: Json) -> Json:
    """An owner reference that does not control, and does not block deletion."""
    mine = {"name": name_of(workload), "uid": uid_of(workload)}
    return {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, **mine}


def _minimum(holder: Json) -> int | None:
    count: int | None = ((holder.get("schedulingPolicy") or {}).get("gang") or {}).get("minCount")
    return count


def _controller_key(workload: Json) -> list[str]:
    reference = spec_of(workload).get("controllerRef")
    if reference is None:
        return []
    parts = (reference.get("apiGroup", ""), reference.get("kind", ""), reference.get("name", ""))
    return ["/".join((namespace_of(workload), *parts))]


def _workload_key(group: Json) -> list[str]:
    reference = spec_of(group).get("workloadRef")
    return [] if reference is None else [f"{namespace_of(group)}/{reference.get('workloadName', '')}"]


def workload_name(job: Json) -> str:
    """The name of a Job's Workload: the same each time, and of this Job alone."""
    ending = _hash(f"(types.UID){uid_of(job)}")
    return f"{name_of(job)[: _MAX_NAME - len(ending) - 1]}-{ending}"


def group_name(workload: str, template: str) -> str:
    """The name of a group of a template; the longer of the two names is cut first."""
    ending = _hash(workload + template)
    room = _MAX_NAME - len(ending) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{ending}"


def _hash(text: str) -> str:
    """FNV-1a in decimal digits, as letters that make no words."""
    found = 2166136261
    for byte in text.encode():
        found = ((found ^ byte) * 16777619) & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(found))
