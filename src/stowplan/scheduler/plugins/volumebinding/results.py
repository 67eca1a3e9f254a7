"""Results on every node for one set of requirements, kept current as volumes, classes and nodes change."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from stowplan.api.labels import IN
from stowplan.api.rules.nodeselector import CompiledNodeSelector, FieldRequirement, RequiredNodeAffinity, Term
from stowplan.scheduler.plugins.volumebinding.claims import BoundVolume, Requirements
from stowplan.scheduler.plugins.volumebinding.partition import EVERYWHERE, Migrated, Partition, PassingRows
from stowplan.scheduler.plugins.volumebinding.placement import (
    BoundTests,
    CapacityScorer,
    FreeVolumes,
    Provisioning,
    Question,
    VolumePlacement,
    place,
    provisioning,
)
from stowplan.scheduler.table.columns import IntColumn
from stowplan.scheduler.table.table import ClusterTable

ConflictColumn = npt.NDArray[np.int8]

_FEW_NODES: Final = 32
"""Up to this many changed nodes are sorted again one by one."""


class VolumeResults:
    """Results by row for requirements: `conflicts` are the codes of `Conflict`, `scores` only with a scorer.

    Each distinct kind of row is computed once. Both columns are replaced, never written to, when an answer
    changes: the holder of an older one can compare.
    """

    def __init__(
        self,
        table: ClusterTable,
        passing: PassingRows,
        requirements: Requirements,
        scorer: CapacityScorer | None,
    ) -> None:
        self._table = table
        self._passing = passing
        self._requirements = requirements
        self._scorer = scorer
        self._asks_csi = any(volume.migration is not None for volume in requirements.bound)
        self._rebuild()

    def _rebuild(self) -> None:
        """Work everything out from scratch."""
        table, requests = self._table, self._requirements.requests
        self._partition = partition = Partition(table, self._passing)
        self._question = question = _question(self._requirements, partition)
        self._free_volumes = FreeVolumes(requests, question.by_size, partition)
        self._conflicts_by_kind: ConflictColumn = np.zeros(16, dtype=np.int8)
        self._scores_by_kind: IntColumn = np.zeros(16, dtype=np.int64)
        self._known_kinds: set[int] = set()
        self._provisioning = self._find_provisioning()
        groups = table.storage.groups
        for class_name in dict.fromkeys(requests[number].class_name for number in question.by_size):
            for group in groups.of_class(class_name):
                self._free_volumes.update(group.number, group)
        self._note_versions()
        self._update(self._unknown_kinds())

    def _note_versions(self) -> None:
        table, storage = self._table, self._table.storage
        self._topology = table.topology_version
        self._node_position = table.node_log.position
        self._csi_nodes = storage.nodes_version
        self._provisioning_versions = (storage.classes_version, storage.pools.log.position)
        self._group_position = storage.groups.log.position

    def sync(self) -> None:
        """Take in what changed since."""
        table, storage = self._table, self._table.storage
        is_current = (
            self._topology == table.topology_version
            and (not self._asks_csi or self._csi_nodes == storage.nodes_version)
            and self._provisioning_versions == (storage.classes_version, storage.pools.log.position)
            and self._group_position == storage.groups.log.position
        )
        if is_current:
            return
        kinds_known = len(self._partition.kinds)
        stale: set[int] = set()
        moved = self._follow_nodes()
        if moved is None or not self._follow_groups(stale):
            self._rebuild()
            return
        self._follow_provisioning(stale)
        self._note_versions()
        self._known_kinds -= stale
        if moved or kinds_known != len(self._partition.kinds):
            self._update(self._unknown_kinds())
        elif stale:
            self._update(stale & self._present)

    def placement(self, row: int) -> VolumePlacement:
        """Placement of the pod's volumes on a row in the current state."""
        self.sync()
        return self._place(int(self._partition.ids[row]))

    def _place(self, kind: int) -> VolumePlacement:
        return place(self._question, self._free_volumes, self._provisioning, self._partition.kinds[kind])

    # Changes

    def _follow_nodes(self) -> bool | None:
        """True if rows may be of another kind now; None if all have to be sorted from scratch."""
        table = self._table
        if self._asks_csi and self._csi_nodes != table.storage.nodes_version:
            return None
        if self._topology == table.topology_version:
            return False
        rows = table.node_log.since(self._node_position)
        if rows is None or len(rows) > _FEW_NODES or len(self._partition.ids) != table.capacity:
            return None
        self._partition.sort_again(rows)
        return True

    def _follow_groups(self, stale: set[int]) -> bool:
        """Add the kinds of rows for which other volumes are free now; False if it is too long ago to say."""
        groups = self._table.storage.groups
        changed = groups.log.since(self._group_position)
        if changed is None:
            return False
        if self._question.by_size:
            for number in sorted(changed.tolist()):
                test = self._free_volumes.update(number, groups.by_number.get(number))
                if test is not None:
                    stale.update(self._kinds_with(test))
        return True

    def _follow_provisioning(self, stale: set[int]) -> None:
        """Add the kinds of rows for which other volumes can be made now."""
        storage = self._table.storage
        classes, position = self._provisioning_versions
        changed = storage.pools.log.since(position)
        if classes != storage.classes_version or changed is None:
            self._provisioning = self._find_provisioning()
            stale.update(range(len(self._partition.kinds)))
            return
        capacities = [made.capacity for made in self._provisioning if made.capacity is not None]
        for number in sorted(changed.tolist()) if capacities else ():
            for capacity in capacities:
                test = capacity.update(number, storage.pools.by_number.get(number))
                if test is not None:
                    stale.update(self._kinds_with(test))

    def _kinds_with(self, test: int) -> Iterable[int]:
        if test == EVERYWHERE:
            return range(len(self._partition.kinds))
        return self._partition.kinds_with(test)

    def _find_provisioning(self) -> list[Provisioning]:
        storage = self._table.storage
        return [provisioning(request, storage, self._partition) for request in self._requirements.requests]

    # Answers

    def _unknown_kinds(self) -> set[int]:
        """The kinds of rows without an answer, after rows were sorted: there may be others than before."""
        self._present = set(np.unique(self._partition.ids[: self._table.rows_in_use]).tolist())
        size = len(self._partition.kinds)
        if size > len(self._conflicts_by_kind):
            self._conflicts_by_kind, self._scores_by_kind = (
                _longer(self._conflicts_by_kind, 2 * size),
                _longer(self._scores_by_kind, 2 * size),
            )
        return self._present - self._known_kinds

    def _update(self, kinds: set[int]) -> None:
        """Answer for kinds of rows, and write the columns."""
        for kind in kinds:
            placement = self._place(kind)
            self._conflicts_by_kind[kind] = placement.conflicts
            if self._scorer is not None and not placement.conflicts:
                self._scores_by_kind[kind] = self._scorer.score(self._requirements.requests, placement)
        self._known_kinds |= kinds
        ids = self._partition.ids
        self.conflicts: ConflictColumn = self._conflicts_by_kind[ids]
        self.scores: IntColumn | None = None if self._scorer is None else self._scores_by_kind[ids]


