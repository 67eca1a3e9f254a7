"""Groups of LeaderWorkerSets: the workers of each leader pod, and restarts of whole groups."""

from typing import ClassVar, Final

from stowplan.api.catalogue import CONTROLLER_REVISIONS, NODES, POD_GROUPS, PODS, SERVICES, STATEFUL_SETS
from stowplan.api.requests import DeleteOptions, Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllers.sets.leaderworkerset import (
    CREATED,
    EVENT_SOURCE,
    claim_fields,
    of_revision,
    placement_annotations,
    service_for,
    set_key_of,
)
from stowplan.localcluster.objects import leaderworkersets as lws
from stowplan.localcluster.objects.fields import (
    annotations_of,
    controller_of,
    count_in,
    is_controlled_by,
    is_deleting,
    is_ready,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    own_reference,
    phase_of,
    spec_of,
    status_of,
    uid_of,
)
from stowplan.localcluster.objects.leaderworkersets import (
    GROUP_INDEX,
    GROUP_KEY,
    LEADER_WORKER_SETS,
    REVISION,
    SET_NAME,
)

FOREGROUND: Final = DeleteOptions(propagation="Foreground")
_WHOLE_GROUP: Final = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart")


def worker_set_for(obj: Json, revised: Json, leader: Json, *, gang: bool) -> Json:
    """The stateful set of the workers of a leader; `revised` is the set with the template of the leader."""
    labels = labels_of(leader)
    selector = {
        GROUP_INDEX: labels.get(GROUP_INDEX, ""),
        SET_NAME: name_of(obj),
        GROUP_KEY: labels.get(GROUP_KEY, ""),
    }
    own = {**selector, REVISION: labels.get(REVISION, "")}
    template = lws.template_in(revised).get("workerTemplate") or {}
    metadata = dict(template.get("metadata") or {})
    annotations = {
        lws.SIZE: str(lws.size_of(revised)),
        lws.LEADER_NAME: name_of(leader),
        **placement_annotations(obj, revised, gang=gang),
    }
    metadata["labels"] = {**(metadata.get("labels") or {}), **own}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {
        "metadata": {
            "name": name_of(leader),
            "namespace": namespace_of(leader),
            "labels": {**labels_of(obj), **own},
            "ownerReferences": [own_reference(leader)],
        },
        "spec": {
            "serviceName": name_of(leader) if lws.has_own_subdomains(revised) else name_of(obj),
            "replicas": lws.size_of(revised) - 1,
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {"matchLabels": selector},
            "template": {**template, "metadata": metadata},
            **claim_fields(revised),
        },
    }


