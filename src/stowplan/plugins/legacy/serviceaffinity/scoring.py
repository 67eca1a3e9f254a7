"""The fewer of a service's pods are on nodes with the same value of a label, the better."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.columns import IntArray
from stowplan.cluster.nodelabels import LabelColumn
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.interface import ALL_ROWS, Scores, StaleRows
from stowplan.framework.plugin_call import merge_rows
from stowplan.plugins.legacy.siblings import Siblings


class Shares(NamedTuple):
    """A service's pods on the feasible nodes: all of them, and by label and value."""

    total: int
    by_label: tuple[IntArray, ...]


def shares(cycle: Cycle, siblings: Siblings, columns: Sequence[LabelColumn]) -> Shares:
    """The shares as they are; the same object as before if nothing they rest on changed."""
    version = siblings.version(cycle)
    if siblings.found[0] == version:
        found: Shares = siblings.found[1]
        return found
    here = siblings.on_feasible(cycle)
    counts = tuple(
        np.bincount(column.ids[: len(here)], weights=here, minlength=column.size).astype(np.int64)
        for column in columns
    )
    found = Shares(int(here.sum()), counts)
    siblings.found = (version, found)
    return found


def points(found: Shares, columns: Sequence[LabelColumn], nodes: NodeRows, top: float) -> Scores:
    """Points by row; a label that a node does not have adds nothing."""
    sums = np.zeros(nodes.count)
    for column, by_value in zip(columns, found.by_label, strict=True):
        ids = column.ids[nodes.rows]
        worth = np.full(nodes.count, top)
        if found.total:
            worth = top * ((found.total - by_value[ids]) / found.total)
        sums += np.where(ids != 0, worth / len(columns), 0.0)
    return sums.astype(np.int64)


def points_of_row(found: Shares, columns: Sequence[LabelColumn], row: int, top: float) -> int:
    total = 0.0
    for column, by_value in zip(columns, found.by_label, strict=True):
        value = column.ids.item(row)
        if value:
            here = by_value.item(value)
            worth = top * ((found.total - here) / found.total) if found.total else top
            total += worth / len(columns)
    return int(total)


def stale_rows(table: ClusterTable, columns: Sequence[LabelColumn], before: Shares, now: Shares) -> StaleRows:
    """Rows whose value of a label has more or fewer pods than before; all rows if there are more in all."""
    if before is now:
        return NO_ROWS
    if before.total != now.total:
        return ALL_ROWS
    rows = NO_ROWS
    for column, was, is_now in zip(columns, before.by_label, now.by_label, strict=True):
        if len(was) != len(is_now):
            return ALL_ROWS
        changed = np.flatnonzero(was != is_now)
        rows = merge_rows(rows, column.rows_of(changed[changed != 0], table.rows_in_use))
    return rows
