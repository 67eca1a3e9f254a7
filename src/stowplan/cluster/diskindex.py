"""Disks that pods name themselves, without a claim, and the rows where they are in use."""

from collections.abc import Iterator

from stowplan.api.pod import Volume

Disk = tuple[str, ...]


class Use:
    """How many pods of a row use a disk, and how many of them write to it."""

    __slots__ = ("all", "writing")

    def __init__(self) -> None:
        self.all = 0
        self.writing = 0


class DiskIndex:
    """Disk → row → how it is used there."""

    __slots__ = ("_uses",)

    def __init__(self) -> None:
        self._uses: dict[Disk, dict[int, Use]] = {}

    @property
    def size(self) -> int:
        """How many disks are in use."""
        return len(self._uses)

    def add(self, row: int, volume: Volume, delta: int) -> None:
        """A volume of a pod on a row comes (1) or goes (-1)."""
        for disk, writes in disks_of(volume):
            rows = self._uses.setdefault(disk, {})
            use = rows.get(row)
            if use is None:
                use = rows[row] = Use()
            use.all += delta
            use.writing += delta if writes else 0
            if not use.all:
                del rows[row]
                if not rows:
                    del self._uses[disk]

    def conflicting_rows(self, volume: Volume) -> set[int]:
        """Rows where a volume cannot be used because another pod uses the same disk."""
        return {
            row
            for disk, writes in disks_of(volume)
            for row, use in self._uses.get(disk, {}).items()
            if writes or use.writing
        }

    def conflicts_on(self, volume: Volume, row: int) -> bool:
        """Whether a row is among the conflicting ones."""
        for disk, writes in disks_of(volume):
            use = self._uses.get(disk, {}).get(row)
            if use is not None and (writes or use.writing):
                return True
        return False


def disks_of(volume: Volume) -> Iterator[tuple[Disk, bool]]:
    """The disks a volume is about, each with whether it is written to.

    Two pods that only read a disk do not get into each other's way. A block store of AWS is in the way of
    everybody. An image of a Ceph cluster is known by each of the cluster's monitors.
    """
    if volume.gce_persistent_disk is not None:
        gce = volume.gce_persistent_disk
        yield ("gce", gce.pd_name), not gce.read_only
    if volume.aws_elastic_block_store is not None:
        yield ("ebs", volume.aws_elastic_block_store.volume_id), True
    if volume.iscsi is not None:
        yield ("iscsi", volume.iscsi.iqn), not volume.iscsi.read_only
    if volume.rbd is not None:
        rbd = volume.rbd
        for monitor in dict.fromkeys(rbd.monitors):
            yield ("rbd", rbd.pool, rbd.image, monitor), not rbd.read_only


def conflict(one: Volume, other: Volume) -> bool:
    """Whether two volumes of different pods cannot be used on one node."""
    taken = dict(disks_of(other))
    return any(disk in taken and (writes or taken[disk]) for disk, writes in disks_of(one))
