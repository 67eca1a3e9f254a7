"""NodeVolumeLimits: CSI drivers say how many volumes each node can have attached."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stowplan.api.pod import Pod, Volume
from stowplan.api.rules.csitranslation import TranslationError, in_tree_kind, translated_inline
from stowplan.api.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from stowplan.scheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    Hint,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    Signs,
    Status,
    error,
    queue_if,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import EventKeys, HintError, Obstacle, Shortfall, pod_resources
from stowplan.scheduler.table.attachments import (
    COUNTED_BY_KIND,
    NO_LIMIT,
    Attachable,
    AttachCounts,
    AttachmentProblem,
    Trouble,
    claim_name,
    needs_of,
)
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.storage import Storage
from stowplan.scheduler.table.table import ClusterTable

REASON = "node(s) exceed max volume count"

TOO_MANY, MISSING, MISSING_BARE, FIRST_DRIVER = 1, 2, 3, 4
WRONG, WRONG_BARE, FIRST_FAULT = -1, -2, -3
_SKIPPED: Final = "skipped"


class WantedCSIVolumes(NamedTuple):
    """Number of volumes a pod needs, by driver.

    `shared` are those of them that pods on some nodes use already: they are attached there anyway. `problem`
    keeps a pod from nodes that have a CSINode, `bare_problem` from those that have none. `required` are the
    drivers that must be installed on a node with a CSINode, `bare_required` those for which a CSINode is
    missing.
    """

    counts: tuple[tuple[str, int], ...] = ()
    shared: tuple[Attachable, ...] = ()
    problem: AttachmentProblem | None = None
    bare_problem: AttachmentProblem | None = None
    required: tuple[str, ...] = ()
    bare_required: tuple[str, ...] = ()


NO_VOLUMES_WANTED: Final = WantedCSIVolumes()


def concerns(volume: Volume) -> bool:
    """True if a volume may have to be attached by a CSI driver."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or in_tree_kind(volume) is not None
    )