def group_for(obj: Json, leader: Json) -> Json:
    """The PodGroup of a group. While workers wait for a ready leader, the leader is scheduled alone."""
    labels = labels_of(leader)
    index, revision = labels.get(GROUP_INDEX, ""), labels.get(REVISION, "")
    alone = spec_of(obj).get("startupPolicy") == lws.LEADER_READY
    count = 1 if alone else lws.number_in(leader, lws.SIZE)
    return {
        "metadata": {
            "name": lws.group_name(name_of(obj), index, revision),
            "namespace": namespace_of(obj),
            "labels": {SET_NAME: name_of(obj), GROUP_INDEX: index, REVISION: revision},
            "ownerReferences": [own_reference(obj)],
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": max(count, 1)}}},
    }


def has_restarted(pod: Json) -> bool:
    """True if a container of a pod that has not ended has been started again."""
    if phase_of(pod) not in ("Running", "Pending"):
        return False
    status = status_of(pod)
    kinds = ("initContainerStatuses", "containerStatuses")
    return any(count_in(one, "restartCount") for kind in kinds for one in status.get(kind) or ())


class LeaderWorkerGroupController(Controller):
    """Creates the workers of leaders, and replaces whole groups. `gangs`: each group is a PodGroup."""

    name: ClassVar[str] = "leaderworkerset-pod-controller"
    event_source: ClassVar[str] = EVENT_SOURCE

    def __init__(self, context: ControllerContext, *, gangs: bool = False) -> None:
        super().__init__(context)
        self._gangs = gangs
        self.sets = self.informer(LEADER_WORKER_SETS)
        self.nodes = self.informer(NODES)
        self.services = self.informer(SERVICES)
        self.revisions = self.informer(CONTROLLER_REVISIONS).index(set_key_of)
        self.pods = self.informer(PODS)
        self._of_set = self.pods.index(set_key_of)
        self.pods.add_handler(self._pod_changed)
        self.stateful_sets = self.informer(STATEFUL_SETS)
        self.stateful_sets.add_handler(self._worker_set_changed)
        self.groups = self.informer(POD_GROUPS) if gangs else None

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and SET_NAME in labels_of(new):
            self.queue.add(key_of(new))

    def _worker_set_changed(self, old: Json | None, new: Json | None) -> None:
        """A leader whose workers are gone gets new ones, under the same name."""
        if new is None and old is not None and SET_NAME in labels_of(old):
            self.queue.add(key_of(old))

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        found = None if pod is None else next(iter(map(self.sets.get, set_key_of(pod))), None)
        if pod is None or found is None or lws.WORKER_INDEX not in labels_of(pod):
            return
        obj = lws.with_defaults(found)
        if await self._replace_group(obj, pod) or not lws.is_leader(pod) or is_deleting(pod):
            return
        await self._create_service(obj, pod)
        await self._create_group(obj, pod)
        if lws.size_of(obj) > 1:
            await self._create_workers(key, obj, pod)

    # The workers of a leader

    async def _create_workers(self, key: str, obj: Json, leader: Json) -> None:
        if self.stateful_sets.get(key) is not None:
            return
        if spec_of(obj).get("startupPolicy") == lws.LEADER_READY and not is_ready(leader):
            return
        held = self.revisions[f"{namespace_of(obj)}/{name_of(obj)}"].values()
        mine = [one for one in held if labels_of(one).get(REVISION) == labels_of(leader).get(REVISION)]
        if not mine:
            self.queue.add_after(key, 1.0)
            return
        body = worker_set_for(obj, of_revision(obj, mine[-1]), leader, gang=self._gangs)
        topology = annotations_of(obj).get(lws.EXCLUSIVE)
        if topology is not None:
            domain = self._domain_of(leader, topology)
            if domain is None:
                return
            template = body["spec"]["template"]
            spec = template.get("spec") or {}
            selector = {**(spec.get("nodeSelector") or {}), topology: domain}
            template["spec"] = {**spec, "nodeSelector": selector}
        try:
            await self.create(STATEFUL_SETS, body)
        except ApiError as error:
            if error.is_already_exists:
                return
            note = f"Failed to create worker statefulset for leader pod {name_of(leader)}: {error.message}"
            await self.record_event(obj, "FailedCreate", note, WARNING)
            raise
        await self.record_event(obj, CREATED, f"Created worker statefulset for leader pod {name_of(leader)}")

    def _domain_of(self, leader: Json, topology: str) -> str | None:
        """The topology domain of a leader; None if it is not scheduled, or its node has no such label."""
        node = self.nodes.get(node_of(leader)) if node_of(leader) else None
        return None if node is None else labels_of(node).get(topology)

    async def _create_service(self, obj: Json, leader: Json) -> None:
        if not lws.has_own_subdomains(obj) or self.services.get(key_of(leader)) is not None:
            return
        selector = {SET_NAME: name_of(obj), GROUP_INDEX: labels_of(leader).get(GROUP_INDEX, "")}
        try:
            await self.create(SERVICES, service_for(obj, leader, name_of(leader), selector))
        except ApiError as error:
            if not error.is_already_exists:
                raise

    async def _create_group(self, obj: Json, leader: Json) -> None:
        if self.groups is None or lws.GANG not in annotations_of(leader):
            return
        group = group_for(obj, leader)
        if self.groups.get(key_of(group)) is not None:
            return
        try:
            await self.create(POD_GROUPS, group)
        except ApiError as error:
            if not error.is_already_exists:
                raise

    # Restarts

    async def _replace_group(self, obj: Json, pod: Json) -> bool:
        """Delete the leader of a group whose pod restarts, and with it the group; True if it is going."""
        policy = lws.template_in(obj).get("restartPolicy")
        if policy not in _WHOLE_GROUP or not (has_restarted(pod) or is_deleting(pod)):
            return False
        waits = policy == _WHOLE_GROUP[1] or lws.AFTER_START in annotations_of(obj)
        if waits and self._is_starting(obj, pod):
            return False
        leader: Json | None = pod
        if not lws.is_leader(pod):
            numbered = lws.ordinal_in(name_of(pod))
            leader = None if numbered is None else self.pods.get(f"{namespace_of(pod)}/{numbered[0]}")
            if leader is None or not self._is_worker_of(pod, leader):
                return False
        assert leader is not None
        if is_deleting(leader):
            return True
        await self.delete(PODS, leader, FOREGROUND)
        index = labels_of(leader).get(GROUP_INDEX, "")
        done = f"deleted leader pod {name_of(leader)} to recreate group {index}"
        note = f"Worker pod {name_of(pod)} failed, {done}"
        await self.record_event(obj, "RecreateGroup", note)
        return True

    def _is_starting(self, obj: Json, pod: Json) -> bool:
        """True if some pods of a group are missing or pending."""
        index = labels_of(pod).get(GROUP_INDEX)
        held = self._of_set[f"{namespace_of(pod)}/{name_of(obj)}"].values()
        group = [one for one in held if labels_of(one).get(GROUP_INDEX) == index]
        return len(group) != lws.size_of(obj) or any(phase_of(one) == "Pending" for one in group)

    def _is_worker_of(self, pod: Json, leader: Json) -> bool:
        """True if a pod is one of the present workers of a leader: those of an earlier one are on their way
        out, and must not take the new leader along."""
        if labels_of(pod).get(REVISION) != labels_of(leader).get(REVISION):
            return False
        owner = controller_of(pod) or {}
        workers = self.stateful_sets.get(f"{namespace_of(pod)}/{owner.get('name', '')}")
        return (
            workers is not None and uid_of(workers) == owner.get("uid") and is_controlled_by(workers, leader)
        )
