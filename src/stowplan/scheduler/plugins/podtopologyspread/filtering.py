"""Hard constraints: would the pod make its domain exceed the emptiest one by more than maxSkew?"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from stowplan.scheduler.framework import Codes, NodeRows, PodInfo
from stowplan.scheduler.framework.advanced import ALL_ROWS, StaleRows
from stowplan.scheduler.framework.simulation import SimulatedRow
from stowplan.scheduler.plugins.podtopologyspread.common import ConstraintCounter, SpreadConstraint
from stowplan.scheduler.table.changes import NO_ROWS, Rows, merge_rows
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.matchers import FEW_DOMAINS
from stowplan.scheduler.table.table import ClusterTable

NO_LABEL, SKEWED = 1, 2


class FilterState(NamedTuple):
    """By constraint: its counter, and which domains have no room for one more.

    `few` has what constraints behind these say of the few rows that have their keys; see `fewnodes`.
    """

    counted: tuple[ConstraintCounter, ...]
    full: tuple[BoolColumn, ...]
    few: dict[int, int] | None = None


class Shift(NamedTuple):
    """A domain that is taken to have more pods than are counted there, or fewer."""

    domain: int
    by: int


def shifts_of(counted: ConstraintCounter, simulated: SimulatedRow, namespace: str) -> list[Shift]:
    """Difference that imagined pods make in domains beyond the counter's own.

    kube-scheduler counts a domain's pods without those being deleted, and none at all for an empty selector.
    When it imagines pods gone or added, though, every pod that the selector allows changes the count, these
    too.
    """
    return [
        Shift(counted.column.ids.item(one.row), by)
        for one in simulated.rows
        if (by := uncounted_pods(counted.constraint, one, namespace)) and counted.counter.regards(one.row)
    ]


def uncounted_pods(constraint: SpreadConstraint, simulated: SimulatedRow, namespace: str) -> int:
    """Number of pods a simulated row counts beyond the counter, for a constraint of a pod."""

    def uncounted(pods: Iterable[PodInfo]) -> int:
        return sum(
            (info.dying or constraint.selector.is_empty)
            and info.namespace == namespace
            and constraint.selector.matches(info.labels)
            for info in pods
        )

    return uncounted(simulated.added) - uncounted(simulated.removed.values())


def full_domains(
    counted: ConstraintCounter, before: BoolColumn | None = None, shifts: Sequence[Shift] = ()
) -> BoolColumn:
    """Domains where the pod would exceed maxSkew; a domain that no regarded node has counts as empty.

    Returns `before`, the last verdict, itself if it still holds.
    """
    counted.counter.refresh()
    size = counted.column.size
    if before is not None and len(before) != size:
        before = None
    if counted.counter.domains is not None:
        return _few_full(counted, counted.counter.domains, size, shifts, before)
    full = _many_full(counted, size, shifts)
    return before if before is not None and np.array_equal(before, full) else full


def most_pods(constraint: SpreadConstraint, domains: int, lowest: int) -> int:
    """Maximum number of matching pods in a domain that can still take one more."""
    if domains < constraint.min_domains:
        lowest = 0
    return constraint.max_skew + lowest - int(constraint.self_match)


def _few_full(
    counted: ConstraintCounter,
    domains: list[int],
    size: int,
    shifts: Sequence[Shift],
    before: BoolColumn | None,
) -> BoolColumn:
    count = counted.counter.counts.get
    pods = [count(domain) for domain in domains]
    for shift in shifts:
        pods[domains.index(shift.domain)] += shift.by
    most = most_pods(counted.constraint, len(domains), min(pods, default=0))
    if before is not None and before.item(0) == (most < 0):
        was = before.item
        if [was(domain) for domain in domains] == [number > most for number in pods]:
            return before
    full = np.full(size, most < 0, dtype=np.bool_)
    for domain, number in zip(domains, pods, strict=True):
        full[domain] = number > most
    return full


def _many_full(counted: ConstraintCounter, size: int, shifts: Sequence[Shift]) -> BoolColumn:
    counts = counted.counter.counts.to_array(size)
    for shift in shifts:
        counts[shift.domain] += shift.by
    exists = counted.counter.members > 0
    domains = int(np.count_nonzero(exists))
    most = most_pods(counted.constraint, domains, int(counts[exists].min()) if domains else 0)
    full: BoolColumn = counts > most
    return full


def _passes_all(counted: ConstraintCounter, full: BoolColumn, table: ClusterTable) -> bool:
    """True if every node is in a domain that has room, if domains are few enough to check at once."""
    column = counted.column
    return column.size <= FEW_DOMAINS and sum(column.populations) >= table.node_count and not full.any()


def codes(state: FilterState, nodes: NodeRows) -> Codes | None:
    """Codes of the first constraint that rejects a row; later constraints skip rejected rows."""
    if state.few is None and all(map(_passes_all, state.counted, state.full, repeat(nodes.table))):
        return None
    result = np.zeros(nodes.count, dtype=np.int64)
    if state.counted:
        column, full = state.counted[0].column, state.full[0]
        by_domain = np.where(full, SKEWED, 0)
        by_domain[0] = NO_LABEL
        result = by_domain[column.ids[nodes.rows]]
    if len(state.counted) <= 1 and state.few is None:
        return result
    places = np.flatnonzero(result == 0)
    rows = places if isinstance(nodes.rows, slice) else nodes.rows[places]
    for constraint, full in zip(state.counted[1:], state.full[1:], strict=True):
        ids = constraint.column.ids[rows]
        verdicts = np.where(ids == 0, NO_LABEL, np.where(full[ids], SKEWED, 0))
        passed = verdicts == 0
        if passed.all():
            continue
        result[places] = verdicts
        rows, places = rows[passed], places[passed]
        if not len(rows):
            return result
    if state.few is not None:
        result[places] = NO_LABEL
        for row, code in state.few.items():
            result[places[rows == row]] = code
    return result


def code_of_row(state: FilterState, row: int) -> int:
    for constraint, full in zip(state.counted, state.full, strict=True):
        domain = constraint.column.ids.item(row)
        if not domain:
            return NO_LABEL
        if full.item(domain):
            return SKEWED
    return 0 if state.few is None else state.few.get(row, NO_LABEL)


def stale_rows(before: FilterState, now: FilterState, rows_in_use: int) -> StaleRows:
    """Rows in domains whose verdict changed; all of them if the counters are others."""
    rows = NO_ROWS
    if before.counted is not now.counted:
        return ALL_ROWS
    for constraint, was, is_now in zip(now.counted, before.full, now.full, strict=True):
        if was is is_now:
            continue
        if len(was) != len(is_now):
            return ALL_ROWS
        changed = np.flatnonzero(was != is_now)
        if len(changed):
            rows = merge_rows(rows, constraint.column.rows_of(changed, rows_in_use))
    if before.few is not now.few:
        rows = merge_rows(rows, _differing(before.few or {}, now.few or {}))
    return rows


def _differing(before: dict[int, int], now: dict[int, int]) -> Rows:
    """Rows of which two verdicts differ."""
    differing = [row for row in before.keys() | now.keys() if before.get(row) != now.get(row)]
    return np.array(sorted(differing), dtype=np.intp)
