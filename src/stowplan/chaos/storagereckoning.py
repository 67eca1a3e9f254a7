"""The end of a run as far as volumes go: nothing is assumed, and who can have its volumes is on a node."""

from collections.abc import Sequence

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.chaos import rules
from stowplan.chaos.storagerules import Shelf, claims_of, is_for_one
from stowplan.chaos.world import World
from stowplan.embedded.client import typed
from stowplan.scheduler import Scheduler


class StorageReckoning:
    """Compares what a scheduler that has come to rest knows of volumes with the store."""

    def __init__(self, world: World, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        self._told = scheduler.context.cache.table.storage
        store = world.store
        volumes = [typed(obj, PersistentVolume) for obj in store.list(PERSISTENT_VOLUMES).items]
        claims = [typed(obj, PersistentVolumeClaim) for obj in store.list(PERSISTENT_VOLUME_CLAIMS).items]
        classes = [typed(obj, StorageClass) for obj in store.list(STORAGE_CLASSES).items]
        self.objects: list[Object] = [*volumes, *claims, *classes]
        self._shelf = Shelf(
            {one.name: one for one in volumes},
            {one.key: one for one in claims},
            {one.name: one for one in classes},
        )

    def has_heard_all(self) -> bool:
        told, shelf = self._told, self._shelf
        return (told.volumes, told.claims, told.classes) == (shelf.volumes, shelf.claims, shelf.classes)

    def check(self, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
        if self._world.plan.storage is None:
            return
        if self._told.assumed():
            names = sorted(one.key for one in self._told.assumed())
            self._world.broken("nothing is assumed of volumes for ever", f"{names}")
        if not self.has_heard_all():
            self._world.broken("the cache equals the store", "volumes, claims or classes")
        self._check_pods(nodes, pods)

    def _check_pods(self, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
        """A second judgement that owes nothing to plugins, where pods ask for nothing but what is simple."""
        placed = [pod for pod in pods if pod.spec.node_name and not pod.is_finished]
        pending = [pod for pod in pods if not pod.spec.node_name and self._is_ours(pod)]
        if any(pod.status.nominated_node_name for pod in pending) or not all(map(_is_plain, placed)):
            return
        for pod in pending:
            if not _is_plain(pod) or not claims_of(pod) or self._is_used(pod, placed):
                continue
            self._world.counts["plain judgements"] += 1
            for node in nodes:
                others = [other for other in placed if other.spec.node_name == node.name]
                if (
                    rules.objection(pod, node) is None
                    and rules.overload(node, pod, others) is None
                    and self._shelf.allows(pod, node.metadata.labels)
                ):
                    self._world.broken("every pod that fits is bound", f"{pod.key}, plainly to {node.name}")

    def _is_ours(self, pod: Pod) -> bool:
        ours = pod.spec.scheduler_name in self._scheduler.context.profiles
        waits = bool(pod.spec.scheduling_gates) or pod.is_terminating
        return ours and not waits and not self._world.plan.extenders

    def _is_used(self, pod: Pod, placed: Sequence[Pod]) -> bool:
        """Whether somebody uses a claim of the pod that is for one pod only."""
        known = self._shelf.claims
        for_one = {key for key in claims_of(pod) if key in known and is_for_one(known[key])}
        return any(for_one & set(claims_of(other)) for other in placed)


def _is_plain(pod: Pod) -> bool:
    """Whether a pod does not care for other pods."""
    affinity = pod.spec.affinity
    social = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return not social and not pod.spec.topology_spread_constraints
