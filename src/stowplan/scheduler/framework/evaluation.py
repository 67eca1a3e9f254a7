"""Results of filters and scores in one scheduling cycle, readable until the table changes."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stowplan.scheduler.framework.cycle_state import NOBODY, Cycle
from stowplan.scheduler.framework.interface import Codes
from stowplan.scheduler.framework.nominations import NO_NOMINATIONS, Nominations
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.reuse.equivalence_class import EquivalenceClass
from stowplan.scheduler.framework.reuse.filter_results import (
    NOT_ASKED_FOR,
    OUTSIDE,
    OVERRULED,
    PASSED,
    FilterColumn,
)
from stowplan.scheduler.framework.reuse.ranking import INFEASIBLE
from stowplan.scheduler.framework.simulation import Simulations
from stowplan.scheduler.framework.status import SUCCESS, ChoiceError, Code, Status, unresolvable
from stowplan.scheduler.table.changes import NO_ROWS, Rows

if TYPE_CHECKING:
    from stowplan.scheduler.framework.runtime import Framework


_NOT_LOOKED_AT: Final = unresolvable()


class PreFiltering(NamedTuple):
    """Combined result of PreFilter plugins: a rejection, or the only nodes to look at."""

    status: Status | None = None
    node_names: frozenset[str] | None = None
    rejectors: frozenset[str] = NOBODY
    """Plugins that narrowed the choice, for the text about nodes left out."""


NOTHING_SAID: Final = PreFiltering()


class Evaluation:
    """Filter verdicts and scores of one attempt.

    It reads the arrays the runtime keeps, so it is good until the table changes or the next pod is
    evaluated. `Decision` (decision.py) is what lasts.
    """

    __slots__ = (
        "_framework",
        "_rejections",
        "cycle",
        "ended",
        "feasible_count",
        "nominations",
        "only_row",
        "overruled",
        "pod_class",
        "pre_filtering",
        "rejected_outright",
        "ruled_out_by_others",
        "scored",
        "unexamined",
    )

    def __init__(
        self,
        framework: "Framework",
        cycle: Cycle,
        pod_class: EquivalenceClass,
        pre_filtering: PreFiltering,
        overruled: dict[int, Status] | None = None,
        nominations: Nominations = NO_NOMINATIONS,
    ) -> None:
        self._framework = framework
        self.pod_class = pod_class
        self._rejections: dict[Status, Rows] | None = None
        self.cycle = cycle
        self.pre_filtering = pre_filtering
        self.rejected_outright = pre_filtering.status
        """The PreFilter rejection that spared the filters their work, if any."""
        self.overruled = overruled or {}
        self.nominations = nominations
        self.only_row: int | None = None
        """The row nominated for the pod, if it can take it: then no other is considered. See `keep_to`."""
        self.feasible_count = 0 if self.rejected_outright is not None else pod_class.filters.count
        self.scored = False
        self.ended = False
        """True if scoring is over, or there was nothing to score."""
        self.ruled_out_by_others: list[int] = []
        """Rows that passed all filters and that others, as extenders, rejected."""
        self.unexamined = 0
        """Number of nodes that were not examined, because enough had been found."""

    @property
    def profile(self) -> ProfileSpec:
        return self._framework.profile

    # Filter

    def keep_to(self, row: int | None) -> None:
        """Consider one row only; None: all those that passed."""
        self.only_row = row
        self._count_feasible()

    def _count_feasible(self) -> None:
        if self.rejected_outright is None:
            self.feasible_count = 1 if self.only_row is not None else self.pod_class.filters.count

    def overrule(self, row: int, verdict: Status) -> None:
        """Give a row another verdict than the filters did, for this attempt."""
        self.overruled[row] = verdict
        self.pod_class.filters.overrule(row)
        self._count_feasible()

    @property
    def feasible_rows(self) -> Rows:
        if self.rejected_outright is not None:
            return np.empty(0, dtype=np.intp)
        if self.only_row is not None:
            return np.array([self.only_row], dtype=np.intp)
        return np.flatnonzero(self.pod_class.filters.feasible)

    def status(self, row: int) -> Status:
        """Filter result of a row: success, or the first rejection with its reasons."""
        if self.rejected_outright is not None:
            return self.rejected_outright
        filters = self.pod_class.filters
        if row in self.overruled:
            return self.overruled[row]
        first = int(filters.first[row])
        if first == NOT_ASKED_FOR:
            return self.left_out
        if first in (OVERRULED, OUTSIDE):
            return _NOT_LOOKED_AT
        if first == PASSED:
            return SUCCESS
        column = filters.columns[first]
        assert column.codes is not None
        return column.status(self.cycle, self.cycle.pod, int(column.codes[row]))

    def leave_out(self, rows: Rows, verdicts: Mapping[int, Status] | None = None) -> None:
        """Take rows that passed out of the choice before `Framework.run_scores`.

        Those with a verdict count as rejected, the others as not looked at.
        """
        if len(rows):
            self.pod_class.filters.overrule_many(rows)
            self._count_feasible()
        self.overruled.update(verdicts or {})
        self.ruled_out_by_others += [row for row, verdict in (verdicts or {}).items() if not verdict.plugin]
        self._rejections = None
        self.unexamined += len(rows) - len(verdicts or ())

    @property
    def left_out(self) -> Status:
        """Status of nodes excluded by the node names of PreFilter plugins."""
        return unresolvable(
            f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.pre_filtering.rejectors))}]"
        )

    def rejections(self) -> dict[Status, Rows]:
        """Rejected rows by verdict. Each distinct verdict is put into words once."""
        if self._rejections is None:
            self._rejections = self._find_rejections() if self._is_special else self._known_rejections()
        return self._rejections

    @property
    def _is_special(self) -> bool:
        """True if verdicts on rows may differ from those for other pods of the class."""
        return bool(self.overruled or self.pre_filtering.node_names is not None or self.pod_class.unsigned)

    def _known_rejections(self) -> dict[Status, Rows]:
        """Those of the last pod of the class, while they are the same."""
        pod_class = self.pod_class
        version = pod_class.filters.rejections_version
        if pod_class.rejections is None or pod_class.rejections[0] != version:
            pod_class.rejections = (version, self._find_rejections())
        return pod_class.rejections[1]

    def _overruled_rows(self) -> dict[Status, Rows]:
        """Rows by what was said of them for this attempt only: of hundreds it is often the very same."""
        verdicts = self.overruled.values()
        if len(set(map(id, verdicts))) == 1:
            rows = np.fromiter(self.overruled, dtype=np.intp, count=len(self.overruled))
            return {next(iter(verdicts)): rows}
        by_status: dict[Status, list[int]] = {}
        for row, status in self.overruled.items():
            by_status.setdefault(status, []).append(row)
        return {status: np.array(rows, dtype=np.intp) for status, rows in by_status.items()}

    def _find_rejections(self) -> dict[Status, Rows]:
        table = self.cycle.table
        filters = self.pod_class.filters
        used = table.rows_in_use
        first, valid = filters.first[:used], table.valid[:used]
        found = self._overruled_rows()
        rejected = np.flatnonzero((first != PASSED) & (first != OUTSIDE) & valid)
        by_whom = first[rejected]
        counted = np.bincount(by_whom - OVERRULED).tolist()
        rejecting = {who + OVERRULED for who, rows in enumerate(counted) if rows}
        if NOT_ASKED_FOR in rejecting:
            _extend(found, self.left_out, rejected[by_whom == NOT_ASKED_FOR])
        for column in filters.columns:
            if column.index not in rejecting:
                continue
            rows = rejected if len(rejecting) == 1 else rejected[by_whom == column.index]
            assert column.codes is not None
            codes = column.codes[rows]
            distinct = _distinct(codes)
            for code in distinct:
                status = column.status(self.cycle, self.cycle.pod, code)
                _extend(found, status, rows if len(distinct) == 1 else rows[codes == code])
        return found

    def rows_rejected_with(self, code: Code) -> Rows:
        """The rows whose verdict has a code, in row order."""
        outright = self.rejected_outright
        if outright is not None:
            return self.all_rows() if outright.code is code else NO_ROWS
        found = [rows for status, rows in self.rejections().items() if status.code is code]
        if len(found) == 1 and not self.overruled:
            return found[0]
        chosen = np.zeros(self.cycle.table.rows_in_use, dtype=np.bool_)
        for rows in found:
            chosen[rows] = True
        return np.flatnonzero(chosen)

    def all_rows(self) -> Rows:
        """The rows of all nodes, or of all in the placement at hand."""
        table, placement = self.cycle.table, self.cycle.placement
        return np.flatnonzero(table.valid) if placement is None else placement.placement.rows_of(table)

    @property
    def node_count(self) -> int:
        """Number of nodes; of the placement, if a group is being placed."""
        placement = self.cycle.placement
        return (
            self.cycle.table.node_count if placement is None else placement.placement.count(self.cycle.table)
        )

    def filters(self) -> list[FilterColumn]:
        """The filters that were asked, in the order they run, with their codes by row."""
        if self.rejected_outright is not None:
            return []
        return [column for column in self.pod_class.filters.columns if column.active]

    def simulations(self) -> Simulations:
        """For trying the pod on rows as if other pods stood there; to be used in a `with` block."""
        memos = {} if self.pod_class.released else self.cycle.memos
        return self._framework.simulations(self.cycle, memos, self.nominations)

    def reason_counts(self) -> Counter[str]:
        """Number of nodes by reason."""
        counts: Counter[str] = Counter()
        for status, rows in self.rejections().items():
            for reason in status.reasons:
                counts[reason] += len(rows)
        return counts

    # Score

    def totals(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Total score by row, INFEASIBLE for rows that are not feasible. Only after scoring."""
        if not self.pod_class.scores.is_started:
            return np.full(self.cycle.table.capacity, INFEASIBLE, dtype=np.int64)
        return self.pod_class.scores.ranking.totals

    def scores(self, rows: Rows) -> dict[str, list[int]]:
        """Score times weight of some rows, by plugin that scored."""
        found: dict[str, list[int]] = {}
        for column in self.pod_class.scores.columns:
            if column.active:
                final = column.final
                values = [column.constant] * len(rows) if final is None else final[rows].tolist()
                found[column.plugin.name] = [value * column.weight for value in values]
        return found

    def best_rows(self) -> Rows:
        """Every row with the highest total; the only feasible row where nothing was scored."""
        if not self.scored:
            return self.feasible_rows
        ranking = self.pod_class.scores.ranking
        return ranking.ties(ranking.best()[0])

    def top_rows(self, count: int, chosen: int) -> list[int]:
        """The best `count` rows: the chosen one, then the next best, equal ones in row order."""
        rows = self.pod_class.scores.ranking.top_rows(count)
        if chosen in rows:
            rows.remove(chosen)
        return [chosen, *rows[: count - 1]]

    def check_choice(self, row: int) -> None:
        """Whatever a ranking says, only a node that passed the filters may be chosen. Raises ChoiceError."""
        if not self.cycle.table.valid.item(row):
            raise ChoiceError(row, "has no node")
        if row != self.only_row and not self.pod_class.filters.feasible.item(row):
            raise ChoiceError(row, f"is that of node {self.cycle.table.name_of(row)}, which was filtered out")

    def codes(self) -> dict[str, "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
        """Every filter's codes by row, also of filters that came after the first to reject."""
        return {
            column.plugin.name: column.codes
            for column in self.pod_class.filters.columns
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


class Rejectors(NamedTuple):
    """Plugins that rejected a pod; those that only wait for something are in both sets."""

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()


def rejectors_of(evaluation: Evaluation) -> Rejectors:
    """The plugins because of which an attempt found no node.

    These are the ones that rejected nodes, and those that narrowed the choice beforehand. In a cluster
    without nodes there are none.
    """
    if not evaluation.node_count:
        return Rejectors()
    outright = evaluation.rejected_outright
    verdicts: list[Status] = [*evaluation.rejections()] if outright is None else [outright]
    said = [verdict for verdict in verdicts if verdict.plugin]
    pending = frozenset(verdict.plugin for verdict in said if verdict.code is Code.PENDING)
    named = frozenset(verdict.plugin for verdict in said)
    return Rejectors(named | evaluation.pre_filtering.rejectors, pending)
