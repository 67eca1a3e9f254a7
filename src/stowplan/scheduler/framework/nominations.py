"""Pods nominated to nodes: others of lower priority leave room for them there.

A thousand pods may be nominated at the same time, and each attempt has to reckon with all of them. So what is
found out about a row is kept until the row or its nominated pods change.
"""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from stowplan.scheduler.framework.interface import FEW_ROWS
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.table.changes import ChangeLog, Rows
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

if TYPE_CHECKING:
    from stowplan.scheduler.framework.reuse.filter_results import FilterColumn

Nominations = Mapping[int, Sequence[PodInfo]]
"""Pods nominated to rows."""

NO_NOMINATIONS: Nominations = {}
_MOST_PRIORITIES: Final = 8

Mark = tuple[ChangeLog, int]
"""Where nominations stand among all that were made of each other."""


class NominatedRows(dict[int, Sequence[PodInfo]]):
    """Nominations with an index by priority that is passed on to their successors.

    Immutable. Its pods are on no row: a placed pod is no longer nominated. The index moves to the nominations
    that replace these; if these are used after that, they compute it again.
    """

    __slots__ = ("_by_priority", "_log", "_position", "_row_of")

    def __init__(self, rows: Nominations = NO_NOMINATIONS) -> None:
        super().__init__(rows)
        self._log = ChangeLog()
        self._position = 0
        self._row_of: dict[str, int] | None = None
        self._by_priority: dict[int, dict[int, list[PodInfo]]] = {}

    def replaced(self, changed: Mapping[int, Sequence[PodInfo]]) -> "NominatedRows":
        """The same with other pods on some rows, or none."""
        made = NominatedRows(self)
        made._log = self._log
        made._log.extend(list(changed))
        made._position = made._log.position
        row_of = made._row_of = self._rows_of_pods()
        made._by_priority = dict([*self._by_priority.items()][-_MOST_PRIORITIES:])
        self._row_of, self._by_priority = None, {}
        for row in changed:
            for pod in made.pop(row, ()):
                if row_of.get(pod.uid) == row:
                    del row_of[pod.uid]
        for row, pods in changed.items():
            if pods:
                made[row] = pods
                row_of.update((pod.uid, row) for pod in pods)
            for priority, rows in made._by_priority.items():
                counted = [pod for pod in pods if pod.priority >= priority]
                if counted:
                    rows[row] = counted
                else:
                    rows.pop(row, None)
        return made

    def _rows_of_pods(self) -> dict[str, int]:
        if self._row_of is None:
            self._row_of = {pod.uid: row for row, pods in self.items() for pod in pods}
        return self._row_of

    @property
    def mark(self) -> Mark:
        """To be kept for `changed_since`, instead of the nominations themselves."""
        return self._log, self._position

    def changed_since(self, mark: Mark | None) -> Rows | None:
        """The rows that may have other pods than in nominations that these were made of; None: any."""
        position = self._position_of(mark)
        return None if position is None else self._log.since(position)

    def few_changed_since(self, mark: Mark | None) -> list[int] | None:
        """The same if they are few; None: any."""
        position = self._position_of(mark)
        return None if position is None else self._log.few_since(position, FEW_ROWS)

    def _position_of(self, mark: Mark | None) -> int | None:
        """Where a mark stands in the log; None if it is not of nominations that these were made of."""
        if mark is None or mark[0] is not self._log or mark[1] > self._position:
            return None
        return mark[1]

    def row_of(self, uid: str) -> int | None:
        """Where a pod is nominated to."""
        return self._rows_of_pods().get(uid)

    def counted(self, priority: int) -> dict[int, list[PodInfo]]:
        """The pods of at least this priority, by row, until they are replaced. Not to be changed."""
        known = self._by_priority.get(priority)
        if known is None:
            known = self._by_priority[priority] = {
                row: counted
                for row, pods in self.items()
                if (counted := [other for other in pods if other.priority >= priority])
            }
        return known

    def beside(self, pod: PodInfo) -> dict[int, list[PodInfo]]:
        """Result of `rows_with_nominated_pods` for a pod, until they are replaced. Not to be changed."""
        known = self.counted(pod.priority)
        own = self.row_of(pod.uid)
        if own is None or own not in known:
            return known
        others = [other for other in known[own] if other.uid != pod.uid]
        return {**known, own: others} if others else {row: known[row] for row in known if row != own}


