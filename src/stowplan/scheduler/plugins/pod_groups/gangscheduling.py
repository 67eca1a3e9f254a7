"""GangScheduling: a group gets a place only if enough of its members do."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from stowplan.api.pod import Pod
from stowplan.api.pod_groups import CompositePodGroup, PodGroup
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    Code,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    Hint,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    Status,
    Wait,
    error,
    queue_if,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import PlacementCycle, PodGroupInfo, Progress
from stowplan.scheduler.table.pod_groups import KNOWN, SCHEDULED, GroupLookupError, PodGroups

PERMIT_TIMEOUT: Final = 5 * 60.0


class GangScheduling(Plugin):
    """Holds pods back until their group is complete enough, and lets it in as a whole."""

    contract = Contract(reads=Reads.NOTHING, pre_enqueue_by_group=True)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._groups: PodGroups = handle.table.groups
        self._composite = handle.gates["CompositePodGroup"]

    def events(self) -> Sequence[EventRegistration]:
        def about(resource: Resource, action: Action, hint: Callable[..., Hint]) -> EventRegistration:
            return EventRegistration(ClusterEvent(resource, action), hint, only_group=True)

        found = [
            about(Resource.UNSCHEDULED_POD, Action.ADD, self._after_pod_added),
            about(Resource.ASSIGNED_POD, Action.ADD, self._after_pod_added),
            about(Resource.POD_GROUP, Action.ADD, self._after_group_added),
            about(Resource.POD_GROUP, Action.UPDATE, self._after_group_updated),
        ]
        if self._composite:
            found.append(about(Resource.COMPOSITE_POD_GROUP, Action.ADD, self._after_group_added))
        return found

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.spec.scheduling_group is None:
            return None
        return self._ready_in_tree(pod.pod) if self._composite else self._ready(pod.pod)

    def always_enqueues(self, pod: PodInfo) -> bool:
        return pod.spec.scheduling_group is None

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | Wait | None:
        """Let a member wait until enough of its group have a node, and then let all of them go.

        Members that are not scheduled yet are activated: any one of them stands for all.
        """
        key = self._groups.key_of(pod.pod)
        if key is None:
            return None
        try:
            root = self._groups.check_hierarchy(pod.pod) if self._composite else key
        except GroupLookupError as cause:
            return error(f"failed to build hierarchy snapshot: {cause}")
        try:
            group = self._groups.pod_group(key)
        except GroupLookupError as cause:
            return error(f"failed to get podGroup {group_name(key)}: {cause}")
        if root == key and not group.is_gang:
            return None
        if self.handle.services is None:
            # Decisions are only computed: a group is placed at once, and no member waits for the others.
            return None
        members = self._groups.pod_groups_below(root)
        if self._groups.has_minimum(root, SCHEDULED):
            for state in members if self.handle.scheduler.waiting else ():
                for uid in state.assumed:
                    waiting = self.handle.scheduler.waiting.get(uid)
                    if waiting is not None:
                        waiting.allow(self.name)
            return None
        unscheduled = (state.pods[uid] for state in members for uid in state.unscheduled)
        self.handle.scheduler.activate(islice(unscheduled, 1))
        return Wait(self.permit_timeout(group))

    def permit_timeout(self, group: PodGroup) -> float:
        """Seconds that a member waits at Permit for the others."""
        return PERMIT_TIMEOUT

    def placement_feasible(
        self, cycle: PlacementCycle, group: PodGroupInfo, progress: Progress
    ) -> Status | None:
        """Feasibility: the minimum of the group is reached, can be, or cannot."""
        minimum = group.object.minimum
        remaining, scheduled = progress
        if scheduled >= minimum:
            return None
        so_far = f"{scheduled} scheduled, {remaining} remaining"
        if remaining + scheduled < minimum:
            return unschedulable(f"minCount ({minimum}) cannot be satisfied: {so_far}")
        return Status(Code.WAIT, (f"minCount ({minimum}) is not yet satisfied: {so_far}",))

    # Is the group complete enough?

    def _ready(self, pod: Pod) -> Status | None:
        key = self._groups.key_of(pod) or ""
        state = self._groups.group(key)
        group = None if state is None else state.obj
        if state is None or group is None:
            return _unknown(pod)
        if group.is_gang and state.all_count < group.minimum:
            return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return None

    def _ready_in_tree(self, pod: Pod) -> Status | None:
        try:
            root = self._groups.check_hierarchy(pod)
        except GroupLookupError as cause:
            return unresolvable(f"failed to build hierarchy snapshot: {cause}")
        if self._groups.has_minimum(root, KNOWN):
            return None
        if root == self._groups.key_of(pod):
            return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return unresolvable(f'waiting for composite pod group "{root.rsplit("/", 1)[1]}" tree to meet quorum')

    # Hints

    def _after_pod_added(self, pod: PodInfo, old: Pod | None, new: Pod) -> Hint:
        return queue_if(self._same_tree(pod.pod, self._groups.key_of(new)))

    def _after_group_added(
        self, pod: PodInfo, old: PodGroup | None, new: PodGroup | CompositePodGroup
    ) -> Hint:
        return queue_if(self._same_tree(pod.pod, new.group_key))

    def _after_group_updated(self, pod: PodInfo, old: PodGroup, new: PodGroup) -> Hint:
        if not (old.is_gang and new.is_gang) or new.minimum >= old.minimum:
            return Hint.SKIP
        return queue_if(self._same_tree(pod.pod, new.group_key))

    def _same_tree(self, pod: Pod, key: str | None) -> bool:
        own = self._groups.key_of(pod)
        if own is None or key is None:
            return False
        if not self._composite:
            return own == key
        root = self._groups.root_of(own)
        return root is not None and root == self._groups.root_of(key)


def group_name(key: str) -> str:
    """`namespace/name` of a group's key."""
    return key.split("/", 1)[1]


def _unknown(pod: Pod) -> Status:
    group = pod.spec.scheduling_group
    name = "" if group is None else group.pod_group_name
    return unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
