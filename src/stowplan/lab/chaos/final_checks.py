"""The end of a run: no faults any more, enough time has passed, and scheduler and store are compared."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from stowplan.api.catalogue import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.lab.chaos.actors import FaultyPlugin
from stowplan.lab.chaos.devicechecks import DeviceFinalChecks, asks_for_devices, has_lost_member
from stowplan.lab.chaos.groupchecks import GroupFinalChecks
from stowplan.lab.chaos.oracle import (
    Oracle,
    StorageObjects,
    claims_of,
    ignores_other_pods,
    is_exclusive,
    overcommitment,
    rejection,
)
from stowplan.lab.chaos.world import UNSEEN_CLAIMS, ChaosWorld
from stowplan.localcluster.client import typed
from stowplan.scheduler import Scheduler
from stowplan.scheduler.plugins.defaultpreemption import DefaultPreemption

TRANSIENT_TASKS: Final = {"binding": 1, "preemption": 0, "pod status": 0, "pod group status": 0}
"""Names of tasks that come and go, and how many of each an idle scheduler has."""


CLAIM_PLUGINS: Final = frozenset(("VolumeBinding", "VolumeRestrictions", "VolumeZone", "DynamicResources"))
"""Plugins that reject a pod for its claims before looking at nodes."""

PREEMPTED: Final = "preempted by DefaultPreemption"
"""Message about a pod that was to be bound."""

NO_CANDIDATE: Final = "no candidate node for preemption"
"""Message about a preemptor for which extenders accept none of the nodes with victims."""

MISSES_EVENTS: Final = frozenset(("VolumeBinding",))
"""Plugins whose registered events do not cover every case that would help a pod."""


class FinalChecks:
    """Compares an idle scheduler with the store."""

    def __init__(self, world: ChaosWorld, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        self._nodes = [typed(obj, Node) for obj in world.store.list(NODES).items]
        self._stored = stored = [typed(obj, Pod) for obj in world.store.list(PODS).items]
        self._placed = [pod for pod in stored if pod.spec.node_name and not pod.is_finished]
        self._pending = [
            pod
            for pod in stored
            if not pod.spec.node_name and pod.spec.scheduler_name in scheduler.context.profiles
        ]
        self._nominated = [pod for pod in self._pending if pod.status.nominated_node_name]
        self._storage = StorageFinalChecks(world, scheduler)
        self._devices = DeviceFinalChecks(world, scheduler)
        self._groups = GroupFinalChecks(world, scheduler) if world.plan.groups else None

    def check(self) -> None:
        self._check_leftovers()
        self._check_queue()
        self._check_cache()
        self._check_nominations()
        self._check_schedulable()
        self._storage.check(self._nodes, self._stored)
        self._devices.check(self._stored)
        if self._groups is not None:
            self._groups.check()

    def has_caught_up(self) -> bool:
        """True if the scheduler's informers equal the store."""
        informers = self._scheduler.informers
        unfinished = {pod.key: pod for pod in self._stored if not pod.is_finished}
        nodes = {node.name: node for node in self._nodes}
        return (
            dict(informers.nodes.objects) == nodes
            and dict(informers.pods.objects) == unfinished
            and self._storage.has_caught_up()
            and self._devices.has_caught_up()
            and (self._groups is None or self._groups.has_caught_up())
        )

    def check_requeued(self) -> None:
        """Schedulable pods were requeued by an event, before the periodic flush of unschedulable pods.

        Here as in kube-scheduler some pods miss their event: a preemptor, if the event came while its victims
        were still being deleted; a pod with affinity to pods like itself, which may go anywhere once the last
        of those is gone; and a pod that found no volume because another pod had assumed it and then released
        it. So does a pod that waits for devices which were in flight for a claim that was deleted before the
        informer reported it: there is no event that they are free.
        """
        queue = self._scheduler.context.queue
        for pod, node in self._schedulable_pending():
            queued = queue.get(pod.key)
            gated = queued is not None and queued.gating_plugin == DefaultPreemption.name
            has_pod_affinity = pod.spec.affinity is not None and pod.spec.affinity.pod_affinity is not None
            if not gated and not has_pod_affinity and not self._missed_its_event(pod):
                self._violated("an event that helps a pod requeues it", f"{pod.key}, for {node}")

    def _missed_its_event(self, pod: Pod) -> bool:
        if self._was_rejected_by(pod, MISSES_EVENTS):
            return True
        unseen = self._world.counts[UNSEEN_CLAIMS] > 0
        return unseen and self._was_rejected_by(pod, frozenset(("DynamicResources",)))

    def _schedulable_pending(self) -> list[tuple[Pod, str]]:
        """Pending pods without a group for which a node is feasible, each with such a node."""
        placed = [(pod, pod.spec.node_name) for pod in self._placed]
        oracle = Oracle(self._scheduler, self._world.plan.extenders, self._nodes, placed)
        oracle.add_storage(self._storage.objects)
        oracle.add_devices(self._devices.objects)
        candidates = [
            pod
            for pod in self._pending
            if not (pod.spec.scheduling_gates or pod.is_terminating or pod.spec.scheduling_group)
        ]
        found = ((pod, oracle.feasible(pod, nominated=self._nominated)) for pod in candidates)
        return [
            (pod, nodes[0]) for pod, nodes in found if nodes and not self._is_preempted_in_vain(pod, nodes)
        ]

    def _is_preempted_in_vain(self, pod: Pod, nodes: Sequence[str]) -> bool:
        """True if a pod is preempted each time while it waits to be bound, for one that an extender rejects.

        This happens in kube-scheduler, too, if the extender does not take part in preemption: a pod of higher
        priority waits that such an extender keeps off a node where this pod could go.
        """
        if not any(PREEMPTED in one.message for one in pod.status.conditions):
            return False
        return any(
            any(self._is_kept_off(other, node, asked=False) for node in nodes)
            for other in self._pending
            if other.priority > pod.priority
        )

    def _is_kept_off(self, pod: Pod, node: str, *, asked: bool = True) -> bool:
        """True if an extender rejects a node for a pod; not `asked`: one that does not take part in
        preemption."""
        return any(
            one.filters
            and (asked or not one.preempts)
            and one.is_interested(pod.name)
            and not one.accepts(pod.name, node)
            for one in self._world.plan.extenders
        )

    def _was_rejected_by(self, pod: Pod, plugins: frozenset[str]) -> bool:
        """True if one of these plugins was among the pod's last rejectors."""
        queued = self._scheduler.context.queue.get(pod.key)
        return queued is not None and not plugins.isdisjoint(queued.unschedulable_plugins)

    def _violated(self, invariant: str, detail: str) -> None:
        self._world.violated(invariant, detail)

    def _check_leftovers(self) -> None:
        context = self._scheduler.context
        if context.cache.assumed:
            self._violated("no pod stays assumed", f"{dict(context.cache.assumed)}")
        if len(context.waiting):
            self._violated("no pod waits at Permit any more", f"{[one.pod.key for one in context.waiting]}")
        if len(context.queue.in_flight):
            self._violated("no pod is in flight any more", f"{context.queue.in_flight.uids}")
        running = Counter(task.get_name() for task in asyncio.all_tasks())
        for name, idle in TRANSIENT_TASKS.items():
            if running[name] > idle:
                self._violated("no task is left over", f"{running[name]} named {name}, expected {idle}")
        for profile in context.profiles.values():
            for plugin in profile.framework.plugins.values():
                if isinstance(plugin, FaultyPlugin) and plugin.held:
                    self._violated("every reservation ends", f"{plugin.held}")

    def _check_queue(self) -> None:
        """The queue holds exactly the pending pods."""
        queue = self._scheduler.context.queue
        pending = {pod.key: pod for pod in self._pending if not pod.is_terminating}
        for key, pod in pending.items():
            queued = queue.get(key)
            if queued is None or queued.uid != pod.metadata.uid:
                self._violated("no pod is lost", f"{key} is not in the queue")
            elif queued.pod.pod.metadata.resource_version != pod.metadata.resource_version:
                self._violated("no pod is lost", f"{key} is in the queue with an old resourceVersion")
        for queued in queue:
            if queued.key not in pending:
                self._violated("no pod is lost", f"{queued.key} is in the queue but not pending")

    def _check_cache(self) -> None:
        table = self._scheduler.context.cache.table
        known_nodes = {node.name: node for node in self._scheduler.context.cache.nodes()}
        if known_nodes != {node.name: node for node in self._nodes}:
            self._violated("the cache equals the store", f"nodes: {sorted(known_nodes)}")
        known = {uid: info.pod for uid, info in table.pods.items()}
        stored = {pod.metadata.uid: pod for pod in self._placed}
        for uid in sorted(known.keys() | stored.keys()):
            if known.get(uid) != stored.get(uid):
                pod = known.get(uid) or stored[uid]
                here = "differs" if uid in known and uid in stored else "is in one of them only"
                self._violated("the cache equals the store", f"pod {pod.key} {here}")
        for pod in self._placed:
            row = table.row_of(pod.spec.node_name)
            if row is not None and pod.metadata.uid not in table.pods_on[row]:
                self._violated("the cache equals the store", f"pod {pod.key} is not on {pod.spec.node_name}")

    def _check_nominations(self) -> None:
        """Only pending pods are nominated, and no nomination lasts for ever.

        Exceptions, here as in kube-scheduler: nominations of pods that are gated, may not preempt, are
        members of a group or are rejected for their claims on every node, those of nodes that an extender
        rejects, those of pods for which extenders reject every node that preemption could free, and all while
        one of the pods that are only preempted together is on a node that is gone: then preemption ends with
        an error, in kube-scheduler 1.37 as here, which leaves nominations as they are.
        """
        pending = {pod.metadata.uid: pod for pod in self._pending}
        for node, pods in self._scheduler.context.queue.nominator.by_node.items():
            for uid, info in pods.items():
                if uid not in pending:
                    self._violated("only pending pods are nominated", f"{node} to {info.key}")
        for pod in self._nominated:
            exempt = (
                pod.spec.scheduling_gates
                or pod.spec.preemption_policy == "Never"
                or pod.is_terminating
                or pod.spec.scheduling_group is not None
                or self._was_rejected_by(pod, CLAIM_PLUGINS)
                or self._is_kept_off(pod, pod.status.nominated_node_name)
                or any(NO_CANDIDATE in one.message for one in pod.status.conditions)
                or has_lost_member(self._scheduler)
            )
            if not exempt:
                self._violated("nominations end", f"{pod.status.nominated_node_name} to {pod.key}")

    def _check_schedulable(self) -> None:
        for pod, node in self._schedulable_pending():
            self._violated("every pod that fits is bound", f"{pod.key}, to {node}")


