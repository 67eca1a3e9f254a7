"""What a pod wants that others may stand in the way of."""

from typing import Final, NamedTuple

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.storage import Storage
from stowplan.cluster.volumesinuse import Disk, disks_of

_FOR_ONE_POD: Final = "ReadWriteOncePod"


class Wanted(NamedTuple):
    """Disks with whether they are written to, claims for one pod only, the first claim that is missing."""

    disks: tuple[tuple[Disk, bool], ...]
    for_one: tuple[str, ...]
    missing: str


NOTHING_WANTED: Final = Wanted((), (), "")


def wanted_by(pod: PodInfo, storage: Storage) -> Wanted:
    """What a pod with volumes wants."""
    disks: dict[tuple[Disk, bool], None] = {}
    for_one: dict[str, None] = {}
    for volume in pod.template.volumes:
        named = volume.persistent_volume_claim
        if named is None:
            disks |= dict.fromkeys(disks_of(volume))
            continue
        claim = storage.claims.get(f"{pod.namespace}/{named.claim_name}")
        if claim is None:
            return Wanted((), (), named.claim_name)
        if _FOR_ONE_POD in claim.spec.access_modes:
            for_one[named.claim_name] = None
    if not disks and not for_one:
        return NOTHING_WANTED
    return Wanted(tuple(disks), tuple(for_one), "")
