"""Volumes, claims, classes and the driver information of nodes, as plugins look them up.

Assumed volumes and claims are visible until the API server confirms or contradicts them.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

from stowplan.api.meta import Object
from stowplan.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.scheduler.table.volumepools import CapacityPools, VolumeGroups

T = TypeVar("T", bound=Object)


class AssumeError(Exception):
    """An object that cannot be assumed: it is gone, or it has changed meanwhile."""


class Assumptions(Generic[T]):
    """Objects as they will be once what was decided about them is written.

    An assumption holds for one version of its object: when the API server tells of another, that is what
    counts. `known` are the objects as the API server told of them; `plural` is their name in messages.
    """

    __slots__ = ("_assumed", "_known", "_plural", "version")

    def __init__(self, known: Mapping[str, T], plural: str) -> None:
        self._known = known
        self._plural = plural
        self._assumed: dict[str, T] = {}
        self.version = 0

    def get(self, key: str) -> T | None:
        """An object as it is assumed to be, or else as it is; None if there is none."""
        return self._assumed.get(key) or self._known.get(key)

    def all(self) -> list[T]:
        """All current assumptions."""
        return list(self._assumed.values())

    def told(self, key: str) -> None:
        """The API server told of an object, or that it is gone."""
        assumed, known = self._assumed.get(key), self._known.get(key)
        if assumed is not None and (known is None or _version(known) != _version(assumed)):
            del self._assumed[key]

    def assume(self, obj: T) -> None:
        """Take an object to be as given. Raises AssumeError unless it was made from the version known."""
        key = obj.key
        known = self._known.get(key)
        if known is None:
            raise AssumeError(f'{self._plural} "{key}" not found')
        if _version(known) != _version(obj):
            raise AssumeError(f'"{key}" is out of sync (stored: {_version(known)}, assume: {_version(obj)})')
        self._assumed[key] = obj
        self.version += 1

    def restore(self, obj: T) -> bool:
        """Take back what was assumed; False if that was settled otherwise."""
        assumed = self._assumed.get(obj.key)
        if assumed is None or _version(assumed) != _version(obj):
            return False
        del self._assumed[obj.key]
        self.version += 1
        return True


def _version(obj: Object) -> str:
    return obj.metadata.resource_version


STORAGE_TYPES: Final = (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)


class Storage:
    """Storage objects by key (`namespace/name`, or the name for cluster-scoped ones).

    The dictionaries hold the objects of the API server. `volume` and `claim` return an object as it will be
    once the decision about it is written; `groups` has the free volumes, seen that way.

    `version` changes with every object, `assumed_version` with every assumption, `classes_version` with
    storage classes and CSI drivers and `nodes_version` with CSI nodes, so that cached results can be checked
    for age.
    """

    def __init__(self) -> None:
        self.volumes: dict[str, PersistentVolume] = {}
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.csi_drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, CSIStorageCapacity] = {}
        self.attachments: dict[str, VolumeAttachment] = {}
        self.groups = VolumeGroups()
        self.pools = CapacityPools()
        self.version = 0
        self.classes_version = 0
        self.nodes_version = 0
        self._volumes = Assumptions(self.volumes, "persistentvolumes")
        self._claims = Assumptions(self.claims, "persistentvolumeclaims")
        self._waiting: dict[tuple[type[Object], str], list[asyncio.Future[None]]] = {}

    def sizes(self) -> dict[str, int]:
        return {
            "volumes": len(self.volumes),
            "claims": len(self.claims),
            "storage classes": len(self.classes),
            "CSI nodes": len(self.csi_nodes),
            "CSI drivers": len(self.csi_drivers),
            "storage capacities": len(self.capacities),
            "volume attachments": len(self.attachments),
            "assumed volumes and claims": len(self.assumed()),
            "waits for storage objects": len(self._waiting),
            "capacity pools": len(self.pools.by_number),
            **self.groups.sizes(),
        }

    def put(self, obj: Object) -> None:
        """Take in an object, new or changed."""
        match obj:
            case PersistentVolume():
                self.volumes[obj.key] = obj
                self._volume_changed(obj.key)
            case PersistentVolumeClaim():
                self.claims[obj.key] = obj
                self._claims.told(obj.key)
            case StorageClass():
                self.classes[obj.key] = obj
                self.classes_version += 1
            case CSINode():
                self.csi_nodes[obj.key] = obj
                self.nodes_version += 1
            case CSIDriver():
                self.csi_drivers[obj.key] = obj
                self.classes_version += 1
            case CSIStorageCapacity():
                self.capacities[obj.key] = obj
                self.pools.put(obj)
            case VolumeAttachment():
                self.attachments[obj.key] = obj
        self._told(obj)

    def remove(self, obj: Object) -> None:
        """Forget an object."""
        match obj:
            case PersistentVolume():
                self.volumes.pop(obj.key, None)
                self._volume_changed(obj.key)
            case PersistentVolumeClaim():
                self.claims.pop(obj.key, None)
                self._claims.told(obj.key)
            case StorageClass():
                self.classes.pop(obj.key, None)
                self.classes_version += 1
            case CSINode():
                self.csi_nodes.pop(obj.key, None)
                self.nodes_version += 1
            case CSIDriver():
                self.csi_drivers.pop(obj.key, None)
                self.classes_version += 1
            case CSIStorageCapacity():
                self.capacities.pop(obj.key, None)
                self.pools.remove(obj.key)
            case VolumeAttachment():
                self.attachments.pop(obj.key, None)
        self._told(obj)

    # Assumed state

    @property
    def assumed_version(self) -> int:
        return self._volumes.version + self._claims.version

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume as it is assumed to be."""
        return self._volumes.get(name)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """A claim as it is assumed to be."""
        return self._claims.get(key)

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Take a volume to be as given until the API server tells otherwise. Raises AssumeError."""
        self._volumes.assume(volume)
        self.groups.put(volume)

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Take back what was assumed of a volume, unless the API server has told of it since."""
        if self._volumes.restore(volume):
            self.groups.put(self.volumes[volume.key])

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Take a claim to be as given until the API server tells otherwise. Raises AssumeError."""
        self._claims.assume(claim)

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Take back what was assumed of a claim, unless the API server has told of it since."""
        self._claims.restore(claim)

    def assumed(self) -> list[Object]:
        """Volumes and claims of which more is assumed than the API server has told."""
        return [*self._volumes.all(), *self._claims.all()]

    def exchange_assumed(self, objects: Iterable[Object]) -> list[Object]:
        """Assume these objects and no others; returns what was assumed until now. Raises AssumeError."""
        before = self.assumed()
        for obj in before:
            match obj:
                case PersistentVolume():
                    self.restore_volume(obj)
                case PersistentVolumeClaim():
                    self.restore_claim(obj)
        for obj in objects:
            match obj:
                case PersistentVolume():
                    self.assume_volume(obj)
                case PersistentVolumeClaim():
                    self.assume_claim(obj)
        return before

    def _volume_changed(self, key: str) -> None:
        self._volumes.told(key)
        volume = self._volumes.get(key)
        if volume is None:
            self.groups.remove(key)
        else:
            self.groups.put(volume)

    # Waiting

    async def changed(self, volumes: Iterable[str], claims: Iterable[str]) -> None:
        """Wait until the API server tells of one of these volumes and claims."""
        keys: list[tuple[type[Object], str]] = [(PersistentVolume, name) for name in volumes]
        keys += [(PersistentVolumeClaim, key) for key in claims]
        future = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, []).append(future)
        try:
            await future
        finally:
            for key in keys:
                self._waiting[key].remove(future)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _told(self, obj: Object) -> None:
        self.version += 1
        for future in self._waiting.get((type(obj), obj.key), ()):
            if not future.done():
                future.set_result(None)
