"""The LeaderWorkerSet controller: revisions, the stateful set of the leaders, status.

It acts like the controller of kubernetes-sigs/lws. Groups are made in `leaderworkergroups`: one stateful set
of workers for each leader pod.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import CONTROLLER_REVISIONS, POD_GROUPS, PODS, SERVICES, STATEFUL_SETS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import (
    Controller,
    ControllerContext,
    merge_patch_of,
)
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllers.sets.grouprollout import (
    GroupState,
    Limits,
    Rollout,
    group_states,
    next_rollout,
    partition_of,
)
from stowplan.localcluster.controllers.workloads.podcontrol import short_hash
from stowplan.localcluster.objects import leaderworkersets as lws
from stowplan.localcluster.objects.fields import (
    annotations_of,
    count_in,
    is_controlled_by,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    own_reference,
    spec_of,
    status_of,
    with_condition,
)
from stowplan.localcluster.objects.leaderworkersets import (
    GROUP_INDEX,
    LEADER_WORKER_SETS,
    REPLICAS,
    REVISION,
    SET_NAME,
    WORKER_INDEX,
)

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
UPDATING: Final = "UpdateInProgress"
CREATED: Final = "GroupsProgressing"
UPDATED: Final = "GroupsUpdating"
_CONDITIONS: Final = {
    AVAILABLE: ("AllGroupsReady", "All replicas are ready"),
    PROGRESSING: (CREATED, "Replicas are progressing"),
    UPDATING: (UPDATED, "Rolling Upgrade is in progress"),
}
_MAX_PREFIX: Final = 220
EVENT_SOURCE: Final = "leaderworkerset"


def set_key_of(obj: Json) -> list[str]:
    """The key of the LeaderWorkerSet that an object is labelled as part of."""
    name = labels_of(obj).get(SET_NAME)
    return [f"{namespace_of(obj)}/{name}"] if name else []


def data_of(obj: Json) -> Json:
    """Data of a revision: a patch that restores template and network."""
    spec = spec_of(obj)
    parts = {name: spec.get(name) or {} for name in ("leaderWorkerTemplate", "networkConfig")}
    return {"spec": {name: {**part, "$patch": "replace"} for name, part in parts.items()}}


def of_revision(obj: Json, revision: Json) -> Json:
    """The set with the template and network of a revision."""
    parts = revision["data"]["spec"]
    restored = {name: {k: v for k, v in part.items() if k != "$patch"} for name, part in parts.items()}
    return {**obj, "spec": {**spec_of(obj), **restored}}


def new_revision(obj: Json, number: int) -> Json:
    data = data_of(obj)
    digest = short_hash(data)
    return {
        "metadata": {
            "name": f"{name_of(obj)[:_MAX_PREFIX]}-{digest}-{number}",
            "namespace": namespace_of(obj),
            "labels": {SET_NAME: name_of(obj), REVISION: digest},
            "ownerReferences": [own_reference(obj)],
        },
        "data": data,
        "revision": number,
    }


def leader_template(obj: Json, revision: str, *, gang: bool) -> Json:
    """The pod template of the leaders: their own, or that of the workers."""
    given = lws.template_in(obj)
    template = given.get("leaderTemplate") or given.get("workerTemplate") or {}
    metadata = dict(template.get("metadata") or {})
    labels = {WORKER_INDEX: "0", SET_NAME: name_of(obj), REVISION: revision}
    annotations = {lws.SIZE: str(lws.size_of(obj)), **placement_annotations(obj, obj, gang=gang)}
    if lws.has_own_subdomains(obj):
        annotations[lws.SUBDOMAIN_POLICY] = lws.UNIQUE
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {**template, "metadata": metadata}


def placement_annotations(obj: Json, revised: Json, *, gang: bool) -> dict[str, str]:
    """Annotations of pods that say how their group is placed; `revised` is the set with their template."""
    given, found = annotations_of(obj), {}
    if given.get(lws.EXCLUSIVE):
        found[lws.EXCLUSIVE] = given[lws.EXCLUSIVE]
    policy = lws.template_in(revised).get("subGroupPolicy")
    if policy:
        found[lws.SUBGROUP_TYPE] = policy.get("subGroupPolicyType", "LeaderWorker")
        found[lws.SUBGROUP_SIZE] = str(count_in(policy, "subGroupSize"))
        if given.get(lws.SUBGROUP_EXCLUSIVE):
            found[lws.SUBGROUP_EXCLUSIVE] = given[lws.SUBGROUP_EXCLUSIVE]
    if gang:
        found[lws.GANG] = "true"
    return found


def claim_fields(revised: Json) -> Json:
    """Claims of a stateful set of a group."""
    template, found = lws.template_in(revised), {}
    claims: list[Json] = template.get("volumeClaimTemplates") or []
    if claims:
        found["volumeClaimTemplates"] = [
            {"metadata": {"name": (one.get("metadata") or {}).get("name", "")}, "spec": one.get("spec") or {}}
            for one in claims
        ]
    if template.get("persistentVolumeClaimRetentionPolicy"):
        found["persistentVolumeClaimRetentionPolicy"] = template["persistentVolumeClaimRetentionPolicy"]
    return found


def leader_set_for(obj: Json, rollout: Rollout, revision: str, *, gang: bool) -> Json:
    """The stateful set of the leaders."""
    limits = Limits.of(obj)
    rolling = {
        "partition": rollout.partition,
        "maxUnavailable": max(limits.unavailable + limits.surge, 1),
    }
    wanted = count_in(spec_of(obj), "replicas", 1)
    return {
        "metadata": {
            "name": name_of(obj),
            "namespace": namespace_of(obj),
            "labels": {**labels_of(obj), SET_NAME: name_of(obj), REVISION: revision},
            "annotations": {**_own_annotations(obj), REPLICAS: str(wanted)},
            "ownerReferences": [own_reference(obj)],
        },
        "spec": {
            "serviceName": name_of(obj),
            "replicas": rollout.replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {SET_NAME: name_of(obj), WORKER_INDEX: "0"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": leader_template(obj, revision, gang=gang),
            **claim_fields(obj),
        },
    }


def _own_annotations(obj: Json) -> dict[str, str]:
    """Annotations that stateful sets inherit; kubectl's record of the set itself would mislead it."""
    return {
        k: v
        for k, v in annotations_of(obj).items()
        if k != "kubectl.kubernetes.io/last-applied-configuration"
    }


