"""VolumeBinding: from the claims of a pod to the volumes it gets."""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.columns import IntColumn
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.storage import AssumeError
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.events import EventRegistration
from stowplan.framework.interface import ALL_ROWS, Codes, Handle, Plugin, Reads, Scores, StaleRows
from stowplan.framework.status import SKIP, PluginError, Status, error, unresolvable
from stowplan.plugins.args import VolumeBindingArgs
from stowplan.plugins.volumebinding.binding import BindingError, bind_volumes
from stowplan.plugins.volumebinding.claims import NO_CLAIMS, Claims, claims_of
from stowplan.plugins.volumebinding.hints import registrations
from stowplan.plugins.volumebinding.partition import PassingRows
from stowplan.plugins.volumebinding.placement import Conflict
from stowplan.plugins.volumebinding.reservation import Reservation, reserve_volumes
from stowplan.plugins.volumebinding.scoring import CapacityScorer
from stowplan.plugins.volumebinding.survey import ConflictColumn, Survey

REASONS: Final = {
    Conflict.AFFINITY: "node(s) didn't match PersistentVolume's node affinity",
    Conflict.NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    Conflict.NO_ROOM: "node(s) did not have enough free storage",
    Conflict.VOLUME_MISSING: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
REASON_TAKEN: Final = "the volumes found for the pod are not free any more"

Column = IntColumn | ConflictColumn


class Attempt:
    """What was found for one pod: its claims, the survey that answers, and its columns as they were then.

    `reserved` is what was taken for the pod once its node was chosen.
    """

    __slots__ = ("claims", "conflicts", "reserved", "scores", "survey")

    def __init__(self, claims: Claims, survey: Survey | None) -> None:
        self.claims = claims
        self.survey = survey
        self.conflicts: ConflictColumn | None = None if survey is None else survey.conflicts
        self.scores: IntColumn | None = None if survey is None else survey.scores
        self.reserved: Reservation | None = None


class VolumeBinding(Plugin):
    """Rejects nodes where a pod's claims cannot be met, and meets them on the node that is chosen.

    Pods are one class here if their claims ask for the same, whatever the claims are called.
    """

    args_type = VolumeBindingArgs
    reads = Reads.NODE
    row_local = False
    signs_volumes = True
    idle_without_volumes = True
    constant_pre_score = True
    parallel_pre_bind = True

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._table = handle.table
        self._storage = handle.table.storage
        self._passing = PassingRows(handle.table)
        self._scorer = CapacityScorer(args.shape or ()) if handle.gates["StorageCapacityScoring"] else None
        self._looked_at: tuple[PodInfo, int, int, Claims] | None = None

    def events(self) -> Sequence[EventRegistration]:
        return registrations()

    # Claims

    def _claims(self, pod: PodInfo) -> Claims:
        """The claims of a pod, looked at once as long as nothing changes."""
        if not pod.spec.volumes:
            return NO_CLAIMS
        version, assumed = self._storage.version, self._storage.assumed_version
        kept = self._looked_at
        if kept is not None and kept[0] is pod and kept[1] == version and kept[2] == assumed:
            return kept[3]
        claims = claims_of(pod, self._storage)
        self._looked_at = (pod, version, assumed, claims)
        return claims

    def sign(self, pod: PodInfo) -> Hashable:
        claims = self._claims(pod)
        return claims.demand if claims.status is None and not claims.failure else claims.status is SKIP

    # Filter

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        claims = self._claims(pod)
        if claims.status is not None:
            return claims.status
        survey: Survey | None = None
        if not claims.failure:
            survey = cycle.memo(self)
            if survey is None:
                survey = Survey(self._table, self._passing, claims.demand, self._scorer)
                cycle.remember(self, survey)
            else:
                survey.sync()
        cycle.write(self, Attempt(claims, survey))
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes:
        return self._conflicts(cycle)[nodes.rows].astype(np.int64)

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return int(self._conflicts(cycle)[row])

    def _conflicts(self, cycle: Cycle) -> ConflictColumn:
        attempt: Attempt | None = cycle.read(self)
        if attempt is None or attempt.conflicts is None:
            failure = "not found" if attempt is None else attempt.claims.failure
            self._count_error("predicate")
            raise PluginError(self.name, f'running "{self.name}" filter plugin: {failure}')
        return attempt.conflicts

    def stale_filter_rows(
        self, cycle: Cycle, pod: PodInfo, then: Attempt | None, now: Attempt | None
    ) -> StaleRows:
        return ALL_ROWS if then is None or now is None else _changed(then.conflicts, now.conflicts)

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        """Pods on a node make no difference here."""
        return True

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(*(text for conflict, text in REASONS.items() if code & conflict))

    # Score

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return SKIP if self._scorer is None else None

    def score_basis(self, cycle: Cycle, pod: PodInfo) -> Attempt | None:
        found: Attempt | None = cycle.read(self)
        return found

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        attempt: Attempt | None = cycle.read(self)
        return None if attempt is None or attempt.scores is None else attempt.scores[nodes.rows]

    def stale_score_rows(
        self, cycle: Cycle, pod: PodInfo, then: Attempt | None, now: Attempt | None
    ) -> StaleRows:
        if then is now:
            return NO_ROWS
        return ALL_ROWS if then is None or now is None else _changed(then.scores, now.scores)

    # Once a node is chosen

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        attempt: Attempt | None = cycle.read(self)
        if attempt is None or attempt.survey is None or not attempt.claims.unbound:
            return None
        try:
            attempt.reserved = self._take(attempt.survey, attempt.claims, node)
        except AssumeError as cause:
            self._count_error("assume")
            return error(str(cause))
        return None

    def _take(self, survey: Survey, claims: Claims, node: str) -> Reservation:
        """Take what the claims of a pod need on a node. Raises AssumeError, having taken nothing."""
        row = self._table.row_of(node)
        if row is None:
            raise AssumeError(f'node "{node}" not found')
        placement = survey.placement(row)
        if placement.conflicts:
            raise AssumeError(REASON_TAKEN)
        return reserve_volumes(self._storage, claims.unbound, placement, node)

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        attempt: Attempt | None = cycle.read(self)
        if attempt is not None and attempt.reserved is not None:
            attempt.reserved.undo(self._storage)

    def pre_bind_pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        return SKIP if self._reserved(cycle) is None else None

    async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        reserved = self._reserved(cycle)
        if reserved is None:
            return None
        timeout = float(self.args.bind_timeout_seconds)
        try:
            await bind_volumes(self._table, self.handle.scheduler, reserved, pod, node, timeout)
        except BindingError as cause:
            self._count_error("bind")
            return error(str(cause))
        return None

    def _count_error(self, operation: str) -> None:
        """Tell of a stage that failed, if there is a living scheduler to tell."""
        if self.handle.services is not None:
            self.handle.services.count_volume_error(operation)

    def _reserved(self, cycle: Cycle) -> Reservation | None:
        attempt: Attempt | None = cycle.read(self)
        return None if attempt is None else attempt.reserved


def _changed(then: Column | None, now: Column | None) -> StaleRows:
    if then is now:
        return NO_ROWS
    return ALL_ROWS if then is None or now is None else np.flatnonzero(then != now)
