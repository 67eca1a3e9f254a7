"""What people do to classes, volumes and claims in a run. They write to the store directly."""

from collections.abc import Callable

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, Resource
from stowplan.api.requests import PatchType
from stowplan.chaos.plan import NAMESPACE, Body
from stowplan.embedded.store import Store

Doing = Callable[[str, Body], object]


class StorageUsers:
    """Carries out what is about storage. Refusals are raised; whoever calls knows what to make of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.doing: dict[str, Doing] = {
            "put-class": lambda name, body: self._put(STORAGE_CLASSES, body),
            "put-volume": lambda name, body: self._put(PERSISTENT_VOLUMES, body),
            "put-claim": lambda name, body: self._put(PERSISTENT_VOLUME_CLAIMS, body),
            "delete-volume": lambda name, body: store.delete(PERSISTENT_VOLUMES, "", name),
            "delete-claim": lambda name, body: store.delete(PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name),
            "drop-volume": lambda name, body: self._drop(PERSISTENT_VOLUMES, "", name),
            "replace-claim": self._replace_claim,
            "free-volume": self._free_volume,
        }

    def _put(self, resource: Resource, body: Body) -> None:
        self._store.create(resource, body)

    def _drop(self, resource: Resource, namespace: str, name: str) -> None:
        """Remove an object whoever still uses it."""
        self._store.patch(resource, namespace, name, {"metadata": {"finalizers": None}}, PatchType.MERGE)
        self._store.delete(resource, namespace, name)

    def _replace_claim(self, name: str, body: Body) -> None:
        """Another claim has the name from now on, whoever uses the one before."""
        if self._store.find(PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name) is not None:
            self._drop(PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name)
        self._put(PERSISTENT_VOLUME_CLAIMS, body)

    def _free_volume(self, name: str, body: Body) -> None:
        """Let others have a volume whose claim is gone."""
        volume = self._store.get(PERSISTENT_VOLUMES, "", name)
        if volume.get("status", {}).get("phase") == "Released":
            self._store.patch(PERSISTENT_VOLUMES, "", name, {"spec": {"claimRef": None}}, PatchType.MERGE)
