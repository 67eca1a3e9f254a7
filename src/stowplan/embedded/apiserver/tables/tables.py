"""The table of each kind, or a plain one with name and age."""

from stowplan.api.catalogue import Resource
from stowplan.clock import Clock
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, Table


class Tables:
    """Finds the table of a resource."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[Resource, Table] = {}

    def of(self, resource: Resource) -> Table:
        table = self._made.get(resource)
        if table is None:
            columns: list[Column] = [NAME, AGE]
            table = self._made[resource] = Table(columns, self._clock)
        return table
