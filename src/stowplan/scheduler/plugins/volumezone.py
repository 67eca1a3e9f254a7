"""VolumeZone: a pod goes where its volumes are, as far as labels of persistent volumes say where that is."""

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

import numpy as np

from stowplan.api.rules.csitranslation import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.scheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Hint,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    Signs,
    Status,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import Obstacle, Relevance, Shortfall
from stowplan.scheduler.table.attachments import class_name
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.storage import Storage

REASON = "node(s) had no available volume zone"

_KEYS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_OF_TODAY: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_ADD_OR_UPDATE: Final = Action.ADD | Action.UPDATE
_DELAYED: Final = "WaitForFirstConsumer"


class Place(NamedTuple):
    """A label that the node of a volume must have, with the values it may have."""

    key: str
    values: tuple[str, ...]


class VolumeZone(Plugin):
    """Compares the zone and region labels of a pod's volumes with those of nodes.

    Nodes without any such label are taken for nodes of a cluster without zones and pass.
    """

    contract = Contract(
        reads=Reads.NODE,
        signs=Signs.VOLUMES,
        needs=("persistentvolumes", "persistentvolumeclaims", "storageclasses"),
        constant_pre_filter=True,
        skips_deferred_resizes=True,
    )

    def sign(self, pod: PodInfo) -> Hashable:
        return self._places(pod)

    def events(self) -> Sequence[EventRegistration]:
        classes = ClusterEvent(Resource.STORAGE_CLASS, Action.ADD)
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        claims = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, _ADD_OR_UPDATE)
        volumes = ClusterEvent(Resource.PERSISTENT_VOLUME, _ADD_OR_UPDATE)
        return (
            EventRegistration(classes, self._after_new_class, by_template=True, ignores_labels=True),
            EventRegistration(nodes),
            EventRegistration(claims, self._after_claim_change, by_template=True, ignores_labels=True),
            EventRegistration(volumes, self._after_volume_change, by_template=True, ignores_labels=True),
        )

    @staticmethod
    def _after_new_class(pod: PodInfo, old: None, new: StorageClass) -> Hint:
        return queue_if(new.volume_binding_mode == _DELAYED)

    @staticmethod
    def _after_claim_change(
        pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
    ) -> Hint:
        return queue_if(new.namespace == pod.namespace and new.name in named_claims(pod))

    @staticmethod
    def _after_volume_change(pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
        return queue_if(old is None or places_of(old) != places_of(new))

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        places = self._places(pod)
        if isinstance(places, Status):
            return places
        if not places:
            return SKIP
        cycle.write(self, places)
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes:
        places: tuple[Place, ...] = cycle.read(self)
        zoned = np.zeros(nodes.count, dtype=np.bool_)
        for key in _KEYS:
            zoned |= nodes.labels(key) != 0
        elsewhere = np.zeros(nodes.count, dtype=np.bool_)
        for place in places:
            elsewhere |= ~_in_place(place, nodes)
        codes: Codes = (zoned & elsewhere).astype(np.int64)
        return codes

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        storage = self.handle.table.storage
        node = cycle.table.nodes[row]
        labels = {} if node is None else node.metadata.labels
        for name in named_claims(pod):
            volume = _volume_behind(storage, pod.namespace, name)
            if volume is None or isinstance(volume, Status):
                continue
            for place in places_of(volume):
                found = labels.get(place.key, labels.get(_OF_TODAY.get(place.key, "")))
                if found not in place.values:
                    where = " or ".join(place.values)
                    return Shortfall("volume zone", f"volume {volume.name} of claim {name} is in {where}")
        return None

    def relevance(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Codes:
        """Nodes of another zone than the volume's are out of its reach."""
        return np.full(len(rows), Relevance.KIND, dtype=np.int64)

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        found = self.shortfall(cycle, pod, int(rows[0]))
        return None if found is None else Obstacle(found.text)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON)

    def _places(self, pod: PodInfo) -> Status | tuple[Place, ...]:
        """Where the volumes of a pod are, each place once; or why that is not known."""
        storage = self.handle.table.storage
        found: dict[Place, None] = {}
        for name in named_claims(pod):
            volume = _volume_behind(storage, pod.namespace, name)
            if isinstance(volume, Status):
                return volume
            if volume is not None:
                found |= dict.fromkeys(places_of(volume))
        return tuple(found)


def named_claims(pod: PodInfo) -> list[str]:
    """The claims that a pod names itself, leaving out those made for it."""
    volumes = pod.template.volumes
    return [v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None]


def places_of(volume: PersistentVolume) -> list[Place]:
    """Where a volume is. A label that names no zone at some place of its list counts for nothing."""
    places = []
    for key in _KEYS:
        label = volume.metadata.labels.get(key)
        if label is None:
            continue
        values = {value.strip() for value in label.split(ZONE_DELIMITER)}
        if "" not in values:
            places.append(Place(key, tuple(sorted(values))))
    return places


def _volume_behind(storage: Storage, namespace: str, name: str) -> PersistentVolume | Status | None:
    """The volume of a claim; None if it will be made where the pod goes."""
    if not name:
        return unresolvable("PersistentVolumeClaim had no name")
    claim = storage.claims.get(f"{namespace}/{name}")
    if claim is None:
        return unresolvable(f'persistentvolumeclaim "{name}" not found')
    if not claim.spec.volume_name:
        return _why_unbound(storage, class_name(claim))
    volume = storage.volumes.get(claim.spec.volume_name)
    return volume or unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')


def _why_unbound(storage: Storage, name: str) -> Status | None:
    """Problem of a claim of a class that has no volume; None: it waits for its pod."""
    if not name:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = storage.classes.get(name)
    if storage_class is None:
        return unresolvable(f'storageclass.storage.k8s.io "{name}" not found')
    mode = storage_class.volume_binding_mode
    if mode is None:
        return unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
    return None if mode == _DELAYED else unresolvable("PersistentVolume had no name")


def _in_place(place: Place, nodes: NodeRows) -> BoolColumn:
    """Which rows have one of the values of a place; nodes without a label of old may have today's."""
    matches = _has_value(nodes, place.key, place.values)
    today = _OF_TODAY.get(place.key)
    if today is not None:
        matches |= (nodes.labels(place.key) == 0) & _has_value(nodes, today, place.values)
    return matches


def _has_value(nodes: NodeRows, key: str, values: tuple[str, ...]) -> BoolColumn:
    column = nodes.table.label_column(key)
    wanted = np.zeros(column.size, dtype=np.bool_)
    wanted[[column.index[value] for value in values if value in column.index]] = True
    result: BoolColumn = wanted[column.ids[nodes.rows]]
    return result
