"""Putting together the rows that have to be looked at again."""

import numpy as np

from stowplan.cluster.changes import NO_ROWS, Rows
from stowplan.framework.plugin import AllRows, StaleRows, Traits


def rows_read(traits: Traits, node_rows: Rows, usage_rows: Rows) -> Rows:
    """Of the touched rows, those where something a plugin reads was touched."""
    if not traits.reads_node:
        return usage_rows if traits.reads_usage else NO_ROWS
    return merge_rows(node_rows, usage_rows) if traits.reads_usage else node_rows


def merge_rows(one: Rows, other: Rows) -> Rows:
    if not len(one) or one is other:
        return other
    if not len(other):
        return one
    if len(one) + len(other) <= 64:
        return np.array(sorted({*one.tolist(), *other.tolist()}), dtype=np.intp)
    mask = np.zeros(max(int(one.max()), int(other.max())) + 1, dtype=np.bool_)
    mask[one] = True
    mask[other] = True
    return np.flatnonzero(mask)


def merge_stale(one: Rows, other: StaleRows) -> StaleRows:
    return other if isinstance(other, AllRows) else merge_rows(one, other)