def wanted_by(pod: PodInfo, table: ClusterTable, *, insist: bool) -> WantedCSIVolumes:
    """CSI volumes of a pod. With `insist` drivers may require to be installed where it goes."""
    storage = table.storage
    needs = needs_of(pod.pod, pod.template.volumes, storage, migrated=True, new=True)
    volumes = [volume for volume in needs.volumes if volume.driver not in COUNTED_BY_KIND]
    users = table.volumes_in_use.attached.users
    wanted = WantedCSIVolumes(
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


class NodeVolumeLimits(Plugin):
    """Compares, driver by driver, attached volumes and those a pod needs with the limit of a node.

    Pods that need the same number of volumes of the same drivers are equal, whichever the volumes, as long as
    these are not in use. A volume in use on a node is attached there already.
    """

    contract = Contract(
        reads=Reads.USAGE,
        signs=Signs.VOLUMES,
        needs=(
            "persistentvolumes",
            "persistentvolumeclaims",
            "storageclasses",
            "csidrivers",
            "volumeattachments",
        ),
        can_fail=True,
        skips_deferred_resizes=True,
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._insist = handle.gates["VolumeLimitScaling"]
        self._in_use = handle.table.volumes_in_use
        self._looked_at: tuple[PodInfo, int, int, WantedCSIVolumes] | None = None

    def sign(self, pod: PodInfo) -> Hashable:
        return self._wanted(pod) if any(map(concerns, pod.template.volumes)) else _SKIPPED

    def events(self) -> Sequence[EventRegistration]:
        return registrations(pod_resources(self.handle.behaviour).of_assigned)

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not any(map(concerns, pod.template.volumes)):
            return SKIP
        cycle.write(self, self._wanted(pod))
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        wanted: WantedCSIVolumes = cycle.read(self)
        if wanted == NO_VOLUMES_WANTED:
            return None
        attached = self._in_use.attached
        rows = nodes.rows
        codes = np.zeros(nodes.count, dtype=np.int64)
        for driver, count in wanted.counts:
            limits = attached.limits(driver)
            if limits is not None:
                need = _needed(attached, wanted, driver, count)[rows]
                codes[too_many(attached.counts(driver)[rows], need, limits[rows])] = TOO_MANY
        if self._in_use.faults and wanted.counts:
            faults = self._faults(nodes.table.capacity)[rows]
            codes = np.where(attached.limited[rows] & (faults < 0), faults, codes)
        with_csi = attached.has_csi_node[rows]
        for driver in reversed(wanted.required):
            codes[with_csi & ~attached.installed(driver)[rows]] = _driver_code(driver, wanted)
        for driver in reversed(wanted.bare_required):
            codes[~with_csi] = _driver_code(driver, wanted)
        if wanted.problem is not None:
            codes[with_csi] = MISSING if _is_missing(wanted.problem) else WRONG
        if wanted.bare_problem is not None:
            codes[~with_csi] = MISSING_BARE if _is_missing(wanted.bare_problem) else WRONG_BARE
        return codes

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        wanted: WantedCSIVolumes = cycle.read(self)
        attached = self._in_use.attached
        if not attached.has_csi_node[row]:
            if wanted.bare_problem is not None:
                return MISSING_BARE if _is_missing(wanted.bare_problem) else WRONG_BARE
            return _driver_code(wanted.bare_required[0], wanted) if wanted.bare_required else 0
        if wanted.problem is not None:
            return MISSING if _is_missing(wanted.problem) else WRONG
        for driver in wanted.required:
            if not attached.installed(driver)[row]:
                return _driver_code(driver, wanted)
        if not wanted.counts or not attached.limited[row]:
            return 0
        if row in self._in_use.faults:
            return self._fault(row)
        return TOO_MANY if _exceeds(attached, wanted, row) else 0

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        """Not if a volume is in use already: with its user it may lose its place on the node."""
        return not self._wanted(pod).shared

    def ignores_pods(self, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> bool:
        """Attached volumes do not matter where nothing is limited."""
        attached = self._in_use.attached
        is_limited = attached.has_csi_node.item(row) and attached.limited.item(row)
        return not is_limited or not any(other.template.volumes for other in others)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        wanted: WantedCSIVolumes = cycle.read(self)
        if code == TOO_MANY:
            return unschedulable(REASON)
        if code >= FIRST_DRIVER:
            driver = _drivers(wanted)[code - FIRST_DRIVER]
            return unschedulable(f"{driver} CSI driver is not installed on the node")
        problem = wanted.problem if code in (MISSING, WRONG) else wanted.bare_problem
        if code <= FIRST_FAULT:
            problem = self._in_use.problem(FIRST_FAULT + 1 - code)
        assert problem is not None
        return unresolvable(problem.message) if code > 0 else error(problem.message)

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        found = self.shortfall(cycle, pod, int(rows[0]))
        return None if found is None else Obstacle(f"volume limit ({found.text})")

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        wanted: WantedCSIVolumes = cycle.read(self)
        attached = self._in_use.attached
        for driver, count in wanted.counts:
            limits = attached.limits(driver)
            if limits is None or limits[row] == NO_LIMIT:
                continue
            need = int(_needed(attached, wanted, driver, count)[row])
            used, limit = int(attached.counts(driver)[row]), int(limits[row])
            if too_many(used, need, limit):
                detail = f"{used} of {limit} volumes of {driver} are attached, {need} more needed"
                return Shortfall("volume limit", detail, (used + need - limit) / max(limit, 1))
        return None

    def _wanted(self, pod: PodInfo) -> WantedCSIVolumes:
        """CSI volumes of a pod, computed once as long as neither storage nor pods on nodes change."""
        table = self.handle.table
        version, position = table.storage.version, table.usage_log.position
        kept = self._looked_at
        if kept is not None and kept[0] is pod and kept[1] == version and kept[2] == position:
            return kept[3]
        wanted = wanted_by(pod, table, insist=self._insist)
        self._looked_at = (pod, version, position, wanted)
        return wanted

    def _fault(self, row: int) -> int:
        """The code of a pod of a row whose volumes cannot be told."""
        return FIRST_FAULT + 1 - self._in_use.fault(row)

    def _faults(self, capacity: int) -> Codes:
        faults = np.zeros(capacity, dtype=np.int64)
        for row in self._in_use.faults:
            faults[row] = self._fault(row)
        return faults


def too_many(count: Any, need: Any, limit: Any) -> Any:
    """The rule, for one row or for many. A pod that needs no new volume of a driver always passes."""
    return (need > 0) & (count + need > limit)


def _exceeds(attached: AttachCounts, wanted: WantedCSIVolumes, row: int) -> bool:
    for driver, count in wanted.counts:
        limits = attached.limits(driver)
        if limits is None or limits[row] == NO_LIMIT:
            continue
        here = sum(
            volume.driver == driver and row in attached.users.get(volume, ()) for volume in wanted.shared
        )
        if too_many(attached.counts(driver)[row], count - here, limits[row]):
            return True
    return False


def _needed(attached: AttachCounts, wanted: WantedCSIVolumes, driver: str, count: int) -> Codes:
    """Number of volumes of a driver that would have to be attached, by row."""
    need: Codes = np.full(len(attached.limited), count, dtype=np.int64)
    for volume in wanted.shared:
        if volume.driver == driver:
            need[list(attached.users.get(volume, ()))] -= 1
    return need


def _is_missing(problem: AttachmentProblem) -> bool:
    return problem.trouble is Trouble.MISSING


def _drivers(wanted: WantedCSIVolumes) -> list[str]:
    return sorted({*wanted.required, *wanted.bare_required})


def _driver_code(driver: str, wanted: WantedCSIVolumes) -> int:
    return FIRST_DRIVER + _drivers(wanted).index(driver)


def after_csi_node_update(pod: PodInfo, old: CSINode, new: CSINode) -> Hint:
    """A driver can attach more than before."""
    before = _limits(old)
    return queue_if(any(count > before.get(driver, 0) for driver, count in _limits(new).items()))


def _limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }


def after_pod_deletion(pod: PodInfo, old: Pod, new: None) -> Hint:
    """A pod that may have had something attached is gone."""
    return queue_if(_may_have_attached(old))


def _may_have_attached(pod: Pod) -> bool:
    return pod.is_placed and any(map(concerns, pod.spec.volumes))


_ATTACHED: Final = ("attached",)
_IF_ATTACHED: Final = EventKeys(
    lambda pod: _ATTACHED, lambda old, new: _ATTACHED if _may_have_attached(old) else ()
)


def after_new_claim(pod: PodInfo, old: None, new: PersistentVolumeClaim) -> Hint:
    """A claim of the pod is there."""
    if new.namespace != pod.namespace:
        return Hint.SKIP
    return queue_if(any(claim_name(pod.pod, volume) == new.name for volume in pod.template.volumes))


def after_detachment(pod: PodInfo, old: VolumeAttachment, new: None) -> Hint:
    """A volume is detached that belongs to a driver the pod has to do with, as far as can be told."""
    for volume in pod.template.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        if in_tree_kind(volume) is None:
            continue
        try:
            source = translated_inline(volume, pod.namespace)
        except TranslationError as cause:
            raise HintError(f"converting volume({volume.name}) from inline to csi: {cause}") from None
        if source.driver == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP


def registrations(pods: Resource) -> Sequence[EventRegistration]:
    """The events that may help; `pods` is what events call pods on nodes."""
    return (
        EventRegistration(ClusterEvent(Resource.CSI_NODE, Action.ADD)),
        EventRegistration(
            ClusterEvent(Resource.CSI_NODE, Action.UPDATE),
            after_csi_node_update,
            by_template=True,
            ignores_labels=True,
        ),
        EventRegistration(
            ClusterEvent(pods, Action.DELETE),
            after_pod_deletion,
            by_template=True,
            ignores_labels=True,
            keys=_IF_ATTACHED,
        ),
        EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), after_new_claim),
        EventRegistration(
            ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE),
            after_detachment,
            by_template=True,
            ignores_labels=True,
        ),
    )
