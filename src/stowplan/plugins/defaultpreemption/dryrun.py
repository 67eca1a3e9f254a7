"""Trying node after node: where would preemption help, and whom would it cost?"""

from collections import Counter
from collections.abc import Generator, Sequence

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.simulation import Trials
from stowplan.framework.status import Code, Status, error
from stowplan.gocompat.quoting import quote
from stowplan.plugins.defaultpreemption.candidates import Candidates, from_sacrifices, joined
from stowplan.plugins.defaultpreemption.manyrows import ManyRows
from stowplan.plugins.defaultpreemption.reprieve import Sacrifice, select_victims


class DryRun:
    """Rows tried in order until enough of them are known where preemption helps.

    Enough are `limit` candidates, with at least one among them that violates no budget. Of those that
    violate one no more than `limit` are remembered; a limit of 0 remembers none. `reasons` counts why nodes
    are no candidates and `explained` these nodes, as long as there is no candidate; `errors` says what went
    wrong.
    """

    def __init__(self, trials: Trials, limit: int, many: ManyRows | None) -> None:
        self._trials = trials
        self._budgets = trials.table.budgets
        self._limit = limit
        self._many = many
        self._parts: list[Candidates] = []
        self._sacrificed: dict[int, list[PodInfo]] = {}
        self._found = 0
        self._clean = 0
        self.reasons: Counter[str] = Counter()
        self.explained = 0
        self.errors: list[str] = []

    def run(self, rows: Rows) -> Generator[None, None, Candidates]:
        """Try rows in their order, in steps; returns the candidates in that order."""
        size = self._limit or len(rows)
        for start in range(0, len(rows), size):
            turns = np.arange(start, min(start + size, len(rows)))
            yield from self._try(rows[turns], turns)
            if self._is_enough(self._found, self._clean):
                break
        return self._remembered(joined(self._parts))

    def victims(self, rows: Sequence[int]) -> Sequence[Sequence[PodInfo]]:
        """Who would have to go from each of some candidates, the most important first."""
        known = self._sacrificed
        others = [row for row in rows if row not in known]
        if self._many is not None and others:
            known = known | dict(zip(others, self._many.victims(others), strict=True))
        return [known[row] for row in rows]

    def _try(self, rows: Rows, turns: IntArray) -> Generator[None, None, None]:
        parts: list[Candidates] = []
        judged = None
        if self._many is not None:
            suits = self._many.suits(rows)
            if suits.any():
                yield
                judged = self._many.judge(rows[suits], turns[suits])
                parts.append(judged.candidates)
                rows, turns = rows[~suits], turns[~suits]
        if len(rows):
            parts.append((yield from self._one_by_one(rows, turns, joined(parts))))
        if self._limit:
            self._keep(joined(parts))
        if judged is not None and not self._found:
            for status, count in judged.failures():
                self._note(status, count)

    def _one_by_one(
        self, rows: Rows, turns: IntArray, others: Candidates
    ) -> Generator[None, None, Candidates]:
        """Try rows each on its own, until those and the others found by then are enough."""
        clean = np.concatenate(([0], np.cumsum(others.violations == 0)))
        before = np.searchsorted(others.turns, turns)
        found: list[tuple[int, int, Sacrifice]] = []
        own_clean = 0
        for row, turn, passed in zip(rows.tolist(), turns.tolist(), before.tolist(), strict=True):
            if self._is_enough(
                self._found + passed + len(found), self._clean + int(clean[passed]) + own_clean
            ):
                break
            yield
            outcome = select_victims(self._trials, row, self._budgets)
            if isinstance(outcome, Sacrifice) and not outcome.victims:
                name = quote(self._trials.table.name_of(row))
                self._note(error(f"expected at least one victim pod on node {name}"), 1)
            elif isinstance(outcome, Sacrifice):
                found.append((turn, row, outcome))
                self._sacrificed[row] = outcome.victims
                own_clean += not outcome.violations
            else:
                self._note(outcome, 1)
        return from_sacrifices(found)

    def _is_enough(self, found: int, clean: int) -> bool:
        return clean > 0 and found >= self._limit > 0

    def _keep(self, part: Candidates) -> None:
        """Take in candidates up to the one that makes them enough."""
        found = self._found + np.arange(1, len(part) + 1)
        clean = self._clean + np.cumsum(part.violations == 0)
        enough = np.flatnonzero((clean > 0) & (found >= self._limit))
        if len(enough) and enough[0] + 1 < len(part):
            part = part.take(np.arange(enough[0] + 1))
        self._parts.append(part)
        self._found += len(part)
        self._clean += int(np.count_nonzero(part.violations == 0))

    def _remembered(self, candidates: Candidates) -> Candidates:
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
