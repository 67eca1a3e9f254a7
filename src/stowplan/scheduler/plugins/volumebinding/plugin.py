"""VolumeBinding: from the claims of a pod to the volumes it gets."""

from collections.abc import Hashable, Sequence
from typing import Final, Self
from weakref import WeakValueDictionary

import numpy as np
from msgspec.structs import replace

from stowplan.api.fielderrors import Path, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.quantity import QuantityError
from stowplan.api.storage import CSIDriver, CSINode, CSIStorageCapacity, PersistentVolumeClaim, StorageClass
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
    Scores,
    Signs,
    Status,
    error,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import (
    ALL_ROWS,
    FeatureGates,
    HintError,
    HintFunction,
    Obstacle,
    PluginError,
    Relevance,
    Shortfall,
    StaleRows,
)
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.noderesources.resource_allocation import (
    MAX_SHAPE_SCORE,
    UtilizationShapePoint,
    validate_shape,
)
from stowplan.scheduler.plugins.volumebinding.binder import (
    BindingError,
    PodVolumes,
    assume_pod_volumes,
    bind_volumes,
)
from stowplan.scheduler.plugins.volumebinding.claims import (
    MIGRATED_PLUGINS,
    NO_CLAIMS,
    PodVolumeClaims,
    Requirements,
    claim_name,
    claims_of,
)
from stowplan.scheduler.plugins.volumebinding.partition import PassingRows
from stowplan.scheduler.plugins.volumebinding.placement import CapacityScorer, VolumeConflict
from stowplan.scheduler.plugins.volumebinding.results import ConflictColumn, VolumeResults
from stowplan.scheduler.plugins.volumebinding.shortfall import volume_shortfall
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.columns import IntColumn
from stowplan.scheduler.table.storage import AssumeError
from stowplan.scheduler.table.volumepools import volume_limit

REASONS: Final = {
    VolumeConflict.NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    VolumeConflict.BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    VolumeConflict.NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    VolumeConflict.PV_NOT_EXIST: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}

REASON_TAKEN: Final = "the volumes found for the pod are not free any more"

DEFAULT_SHAPE = (
    UtilizationShapePoint(utilization=0, score=MAX_SHAPE_SCORE),
    UtilizationShapePoint(utilization=100, score=0),
)


class VolumeBindingArgs(PluginArgs, frozen=True):
    """How long binding volumes may take, and how nodes are scored by the use of their storage.

    The shape belongs to the gate StorageCapacityScoring: None while it is off, and then it must not be set.
    """

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        if gates["StorageCapacityScoring"] and not self.shape:
            return replace(self, shape=DEFAULT_SHAPE)
        return self

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            errors.append(invalid(path.child("bindTimeoutSeconds"), self.bind_timeout_seconds, detail))
        where = path.child("shape")
        if gates["StorageCapacityScoring"]:
            errors += validate_shape(self.shape or (), where)
        elif self.shape is not None:
            points = [{"Utilization": point.utilization, "Score": point.score} for point in self.shape]
            detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            errors.append(invalid(where, points, detail))
        return errors


_COMPARED: Final = 50
"""Nodes whose shortfalls are compared: if they are equal, one sentence covers all nodes."""
Column = IntColumn | ConflictColumn


class StateData:
    """Results for one pod: its claims, the results by node, and their columns as they were then.

    `reserved` are the volumes assumed for the pod once its node was chosen.
    """

    __slots__ = ("claims", "conflicts", "reserved", "results", "scores")

    def __init__(self, claims: PodVolumeClaims, results: VolumeResults | None) -> None:
        self.claims = claims
        self.results = results
        self.conflicts: ConflictColumn | None = None if results is None else results.conflicts
        self.scores: IntColumn | None = None if results is None else results.scores
        self.reserved: PodVolumes | None = None


