"""What a pod wants attached to its node, put so that pods who want as much are alike."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from stowplan.api.csitranslation import in_tree_kind
from stowplan.api.pod import Volume
from stowplan.cluster.attachments import COUNTED_BY_KIND, Attachable, Problem, needs_of
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.storage import Storage
from stowplan.cluster.table import ClusterTable


class Wanted(NamedTuple):
    """How many volumes of which drivers a pod wants.

    `shared` are those of them that pods on some nodes use already: there they are attached as it is.
    `problem` keeps a pod from nodes that have a CSINode, `bare_problem` from those that have none.
    `required` are the drivers that must be installed on a node with a CSINode, `bare_required` those for
    which a CSINode is missed.
    """

    counts: tuple[tuple[str, int], ...] = ()
    shared: tuple[Attachable, ...] = ()
    problem: Problem | None = None
    bare_problem: Problem | None = None
    required: tuple[str, ...] = ()
    bare_required: tuple[str, ...] = ()


NOTHING_WANTED: Final = Wanted()


def concerns(volume: Volume) -> bool:
    """Whether a volume may have to be attached by a CSI driver."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or in_tree_kind(volume) is not None
    )


def wanted_by(pod: PodInfo, table: ClusterTable, *, insist: bool) -> Wanted:
    """What a pod wants of CSI drivers. With `insist` drivers may demand to be installed where it goes."""
    storage = table.storage
    needs = needs_of(pod.pod, pod.template.volumes, storage, migrated=True, new=True)
    volumes = [volume for volume in needs.volumes if volume.driver not in COUNTED_BY_KIND]
    users = table.volumes_in_use.attached.users
    wanted = Wanted(
        counts=tuple(sorted(Counter(volume.driver for volume in volumes).items())),
        shared=tuple(sorted(volume for volume in volumes if volume in users)),
        problem=needs.problem,
    )
    if needs.problem is None and not insist:
        return wanted
    bare = needs_of(pod.pod, pod.template.volumes, storage, migrated=False, new=True)
    return wanted._replace(
        bare_problem=bare.problem,
        required=_insisting(volumes, storage) if insist else (),
        bare_required=_insisting(bare.volumes, storage) if insist else (),
    )


def _insisting(volumes: Iterable[Attachable], storage: Storage) -> tuple[str, ...]:
    """The drivers among those of some volumes that pods must not go without."""
    found = set()
    for volume in volumes:
        driver = storage.csi_drivers.get(volume.driver)
        if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
            found.add(volume.driver)
    return tuple(sorted(found))
