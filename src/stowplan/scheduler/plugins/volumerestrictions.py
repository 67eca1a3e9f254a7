"""VolumeRestrictions: a disk is used by one pod of a node, a claim for one pod by one pod anywhere."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from stowplan.api.pod import Pod
from stowplan.api.storage import PersistentVolumeClaim
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
    unschedulable,
)
from stowplan.scheduler.framework.advanced import (
    ALL_ROWS,
    NODE_ADD,
    EventKeys,
    Obstacle,
    Remedy,
    Shortfall,
    StaleRows,
    ignoring_labels,
    pod_resources,
)
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.storage import Storage
from stowplan.scheduler.table.volumesinuse import DiskSource, conflict, disk_source

REASON_DISK = "node(s) had no available disk"

REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)

_FOR_ONE_POD: Final = "ReadWriteOncePod"
_IN_USE: Final = "claim in use"
_DISK, _CLAIM = 1, 2


class RestrictedVolumes(NamedTuple):
    """In-tree disks, claims for one pod only, the first claim that is missing."""

    disks: tuple[DiskSource, ...]
    for_one: tuple[str, ...]
    missing: str


NOTHING_RESTRICTED: Final = RestrictedVolumes((), (), "")


def restricted_volumes(pod: PodInfo, storage: Storage) -> RestrictedVolumes:
    """Restricted volumes of a pod."""
    disks: dict[DiskSource, None] = {}
    for_one: dict[str, None] = {}
    for volume in pod.template.volumes:
        named = volume.persistent_volume_claim
        if named is None:
            source = disk_source(volume)
            if source is not None:
                disks[source] = None
            continue
        claim = storage.claims.get(f"{pod.namespace}/{named.claim_name}")
        if claim is None:
            return RestrictedVolumes((), (), named.claim_name)
        if _FOR_ONE_POD in claim.spec.access_modes:
            for_one[named.claim_name] = None
    if not disks and not for_one:
        return NOTHING_RESTRICTED
    return RestrictedVolumes(tuple(disks), tuple(for_one), "")


class VolumeRestrictions(Plugin):
    """Finds rows where a disk is taken from the index of disks in use.

    The use of a claim for one pod only is the same for every row, until pods are imagined away.
    """

    contract = Contract(
        reads=Reads.USAGE,
        reads_others=Reads.ANYTHING,
        signs=Signs.VOLUMES,
        needs=("persistentvolumeclaims",),
        skips_deferred_resizes=True,
    )

    def sign(self, pod: PodInfo) -> Hashable:
        return self._wanted(pod)

    def events(self) -> Sequence[EventRegistration]:
        pods = ClusterEvent(pod_resources(self.handle.behaviour).of_assigned, Action.DELETE)
        claims = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
        return (
            ignoring_labels(pods, after_pod_deletion, BY_USED_CLAIM),
            EventRegistration(NODE_ADD),
            ignoring_labels(claims, after_new_claim, BY_CLAIM),
        )

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        wanted = self._wanted(pod)
        if wanted.missing:
            return unresolvable(f'persistentvolumeclaim "{wanted.missing}" not found')
        in_use = self._in_use(cycle, pod, wanted)
        if not wanted.disks and not in_use:
            return SKIP
        cycle.write(self, in_use)
        return None

    def stale_filter_rows(self, cycle: Cycle, pod: PodInfo, before: bool | None, now: bool) -> StaleRows:
        return NO_ROWS if before == now else ALL_ROWS

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        disks = nodes.table.volumes_in_use.disks
        taken = {row for volume in pod.template.volumes for row in disks.conflicting_rows(volume)}
        in_use: bool = cycle.read(self)
        if not taken and not in_use:
            return None
        codes = np.full(nodes.table.capacity, _CLAIM if in_use else 0, dtype=np.int64)
        codes[list(taken)] = _DISK
        result: Codes = codes[nodes.rows]
        return result

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        disks = cycle.table.volumes_in_use.disks
        if any(disks.conflicts_on(volume, row) for volume in pod.template.volumes):
            return _DISK
        return _CLAIM if cycle.read(self) else 0

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        return True

    def ignores_pods(self, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> bool:
        return not any(other.template.volumes for other in others)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unschedulable(REASON_DISK if code == _DISK else REASON_CLAIM)

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        table = cycle.table
        for other in table.pods_on[row].values():
            for volume in pod.template.volumes:
                for used in other.template.volumes:
                    if conflict(volume, used):
                        return Shortfall("disk in use", f"{other.key} uses the disk of volume {volume.name}")
        names = self._wanted(pod).for_one
        for other in table.pods.values():
            if other.row >= 0 and other.namespace == pod.namespace and references(other, names):
                claim = next(name for name in names if references(other, (name,)))
                where = table.name_of(other.row)
                text = f"claim {claim} is {_FOR_ONE_POD}, and {other.key} on {where} uses it"
                return Shortfall(_IN_USE, text)
        return None

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        found = self.shortfall(cycle, pod, int(rows[0]))
        if found is None:
            return None
        return Obstacle(found.text, "cluster" if found.about == _IN_USE else "on")

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        """The end of the pod that uses a claim for one pod only: it is not on the rejected node."""
        names = self._wanted(pod).for_one
        for other in cycle.table.pods.values():
            if other.row >= 0 and other.namespace == pod.namespace and references(other, names):
                yield Remedy("freePod", f"{other.key} ends", {}, action={"delete": other.key})

    def _wanted(self, pod: PodInfo) -> RestrictedVolumes:
        return restricted_volumes(pod, self.handle.table.storage)

    def _in_use(self, cycle: Cycle, pod: PodInfo, wanted: RestrictedVolumes) -> bool:
        """True if claims for one pod only are in use by others.

        Imagined pods, added or removed, are compared by the names of their claims alone, regardless of their
        namespaces.
        """
        if not wanted.for_one:
            return False
        used = used_for_one(cycle, pod.namespace, wanted.for_one)
        simulated = cycle.simulated
        if simulated is not None:
            for one in simulated.rows:
                used += sum(references(guest, wanted.for_one) for guest in one.added)
                used -= sum(references(gone, wanted.for_one) for gone in one.removed.values())
        return used > 0


def references(pod: PodInfo, names: Collection[str]) -> int:
    """Number of a pod's volumes that name one of some claims."""
    return sum(
        volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name in names
        for volume in pod.template.volumes
    )