class StorageFinalChecks:
    """Compares the storage objects an idle scheduler knows with the store."""

    def __init__(self, world: ChaosWorld, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        self._cached = scheduler.context.cache.table.storage
        store = world.store
        volumes = [typed(obj, PersistentVolume) for obj in store.list(PERSISTENT_VOLUMES).items]
        claims = [typed(obj, PersistentVolumeClaim) for obj in store.list(PERSISTENT_VOLUME_CLAIMS).items]
        classes = [typed(obj, StorageClass) for obj in store.list(STORAGE_CLASSES).items]
        self.objects: list[Object] = [*volumes, *claims, *classes]
        self._storage = StorageObjects(
            {one.name: one for one in volumes},
            {one.key: one for one in claims},
            {one.name: one for one in classes},
        )

    def has_caught_up(self) -> bool:
        known, shelf = self._cached, self._storage
        return (known.volumes, known.claims, known.classes) == (shelf.volumes, shelf.claims, shelf.classes)

    def check(self, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
        if self._world.plan.storage is None:
            return
        if self._cached.assumed():
            names = sorted(one.key for one in self._cached.assumed())
            self._world.violated("no volume stays assumed", f"{names}")
        if not self.has_caught_up():
            self._world.violated("the cache equals the store", "volumes, claims or classes")
        self._check_pods(nodes, pods)

    def _check_pods(self, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
        """A judgement without any plugin, where no pod has constraints on other pods."""
        placed = [pod for pod in pods if pod.spec.node_name and not pod.is_finished]
        pending = [pod for pod in pods if not pod.spec.node_name and self._is_ours(pod)]
        if any(pod.status.nominated_node_name for pod in pending) or not all(map(ignores_other_pods, placed)):
            return
        for pod in pending:
            if not ignores_other_pods(pod) or not claims_of(pod) or self._is_used(pod, placed):
                continue
            if asks_for_devices(pod):
                continue
            self._world.counts["independent judgements"] += 1
            for node in nodes:
                others = [other for other in placed if other.spec.node_name == node.name]
                if (
                    rejection(pod, node) is None
                    and overcommitment(node, pod, others) is None
                    and self._storage.allows(pod, node.metadata.labels)
                ):
                    self._world.violated(
                        "every pod that fits is bound", f"{pod.key}, independently judged, to {node.name}"
                    )

    def _is_ours(self, pod: Pod) -> bool:
        ours = pod.spec.scheduler_name in self._scheduler.context.profiles
        waits = bool(pod.spec.scheduling_gates) or pod.is_terminating
        return ours and not waits and not self._world.plan.extenders

    def _is_used(self, pod: Pod, placed: Sequence[Pod]) -> bool:
        """True if a placed pod uses a ReadWriteOncePod claim of this pod."""
        known = self._storage.claims
        exclusive = {key for key in claims_of(pod) if key in known and is_exclusive(known[key])}
        return any(exclusive & set(claims_of(other)) for other in placed)
