"""NodeVolumeLimits: CSI drivers say how many volumes each node can have attached."""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from stowplan.cluster.attachments import NO_LIMIT, AttachCounts, Problem, Trouble
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.events import EventRegistration
from stowplan.framework.interface import Codes, Handle, Plugin, Reads
from stowplan.framework.status import SKIP, Status, error, unresolvable, unschedulable
from stowplan.plugins.nodevolumelimits.hints import REGISTRATIONS
from stowplan.plugins.nodevolumelimits.wanted import NOTHING_WANTED, Wanted, concerns, wanted_by

REASON = "node(s) exceed max volume count"

TOO_MANY, MISSING, MISSING_BARE, FIRST_DRIVER = 1, 2, 3, 4
WRONG, WRONG_BARE, FIRST_FAULT = -1, -2, -3
_SKIPPED: Final = "skipped"


class NodeVolumeLimits(Plugin):
    """Compares, driver by driver, what is attached and what a pod wants with what a node can take.

    Pods that want as many volumes of the same drivers are alike, whatever the volumes, as long as these are
    in use nowhere. One that is in use on a node is attached there already.
    """

    reads = Reads.USAGE
    signs_volumes = True
    can_fail = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._insist = handle.gates["VolumeLimitScaling"]
        self._in_use = handle.table.volumes_in_use
        self._looked_at: tuple[PodInfo, int, int, Wanted] | None = None

    def sign(self, pod: PodInfo) -> Hashable:
        return self._wanted(pod) if any(map(concerns, pod.template.volumes)) else _SKIPPED

    def events(self) -> Sequence[EventRegistration]:
        return REGISTRATIONS

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not any(map(concerns, pod.template.volumes)):
            return SKIP
        cycle.write(self, self._wanted(pod))
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        wanted: Wanted = cycle.read(self)
        if wanted == NOTHING_WANTED:
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
        wanted: Wanted = cycle.read(self)
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

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        wanted: Wanted = cycle.read(self)
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

    def _wanted(self, pod: PodInfo) -> Wanted:
        """What a pod wants, worked out once as long as neither storage nor pods on nodes change."""
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
    """The rule, for one row or for many. Who needs nothing new of a driver may come in any case."""
    return (need > 0) & (count + need > limit)


def _exceeds(attached: AttachCounts, wanted: Wanted, row: int) -> bool:
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


def _needed(attached: AttachCounts, wanted: Wanted, driver: str, count: int) -> Codes:
    """How many volumes of a driver would have to be attached, by row."""
    need: Codes = np.full(len(attached.limited), count, dtype=np.int64)
    for volume in wanted.shared:
        if volume.driver == driver:
            need[list(attached.users.get(volume, ()))] -= 1
    return need


def _is_missing(problem: Problem) -> bool:
    return problem.trouble is Trouble.MISSING


def _drivers(wanted: Wanted) -> list[str]:
    return sorted({*wanted.required, *wanted.bare_required})


def _driver_code(driver: str, wanted: Wanted) -> int:
    return FIRST_DRIVER + _drivers(wanted).index(driver)
