"""The dry run of preemption: on which nodes would evicting pods help, and at what cost?"""

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Final

import numpy as np

from stowplan.scheduler.framework import Code, PodInfo, Status, unresolvable
from stowplan.scheduler.framework.simulation import Simulations
from stowplan.scheduler.plugins.defaultpreemption.batch import FEW, BatchDryRun, BatchResult
from stowplan.scheduler.plugins.defaultpreemption.candidates import (
    REASON_NO_VICTIMS,
    Candidates,
    NodeVictims,
    candidates_of,
    joined,
    select_victims,
)
from stowplan.scheduler.plugins.defaultpreemption.units import PodsOfRows, Units
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IntArray

_NO_VICTIMS: Final = unresolvable(REASON_NO_VICTIMS)


class DryRun:
    """Rows tried in order until there are enough candidates.

    Enough are `limit` candidates, at least one of which violates no disruption budget. Of those that violate
    one no more than `limit` are kept; a limit of 0 keeps none. `pods_of_rows` tells which rows have no pod of
    lower priority, if there are more than a few rows to try. `reasons` counts why nodes are no candidates and
    `explained` these nodes, as long as there is no candidate; `errors` has the errors of plugins.
    """

    def __init__(
        self,
        simulations: Simulations,
        limit: int,
        batch: BatchDryRun | None,
        units: Units | None = None,
        pods_of_rows: PodsOfRows | None = None,
        few: int = FEW,
    ) -> None:
        self._simulations = simulations
        self._units = units
        self._pods_of_rows = pods_of_rows
        self._few = few
        self._budgets = simulations.table.budgets
        self._limit = limit
        self._batch = batch
        self._parts: list[Candidates] = []
        self._victims_by_row: dict[int, list[PodInfo]] = {}
        self._tried: list[BatchResult] = []
        self._failed: list[tuple[int, int, Status]] = []
        self._without_lower: list[tuple[IntArray, Rows]] = []
        self._last_turn: int | None = None
        self._found = 0
        self._clean = 0
        self.reasons: Counter[str] = Counter()
        self.explained = 0
        self.errors: list[str] = []

    def run(self, rows: Rows) -> Generator[None, None, Candidates]:
        """Try rows in their order, in steps; returns the candidates in that order.

        Where most results are known already, one step is quicker than a few.
        """
        size = self._limit or len(rows)
        if self._batch is not None and self._batch.unknown_among(rows) <= size:
            size = len(rows)
        for start in range(0, len(rows), size):
            turns = np.arange(start, min(start + size, len(rows)))
            yield from self._try(rows[turns], turns)
            if self._is_enough(self._found, self._clean):
                break
        return self._within_limit(joined(self._parts))

    @property
    def by_batch_alone(self) -> bool:
        """True if no row had to be tried individually."""
        return not (self._failed or self._victims_by_row)

    def victims(self, rows: Sequence[int]) -> Sequence[Sequence[PodInfo]]:
        """The victims on each of some candidates, the most important first."""
        known = self._victims_by_row
        others = [row for row in rows if row not in known]
        if self._batch is not None and others:
            known = known | dict(zip(others, self._batch.victims(others), strict=True))
        return [known[row] for row in rows]

    def not_candidates(self) -> list[tuple[Status, Rows]]:
        """Rows that turned out to be no candidates, by reason; while the table does not change."""
        found = [failure for result in self._tried for failure in result.failures(self._last_turn)]
        by_status: dict[Status, list[int]] = {}
        for turn, row, status in self._failed:
            if self._last_turn is None or turn <= self._last_turn:
                by_status.setdefault(status, []).append(row)
        for turns, rows in self._without_lower:
            tried = rows if self._last_turn is None else rows[turns <= self._last_turn]
            if len(tried):
                by_status.setdefault(_NO_VICTIMS, []).extend(tried.tolist())
        return [*found, *((status, np.array(some, dtype=np.intp)) for status, some in by_status.items())]

    def _try(self, rows: Rows, turns: IntArray) -> Generator[None, None, None]:
        parts: list[Candidates] = []
        batch_result = None
        if self._batch is not None:
            suits = self._batch.suits(rows)
            if suits.any():
                yield
                yield from self._batch.prepare(rows[suits])
                batch_result = self._batch.run(rows[suits], turns[suits])
                self._tried.append(batch_result)
                parts.append(batch_result.candidates)
                rows, turns = rows[~suits], turns[~suits]
        if len(rows) > self._few and self._pods_of_rows is not None:
            none_below = (yield from self._pods_of_rows.none_below(self._simulations.pod.priority))[rows]
            self._pass_over(rows[none_below], turns[none_below])
            rows, turns = rows[~none_below], turns[~none_below]
        if len(rows):
            parts.append((yield from self._one_by_one(rows, turns, joined(parts))))
        if self._limit:
            self._keep(joined(parts))
        if batch_result is not None and not self._found:
            for status, failed in batch_result.failures():
                self._note(status, len(failed))

    def _pass_over(self, rows: Rows, turns: IntArray) -> None:
        """Rows without pods of lower priority are no candidates."""
        if len(rows):
            self._without_lower.append((turns, rows))
            self._note(_NO_VICTIMS, len(rows))

    def _one_by_one(
        self, rows: Rows, turns: IntArray, others: Candidates
    ) -> Generator[None, None, Candidates]:
        """Try rows each on its own, until those and the others found by then are enough."""
        clean = np.concatenate(([0], np.cumsum(others.violations == 0)))
        before = np.searchsorted(others.turns, turns)
        found: list[tuple[int, int, NodeVictims]] = []
        own_clean = 0
        for row, turn, passed in zip(rows.tolist(), turns.tolist(), before.tolist(), strict=True):
            if self._is_enough(
                self._found + passed + len(found), self._clean + int(clean[passed]) + own_clean
            ):
                break
            yield
            if self._budgets:
                yield from self._budgets.look_up(list(self._simulations.table.pods_on[row].values()))
            outcome = select_victims(self._simulations, row, self._budgets, self._units)
            if isinstance(outcome, NodeVictims):
                found.append((turn, row, outcome))
                self._victims_by_row[row] = outcome.victims
                own_clean += not outcome.violations
            else:
                self._failed.append((turn, row, outcome))
                self._note(outcome, 1)
        return candidates_of(found)

    def _is_enough(self, found: int, clean: int) -> bool:
        return clean > 0 and found >= self._limit > 0

    def _keep(self, part: Candidates) -> None:
        """Keep candidates up to the one that makes them enough."""
        found = self._found + np.arange(1, len(part) + 1)
        clean = self._clean + np.cumsum(part.violations == 0)
        enough = np.flatnonzero((clean > 0) & (found >= self._limit))
        if len(enough):
            self._last_turn = part.turns.item(enough[0])
            part = part.take(np.arange(enough[0] + 1))
        self._parts.append(part)
        self._found += len(part)
        self._clean += int(np.count_nonzero(part.violations == 0))

    def _within_limit(self, candidates: Candidates) -> Candidates:
        violating = np.flatnonzero(candidates.violations)
        if len(violating) <= self._limit:
            return candidates
        return candidates.take(np.delete(np.arange(len(candidates)), violating[self._limit :]))

    def _note(self, status: Status, count: int) -> None:
        self.explained += count
        if status.code is Code.ERROR:
            self.errors.append(status.message)
        for reason in status.reasons:
            self.reasons[reason] += count
