"""Hard constraints: would the pod make its domain exceed the emptiest one by more than maxSkew?"""

from collections.abc import Sequence

import numpy as np

from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.view import NodeRows
from stowplan.framework.plugin import ALL_ROWS, Codes, StaleRows
from stowplan.framework.rows import merge_rows
from stowplan.plugins.podtopologyspread.counting import Counted

NO_LABEL, SKEWED = 1, 2

FilterState = tuple[BoolColumn, ...]
"""By constraint: which domains have no room for one more."""


def full_domains(counted: Counted, before: BoolColumn | None) -> BoolColumn:
    """Domains that would become too crowded; a domain that no regarded node has counts as empty.

    Returns `before`, the last verdict, itself if it still holds.
    """
    counted.counter.refresh()
    size = counted.column.size
    if counted.counter.domains is None:
        full = _many_full(counted, size)
    else:
        full = _few_full(counted, counted.counter.domains, size)
    if before is not None and len(before) == size and np.array_equal(before, full):
        return before
    return full


def _most(counted: Counted, domains: int, lowest: int) -> int:
    """How many matching pods a domain may have and still take one more."""
    constraint = counted.constraint
    if domains < constraint.min_domains:
        lowest = 0
    return constraint.max_skew + lowest - int(constraint.self_match)


def _few_full(counted: Counted, domains: list[int], size: int) -> BoolColumn:
    count = counted.counter.counts.get
    pods = [count(domain) for domain in domains]
    most = _most(counted, len(domains), min(pods, default=0))
    full = np.full(size, most < 0, dtype=np.bool_)
    for domain, number in zip(domains, pods, strict=True):
        full[domain] = number > most
    return full


def _many_full(counted: Counted, size: int) -> BoolColumn:
    counts = counted.counter.counts.to_array(size)
    exists = counted.counter.members > 0
    domains = int(np.count_nonzero(exists))
    most = _most(counted, domains, int(counts[exists].min()) if domains else 0)
    full: BoolColumn = counts > most
    return full


def codes(counted: Sequence[Counted], state: FilterState, nodes: NodeRows) -> Codes:
    result = np.zeros(nodes.count, dtype=np.int64)
    for constraint, full in zip(reversed(counted), reversed(state), strict=True):
        ids = constraint.column.ids[nodes.rows]
        result[full[ids]] = SKEWED
        result[ids == 0] = NO_LABEL
    return result


def code_of_row(counted: Sequence[Counted], state: FilterState, row: int) -> int:
    for constraint, full in zip(counted, state, strict=True):
        domain = constraint.column.ids.item(row)
        if not domain:
            return NO_LABEL
        if full.item(domain):
            return SKEWED
    return 0


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