def nominated_pods(nominations: Nominations, row: int, pod: PodInfo) -> list[PodInfo]:
    """The pods nominated to a row that another pod must leave room for: those at least as important."""
    return [
        other
        for other in nominations.get(row, ())
        if other.uid != pod.uid and other.priority >= pod.priority and other.row < 0
    ]


def rows_with_nominated_pods(nominations: Nominations, pod: PodInfo) -> dict[int, list[PodInfo]]:
    """The same for all rows that have such pods; of these there may be thousands. Not to be changed."""
    if isinstance(nominations, NominatedRows):
        return nominations.beside(pod)
    uid, priority = pod.uid, pod.priority
    found: dict[int, list[PodInfo]] = {}
    for row, others in nominations.items():
        pods = [
            other
            for other in others
            if other.row < 0 and other.uid != uid and (other.pod.spec.priority or 0) >= priority
        ]
        if pods:
            found[row] = pods
    return found


Ask = Callable[[int, Sequence[PodInfo]], Status | None]
"""Asks the filters about a row as if some pods stood there as well: the first rejection; None: it passes."""


class NominatedVerdicts:
    """Filter verdicts of one class for rows with their nominated pods, and the log position they are from.

    A verdict holds as long as nothing about a row changes, if every filter involved depends on the row alone,
    or passes all rows, and gives all pods of the class the same result. Otherwise nothing is kept, nor for
    rows that were tried: a filter may have looked at other rows. `rejected` has the rows that do not pass,
    for pods of one priority.
    """

    __slots__ = (
        "_asked",
        "_is_local",
        "_mark",
        "_node_position",
        "_priority",
        "_rejected",
        "_statuses",
        "_tried",
        "_usage_position",
    )

    def __init__(self) -> None:
        self._asked: Sequence[FilterColumn] = ()
        self._is_local = False
        self._tried: frozenset[int] = frozenset()
        self._node_position = -1
        self._usage_position = -1
        self._mark: Mark | None = None
        self._priority = 0
        self._rejected: dict[int, Status] = {}
        self._statuses: dict[Status, Status] = {}

    def rejected(
        self,
        table: ClusterTable,
        asked: Sequence["FilterColumn"],
        nominated: NominatedRows,
        pod: PodInfo,
        ask: Ask,
        tried: Set[int] = frozenset(),
    ) -> dict[int, Status]:
        """Rows that reject a pod because of the pods nominated to them, with the reason.

        Only rows that changed since the last call are evaluated, and those that `ask` had noted as `tried`.
        Not to be changed.
        """
        counted = nominated.counted(pod.priority)
        stale = self._stale(table, asked, nominated, pod.priority)
        rejected = self._rejected
        if stale is None:
            rejected.clear()
            stale = counted
        for row in stale:
            pods = counted.get(row)
            status = None if pods is None else ask(row, pods)
            if status is None:
                rejected.pop(row, None)
            else:
                rejected[row] = self._statuses.setdefault(status, status)
        self._tried = frozenset(tried)
        own = nominated.row_of(pod.uid)
        if own is None or own not in counted:
            return rejected
        others = [other for other in counted[own] if other.uid != pod.uid]
        status = ask(own, others) if others else None
        found = rejected.copy()
        if status is None:
            found.pop(own, None)
        else:
            found[own] = status
        return found

    def _stale(
        self, table: ClusterTable, asked: Sequence["FilterColumn"], nominated: NominatedRows, priority: int
    ) -> Collection[int] | None:
        """The rows of which nothing is known any more; None: all."""
        touched = table.usage_log.few_since(self._usage_position, FEW_ROWS)
        changed = nominated.few_changed_since(self._mark)
        holds = (
            touched is not None
            and changed is not None
            and self._priority == priority
            and self._node_position == table.node_log.position
            and self._asked == asked
        )
        was_local, self._is_local = self._is_local, all(map(_goes_by_row, asked))
        holds = holds and was_local and self._is_local
        self._usage_position = table.usage_log.position
        self._node_position = table.node_log.position
        self._mark, self._priority, self._asked = nominated.mark, priority, asked
        if not holds or touched is None or changed is None:
            self._statuses.clear()
            return None
        return {*touched, *changed, *self._tried}


def _goes_by_row(column: "FilterColumn") -> bool:
    """True if a filter's result for a row, with pods nominated to it, only changes when something on the row
    does.

    A filter that reads other rows too, and passes all, either ignores the nominated pods or the row is tried.
    """
    traits = column.traits
    passes_all = column.codes is None and traits.filter_row_with_pods is None
    return column.reusable and (traits.row_local or passes_all)