def service_for(obj: Json, owner: Json, name: str, selector: Mapping[str, str]) -> Json:
    """A headless service for the pods of all groups, or of one."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace_of(obj),
            "labels": {SET_NAME: name_of(obj)},
            "ownerReferences": [own_reference(owner)],
        },
        "spec": {"clusterIP": "None", "selector": dict(selector), "publishNotReadyAddresses": True},
    }


class LeaderWorkerSetController(Controller):
    """Keeps the stateful sets of leaders of LeaderWorkerSets. `gangs`: each group is a PodGroup."""

    name: ClassVar[str] = "leaderworkerset-controller"
    event_source: ClassVar[str] = EVENT_SOURCE

    def __init__(self, context: ControllerContext, *, gangs: bool = False) -> None:
        super().__init__(context)
        self._gangs = gangs
        self.sets = self.follow(LEADER_WORKER_SETS)
        self.services = self.informer(SERVICES)
        self.stateful_sets = self.informer(STATEFUL_SETS)
        self.revisions = self.informer(CONTROLLER_REVISIONS)
        self.pods = self.informer(PODS)
        self._parts = {
            one: one.index(set_key_of)
            for one in (self.stateful_sets, self.revisions, self.pods, self.services)
        }
        for informer in (self.stateful_sets, self.pods, self.services):
            informer.add_handler(self._part_changed)
        self.groups = self.informer(POD_GROUPS) if gangs else None

    def _part_changed(self, old: Json | None, new: Json | None) -> None:
        for key in set_key_of(new if new is not None else old or {"metadata": {}}):
            self.queue.add(key)

    async def sync(self, key: str) -> None:
        found = self.sets.get(key)
        if found is None or is_deleting(found):
            return
        obj = lws.with_defaults(found)
        leader_set = self.stateful_sets.get(key)
        if leader_set is not None and (is_deleting(leader_set) or not is_controlled_by(leader_set, obj)):
            self.queue.add_after(key, 5.0)
            return
        revision, changed = await self._present_revision(key, obj, leader_set)
        digest = labels_of(revision)[REVISION]
        leaders, workers = self._members(key, obj)
        held = 0 if leader_set is None else count_in(spec_of(leader_set), "replicas", 1)
        states = group_states(obj, leaders, workers, held, digest)
        rollout = next_rollout(obj, leader_set, states, changed=changed)
        made = await self._keep_leader_set(obj, leader_set, rollout, digest, changed=changed)
        if not lws.has_own_subdomains(obj) and self.services.get(key) is None:
            await self._create_service(obj)
        done = await self._write_status(found, obj, made, leaders, workers, digest)
        if done:
            await self._forget_revisions(key, obj, digest)
            await self._forget_groups(obj, digest, rollout.replicas)

    # Revisions

    async def _present_revision(self, key: str, obj: Json, leader_set: Json | None) -> tuple[Json, bool]:
        """The revision of the template, and True if it replaces another one."""
        held = [one for one in self._parts[self.revisions][key].values() if is_controlled_by(one, obj)]
        data = data_of(obj)
        digest = short_hash(data)
        current = "" if leader_set is None else labels_of(leader_set).get(REVISION, "")
        changed = bool(current) and current != digest
        same = [one for one in held if one.get("data") == data]
        if same:
            return max(same, key=_number), changed
        number = max(map(_number, held), default=0) + 1
        made = await self.create(CONTROLLER_REVISIONS, new_revision(obj, number))
        about = "updated LWS" if changed else "a newly created LeaderWorkerSet"
        await self.record_event(obj, "CreatingRevision", f"Creating revision with key {digest} for {about}")
        return made, changed

    async def _forget_revisions(self, key: str, obj: Json, digest: str) -> None:
        for one in list(self._parts[self.revisions][key].values()):
            if is_controlled_by(one, obj) and labels_of(one).get(REVISION) != digest:
                await self.delete(CONTROLLER_REVISIONS, one)

    # Groups

    def _members(self, key: str, obj: Json) -> tuple[dict[int, Json], dict[int, Json]]:
        """Leader pods, and the stateful sets of workers, by the index of their group."""
        leaders = [pod for pod in self._parts[self.pods][key].values() if lws.is_leader(pod)]
        sets = self._parts[self.stateful_sets][key].values()
        return _by_index(leaders), _by_index([one for one in sets if GROUP_INDEX in labels_of(one)])

    async def _keep_leader_set(
        self, obj: Json, held: Json | None, rollout: Rollout, digest: str, *, changed: bool
    ) -> Json:
        wanted = leader_set_for(obj, rollout, digest, gang=self._gangs)
        if held is None:
            try:
                made = await self.create(STATEFUL_SETS, wanted)
            except ApiError as error:
                note = f"Failed to create leader statefulset {name_of(obj)}: {error.message}"
                await self.record_event(obj, "FailedCreate", note, WARNING)
                raise
            await self.record_event(obj, CREATED, f"Created leader statefulset {name_of(obj)}")
            return made
        patch = _leader_set_patch(held, wanted)
        if not patch:
            return held
        await self._tell_surplus(obj, held, rollout)
        try:
            made = await self.change(STATEFUL_SETS, held, patch)
        except ApiError as error:
            note = f"Failed to update leader statefulset {name_of(obj)}: {error.message}"
            if not error.is_conflict:
                await self.record_event(obj, "FailedUpdate", note, WARNING)
            raise
        before = partition_of(held)
        if not changed and before != rollout.partition:
            note = f"Updating replica {rollout.partition}"
            if before - 1 != rollout.partition:
                note = f"Updating replicas {rollout.partition} to {before - 1} (inclusive)"
            await self.record_event(obj, UPDATED, note)
        return made

    async def _tell_surplus(self, obj: Json, held: Json, rollout: Rollout) -> None:
        """Tell about groups that were there for an update only."""
        name, before, wanted = name_of(obj), count_in(spec_of(held), "replicas", 1), rollout.replicas
        is_scaled = annotations_of(held).get(REPLICAS) != str(count_in(spec_of(obj), "replicas", 1))
        if wanted >= before or is_scaled:
            return
        note = f"deleting surge replica {name}-{wanted}"
        if wanted != before - 1:
            note = f"deleting surge replicas from {name}-{wanted} to {name}-{before - 1}"
        await self.record_event(obj, CREATED, note)

    async def _create_service(self, obj: Json) -> None:
        try:
            await self.create(SERVICES, service_for(obj, obj, name_of(obj), {SET_NAME: name_of(obj)}))
        except ApiError as error:
            if error.is_already_exists:
                return
            note = f"Failed to create headless service for error: {error.message}"
            await self.record_event(obj, "FailedCreate", note, WARNING)
            raise

    async def _forget_groups(self, obj: Json, digest: str, groups: int) -> None:
        """Delete the PodGroups of groups that are gone, and of earlier revisions."""
        if self.groups is None:
            return
        wanted = {lws.group_name(name_of(obj), str(index), digest) for index in range(groups)}
        for group in list(self.groups.in_namespace[namespace_of(obj)].values()):
            if is_controlled_by(group, obj) and name_of(group) not in wanted and not is_deleting(group):
                await self.delete(POD_GROUPS, group)

    # Status

    async def _write_status(
        self,
        found: Json,
        obj: Json,
        leader_set: Json,
        leaders: Mapping[int, Json],
        workers: Mapping[int, Json],
        digest: str,
    ) -> bool:
        """Write the status; True if all groups are ready and of the latest revision."""
        wanted, partition = count_in(spec_of(obj), "replicas", 1), Limits.of(obj).partition
        alone = lws.size_of(obj) == 1
        existing = [index for index in leaders if alone or index in workers]
        states = dict(enumerate(group_states(obj, leaders, workers, max(existing, default=-1) + 1, digest)))
        chosen = [index for index in existing if partition <= index < wanted]
        ready = [index for index in existing if states[index].ready]
        updated = sum(1 for index in chosen if states[index].updated)
        both = sum(1 for index in chosen if states[index] == GroupState(ready=True, updated=True))
        if updated < len(chosen):
            types = [UPDATING, PROGRESSING]
        elif sum(1 for index in ready if index < wanted) == wanted and both == len(chosen):
            types = [AVAILABLE]
        else:
            types = [PROGRESSING]
        generation = obj["metadata"].get("generation", 1)
        before: list[Json] = status_of(found).get("conditions") or []
        conditions = next_conditions(before, types, generation, self.stamp())
        name = name_of(obj)
        status = {
            "conditions": conditions,
            "replicas": count_in(status_of(leader_set), "replicas") or None,
            "readyReplicas": len(ready) or None,
            "updatedReplicas": sum(1 for index in existing if states[index].updated) or None,
            "hpaPodSelector": f"{SET_NAME}={name},{WORKER_INDEX}=0",
            "observedGeneration": generation,
        }
        await self.set_status(LEADER_WORKER_SETS, found, status)
        if [*map(_state_of, conditions)] != [*map(_state_of, before)]:
            reason, message = _CONDITIONS[types[0]]
            note = f"{message}, with {len(ready)} groups ready of total {wanted} groups"
            await self.record_event(found, reason, note)
        return partition == 0 and both == wanted


def _number(revision: Json) -> int:
    return count_in(revision, "revision")


def _state_of(condition: Json) -> tuple[str, str]:
    return condition.get("type", ""), condition.get("status", "")


def _by_index(objects: Sequence[Json]) -> dict[int, Json]:
    found: dict[int, Json] = {}
    for obj in objects:
        index = labels_of(obj).get(GROUP_INDEX, "")
        if index.isdigit():
            found[int(index)] = obj
    return found


def next_conditions(before: Sequence[Json], types: Sequence[str], generation: int, stamp: str) -> list[Json]:
    """Conditions with some of them true: Available excludes Progressing and UpdateInProgress."""
    conditions = list(before)
    for type_ in types:
        others = (PROGRESSING, UPDATING) if type_ == AVAILABLE else (AVAILABLE,)
        for held in before:
            if held["type"] in others and held["status"] == "True":
                conditions = with_condition(conditions, {**held, "status": "False"}, stamp)
        reason, message = _CONDITIONS[type_]
        new = {"type": type_, "status": "True", "reason": reason, "message": message}
        conditions = with_condition(conditions, new, stamp)
    return [{**one, "observedGeneration": generation} for one in conditions]


def _leader_set_patch(held: Json, wanted: Json) -> Json:
    """The patch of the leaders' stateful set. Its template is compared by revision: the server has
    completed it."""
    spec, old = wanted["spec"], spec_of(held)
    patch = merge_patch_of(
        {"replicas": old.get("replicas"), "updateStrategy": old.get("updateStrategy")},
        {"replicas": spec["replicas"], "updateStrategy": spec["updateStrategy"]},
    )
    if template_marks(old.get("template") or {}) != template_marks(spec["template"]):
        patch["template"] = merge_patch_of(old.get("template") or {}, spec["template"])
    metadata = {
        name: {
            key: value for key, value in part.items() if (held["metadata"].get(name) or {}).get(key) != value
        }
        for name, part in wanted["metadata"].items()
        if name in ("labels", "annotations")
    }
    changes = {name: part for name, part in (("metadata", metadata), ("spec", patch)) if part}
    if not any(metadata.values()):
        changes.pop("metadata", None)
    return changes


def template_marks(template: Json) -> Json:
    """The part of a leader template that changes whenever the whole does: its revision, and what is copied
    from annotations of the set."""
    metadata = template.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    names = (lws.EXCLUSIVE, lws.SUBGROUP_EXCLUSIVE, lws.GANG)
    marks = {name: annotations[name] for name in names if name in annotations}
    return {**marks, REVISION: (metadata.get("labels") or {}).get(REVISION)}
