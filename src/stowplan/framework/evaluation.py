"""What an evaluation found, readable while the table stands still."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from stowplan.cluster.changes import NO_ROWS, Rows
from stowplan.framework.cycle import Cycle
from stowplan.framework.feasibility import NOT_ASKED_FOR, OVERRULED, PASSED
from stowplan.framework.filtercolumn import FilterColumn
from stowplan.framework.plugin import Codes
from stowplan.framework.podclass import PodClass
from stowplan.framework.profile import ProfileSpec
from stowplan.framework.status import SUCCESS, Code, Status, unresolvable
from stowplan.framework.trials import NO_NOMINATIONS, Nominations, Trials

if TYPE_CHECKING:
    from stowplan.framework.framework import Framework


_NOT_LOOKED_AT: Final = unresolvable()


@dataclass(slots=True)
class PreFiltering:
    """What PreFilter plugins said together: a rejection, or the only nodes to look at."""

    status: Status | None = None
    node_names: frozenset[str] | None = None
    rejectors: set[str] = field(default_factory=set)
    """Plugins that narrowed the choice, for the text about nodes left out."""


class Evaluation:
    """Filter verdicts and scores of one attempt.

    It reads the arrays the runtime keeps, so it is good until the table changes or the next pod is
    evaluated. `Decision` (decision.py) is what lasts.
    """

    __slots__ = (
        "_class",
        "_framework",
        "_rejections",
        "class_key",
        "cycle",
        "ended",
        "nominations",
        "only_row",
        "overruled",
        "pre_filtering",
        "rejected_outright",
        "scored",
        "unexamined",
        "unsigned",
    )

    def __init__(
        self,
        framework: "Framework",
        cycle: Cycle,
        pod_class: PodClass,
        pre_filtering: PreFiltering,
        overruled: dict[int, Status] | None = None,
        nominations: Nominations = NO_NOMINATIONS,
    ) -> None:
        self._framework = framework
        self._class = pod_class
        self._rejections: dict[Status, Rows] | None = None
        self.cycle = cycle
        self.pre_filtering = pre_filtering
        self.rejected_outright = pre_filtering.status
        """The PreFilter rejection that spared the filters their work, if any."""
        self.overruled = overruled or {}
        self.nominations = nominations
        self.only_row: int | None = None
        self.scored = False
        self.ended = False
        """Whether scoring is over, or there was nothing to score."""
        self.unexamined = 0
        """How many nodes were not looked at, because enough had been found."""
        self.class_key: Hashable = None
        self.unsigned: Sequence[str] = ()

    @property
    def pod_class(self) -> PodClass:
        return self._class

    @property
    def profile(self) -> ProfileSpec:
        return self._framework.profile

    # Filter

    @property
    def feasible_count(self) -> int:
        if self.rejected_outright is not None:
            return 0
        return 1 if self.only_row is not None else self._class.feasibility.count

    @property
    def feasible_rows(self) -> Rows:
        if self.rejected_outright is not None:
            return np.empty(0, dtype=np.intp)
        if self.only_row is not None:
            return np.array([self.only_row], dtype=np.intp)
        return np.flatnonzero(self._class.feasibility.feasible)

    def status(self, row: int) -> Status:
        """What the filters say of a row: success, or the first rejection with its reasons."""
        if self.rejected_outright is not None:
            return self.rejected_outright
        feasibility = self._class.feasibility
        if row in self.overruled:
            return self.overruled[row]
        first = int(feasibility.first[row])
        if first == NOT_ASKED_FOR:
            return self.left_out
        if first == OVERRULED:
            return _NOT_LOOKED_AT
        if first == PASSED:
            return SUCCESS
        column = feasibility.columns[first]
        assert column.codes is not None
        return column.status(self.cycle, self.cycle.pod, int(column.codes[row]))

    def leave_out(self, rows: Rows, verdicts: Mapping[int, Status] | None = None) -> None:
        """Take rows that passed out of the choice before `Framework.rank`.

        Those with a verdict count as rejected, the others as not looked at.
        """
        if len(rows):
            self._class.feasibility.overrule_many(rows)
            self._class.preference.note(rows)
        self.overruled.update(verdicts or {})
        self._rejections = None
        self.unexamined += len(rows) - len(verdicts or ())

    @property
    def left_out(self) -> Status:
        """What is said of nodes that PreFilter plugins did not ask for."""
        return unresolvable(
            f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.pre_filtering.rejectors))}]"
        )

    def rejections(self) -> dict[Status, Rows]:
        """Rejected rows by verdict. Each distinct verdict is put into words once."""
        if self._rejections is None:
            self._rejections = self._find_rejections()
        return self._rejections

    def _find_rejections(self) -> dict[Status, Rows]:
        table = self.cycle.table
        feasibility = self._class.feasibility
        used = table.rows_in_use
        first, valid = feasibility.first[:used], table.valid[:used]
        overruled: dict[Status, list[int]] = {}
        for row, status in self.overruled.items():
            overruled.setdefault(status, []).append(row)
        found: dict[Status, Rows] = {
            status: np.array(rows, dtype=np.intp) for status, rows in overruled.items()
        }
        rejected = np.flatnonzero((first != PASSED) & valid)
        by_whom = first[rejected]
        counted = np.bincount(by_whom - OVERRULED).tolist()
        rejecting = {who + OVERRULED for who, rows in enumerate(counted) if rows}
        if NOT_ASKED_FOR in rejecting:
            _extend(found, self.left_out, rejected[by_whom == NOT_ASKED_FOR])
        for column in feasibility.columns:
            if column.index not in rejecting:
                continue
            rows = rejected[by_whom == column.index]
            assert column.codes is not None
            codes = column.codes[rows]
            for code in _distinct(codes):
                status = column.status(self.cycle, self.cycle.pod, code)
                _extend(found, status, rows[codes == code])
        return found

    def rows_rejected_with(self, code: Code) -> Rows:
        """The rows whose verdict has a code, in row order."""
        outright = self.rejected_outright
        if outright is not None:
            return np.flatnonzero(self.cycle.table.valid) if outright.code is code else NO_ROWS
        chosen = np.zeros(self.cycle.table.rows_in_use, dtype=np.bool_)
        for status, rows in self.rejections().items():
            if status.code is code:
                chosen[rows] = True
        return np.flatnonzero(chosen)

    def filters(self) -> list[FilterColumn]:
        """The filters that were asked, in the order they run, with their codes by row."""
        if self.rejected_outright is not None:
            return []
        return [column for column in self._class.feasibility.columns if column.active]

    def trials(self) -> Trials:
        """For trying the pod on rows as if other pods stood there; to be used in a `with` block."""
        memos = {} if self._class.released else self.cycle.memos
        return self._framework.trials(self.cycle, memos, self.nominations)

    def reason_counts(self) -> Counter[str]:
        """How many nodes each reason stands against."""
        counts: Counter[str] = Counter()
        for status, rows in self.rejections().items():
            for reason in status.reasons:
                counts[reason] += len(rows)
        return counts

    # Score

    def totals(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Total score by row, -1 for rows that are not feasible. Only after scoring."""
        return self._class.preference.ranking.totals

    def scores(self, rows: Rows) -> dict[str, list[int]]:
        """Score times weight of some rows, by plugin that scored."""
        found: dict[str, list[int]] = {}
        for column in self._class.preference.columns:
            if column.active:
                final = column.final
                values = [column.constant] * len(rows) if final is None else final[rows].tolist()
                found[column.plugin.name] = [value * column.weight for value in values]
        return found

    def weights(self) -> Mapping[str, int]:
        """The weight of every plugin that scored."""
        return self._class.preference.weights

    def best(self) -> tuple[int, int]:
        """The highest total and how many rows have it."""
        return self._class.preference.ranking.best()

    def best_rows(self) -> Rows:
        """Every row with the highest total; the only feasible row where nothing was scored."""
        if not self.scored:
            return self.feasible_rows
        ranking = self._class.preference.ranking
        return ranking.ties(ranking.best()[0])

    def top_rows(self, count: int, chosen: int) -> list[int]:
        """So many of the best rows: the chosen one, then the next best, equal ones in row order."""
        others = [row for row in self._class.preference.ranking.top_rows(count) if row != chosen]
        return [chosen, *others[: count - 1]]

    def scores_of(self, rows: Sequence[int]) -> dict[str, list[int]]:
        """The same as `scores`, for a handful of rows."""
        found: dict[str, list[int]] = {}
        for column in self._class.preference.columns:
            if column.active:
                final, weight = column.final, column.weight
                if final is None:
                    found[column.plugin.name] = [column.constant * weight] * len(rows)
                else:
                    item = final.item
                    found[column.plugin.name] = [item(row) * weight for row in rows]
        return found

    def pick(self, nth: int) -> int:
        """The nth (from 0) of the best rows."""
        if not self.scored:
            return int(self.feasible_rows[nth])
        ranking = self._class.preference.ranking
        return ranking.pick(ranking.best()[0], nth)

    def codes(self) -> dict[str, "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
        """Every filter's codes by row, also of filters that came after the first to reject."""
        return {
            column.plugin.name: column.codes
            for column in self._class.feasibility.columns
            if column.active and column.codes is not None
        }


def _distinct(codes: Codes) -> list[int]:
    """The different codes, in ascending order; mostly there is one."""
    lowest = int(codes.min())
    if lowest == codes.max():
        return [lowest]
    distinct: list[int] = np.unique(codes).tolist()
    return distinct


def _extend(found: dict[Status, Rows], status: Status, rows: Rows) -> None:
    known = found.get(status)
    found[status] = rows if known is None else np.concatenate((known, rows))