def used_for_one(cycle: Cycle, namespace: str, names: Collection[str]) -> int:
    """Number of given claims in use by pods on nodes, including pods imagined away."""
    claims = cycle.table.volumes_in_use.claims
    return sum(
        claims.get(f"{namespace}/{name}", 0) + _imagined_away(cycle, namespace, name) > 0 for name in names
    )


def _imagined_away(cycle: Cycle, namespace: str, name: str) -> int:
    """Number of uses of a claim that the table lacks because pods are imagined away; guests count against."""
    simulated = cycle.simulated
    if simulated is None:
        return 0
    away = 0
    for one in simulated.rows:
        away += sum(references(pod, (name,)) for pod in one.removed.values() if pod.namespace == namespace)
        away -= sum(references(pod, (name,)) for pod in one.added if pod.namespace == namespace)
    return away


def after_pod_deletion(pod: PodInfo, old: Pod, new: None) -> Hint:
    """A pod of the namespace is gone that used one of the disks, or a claim of that name."""
    if old.namespace != pod.namespace:
        return Hint.SKIP
    volumes = pod.template.volumes
    if any(conflict(volume, other) for volume in volumes for other in old.spec.volumes):
        return Hint.QUEUE
    claims = _named(pod)
    return queue_if(
        any(
            volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name in claims
            for volume in old.spec.volumes
        )
    )


def after_new_claim(pod: PodInfo, old: None, new: PersistentVolumeClaim) -> Hint:
    """A claim that the pod names is there."""
    return queue_if(new.namespace == pod.namespace and new.name in _named(pod))


def _named(pod: PodInfo) -> set[str]:
    volumes = pod.template.volumes
    return {v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None}


def _looked_for(pod: PodInfo) -> list[Hashable] | None:
    """The claims that a waiting pod names; None if it has disks as well."""
    if any(volume.persistent_volume_claim is None for volume in pod.template.volumes):
        return None
    return [(pod.namespace, name) for name in sorted(_named(pod))]


def _used(old: Pod, new: None) -> list[Hashable]:
    claims = [volume.persistent_volume_claim for volume in old.spec.volumes]
    return [(old.namespace, claim.claim_name) for claim in claims if claim is not None]


def _new(old: None, new: PersistentVolumeClaim) -> list[Hashable]:
    return [(new.namespace, new.name)]


BY_USED_CLAIM: Final = EventKeys(_looked_for, _used)
BY_CLAIM: Final = EventKeys(_looked_for, _new)