Column = TypeVar("Column", bound=npt.NDArray[Any])


def _longer(column: Column, size: int) -> Column:
    grown = np.zeros(size, dtype=column.dtype)
    grown[: len(column)] = column
    return cast(Column, grown)


def _question(requirements: Requirements, partition: Partition) -> Question:
    requests = requirements.requests
    selected = {
        number: partition.number(_named(request.selected_node))
        for number, request in enumerate(requests)
        if request.selected_node is not None
    }
    looking = [number for number in range(len(requests)) if number not in selected]
    return Question(
        [_bound_tests(volume, partition) for volume in requirements.bound],
        requests,
        selected,
        {
            n: partition.number(prebound.reach)
            for n in looking
            if (prebound := requests[n].prebound) is not None
        },
        sorted(looking, key=lambda number: requests[number].size),
    )


def _bound_tests(volume: BoundVolume, partition: Partition) -> BoundTests:
    test = partition.number(volume.reach)
    if volume.migration is None:
        return BoundTests(test, missing=volume.missing)
    plugin, reach = volume.migration
    return BoundTests(test, partition.number(Migrated(plugin)), partition.number(reach))


def _named(node: str) -> RequiredNodeAffinity:
    """The test that a single node passes."""
    name = FieldRequirement("metadata.name", IN, node)
    return RequiredNodeAffinity(None, CompiledNodeSelector((Term(fields=(name,)),)))
