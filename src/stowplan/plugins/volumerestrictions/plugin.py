"""VolumeRestrictions: a disk is used by one pod of a node, a claim for one pod by one pod anywhere."""

from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.events import (
    NODE_ADD,
    Action,
    ClusterEvent,
    EventRegistration,
    Resource,
)
from stowplan.framework.interface import ALL_ROWS, Codes, Plugin, Reads, StaleRows
from stowplan.framework.status import SKIP, Status, unresolvable, unschedulable
from stowplan.plugins.volumerestrictions.claims import references, used_for_one
from stowplan.plugins.volumerestrictions.hints import after_new_claim, after_pod_deletion
from stowplan.plugins.volumerestrictions.wanted import Wanted, wanted_by

REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)

_DISK, _CLAIM = 1, 2


class VolumeRestrictions(Plugin):
    """Finds rows where a disk is taken from the index of disks in use.

    Whether a claim for one pod only is in use is the same for every row, until pods are imagined away.
    """

    reads = Reads.USAGE
    row_local = False
    signs_volumes = True

    def sign(self, pod: PodInfo) -> Hashable:
        return self._wanted(pod)

    def events(self) -> Sequence[EventRegistration]:
        pods = ClusterEvent(Resource.POD, Action.DELETE)
        claims = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
        return (
            EventRegistration(pods, after_pod_deletion, by_template=True),
            EventRegistration(NODE_ADD),
            EventRegistration(claims, after_new_claim, by_template=True),
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

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unschedulable(REASON_DISK if code == _DISK else REASON_CLAIM)

    def _wanted(self, pod: PodInfo) -> Wanted:
        return wanted_by(pod, self.handle.table.storage)

    def _in_use(self, cycle: Cycle, pod: PodInfo, wanted: Wanted) -> bool:
        """Whether claims for one pod only are in use by others.

        Where pods are imagined to be gone or to be there, what they stand for is told by the names of their
        claims alone, whatever their namespaces.
        """
        if not wanted.for_one:
            return False
        used = used_for_one(cycle, pod.namespace, wanted.for_one)
        as_if = cycle.as_if
        if as_if is not None:
            used += sum(references(guest, wanted.for_one) for guest in as_if.guests)
            used -= sum(references(gone, wanted.for_one) for gone in as_if.gone.values())
        return used > 0
