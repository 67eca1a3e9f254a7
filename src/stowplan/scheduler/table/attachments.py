"""Which volumes of a pod have to be attached to its node, and how many are by driver and row."""

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from stowplan.api.pod import Pod, Volume
from stowplan.api.rules.csitranslation import (
    AWS_EBS,
    AZURE_DISK,
    CINDER,
    GCE_PD,
    TranslationError,
    in_tree_kind,
    kind_of_plugin,
    translated_inline,
    translated_source,
)
from stowplan.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
)
from stowplan.scheduler.table.columns import BoolColumn, IntColumn
from stowplan.scheduler.table.storage import Storage

_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"

Source = tuple[type, str]
"""A storage object that an answer rests on, by its type and key; it need not exist."""


class Attachable(NamedTuple):
    """A volume as a driver counts it. One that is yet to be made has no handle, but a claim.

    Volumes of built-in kinds are known twice: under the name of their CSI driver, and with the old name of
    their kind as the driver, for those who still count by kind.
    """

    driver: str
    handle: str
    claim: str = ""


class Trouble(Enum):
    """Problems with a volume of a pod."""

    MISSING = "missing"
    """Its claim does not exist."""
    WRONG = "wrong"
    """Its claim is not the pod's own, or has no name."""
    NOT_TRANSLATED = "not translated"
    """Its CSI driver cannot be told of it."""


class AttachmentProblem(NamedTuple):
    """Why the volumes of a pod are not known."""

    trouble: Trouble
    message: str


class Needs(NamedTuple):
    """The volumes a pod needs, each once, and the first problem with them.

    `sources` are the storage objects this rests on.
    """

    volumes: tuple[Attachable, ...]
    problem: AttachmentProblem | None
    sources: tuple[Source, ...]


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim a volume of a pod is about, None if it is about none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def class_name(claim: PersistentVolumeClaim) -> str:
    """The storage class of a claim; an annotation of old goes first."""
    annotated = claim.metadata.annotations.get(_CLASS_ANNOTATION)
    return (claim.spec.storage_class_name or "") if annotated is None else annotated


def is_made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """True if a claim was created for this very pod."""
    owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    return claim.namespace == pod.namespace and owner is not None and owner.uid == pod.metadata.uid


