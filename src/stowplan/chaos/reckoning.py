"""The end of a run: nothing goes wrong any more, enough time has passed, and all books are compared."""

import asyncio
from collections import Counter
from typing import Final

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.chaos.moods import Moods
from stowplan.chaos.oracle import Oracle
from stowplan.chaos.storagereckoning import StorageReckoning
from stowplan.chaos.world import World
from stowplan.embedded.client import typed
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.scheduler import Scheduler

PASSING: Final = {"binding": 1, "preemption": 0, "pod status": 0}
"""Names of tasks that come and go, and how many there are of each when there is nothing to do."""


VOLUME_PLUGINS: Final = frozenset(("VolumeBinding", "VolumeRestrictions", "VolumeZone"))
"""Those that look at claims before they look at nodes."""

SLEEPY: Final = frozenset(("VolumeBinding",))
"""Those that do not always hear of what would help."""


class Reckoning:
    """Compares a scheduler that has come to rest with the store."""

    def __init__(self, world: World, scheduler: Scheduler) -> None:
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
        self._promised = [pod for pod in self._pending if pod.status.nominated_node_name]
        self._storage = StorageReckoning(world, scheduler)

    def check(self) -> None:
        self._check_leftovers()
        self._check_queue()
        self._check_cache()
        self._check_promises()
        self._check_schedulable()
        self._storage.check(self._nodes, self._stored)

    def has_heard_all(self) -> bool:
        """Whether the scheduler knows of the nodes and pods what the store has."""
        informers = self._scheduler.informers
        unfinished = {pod.key: pod for pod in self._stored if not pod.is_finished}
        nodes = {node.name: node for node in self._nodes}
        return (
            dict(informers.nodes.objects) == nodes
            and dict(informers.pods.objects) == unfinished
            and self._storage.has_heard_all()
        )

    def check_woken(self) -> None:
        """Pods that fit somewhere have been tried again long before they are tried again without reason.

        With us as with kube-scheduler three kinds of pods oversleep: one that has made room, and the event
        that would have let it in came while its victims were still being told to go; one that wants to be
        near pods like itself, and may go anywhere once the last of those is gone; and one that found no
        volume because another pod had taken it, in memory, and then gave it back.
        """
        queue = self._scheduler.context.queue
        for pod, node in self._unhelped():
            queued = queue.get(pod.key)
            gated = queued is not None and queued.gating_plugin == DefaultPreemption.name
            sociable = pod.spec.affinity is not None and pod.spec.affinity.pod_affinity is not None
            if not gated and not sociable and not self._is_up_to(pod, SLEEPY):
                self._broken("pods are tried again when something helps them", f"{pod.key}, for {node}")

    def _unhelped(self) -> list[tuple[Pod, str]]:
        """The pods that some node could take, but that are on none, each with such a node."""
        oracle = Oracle(self._scheduler, self._nodes, [(pod, pod.spec.node_name) for pod in self._placed])
        oracle.add_storage(self._storage.objects)
        candidates = [
            pod for pod in self._pending if not pod.spec.scheduling_gates and not pod.is_terminating
        ]
        found = ((pod, oracle.feasible(pod, promised=self._promised)) for pod in candidates)
        return [(pod, nodes[0]) for pod, nodes in found if nodes]

    def _is_up_to(self, pod: Pod, plugins: frozenset[str]) -> bool:
        """Whether a pod was last rejected by one of these plugins."""
        queued = self._scheduler.context.queue.get(pod.key)
        return queued is not None and not plugins.isdisjoint(queued.unschedulable_plugins)

    def _broken(self, invariant: str, detail: str) -> None:
        self._world.broken(invariant, detail)

    def _check_leftovers(self) -> None:
        context = self._scheduler.context
        if context.cache.assumed:
            self._broken("no assumption is left behind", f"{dict(context.cache.assumed)}")
        if len(context.waiting):
            self._broken("nobody waits at Permit any more", f"{[one.pod.key for one in context.waiting]}")
        if len(context.queue.in_flight):
            self._broken("nobody is in flight any more", f"{context.queue.in_flight.uids}")
        running = Counter(task.get_name() for task in asyncio.all_tasks())
        for name, idle in PASSING.items():
            if running[name] > idle:
                self._broken("no task is left over", f"{running[name]} named {name}, expected {idle}")
        for profile in context.profiles.values():
            for plugin in profile.framework.plugins.values():
                if isinstance(plugin, Moods) and plugin.held:
                    self._broken("every reservation ends", f"{plugin.held}")

    def _check_queue(self) -> None:
        """Every pod that wants a node waits in the queue, and nobody else does."""
        queue = self._scheduler.context.queue
        wanting = {pod.key: pod for pod in self._pending if not pod.is_terminating}
        for key, pod in wanting.items():
            queued = queue.get(key)
            if queued is None or queued.uid != pod.metadata.uid:
                self._broken("no pod is lost", f"{key} is not in the queue")
            elif queued.pod.pod.metadata.resource_version != pod.metadata.resource_version:
                self._broken("no pod is lost", f"{key} is in the queue as it was before")
        for queued in queue:
            if queued.key not in wanting:
                self._broken("no pod is lost", f"{queued.key} is in the queue, but wants no node")

    def _check_cache(self) -> None:
        table = self._scheduler.context.cache.table
        known_nodes = {node.name: node for node in self._scheduler.context.cache.nodes()}
        if known_nodes != {node.name: node for node in self._nodes}:
            self._broken("the cache equals the store", f"nodes: {sorted(known_nodes)}")
        known = {uid: info.pod for uid, info in table.pods.items()}
        stored = {pod.metadata.uid: pod for pod in self._placed}
        for uid in sorted(known.keys() | stored.keys()):
            if known.get(uid) != stored.get(uid):
                pod = known.get(uid) or stored[uid]
                here = "differs" if uid in known and uid in stored else "is in one of them only"
                self._broken("the cache equals the store", f"pod {pod.key} {here}")
        for pod in self._placed:
            row = table.row_of(pod.spec.node_name)
            if row is not None and pod.metadata.uid not in table.pods_on[row]:
                self._broken("the cache equals the store", f"pod {pod.key} is not on {pod.spec.node_name}")

    def _check_promises(self) -> None:
        """Nodes are promised to nobody but to pods that want one, and not for ever.

        Some do not end, with us as with kube-scheduler: those to pods that cannot try, or may not make room,
        or whose claims stand in the way whatever the node, and those of nodes that an extender rejects.
        """
        wanting = {pod.metadata.uid: pod for pod in self._pending}
        for node, pods in self._scheduler.context.queue.nominator.by_node.items():
            for uid, info in pods.items():
                if uid not in wanting:
                    self._broken("promises are made to pods that want them", f"{node} to {info.key}")
        for pod in self._promised:
            helpless = (
                pod.spec.scheduling_gates
                or pod.spec.preemption_policy == "Never"
                or pod.is_terminating
                or self._is_up_to(pod, VOLUME_PLUGINS)
            )
            if not helpless and not self._world.plan.extenders:
                self._broken("promises end", f"{pod.status.nominated_node_name} to {pod.key}")

    def _check_schedulable(self) -> None:
        for pod, node in self._unhelped():
            self._broken("every pod that fits is bound", f"{pod.key}, to {node}")
