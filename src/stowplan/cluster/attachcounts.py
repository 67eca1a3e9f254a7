"""How many volumes each driver has attached to each row, and how many it can."""

from collections import Counter
from typing import Final

import numpy as np

from stowplan.api.storage import CSINode
from stowplan.cluster.attachable import Attachable
from stowplan.cluster.columns import BoolColumn, IntColumn

NO_LIMIT: Final = 1 << 40
"""More volumes than there are."""

RowCounts = dict[int, int]
NO_ROWS_COUNTED: Final[RowCounts] = {}


class AttachCounts:
    """A line of counts and one of limits per driver, by row.

    A volume is attached to a row if pods there use it or an attachment says so; it counts once, however many
    do. `users` says on which rows how many pods use a volume.
    """

    __slots__ = (
        "_attached",
        "_capacity",
        "_counted",
        "_counts",
        "_installed",
        "_installs",
        "_limits",
        "_nodes",
        "has_csi_node",
        "limited",
        "users",
    )

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.users: dict[Attachable, RowCounts] = {}
        self._attached: dict[Attachable, RowCounts] = {}
        self._counts: dict[str, IntColumn] = {}
        self._counted: Counter[str] = Counter()
        """By driver, how many volumes are attached in all."""
        self._limits: dict[str, IntColumn] = {}
        self._installed: dict[str, BoolColumn] = {}
        self._installs: Counter[str] = Counter()
        """By driver, on how many rows it is installed."""
        self._nodes: dict[int, CSINode] = {}
        self.has_csi_node: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        self.limited: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        """Rows where some driver has a limit."""

    def resize(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        self._counts = {driver: _grown(line, capacity, 0) for driver, line in self._counts.items()}
        self._limits = {driver: _grown(line, capacity, NO_LIMIT) for driver, line in self._limits.items()}
        self._installed = {driver: _grown_mask(line, capacity) for driver, line in self._installed.items()}
        self.has_csi_node = _grown_mask(self.has_csi_node, capacity)
        self.limited = _grown_mask(self.limited, capacity)

    # Looking

    def counts(self, driver: str) -> IntColumn:
        """How many volumes of a driver are attached, by row."""
        line = self._counts.get(driver)
        return np.zeros(self._capacity, dtype=np.int64) if line is None else line

    def limits(self, driver: str) -> IntColumn | None:
        """How many volumes of a driver can be attached, by row; None: no node sets a limit."""
        return self._limits.get(driver)

    def installed(self, driver: str) -> BoolColumn:
        """On which rows a driver is installed."""
        line = self._installed.get(driver)
        return np.zeros(self._capacity, dtype=np.bool_) if line is None else line

    # Changes

    def use(self, volume: Attachable, row: int, delta: int) -> None:
        """A pod that uses a volume comes to a row (1) or leaves it (-1)."""
        self._shift(self.users, self._attached, volume, row, delta)

    def attach(self, volume: Attachable, row: int, delta: int) -> None:
        """An attachment of a volume to a row appears (1) or is gone (-1)."""
        self._shift(self._attached, self.users, volume, row, delta)

    def _shift(
        self,
        mine: dict[Attachable, RowCounts],
        others: dict[Attachable, RowCounts],
        volume: Attachable,
        row: int,
        delta: int,
    ) -> None:
        rows = mine.setdefault(volume, {})
        before = rows.get(row, 0)
        after = before + delta
        if after:
            rows[row] = after
        else:
            del rows[row]
            if not rows:
                del mine[volume]
        if bool(before) != bool(after) and row not in others.get(volume, NO_ROWS_COUNTED):
            self._count(volume.driver, row, delta)

    def _count(self, driver: str, row: int, delta: int) -> None:
        line = self._counts.get(driver)
        if line is None:
            line = self._counts[driver] = np.zeros(self._capacity, dtype=np.int64)
        line[row] += delta
        self._counted[driver] += delta
        if not self._counted[driver]:
            del self._counted[driver], self._counts[driver]

    def sizes(self) -> dict[str, int]:
        return {
            "volumes used by pods": len(self.users),
            "volumes attached": len(self._attached),
            "drivers with volumes": len(self._counts),
            "drivers with limits": len(self._limits),
            "drivers installed": len(self._installed),
            "rows with a CSI node": len(self._nodes),
        }

    def set_csi_node(self, row: int, csi_node: CSINode | None) -> None:
        """What drivers say about the node of a row; None: nothing."""
        old = self._nodes.pop(row, None)
        if old is not None:
            for name in dict.fromkeys(driver.name for driver in old.spec.drivers):
                self._uninstall(name, row)
        self.has_csi_node[row] = csi_node is not None
        self.limited[row] = False
        if csi_node is None:
            return
        self._nodes[row] = csi_node
        for name in dict.fromkeys(driver.name for driver in csi_node.spec.drivers):
            self._installed.setdefault(name, np.zeros(self._capacity, dtype=np.bool_))[row] = True
            self._installs[name] += 1
        for driver in csi_node.spec.drivers:
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self._limit_line(driver.name)[row] = driver.allocatable.count
                self.limited[row] = True

    def _uninstall(self, driver: str, row: int) -> None:
        self._installs[driver] -= 1
        if not self._installs[driver]:
            del self._installs[driver], self._installed[driver]
            self._limits.pop(driver, None)
            return
        self._installed[driver][row] = False
        if driver in self._limits:
            self._limits[driver][row] = NO_LIMIT

    def _limit_line(self, driver: str) -> IntColumn:
        line = self._limits.get(driver)
        if line is None:
            line = self._limits[driver] = np.full(self._capacity, NO_LIMIT, dtype=np.int64)
        return line


def _grown(line: IntColumn, capacity: int, filler: int) -> IntColumn:
    grown: IntColumn = np.full(capacity, filler, dtype=np.int64)
    grown[: len(line)] = line
    return grown


def _grown_mask(line: BoolColumn, capacity: int) -> BoolColumn:
    grown: BoolColumn = np.zeros(capacity, dtype=np.bool_)
    grown[: len(line)] = line
    return grown
