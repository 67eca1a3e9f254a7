"""What a scheduler has taken for pods on their way: volumes and claims, in memory, before it writes them."""

import asyncio

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.chaos.storagerules import claims_of, is_bound
from stowplan.chaos.world import World
from stowplan.scheduler.cache import Cache

SELECTED_NODE = "volume.kubernetes.io/selected-node"
REMEMBERED = "what a pod on its way needs is taken"
NOT_TOO_MUCH = "what is taken is for a pod on its way"


class Taken:
    """Compares what one scheduler has taken with the pods it is about to bind."""

    def __init__(self, world: World, cache: Cache) -> None:
        self._world = world
        self._cache = cache
        self._storage = cache.table.storage
        self._latest: tuple[Pod, int] | None = None
        self._users: dict[str, set[str]] = {}

    def decide(self, pod: Pod) -> None:
        """A node was chosen; now its volumes are taken."""
        self._latest = (pod, self._storage.version)
        for key in claims_of(pod):
            self._users.setdefault(key, set()).add(pod.metadata.uid)

    def check(self) -> None:
        """To be called when nothing is half done."""
        latest, self._latest = self._latest, None
        if latest is not None and latest[1] == self._storage.version:
            self._check_remembered(latest[0])
        assumed = self._storage.assumed()
        if assumed:
            self._check_needed(assumed)

    def _check_remembered(self, pod: Pod) -> None:
        """Claims that are not bound yet have been seen to; news of them since would change that.

        So would another pod with the same claim that gives back what it took for both, as it may.
        """
        node = self._cache.assumed.get(pod.metadata.uid)
        if node is None:
            return
        for key in claims_of(pod):
            claim = self._storage.claim(key)
            if claim is None or is_bound(claim) or len(self._users[key]) > 1:
                continue
            asks = claim.metadata.annotations.get(SELECTED_NODE) == node
            if not asks and not self._has_volume(claim):
                self._world.broken(REMEMBERED, f"{pod.key} to {node}, claim {key}")

    def _has_volume(self, claim: PersistentVolumeClaim) -> bool:
        volumes = (self._storage.volume(name) for name in self._storage.volumes)
        refs = (volume.spec.claim_ref for volume in volumes if volume is not None)
        return any(ref is not None and ref.uid == claim.metadata.uid for ref in refs)

    def _check_needed(self, assumed: list[Object]) -> None:
        """Nothing is taken for nobody.

        What has been written is on record until that is heard of; and a pod that is gone keeps what it has
        until whoever is about to bind it finds out.
        """
        pods = self._cache.table.pods
        wanted = {key for uid in self._cache.assumed if uid in pods for key in claims_of(pods[uid].pod)}
        for obj in assumed:
            needed = _claim_behind(obj) in wanted or self._is_written(obj)
            if not needed and not _is_binding():
                self._world.broken(NOT_TOO_MUCH, f"{obj.key} for {_claim_behind(obj)}")

    def _is_written(self, obj: Object) -> bool:
        resource = PERSISTENT_VOLUMES if isinstance(obj, PersistentVolume) else PERSISTENT_VOLUME_CLAIMS
        stored = self._world.store.find(resource, obj.namespace, obj.name)
        return stored is None or stored["metadata"]["resourceVersion"] != obj.metadata.resource_version


def _is_binding() -> bool:
    """Whether any pod is being bound that needs time for it: each has a task of its own."""
    return any(task.get_name() == "binding" for task in asyncio.all_tasks())


def _claim_behind(obj: Object) -> str:
    """The key of the claim for which something is taken."""
    if not isinstance(obj, PersistentVolume):
        return obj.key
    ref = obj.spec.claim_ref
    return "" if ref is None else f"{ref.namespace}/{ref.name}"