def not_made_for(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """The error about a claim with the name of a pod's own that was not made for it."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def needs_of(pod: Pod, volumes: Iterable[Volume], storage: Storage, *, migrated: bool, new: bool) -> Needs:
    """Attachments that a pod needs.

    `migrated`: on a node that has a CSINode, where volumes of in-tree kinds belong to CSI drivers. For a
    `new` pod the first missing claim is a problem; a running pod does without it.
    """
    search = _Search(pod, storage, migrated, new)
    for volume in volumes:
        search.look_at(volume)
        if search.problem is not None:
            break
    return Needs(tuple(search.found), search.problem, tuple(search.sources))


class _Search:
    """The volumes of one pod, looked at one after the other."""

    __slots__ = ("_migrated", "_new", "_pod", "_storage", "found", "problem", "sources")

    def __init__(self, pod: Pod, storage: Storage, migrated: bool, new: bool) -> None:
        self._pod = pod
        self._storage = storage
        self._migrated = migrated
        self._new = new
        self.found: dict[Attachable, None] = {}
        self.sources: dict[Source, None] = {}
        self.problem: AttachmentProblem | None = None

    def look_at(self, volume: Volume) -> None:
        name = claim_name(self._pod, volume)
        if name is None:
            self._inline(volume)
        elif not name:
            self.problem = AttachmentProblem(Trouble.WRONG, "PersistentVolumeClaim had no name")
        else:
            self._claimed(name, volume.ephemeral is not None and volume.persistent_volume_claim is None)

    def _inline(self, volume: Volume) -> None:
        kind = in_tree_kind(volume)
        if kind is None:
            return
        self._by_kind(volume)
        if not (self._migrated and kind.migrated):
            return
        try:
            source = translated_inline(volume, self._pod.namespace)
        except TranslationError as error:
            text = f"converting volume({volume.name}) from inline to csi: {error}"
            self.problem = AttachmentProblem(Trouble.NOT_TRANSLATED, text)
            return
        self.found[Attachable(source.driver, source.volume_handle)] = None

    def _claimed(self, name: str, own: bool) -> None:
        key = f"{self._pod.namespace}/{name}"
        self.sources[PersistentVolumeClaim, key] = None
        claim = self._storage.claims.get(key)
        if claim is None:
            if self._new:
                text = f'looking up PVC {key}: persistentvolumeclaim "{name}" not found'
                self.problem = AttachmentProblem(Trouble.MISSING, text)
        elif own and not is_made_for(claim, self._pod):
            self.problem = AttachmentProblem(Trouble.WRONG, not_made_for(claim, self._pod))
        else:
            self._behind(claim)

    def _behind(self, claim: PersistentVolumeClaim) -> None:
        """The volume of a claim, or the one that will be made for it."""
        name = claim.spec.volume_name
        if name:
            self.sources[PersistentVolume, name] = None
        volume = self._storage.volumes.get(name) if name else None
        if volume is None:
            self._to_be_made(claim)
        elif volume.spec.csi is not None:
            self._counted(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        else:
            self._built_in(volume)

    def _built_in(self, volume: PersistentVolume) -> None:
        kind = in_tree_kind(volume.spec)
        if kind is None:
            return
        self._by_kind(volume.spec)
        if not (self._migrated and kind.migrated):
            return
        try:
            source = translated_source(volume)
        except TranslationError:
            return
        self._counted(source.driver, source.volume_handle)

    def _counted(self, driver: str, handle: str) -> None:
        if driver and handle:
            self.found[Attachable(driver, handle)] = None

    def _to_be_made(self, claim: PersistentVolumeClaim) -> None:
        named = class_name(claim)
        storage_class = self._class(named)
        provisioner = storage_class.provisioner if storage_class is not None else ""
        kind = kind_of_plugin(provisioner)
        if kind is None:
            if provisioner:
                self.found[Attachable(provisioner, "", claim.key)] = None
        elif self._migrated and kind.migrated:
            self.found[Attachable(kind.driver, "", claim.key)] = None
        if claim.spec.storage_class_name != named:
            storage_class = self._class(claim.spec.storage_class_name or "")
            provisioner = storage_class.provisioner if storage_class is not None else ""
        if provisioner in COUNTED_BY_KIND:
            self.found[Attachable(provisioner, "", claim.key)] = None

    def _class(self, name: str) -> StorageClass | None:
        if not name:
            return None
        self.sources[StorageClass, name] = None
        return self._storage.classes.get(name)

    def _by_kind(self, holder: Volume | PersistentVolumeSpec) -> None:
        """Count a volume of a built-in kind under the kind's own name, too."""
        if holder.aws_elastic_block_store is not None:
            self.found[Attachable(AWS_EBS, holder.aws_elastic_block_store.volume_id)] = None
        elif holder.gce_persistent_disk is not None:
            self.found[Attachable(GCE_PD, holder.gce_persistent_disk.pd_name)] = None
        elif holder.azure_disk is not None:
            self.found[Attachable(AZURE_DISK, holder.azure_disk.disk_name)] = None
        elif holder.cinder is not None:
            self.found[Attachable(CINDER, holder.cinder.volume_id)] = None


COUNTED_BY_KIND: Final = frozenset((AWS_EBS, GCE_PD, AZURE_DISK, CINDER))
"""In-tree volume kinds that are counted by kind as well as by CSI driver."""


NO_LIMIT: Final = 1 << 40
"""More volumes than there are."""

RowCounts = dict[int, int]
NO_ROWS_COUNTED: Final[RowCounts] = {}


class AttachCounts:
    """A line of counts and one of limits per driver, by row.

    A volume is attached to a row if pods there use it or an attachment says so; it counts once, however many
    do. `users` says on which rows how many pods use a volume.
    """

    __slots__ = (
        "_attached",
        "_capacity",
        "_counted",
        "_counts",
        "_installed",
        "_installed_rows",
        "_limited_rows",
        "_limits",
        "_nodes",
        "has_csi_node",
        "limited",
        "users",
    )

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.users: dict[Attachable, RowCounts] = {}
        self._attached: dict[Attachable, RowCounts] = {}
        self._counts: dict[str, IntColumn] = {}
        self._counted: Counter[str] = Counter()
        """By driver, how many volumes are attached in all."""
        self._limited_rows: dict[str, RowCounts] = {}
        """By driver, the rows where it has a limit."""
        self._installed_rows: dict[str, set[int]] = {}
        self._limits: dict[str, IntColumn] = {}
        """The same as a column, for the drivers that were queried, here and below."""
        self._installed: dict[str, BoolColumn] = {}
        self._nodes: dict[int, CSINode] = {}
        self.has_csi_node: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        self.limited: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        """Rows where some driver has a limit."""

    def resize(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        self._counts = {driver: _grown(line, capacity, 0) for driver, line in self._counts.items()}
        self._limits = {driver: _grown(line, capacity, NO_LIMIT) for driver, line in self._limits.items()}
        self._installed = {driver: _grown_mask(line, capacity) for driver, line in self._installed.items()}
        self.has_csi_node = _grown_mask(self.has_csi_node, capacity)
        self.limited = _grown_mask(self.limited, capacity)

    # Looking

    def counts(self, driver: str) -> IntColumn:
        """Number of attached volumes of a driver, by row."""
        line = self._counts.get(driver)
        return np.zeros(self._capacity, dtype=np.int64) if line is None else line

    def limits(self, driver: str) -> IntColumn | None:
        """Attach limit of a driver, by row; None if no node sets one."""
        rows = self._limited_rows.get(driver)
        if rows is None:
            return None
        line = self._limits.get(driver)
        if line is None:
            line = self._limits[driver] = np.full(self._capacity, NO_LIMIT, dtype=np.int64)
            line[list(rows)] = list(rows.values())
        return line

    def installed(self, driver: str) -> BoolColumn:
        """On which rows a driver is installed."""
        line = self._installed.get(driver)
        if line is None:
            line = np.zeros(self._capacity, dtype=np.bool_)
            rows = self._installed_rows.get(driver)
            if rows is not None:
                line[list(rows)] = True
                self._installed[driver] = line
        return line

    # Changes

    def use(self, volume: Attachable, row: int, delta: int) -> None:
        """A pod that uses a volume comes to a row (1) or leaves it (-1)."""
        self._shift(self.users, self._attached, volume, row, delta)

    def attach(self, volume: Attachable, row: int, delta: int) -> None:
        """An attachment of a volume to a row appears (1) or is gone (-1)."""
        self._shift(self._attached, self.users, volume, row, delta)

    def _shift(
        self,
        mine: dict[Attachable, RowCounts],
        others: dict[Attachable, RowCounts],
        volume: Attachable,
        row: int,
        delta: int,
    ) -> None:
        rows = mine.setdefault(volume, {})
        before = rows.get(row, 0)
        after = before + delta
        if after:
            rows[row] = after
        else:
            del rows[row]
            if not rows:
                del mine[volume]
        if bool(before) != bool(after) and row not in others.get(volume, NO_ROWS_COUNTED):
            self._count(volume.driver, row, delta)

    def _count(self, driver: str, row: int, delta: int) -> None:
        line = self._counts.get(driver)
        if line is None:
            line = self._counts[driver] = np.zeros(self._capacity, dtype=np.int64)
        line[row] += delta
        self._counted[driver] += delta
        if not self._counted[driver]:
            del self._counted[driver], self._counts[driver]

    def sizes(self) -> dict[str, int]:
        return {
            "volumes used by pods": len(self.users),
            "volumes attached": len(self._attached),
            "drivers with volumes": len(self._counts),
            "drivers with limits": len(self._limited_rows),
            "drivers installed": len(self._installed_rows),
            "rows with a CSI node": len(self._nodes),
        }

    def set_csi_node(self, row: int, csi_node: CSINode | None) -> None:
        """Set the driver information of a row's node; None if there is none."""
        old = self._nodes.pop(row, None)
        if old is not None:
            for name in {driver.name for driver in old.spec.drivers}:
                self._uninstall(name, row)
        self.has_csi_node[row] = csi_node is not None
        self.limited[row] = False
        if csi_node is None:
            return
        self._nodes[row] = csi_node
        for driver in csi_node.spec.drivers:
            self._install(driver.name, row)
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self._limit(driver.name, row, driver.allocatable.count)
                self.limited[row] = True

    def _install(self, driver: str, row: int) -> None:
        self._installed_rows.setdefault(driver, set()).add(row)
        if driver in self._installed:
            self._installed[driver][row] = True

    def _limit(self, driver: str, row: int, count: int) -> None:
        self._limited_rows.setdefault(driver, {})[row] = count
        if driver in self._limits:
            self._limits[driver][row] = count

    def _uninstall(self, driver: str, row: int) -> None:
        installed, limited = self._installed_rows[driver], self._limited_rows.get(driver, {})
        installed.discard(row)
        limited.pop(row, None)
        if driver in self._installed:
            self._installed[driver][row] = False
        if driver in self._limits:
            self._limits[driver][row] = NO_LIMIT
        if not limited:
            self._limited_rows.pop(driver, None)
            self._limits.pop(driver, None)
        if not installed:
            del self._installed_rows[driver]
            self._installed.pop(driver, None)


def _grown(line: IntColumn, capacity: int, filler: int) -> IntColumn:
    grown: IntColumn = np.full(capacity, filler, dtype=np.int64)
    grown[: len(line)] = line
    return grown


def _grown_mask(line: BoolColumn, capacity: int) -> BoolColumn:
    grown: BoolColumn = np.zeros(capacity, dtype=np.bool_)
    grown[: len(line)] = line
    return grown
