"""Scheduling pods on the table of a simulated cluster: one after the other, in the order of the queue.

A pod that finds no node may preempt others; those that have a controller come again under the same name. What
is done can be undone (`undo`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property, partial
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from stowplan.api.decode import Given, as_object
from stowplan.api.pod import Pod
from stowplan.runtime.logs import Logger
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.decision import NO_NODES, fit_error
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.extension_points import guarded, post_filter_steps, run_to_end
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code, PluginError
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.pod_groups import PodGroups
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.simulate.contents import ClusterContents
from stowplan.simulate.outcome import Eviction, Outcome

if TYPE_CHECKING:
    from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder

_DAEMON_SET: Final = "DaemonSet"
_MIRROR: Final = "kubernetes.io/config.mirror"


class PodScheduling(ClusterContents, ABC):
    """The scheduling of single pods. `_tie_break` decides between nodes of equal score."""

    _tie_break: Random

    def schedule(self, pods: Given | Iterable[Given] | None = None, *, preempt: bool = True) -> Outcome:
        """Schedule pods, in the order of the queue; without an argument, all pods that are pending.

        Pods of a group are scheduled together, with the members that are pending already. A pod that finds no
        node stays pending. With `preempt` it may evict pods of lower priority, whose replacements (for those
        with a controller) are then scheduled as well. Raises ValueError for a pod that has a node.
        """
        given = list(self.pending.values()) if pods is None else pods_of(pods)
        queue = SimulatedQueue(next(iter(self.frameworks.values())), self.table.groups)
        for pod in given:
            if pod.key in self._keys:
                raise ValueError(f"pod {pod.key} has a node already: expected pods that wait for one")
            self._enqueue(pod, queue)
        outcome = Outcome()
        while queue:
            entry = queue.pop()
            if isinstance(entry, QueuedGroup):
                self._schedule_group(entry, queue, outcome, preempt)
            else:
                self._schedule_one(entry, queue, outcome, preempt)
        return outcome

    def framework_of(self, pod: Pod) -> Framework:
        """The profile that schedules a pod; the first one if it names none of them."""
        return self._framework(pod)

    def gate_of(self, pod: Pod) -> str:
        """Why a pod may not be tried at all, "" if it may."""
        return self._gate(self.table.info(pod))

    def assume(self, info: PodInfo, node: str) -> None:
        """Put a pod on a node it was given. Reserve, Permit and what follows are up to the caller."""
        self.table.assume(info, node)
        self._keys[info.key] = info.uid
        if self.table.groups.enabled:
            self.table.groups.assume(info.pod)

    def forget(self, info: PodInfo) -> None:
        """Take a pod off the node it was given."""
        self.table.forget(info.uid)
        del self._keys[info.key]
        if self.table.groups.enabled:
            self.table.groups.forget(info.pod)

    def replacement(self, pod: Pod) -> Pod:
        """The pod that its controller creates when it is gone: of the same name, to be easy to follow."""
        uid = f"{pod.metadata.uid.partition('~')[0]}~{self._undo.next_number()}"
        metadata = replace(pod.metadata, uid=uid, deletion_timestamp=None)
        status = replace(pod.status, phase="Pending", nominated_node_name="", start_time=None, conditions=())
        return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=status)

    def _enqueue(self, pod: Pod, queue: "SimulatedQueue") -> None:
        """Let a pod wait in the queue; a member of a group is known to its group from then on."""
        groups = self.table.groups
        if not groups.enabled:
            queue.push(self.table.info(pod))
            return
        pod = self._see(pod)
        state = groups.group_of(pod)
        if groups.key_of(pod) is not None and (state is None or pod.metadata.uid not in state.pods):
            self._join_group(pod)
        queue.push(self.table.info(pod))

    @cached_property
    def _finder(self) -> "NodeFinder":
        """Made when the first pod is scheduled: explanations need no scheduling cycle."""
        from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
        from stowplan.scheduler.node_sampler import NodeSampler

        logger = Logger()
        return NodeFinder(NodeSampler(self.table, logger), self._tie_break, logger)

    @abstractmethod
    def _schedule_group(
        self, entity: QueuedGroup, queue: "SimulatedQueue", outcome: Outcome, preempt: bool
    ) -> None:
        """Schedule the members of a group together: see `group_scheduling`."""

    def _schedule_one(self, info: PodInfo, queue: "SimulatedQueue", outcome: Outcome, preempt: bool) -> None:
        pod = info.pod
        gate = self._gate(info)
        if gate:
            self._wait(pod, gate, outcome)
            return
        if not self.table.node_count:
            self._wait(pod, NO_NODES, outcome)
            return
        try:
            found = self._finder.find(
                self._framework(pod), info, self._nominations(), self._nominated_row(info)
            )
        except PluginError as failure:
            self._wait(pod, str(failure), outcome)
            return
        if found.row is not None:
            self._place(info, self.table.names[found.row], found.evaluation.cycle, outcome)
        elif preempt:
            self._preempt(info, found.evaluation, queue, outcome)
        else:
            self._wait(pod, fit_error(found.evaluation), outcome)

    def _gate(self, info: PodInfo) -> str:
        """Why a pod may not be tried at all, "" if it may."""
        framework = self._framework(info.pod)
        for plugin in framework.gating():
            try:
                status = guarded(plugin, "PreEnqueue", plugin.pre_enqueue, info)
            except PluginError as failure:
                return str(failure)
            if status is not None and not status.is_success:
                return str(status.message)
        return ""

    def _place(self, info: PodInfo, node: str, cycle: Cycle, outcome: Outcome) -> None:
        pod = info.pod
        name = self._framework(pod).profile.scheduler_name
        self.assume(info, node)
        status, _ = self._lifecycles[name].run_reserve_and_permit(cycle, info, node)
        if not status.is_success and status.code is not Code.WAIT:
            self._lifecycles[name].unreserve(cycle, info, node)
            self.forget(info)
            self._wait(pod, status.message, outcome)
            return
        self._reserved[info.uid] = (name, cycle, node)
        self._undo.note(lambda: self._unplace(info, cycle, node))
        if pod.key in self.pending:
            self._undo.set(self.pending, pod.key, None)
        self._undo.set(self.messages, pod.key, None)
        self._nominate(info, None)
        outcome.placed[pod.key] = node

    def _unplace(self, info: PodInfo, cycle: Cycle, node: str) -> None:
        name, *_ = self._reserved.pop(info.uid)
        self._lifecycles[name].unreserve(cycle, info, node)
        self.table.remove_pod(info.uid)
        del self._keys[info.key]
        if self.table.groups.enabled:
            self.table.groups.forget(info.pod)

    def _preempt(
        self, info: PodInfo, evaluation: Evaluation, queue: "SimulatedQueue", outcome: Outcome
    ) -> None:
        """Evict pods of lower priority if that makes room, and try again; else the pod has to wait."""
        plugins = self._framework(info.pod).at(ExtensionPoint.POST_FILTER)
        try:
            found = run_to_end(post_filter_steps(plugins, evaluation.cycle, info))
        except PluginError as failure:
            self._wait(info.pod, str(failure), outcome)
            return
        if not found.status.is_success or not found.nominated_node:
            self._wait(info.pod, fit_error(evaluation, found.status.message), outcome)
            return
        self._nominate(info, found.nominated_node)
        queue.push(info)
        self._evict_victims(found.victims, found.nominated_node, info.key, queue, outcome)

    def _evict_victims(
        self, victims: Iterable[Pod], node: str, by: str, queue: "SimulatedQueue", outcome: Outcome
    ) -> None:
        """Take victims of preemption off their nodes; those that have a controller come again."""
        for victim in victims:
            self._take(victim.key)
            outcome.placed.pop(victim.key, None)
            outcome.evictions.append(Eviction(victim.key, node, by))
            if has_controller(victim):
                self._enqueue(self.replacement(victim), queue)
            else:
                self._release(victim)
                outcome.lost.append(victim.key)

    def _wait(self, pod: Pod, message: str, outcome: Outcome) -> None:
        self._undo.set(self.pending, pod.key, pod)
        self._undo.set(self.messages, pod.key, message)
        outcome.pending[pod.key] = message

    def _framework(self, pod: Pod) -> Framework:
        """The profile that schedules a pod; the first one if it names none of them."""
        return self.frameworks.get(pod.spec.scheduler_name) or next(iter(self.frameworks.values()))


def pods_of(given: Given | Iterable[Given]) -> list[Pod]:
    """Pods that are given as objects, builders or manifests, or one of these alone."""
    several = isinstance(given, Iterable) and not isinstance(given, dict)
    objects = [as_object(one) for one in cast("Iterable[Given]", given if several else (given,))]
    for obj in objects:
        if not isinstance(obj, Pod):
            raise TypeError(f"expected pods to schedule, got {obj.kind or type(obj).__name__} {obj.key}")
    return cast("list[Pod]", objects)


class SimulatedQueue:
    """Pods and groups in the order of the profile's QueueSort plugin; of equals the first that came.

    The members of a group whose objects are all known are one entry.
    """

    def __init__(self, framework: Framework, groups: PodGroups) -> None:
        sorter = framework.sorting()
        self._sort_key = partial(guarded, sorter, "QueueSort", sorter.sort_key)
        self._groups = groups
        self._heap: list[tuple[Any, int, PodInfo | QueuedGroup]] = []
        self._entities: dict[str, QueuedGroup] = {}
        self._complete: set[str] = set()
        self._came = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, info: PodInfo) -> None:
        self._came += 1
        queued = QueuedPod(info, float(self._came))
        key = self._groups.key_of(info.pod)
        root = None if key is None else self._groups.root_of(key)
        obj = None if root is None else self._groups.object(root)
        if key is None or root is None or obj is None:
            heappush(self._heap, (self._sort_key(queued), self._came, info))
            return
        entity = self._entities.get(root)
        if entity is None:
            entity = self._entities[root] = QueuedGroup(root, obj, queued)
            heappush(self._heap, (self._sort_key(entity), self._came, entity))
        entity.add(key, queued)

    def pop(self) -> PodInfo | QueuedGroup:
        entry = heappop(self._heap)[2]
        if isinstance(entry, QueuedGroup):
            del self._entities[entry.root]
            self._complete.discard(entry.root)
        return entry

    def takes_pending(self, root: str) -> bool:
        """True once while a group is queued: its pending members have to join it."""
        if root in self._complete:
            return False
        self._complete.add(root)
        return True


def has_controller(pod: Pod) -> bool:
    """True if a controller creates the pod again when it is gone."""
    return any(owner.controller for owner in pod.metadata.owner_references)


def is_daemon(pod: Pod) -> bool:
    """True if a drain leaves the pod alone: it belongs to its node."""
    return _MIRROR in pod.metadata.annotations or any(
        owner.kind == _DAEMON_SET for owner in pod.metadata.owner_references
    )
