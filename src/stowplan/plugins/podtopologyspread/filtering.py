"""Hard constraints: would the pod make its domain exceed the emptiest one by more than maxSkew?"""

from collections.abc import Sequence

import numpy as np

from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.view import NodeRows
from stowplan.framework.filtering import merge_rows
from stowplan.framework.plugin import ALL_ROWS, Codes, StaleRows
from stowplan.plugins.podtopologyspread.counting import Counted

NO_LABEL, SKEWED = 1, 2

FilterState = tuple[BoolColumn, ...]
"""By constraint: which domains have no room for one more."""


def full_domains(counted: Counted) -> BoolColumn:
    """Domains that would become too crowded; a domain that no regarded node has counts as empty."""
    counter, constraint = counted.counter, counted.constraint
    counter.refresh()
    counts = counter.counts.to_array(counted.column.size)
    exists = counter.members > 0
    domains = int(np.count_nonzero(exists))
    lowest = int(counts[exists].min()) if domains and domains >= constraint.min_domains else 0
    full: BoolColumn = counts > constraint.max_skew + lowest - int(constraint.self_match)
    return full


def codes(counted: Sequence[Counted], state: FilterState, nodes: NodeRows) -> Codes:
    result = np.zeros(nodes.count, dtype=np.int64)
    for constraint, full in zip(reversed(counted), reversed(state), strict=True):
        ids = constraint.column.ids[nodes.rows]
        result[full[ids]] = SKEWED
        result[ids == 0] = NO_LABEL
    return result


def stale_rows(
    counted: Sequence[Counted], before: FilterState, now: FilterState, rows_in_use: int
) -> StaleRows:
    """Rows in domains whose verdict changed."""
    rows = NO_ROWS
    for constraint, was, is_now in zip(counted, before, now, strict=True):
        if was is is_now:
            continue
        if len(was) != len(is_now):
            return ALL_ROWS
        changed = np.flatnonzero(was != is_now)
        if len(changed):
            rows = merge_rows(rows, constraint.column.rows_of(changed, rows_in_use))
    return rows
