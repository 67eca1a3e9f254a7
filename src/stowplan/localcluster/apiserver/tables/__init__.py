"""Objects as rows of a table, as kubectl prints them: one module of columns for each API group."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api.catalogue import PODS, Resource
from stowplan.localcluster.apiserver.tables import (
    controlplane,
    core,
    networking,
    pods,
    rbac,
    scheduling,
    storage,
    workloads,
)
from stowplan.localcluster.apiserver.tables.columns import DEFAULT_COLUMNS, KindTable, TableColumn
from stowplan.localcluster.apiserver.tables.custom import columns_of
from stowplan.localcluster.store.definitions import Definitions
from stowplan.runtime.clock import Clock

__all__ = ["Tables"]

_GROUPS: Final = (core, pods, workloads, storage, scheduling, networking, rbac, controlplane)
_COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
    resource: columns for group in _GROUPS for resource, columns in group.COLUMNS.items()
}


class Tables:
    """The table of each resource; one without columns shows name and time of creation."""

    def __init__(self, clock: Clock, definitions: Definitions) -> None:
        self.clock = clock
        self._definitions = definitions
        self._made: dict[Resource, KindTable] = {}

    def of(self, resource: Resource) -> KindTable:
        table = self._made.get(resource)
        if table is None:
            custom = self._definitions.version_of(resource)
            columns = (
                _COLUMNS.get(resource, DEFAULT_COLUMNS) if custom is None else columns_of(custom.columns)
            )
            conditions = pods.conditions if resource == PODS else None
            table = self._made[resource] = KindTable(columns, self.clock, conditions)
        return table

    def forget(self) -> None:
        """Make tables anew: the columns of custom resources may have changed."""
        self._made.clear()
