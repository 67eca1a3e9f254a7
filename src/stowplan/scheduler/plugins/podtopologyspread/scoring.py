"""Soft constraints: the fewer pods of the group are in a node's domains, the better."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stowplan.scheduler.framework import (
    MAX_NODE_SCORE,
    Cycle,
    NodeRows,
    ScoreRange,
    Scores,
)
from stowplan.scheduler.framework.advanced import ALL_ROWS, FEW_ROWS, IGNORED, StaleRows
from stowplan.scheduler.plugins.normalize import rounded
from stowplan.scheduler.plugins.podtopologyspread.common import HOSTNAME, ConstraintCounter
from stowplan.scheduler.table.changes import NO_ROWS, Rows, merge_rows
from stowplan.scheduler.table.columns import BoolColumn

_FEW_DOMAINS = 16
"""Up to this number of domains their rows are counted before the rows are looked for."""

Floats = npt.NDArray[np.float64]


class DomainShare(NamedTuple):
    """Share of one constraint in a score: by domain, or (for host names) by pods on the node itself."""

    weight: float
    by_domain: Floats | None


class ScoreState(NamedTuple):
    """By constraint: its counter, and what it adds to scores. Only rows in `having` are scored; None: all.

    Instead, `few` has the scores of the few rows that have all keys, as they are and as if no pod were on the
    node itself; see `fewnodes`.
    """

    counted: tuple[ConstraintCounter, ...]
    shares: tuple[DomainShare, ...]
    having: BoolColumn | None = None
    few: tuple[dict[int, int], dict[int, int]] | None = None


def domain_sizes(
    counted: Sequence[ConstraintCounter], cycle: Cycle, having: BoolColumn | None
) -> tuple[int, ...]:
    """Number of distinct domains of the feasible nodes, by constraint."""
    assert cycle.feasible is not None
    scored = cycle.feasible if having is None else cycle.feasible & having
    rows = scored.nonzero()[0]
    return tuple(
        len(rows) if entry.constraint.key == HOSTNAME else _distinct(entry, rows) for entry in counted
    )


def rows_with_all_keys(counted: Sequence[ConstraintCounter], rows_in_use: int) -> BoolColumn | None:
    """The rows whose nodes have the topology keys of all constraints; None: all rows."""
    mask: BoolColumn = np.zeros(len(counted[0].column.ids), dtype=np.bool_)
    if all(entry.column.index for entry in counted):
        rows = counted[0].column.ids.nonzero()[0]
        for entry in counted[1:]:
            rows = rows[entry.column.ids[rows] != 0]
        if len(rows) == rows_in_use:
            return None
        mask[rows] = True
    return mask


def _distinct(entry: ConstraintCounter, rows: Rows) -> int:
    column = entry.column
    if not len(rows):
        return 0
    seen = np.zeros(column.size, dtype=np.bool_)
    seen[column.ids[rows]] = True
    empty = column.index.get("")
    if empty is not None and seen[0] and seen[empty]:
        # A node without the label and one with an empty value are taken for the same domain.
        return int(np.count_nonzero(seen)) - 1
    return int(np.count_nonzero(seen))


def share(entry: ConstraintCounter, size: int, requires_all: bool) -> DomainShare:
    """The weight makes up for domains being many: the more there are, the fewer pods each can have."""
    weight = math.log(size + 2)
    if entry.constraint.key == HOSTNAME:
        return DomainShare(weight, None)
    entry.counter.refresh()
    counts = entry.counter.counts.to_array(entry.column.size)
    empty = entry.column.index.get("")
    if empty is not None and not requires_all:
        counts[empty] += counts[0]
    by_domain: Floats = counts * np.float64(weight) + float(entry.constraint.max_skew - 1)
    by_domain[0] = 0.0
    return DomainShare(weight, by_domain)


def scores(state: ScoreState, nodes: NodeRows, *, without_pods: bool = False) -> Scores:
    """Raw scores: the lower the better. With `without_pods` as if no pod were on the nodes themselves."""
    if state.few is not None:
        return _of_few(state.few[without_pods], nodes)
    if state.having is not None:
        places = state.having[nodes.rows].nonzero()[0]
        if len(places) < nodes.count:
            result = np.full(nodes.count, IGNORED, dtype=np.int64)
            if len(places):
                rows = places if isinstance(nodes.rows, slice) else nodes.rows[places]
                some = NodeRows(nodes.table, rows)
                result[places] = _sums(state, some, without_pods)
            return result
    return _sums(state, nodes, without_pods)


def _of_few(raw: dict[int, int], nodes: NodeRows) -> Scores:
    result = np.full(nodes.count, IGNORED, dtype=np.int64)
    for row, score in raw.items():
        if isinstance(nodes.rows, slice):
            result[row] = score
        else:
            result[nodes.rows == row] = score
    return result


def _sums(state: ScoreState, nodes: NodeRows, without_pods: bool) -> Scores:
    """The same for rows that have all the keys there must be."""
    sums = np.zeros(nodes.count, dtype=np.float64)
    for entry, part in zip(state.counted, state.shares, strict=True):
        ids = entry.column.ids[nodes.rows]
        if part.by_domain is not None:
            sums += part.by_domain[ids]
            continue
        if entry.matcher is None or without_pods:
            here = np.full(nodes.count, float(entry.constraint.max_skew - 1))
        else:
            here = entry.matcher.rows.at(nodes.rows, nodes.table.capacity) * part.weight
            here += entry.constraint.max_skew - 1
        here[ids == 0] = 0.0
        sums += here
    return rounded(sums)


def normalized(raw: Scores, extremes: ScoreRange) -> Scores:
    """The lowest raw score gets the most; ignored rows get nothing."""
    low, high = extremes
    ignored = raw == IGNORED
    some_ignored = ignored.any()
    if high == 0:
        result = np.full(len(raw), MAX_NODE_SCORE, dtype=np.int64)
    else:
        result = (high + low) - (np.where(ignored, 0, raw) if some_ignored else raw)
        result *= MAX_NODE_SCORE
        result //= high
    if some_ignored:
        result[ignored] = 0
    return result


def stale_rows(before: ScoreState, now: ScoreState, rows_in_use: int) -> StaleRows:
    """Rows in domains whose share changed; all of them if a weight did, or the counters are others."""
    rows = NO_ROWS
    most = max(FEW_ROWS, rows_in_use // 4)
    if before.counted is not now.counted:
        return ALL_ROWS
    if now.few is not None or before.few is not None:
        return NO_ROWS if before.few is now.few else ALL_ROWS
    for entry, was, is_now in zip(now.counted, before.shares, now.shares, strict=True):
        if was is is_now:
            continue
        if was.weight != is_now.weight:
            return ALL_ROWS
        if was.by_domain is None or is_now.by_domain is None:
            continue
        if len(was.by_domain) != len(is_now.by_domain):
            return ALL_ROWS
        changed = np.flatnonzero(was.by_domain != is_now.by_domain)
        if len(changed):
            if len(changed) <= _FEW_DOMAINS and entry.column.count_of(changed) > most:
                return ALL_ROWS
            rows = merge_rows(rows, entry.column.rows_of(changed, rows_in_use))
    return rows
