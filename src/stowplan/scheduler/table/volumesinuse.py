"""Use of volumes by pods on nodes, counted by row and kept current with pods and storage objects."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from stowplan.api.meta import Object
from stowplan.api.pod import ISCSI, RBD, AWSElasticBlockStore, GCEPersistentDisk, Volume
from stowplan.api.storage import CSINode, PersistentVolume, VolumeAttachment
from stowplan.scheduler.table.attachments import (
    Attachable,
    AttachCounts,
    AttachmentProblem,
    Needs,
    Source,
    Trouble,
    needs_of,
)
from stowplan.scheduler.table.changes import ChangeLog
from stowplan.scheduler.table.columns import Interned
from stowplan.scheduler.table.podinfo import PodInfo, PodTemplate
from stowplan.scheduler.table.storage import Storage

Disk = tuple[str, ...]
DiskSource = tuple[GCEPersistentDisk | None, AWSElasticBlockStore | None, ISCSI | None, RBD | None]


class DiskUse(NamedTuple):
    """How a volume uses a disk. An image of Ceph is the same disk where two uses share a monitor."""

    writes: bool
    monitors: frozenset[str] | None = None

    def conflicts(self, other: "DiskUse") -> bool:
        """True if pods cannot use the disk on one node in these two ways: two readers do not conflict."""
        if not self.writes and not other.writes:
            return False
        if self.monitors is None or other.monitors is None:
            return True
        return not self.monitors.isdisjoint(other.monitors)


class DiskIndex:
    """Which disks are in use on which rows."""

    __slots__ = ("_uses",)

    def __init__(self) -> None:
        self._uses: dict[Disk, dict[int, Counter[DiskUse]]] = {}

    @property
    def size(self) -> int:
        """Number of disks in use."""
        return len(self._uses)

    def add(self, row: int, volume: Volume, delta: int) -> None:
        """A volume of a pod on a row comes (1) or goes (-1)."""
        for disk, use in disks_of(volume):
            rows = self._uses.setdefault(disk, {})
            uses = rows.setdefault(row, Counter())
            uses[use] += delta
            if uses[use]:
                continue
            del uses[use]
            if not uses:
                del rows[row]
            if not rows:
                del self._uses[disk]

    def conflicting_rows(self, volume: Volume) -> set[int]:
        """Rows where a volume cannot be used because another pod uses the same disk."""
        if not self._uses:
            return set()
        return {
            row
            for disk, use in disks_of(volume)
            for row, others in self._uses.get(disk, {}).items()
            if any(map(use.conflicts, others))
        }

    def conflicts_on(self, volume: Volume, row: int) -> bool:
        """True if a volume conflicts with a row."""
        if not self._uses:
            return False
        return any(
            any(map(use.conflicts, self._uses.get(disk, {}).get(row, ()))) for disk, use in disks_of(volume)
        )


def disks_of(volume: Volume) -> Iterator[tuple[Disk, DiskUse]]:
    """The disks a volume is about, and how it uses them. A block store of AWS is in the way of everybody."""
    if volume.gce_persistent_disk is not None:
        gce = volume.gce_persistent_disk
        yield ("gce", gce.pd_name), DiskUse(not gce.read_only)
    if volume.aws_elastic_block_store is not None:
        yield ("ebs", volume.aws_elastic_block_store.volume_id), DiskUse(True)
    if volume.iscsi is not None:
        yield ("iscsi", volume.iscsi.iqn), DiskUse(not volume.iscsi.read_only)
    if volume.rbd is not None and volume.rbd.monitors:
        rbd = volume.rbd
        yield ("rbd", rbd.pool, rbd.image), DiskUse(not rbd.read_only, frozenset(rbd.monitors))


def disk_source(volume: Volume) -> DiskSource | None:
    """All that `disks_of` looks at; None if the volume has no disks."""
    gce, ebs = volume.gce_persistent_disk, volume.aws_elastic_block_store
    source = (gce, ebs, volume.iscsi, volume.rbd)
    return None if source == (None, None, None, None) else source


def conflict(one: Volume, other: Volume) -> bool:
    """True if two volumes of different pods cannot be used on one node."""
    taken = dict(disks_of(other))
    return any(disk in taken and use.conflicts(taken[disk]) for disk, use in disks_of(one))


class _Attachment(NamedTuple):
    """An attachment as it was counted: for what node, which volume (None: it counts for nothing)."""

    obj: VolumeAttachment
    volume: Attachable | None


class VolumesInUse:
    """Disks, claims and attached volumes of the pods on nodes.

    A pod's claims lead to volumes through objects that change. The volumes that were counted for a pod are
    remembered along with those objects, and counted anew when one of them changes. Rows where that made a
    difference go into the table's log of usage.
    """

    def __init__(
        self, storage: Storage, log: ChangeLog, row_of: Callable[[str], int | None], capacity: int
    ) -> None:
        self._storage = storage
        self._log = log
        self._row_of = row_of
        self.disks = DiskIndex()
        self.claims: dict[str, int] = {}
        """Number of volumes of pods on nodes that name a claim."""
        self.attached = AttachCounts(capacity)
        self.faults: dict[int, dict[str, int]] = {}
        """Row → pods there whose volumes cannot be told → the number of the problem, see `problem`."""
        self._problems: Interned[AttachmentProblem | None] = Interned(None)
        self._needs: dict[str, Needs] = {}
        self._users: dict[Source, dict[str, PodInfo]] = {}
        self._attachments: dict[str, _Attachment] = {}
        self._attachments_to: dict[str, dict[str, None]] = {}
        self._attachments_of: dict[str, dict[str, None]] = {}

    # Pods

    def count(self, info: PodInfo, row: int, sign: int) -> None:
        """A pod with volumes comes to a row (1) or leaves it (-1)."""
        self._count_named(info.template, row, sign)
        if sign > 0:
            self._take_in(info, row, self._needs_of(info))
        elif info.uid in self._needs:
            self._let_go(info, row)

    def _count_named(self, template: PodTemplate, row: int, sign: int) -> None:
        """Count what does not depend on storage objects: disks and claims by name."""
        for volume in template.volumes:
            self.disks.add(row, volume, sign)
            if volume.persistent_volume_claim is not None:
                key = f"{template.pod.namespace}/{volume.persistent_volume_claim.claim_name}"
                count = self.claims.get(key, 0) + sign
                if count:
                    self.claims[key] = count
                else:
                    del self.claims[key]

    def _needs_of(self, info: PodInfo) -> Needs:
        return needs_of(info.pod, info.template.volumes, self._storage, migrated=True, new=False)

    def _take_in(self, info: PodInfo, row: int, needs: Needs) -> None:
        if not needs.sources and not needs.volumes and needs.problem is None:
            return
        self._needs[info.uid] = needs
        for source in needs.sources:
            self._users.setdefault(source, {})[info.uid] = info
        for volume in needs.volumes:
            self.attached.use(volume, row, 1)
        if needs.problem is not None:
            self.faults.setdefault(row, {})[info.uid] = self._problems.exchange(0, needs.problem)

    def _let_go(self, info: PodInfo, row: int) -> None:
        needs = self._needs.pop(info.uid)
        for source in needs.sources:
            users = self._users[source]
            del users[info.uid]
            if not users:
                del self._users[source]
        for volume in needs.volumes:
            self.attached.use(volume, row, -1)
        if needs.problem is not None:
            self._problems.release(self.faults[row].pop(info.uid))
            if not self.faults[row]:
                del self.faults[row]

    def problem(self, number: int) -> AttachmentProblem:
        """The problem with a number that some pod on a row has."""
        problem = self._problems.value(number)
        assert problem is not None
        return problem

    def sizes(self) -> dict[str, int]:
        return {
            "disks in use": self.disks.size,
            "claims in use": len(self.claims),
            "rows with problems of volumes": len(self.faults),
            "problems of volumes": len(self._problems) - 1,
            "pods with volumes": len(self._needs),
            "storage objects in use": len(self._users),
            "attachments counted": len(self._attachments),
            "nodes with attachments": len(self._attachments_to),
            "volumes with attachments": len(self._attachments_of),
            **self.attached.sizes(),
        }

    def fault(self, row: int, trouble: Trouble | None = None) -> int:
        """The number of a problem (of some kind) with pods of a row, the first by its text; 0: none."""
        found = {
            problem.message: number
            for number in self.faults.get(row, {}).values()
            if (problem := self._problems.value(number)) is not None and trouble in (None, problem.trouble)
        }
        return found[min(found)] if found else 0

    # Nodes

    def node_added(self, name: str, row: int) -> None:
        """A node got a row."""
        self.attached.set_csi_node(row, self._storage.csi_nodes.get(name))
        self._attach_all(name, row, 1)

    def node_removed(self, name: str, row: int) -> None:
        """A node lost its row; its pods have left."""
        self.attached.set_csi_node(row, None)
        self._attach_all(name, row, -1)

    def _attach_all(self, node: str, row: int, delta: int) -> None:
        for key in self._attachments_to.get(node, ()):
            volume = self._attachments[key].volume
            if volume is not None:
                self.attached.attach(volume, row, delta)

    # Storage objects

    def storage_changed(self, obj: Object) -> None:
        """A storage object is new, changed or gone; the storage knows already."""
        for info in tuple(self._users.get((type(obj), obj.key), {}).values()):
            self._count_again(info)
        if isinstance(obj, PersistentVolume):
            for key in tuple(self._attachments_of.get(obj.key, ())):
                self._attachment_changed(key)
        elif isinstance(obj, VolumeAttachment):
            self._attachment_changed(obj.key)
        elif isinstance(obj, CSINode):
            row = self._row_of(obj.key)
            if row is not None:
                self.attached.set_csi_node(row, self._storage.csi_nodes.get(obj.key))
                self._log.append(row)

    def _count_again(self, info: PodInfo) -> None:
        needs = self._needs_of(info)
        if needs == self._needs[info.uid]:
            return
        self._let_go(info, info.row)
        self._take_in(info, info.row, needs)
        self._log.append(info.row)

    def _attachment_changed(self, key: str) -> None:
        old = self._attachments.get(key)
        if old is not None:
            self._forget_attachment(key, old)
        obj = self._storage.attachments.get(key)
        if obj is not None:
            self._note_attachment(key, _Attachment(obj, self._attached_volume(obj)))

    def _forget_attachment(self, key: str, known: _Attachment) -> None:
        del self._attachments[key]
        for index, by in self._indexes(known.obj):
            del index[by][key]
            if not index[by]:
                del index[by]
        self._attach(known, -1)

    def _note_attachment(self, key: str, known: _Attachment) -> None:
        self._attachments[key] = known
        for index, by in self._indexes(known.obj):
            index.setdefault(by, {})[key] = None
        self._attach(known, 1)

    def _indexes(self, obj: VolumeAttachment) -> tuple[tuple[dict[str, dict[str, None]], str], ...]:
        volume = obj.spec.source.persistent_volume_name or ""
        return (self._attachments_to, obj.spec.node_name), (self._attachments_of, volume)

    def _attach(self, known: _Attachment, delta: int) -> None:
        row = self._row_of(known.obj.spec.node_name)
        if row is not None and known.volume is not None:
            self.attached.attach(known.volume, row, delta)
            self._log.append(row)

    def _attached_volume(self, obj: VolumeAttachment) -> Attachable | None:
        """The volume of an attachment, as far as it is known to be one of a CSI driver."""
        volume = self._storage.volumes.get(obj.spec.source.persistent_volume_name or "")
        if not obj.spec.attacher or volume is None or volume.spec.csi is None:
            return None
        return Attachable(obj.spec.attacher, volume.spec.csi.volume_handle)
