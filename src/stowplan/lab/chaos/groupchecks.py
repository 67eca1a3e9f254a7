"""Invariants of pod groups: no gang is bound in part by a decision, and none that fits is left waiting.

A gang can end up bound in part without a fault: a member is deleted, its binding fails and others take the
room, the minimum is raised. A scheduler is only responsible for not binding a gang before enough members have
a node, and for placing the rest if that is possible.
"""

from collections.abc import Callable, Iterator
from typing import Final

from stowplan.api.catalogue import POD_GROUPS, PODS
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import PodGroup, group_key_of
from stowplan.lab.chaos.world import ChaosWorld
from stowplan.localcluster.client import typed
from stowplan.scheduler import Scheduler
from stowplan.scheduler.framework.pod_groups.placement import group_info
from stowplan.scheduler.queue.group_queue import GroupSchedulingQueue
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.table.pod_groups import PodGroupState

WHOLE: Final = "no gang begins to be bound before its minimum has nodes"
PLACED: Final = "every gang that fits is bound"
VIEW: Final = "what is known of groups equals the store"


class GangChecks:
    """Checks every binding of a member of a gang, when it is sent.

    Members that had a node when the gang was complete may have failed since; the others are bound even so.
    """

    def __init__(self, world: ChaosWorld, scheduler: Callable[[], Scheduler]) -> None:
        self._world = world
        self._scheduler = scheduler
        self._complete: set[tuple[int, str]] = set()
        """Gangs of which enough members had nodes, by scheduler and key."""

    def assuming(self, pod: Pod, number: int) -> None:
        """A scheduler gives a pod a node; `number` tells it from those before it."""
        state = self._gang(pod)
        if state is None or state.obj is None:
            return
        if not state.scheduled_count:
            self._complete.discard((number, state.key))
        if state.scheduled_count + 1 >= state.obj.minimum:
            self._complete.add((number, state.key))

    def begin(self, uid: str, number: int) -> None:
        """It sends a binding."""
        info = self._scheduler().context.cache.table.pods.get(uid)
        state = None if info is None else self._gang(info.pod)
        if state is None or state.obj is None:
            return
        self._world.counts["bindings of gangs"] += 1
        if not state.assigned and (number, state.key) not in self._complete:
            detail = f"{state.key}: {state.scheduled_count} of {state.obj.minimum} have nodes"
            self._world.violated(WHOLE, detail)

    def _gang(self, pod: Pod) -> PodGroupState | None:
        state = self._scheduler().context.cache.groups.group_of(pod)
        return state if state is not None and state.obj is not None and state.obj.is_gang else None


class GroupFinalChecks:
    """Compares an idle scheduler with the store, as far as groups are concerned."""

    def __init__(self, world: ChaosWorld, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        self._groups = [typed(obj, PodGroup) for obj in world.store.list(POD_GROUPS).items]
        self._pods = [typed(obj, Pod) for obj in world.store.list(PODS).items]

    def has_caught_up(self) -> bool:
        known = self._scheduler.context.cache.groups
        return {state.key: state.obj for state in known if state.obj is not None} == {
            group.group_key: group for group in self._groups
        }

    def check(self) -> None:
        self._check_view()
        queue = self._scheduler.context.queue
        if isinstance(queue, GroupSchedulingQueue) and len(queue.pending):
            left = sorted(queued.key for queued in queue.pending)
            self._world.violated("no pod is lost", f"{left} wait for the end of a cycle that is over")
        for group in self._waiting():
            if self._fits(group):
                self._world.violated(PLACED, f"{group.key}: {sorted(one.key for one in group.pods())}")

    def _check_view(self) -> None:
        if not self.has_caught_up():
            self._world.violated(VIEW, "groups")
        known = self._scheduler.context.cache.groups
        counted: dict[str, list[Pod]] = {}
        for pod in self._pods:
            key = group_key_of(pod)
            if key is not None and not pod.is_finished:
                counted.setdefault(key, []).append(pod)
        for state in known:
            members = counted.pop(state.key, [])
            assigned = {pod.metadata.uid for pod in members if pod.spec.node_name}
            if state.pods.keys() != {pod.metadata.uid for pod in members} or state.assumed:
                self._world.violated(VIEW, f"{state!r}: expected {sorted(pod.name for pod in members)}")
            elif state.assigned.keys() != assigned:
                self._world.violated(VIEW, f"{state!r}: {len(assigned)} have nodes")
        if counted:
            self._world.violated(VIEW, f"nothing is known of {sorted(counted)}")

    def _waiting(self) -> Iterator[QueuedGroup]:
        """Groups in the queue that are not held back."""
        queue = self._scheduler.context.queue
        if not isinstance(queue, GroupSchedulingQueue):
            return
        found: dict[str, QueuedGroup] = {}
        for pod in self._pods:
            entity = None if pod.spec.node_name else queue.entity_of(pod)
            if entity is not None and not entity.gated:
                found[entity.key] = entity
        yield from found.values()

    def _fits(self, group: QueuedGroup) -> bool:
        """True if the group alone would find a place now.

        Members that do not agree with their group are never tried, and extenders are not called.
        """
        context, cycle = self._scheduler.context, self._scheduler.groups
        tree = context.cache.groups.tree(group.root)
        if cycle is None or tree is None or self._world.plan.extenders or not self._agrees(group):
            return False
        waiting = {key: [one.pod for one in members] for key, members in group.members.items()}
        work = cycle.algorithms[group.profile].run(group_info(tree, waiting, context.cache.table))
        while True:
            try:
                next(work)
            except StopIteration as end:
                return bool(end.value.status.is_success)

    def _agrees(self, group: QueuedGroup) -> bool:
        known = self._scheduler.context.cache.groups.group(group.root)
        pods = [] if known is None else list(known.pods.values())
        same = len({(pod.spec.scheduler_name, pod.spec.preemption_policy) for pod in pods}) <= 1
        return same and all(pod.priority == group.priority for pod in pods)


def partly_bound(world: ChaosWorld) -> bool:
    """True if some but not all pods of a group have a node at this moment."""
    nodes: dict[str, list[bool]] = {}
    for obj in world.store.list(PODS).items:
        group = obj["spec"].get("schedulingGroup")
        if group:
            nodes.setdefault(group["podGroupName"], []).append(bool(obj["spec"].get("nodeName")))
    return any(any(placed) and not all(placed) for placed in nodes.values())
