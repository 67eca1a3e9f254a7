"""Objects as rows of a table, as kubectl prints them: one module of columns for each API group."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.clock import Clock
from stowplan.embedded.apiserver.tables import core, networking, rbac, scheduling, storage, workloads
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, Table

__all__ = ["Tables"]

_PLAIN: Final = (NAME, AGE)
_GROUPS: Final = (core, workloads, storage, scheduling, networking, rbac)
_COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    resource: columns for group in _GROUPS for resource, columns in group.COLUMNS.items()
}


class Tables:
    """The table of each resource; one without columns of its own shows name and age."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[Resource, Table] = {}

    def of(self, resource: Resource) -> Table:
        table = self._made.get(resource)
        if table is None:
            table = self._made[resource] = Table(_COLUMNS.get(resource, _PLAIN), self._clock)
        return table
