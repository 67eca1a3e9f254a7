"""What filters say of rows beside the pods promised to them, kept from one pod of a class to the next."""

from collections.abc import Sequence

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.filtercolumn import FilterColumn
from stowplan.framework.plugin import FEW_ROWS
from stowplan.framework.status import Status

Verdicts = dict[int, tuple[list[PodInfo], Status | None]]
"""By row, the promised pods that were reckoned with, and the first rejection; None: it passes."""


_MOST = 1024
"""Promises come and go: when so many verdicts have piled up, they are found anew."""


class BesideVerdicts:
    """Verdicts that hold as long as nothing about a row changes but the pods promised to it.

    That can be known if every filter that is asked goes by the row alone and says the same to all pods of the
    class. Of others nothing is kept.
    """

    __slots__ = ("_asked", "_node_position", "_usage_position", "_verdicts")

    def __init__(self) -> None:
        self._asked: Sequence[FilterColumn] = ()
        self._node_position = -1
        self._usage_position = -1
        self._verdicts: Verdicts = {}

    def verdicts(self, table: ClusterTable, asked: Sequence[FilterColumn]) -> Verdicts:
        """The verdicts of these filters that still hold, and the place to put more."""
        verdicts = self._verdicts
        touched = table.usage_log.few_since(self._usage_position, FEW_ROWS)
        self._usage_position = table.usage_log.position
        if (
            touched is None
            or self._node_position != table.node_log.position
            or self._asked != asked
            or not all(column.reusable and column.traits.row_local for column in asked)
            or len(verdicts) > _MOST
        ):
            self._node_position = table.node_log.position
            self._asked = asked
            verdicts.clear()
        else:
            for row in touched:
                verdicts.pop(row, None)
        return verdicts