class VolumeBinding(Plugin[VolumeBindingArgs]):
    """Rejects nodes where a pod's claims cannot be bound, and binds them on the chosen node.

    Pods are equivalent if their claims have equal requests, whatever their names.
    """

    contract = Contract(
        reads=Reads.NODE,
        reads_others=Reads.ANYTHING,
        signs=Signs.VOLUMES,
        needs=(
            "persistentvolumes",
            "persistentvolumeclaims",
            "storageclasses",
            "csidrivers",
            "csistoragecapacities",
        ),
        constant_pre_score=True,
        filters_by_pods=False,
        scores_only_if_filtering=True,
        skips_deferred_resizes=True,
        idle_for_plain_pods=True,
        parallel_pre_bind=True,
    )

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._table = handle.table
        self._storage = handle.table.storage
        self._passing = PassingRows(handle.table)
        self._scorer = CapacityScorer(args.shape or ()) if handle.gates["StorageCapacityScoring"] else None
        self._looked_at: tuple[PodInfo, int, int, PodVolumeClaims] | None = None
        self._results: WeakValueDictionary[tuple[Requirements, int], VolumeResults] = WeakValueDictionary()
        """Kept by the classes of pods that use them."""

    def events(self) -> Sequence[EventRegistration]:
        return registrations()

    # Claims

    def _claims(self, pod: PodInfo) -> PodVolumeClaims:
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
        return claims.requirements if claims.status is None and not claims.failure else claims.status is SKIP

    # Filter

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        claims = self._claims(pod)
        if claims.status is not None:
            return claims.status
        results: VolumeResults | None = None
        if not claims.failure:
            results = cycle.memo(self)
            if results is None:
                results = self._results_for(claims.requirements)
                cycle.remember(self, results)
            else:
                results.sync()
        cycle.write(self, StateData(claims, results))
        return None

    def _results_for(self, requirements: Requirements) -> VolumeResults:
        """Current results; other classes of pods with the same requirements may have them already."""
        key = (requirements, self._table.capacity)
        results = self._results.get(key)
        if results is None:
            results = VolumeResults(self._table, self._passing, requirements, self._scorer)
            self._results[key] = results
        else:
            results.sync()
        return results

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        conflicts = self._conflicts(cycle)[nodes.rows]
        return conflicts.astype(np.int64) if conflicts.any() else None

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return int(self._conflicts(cycle)[row])

    def _conflicts(self, cycle: Cycle) -> ConflictColumn:
        state: StateData | None = cycle.read(self)
        if state is None or state.conflicts is None:
            failure = "not found" if state is None else state.claims.failure
            self._count_error("predicate")
            raise PluginError(self.name, f'running "{self.name}" filter plugin: {failure}')
        return state.conflicts

    def stale_filter_rows(
        self, cycle: Cycle, pod: PodInfo, then: StateData | None, now: StateData | None
    ) -> StaleRows:
        return ALL_ROWS if then is None or now is None else _changed(then.conflicts, now.conflicts)

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        """Pods on a node make no difference here."""
        return True

    def ignores_pods(self, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> bool:
        return True

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(*(text for conflict, text in REASONS.items() if code & conflict))

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        conflicts = VolumeConflict(int(self._conflicts(cycle)[row]))
        node = self._table.name_of(row)
        return volume_shortfall(pod, self._storage, self._passing, node, row, conflicts)

    def relevance(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Codes:
        """Nodes that a volume cannot be reached from are of another kind, as those without room for it."""
        return np.full(len(rows), Relevance.KIND, dtype=np.int64)

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        """The claim that fails; if it fails the same way on all nodes, one sentence for the cluster."""
        told = {
            None if one is None else one.text
            for one in (self.shortfall(cycle, pod, row) for row in rows[:_COMPARED])
        }
        if len(told) != 1 or None in told:
            return None
        [text] = told
        assert text is not None
        return Obstacle(text, "cluster" if len(rows) == cycle.table.node_count else "on")

    # Score

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return SKIP if self._scorer is None else None

    def score_basis(self, cycle: Cycle, pod: PodInfo) -> StateData | None:
        found: StateData | None = cycle.read(self)
        return found

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        state: StateData | None = cycle.read(self)
        return None if state is None or state.scores is None else state.scores[nodes.rows]

    def stale_score_rows(
        self, cycle: Cycle, pod: PodInfo, then: StateData | None, now: StateData | None
    ) -> StaleRows:
        if then is now:
            return NO_ROWS
        return ALL_ROWS if then is None or now is None else _changed(then.scores, now.scores)

    # Reserve and PreBind

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        state: StateData | None = cycle.read(self)
        if state is None or state.results is None or not state.claims.unbound:
            return None
        try:
            state.reserved = self._assume(state.results, state.claims, node)
        except AssumeError as cause:
            self._count_error("assume")
            return error(str(cause))
        return None

    def _assume(self, results: VolumeResults, claims: PodVolumeClaims, node: str) -> PodVolumes:
        """Assume volumes for the claims of a pod on a node. Raises AssumeError, having assumed nothing."""
        row = self._table.row_of(node)
        if row is None:
            raise AssumeError(f'node "{node}" not found')
        placement = results.placement(row)
        if placement.conflicts:
            raise AssumeError(REASON_TAKEN)
        return assume_pod_volumes(self._storage, claims.unbound, placement, node)

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        state: StateData | None = cycle.read(self)
        if state is not None and state.reserved is not None:
            state.reserved.revert(self._storage)

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
        """Count a failed stage in the metrics of the scheduler, if there is one."""
        if self.handle.services is not None:
            self.handle.services.count_volume_error(operation)

    def _reserved(self, cycle: Cycle) -> PodVolumes | None:
        state: StateData | None = cycle.read(self)
        return None if state is None else state.reserved


def _changed(then: Column | None, now: Column | None) -> StaleRows:
    if then is now:
        return NO_ROWS
    return ALL_ROWS if then is None or now is None else np.flatnonzero(then != now)


def registrations() -> Sequence[EventRegistration]:
    """The events that may make a pod schedulable, most of them with a queueing hint."""
    new_or_changed = Action.ADD | Action.UPDATE
    return (
        _registration(Resource.STORAGE_CLASS, new_or_changed, after_class_change),
        EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, new_or_changed), after_claim_change),
        _registration(Resource.PERSISTENT_VOLUME, new_or_changed),
        _registration(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        _registration(Resource.CSI_NODE, new_or_changed, after_csi_node_change),
        _registration(Resource.CSI_DRIVER, Action.UPDATE, after_driver_change),
        _registration(Resource.CSI_STORAGE_CAPACITY, new_or_changed, after_capacity_change),
    )


def _registration(resource: Resource, action: Action, hint: HintFunction | None = None) -> EventRegistration:
    return EventRegistration(ClusterEvent(resource, action), hint, by_template=True, ignores_labels=True)


def after_class_change(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> Hint:
    """Any new class may, and one whose topologies changed."""
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def after_claim_change(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:
    """One of the pod's own claims may."""
    if new.namespace != pod.namespace:
        return Hint.SKIP
    return queue_if(any(claim_name(pod.name, volume) == new.name for volume in pod.spec.volumes))


def after_csi_node_change(pod: PodInfo, old: CSINode | None, new: CSINode) -> Hint:
    """A new one may, and one that leaves other kinds of volumes to CSI drivers than before."""
    if old is None:
        return Hint.QUEUE
    before, now = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (old, new))
    return queue_if(before != now)


def after_driver_change(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> Hint:
    """A driver of the pod that no longer tracks capacity may."""
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return Hint.SKIP
    return queue_if(any(v.csi is not None and v.csi.driver == new.name for v in pod.spec.volumes))


def after_capacity_change(pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:
    """Capacity that is new may, and capacity for larger volumes than before."""
    if old is None:
        return Hint.QUEUE
    try:
        before, now = volume_limit(old), volume_limit(new)
    except QuantityError as cause:
        raise HintError(str(cause)) from None
    return queue_if(now is not None and (before is None or now > before))
