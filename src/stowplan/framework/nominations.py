"""Pods nominated to nodes: others of lower priority leave room for them there.

A thousand pods may be nominated at the same time, and each attempt has to reckon with all of them. So what is
found out about a row is kept until the row or its nominated pods change.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.interface import FEW_ROWS
from stowplan.framework.status import Status

if TYPE_CHECKING:
    from stowplan.framework.filter_results import FilterColumn

Nominations = Mapping[int, Sequence[PodInfo]]
"""Pods nominated to rows."""

NO_NOMINATIONS: Nominations = {}
_MOST_PRIORITIES: Final = 8


class NominatedRows(dict[int, Sequence[PodInfo]]):
    """Nominations that remember which of them count for a priority, and hand that on when some change.

    Not to be changed itself. Its pods are on no row: who is placed is no longer nominated.
    """

    __slots__ = ("_by_priority", "_row_of")

    def __init__(self, rows: Nominations = NO_NOMINATIONS) -> None:
        super().__init__(rows)
        self._row_of = {pod.uid: row for row, pods in rows.items() for pod in pods}
        self._by_priority: dict[int, dict[int, list[PodInfo]]] = {}

    def replaced(self, changed: Mapping[int, Sequence[PodInfo]]) -> "NominatedRows":
        """The same with other pods on some rows, or none."""
        made = NominatedRows()
        made.update(self)
        made._row_of = self._row_of.copy()
        made._by_priority = {
            priority: rows.copy() for priority, rows in [*self._by_priority.items()][-_MOST_PRIORITIES:]
        }
        for row in changed:
            for pod in made.pop(row, ()):
                if made._row_of.get(pod.uid) == row:
                    del made._row_of[pod.uid]
        for row, pods in changed.items():
            if pods:
                made[row] = pods
                made._row_of.update((pod.uid, row) for pod in pods)
            for priority, rows in made._by_priority.items():
                counted = [pod for pod in pods if pod.priority >= priority]
                if counted:
                    rows[row] = counted
                else:
                    rows.pop(row, None)
        return made

    def beside(self, pod: PodInfo) -> dict[int, list[PodInfo]]:
        """What `rows_with_nominated_pods` finds for a pod. Not to be changed."""
        priority = pod.priority
        known = self._by_priority.get(priority)
        if known is None:
            known = self._by_priority[priority] = {
                row: counted
                for row, pods in self.items()
                if (counted := [other for other in pods if other.priority >= priority])
            }
        own = self._row_of.get(pod.uid)
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


Verdicts = dict[int, tuple[list[PodInfo], Status | None]]
"""By row, the nominated pods that were reckoned with, and the first rejection; None: it passes."""


_MOST = 1024
"""Promises come and go: when so many verdicts have piled up, they are found anew."""


class NominatedVerdicts:
    """Verdicts that hold as long as nothing about a row changes but the pods nominated to it.

    That can be known if every filter that is asked goes by the row alone and says the same to all pods of the
    class. Of others nothing is kept.
    """

    __slots__ = ("_asked", "_node_position", "_usage_position", "_verdicts")

    def __init__(self) -> None:
        self._asked: Sequence[FilterColumn] = ()
        self._node_position = -1
        self._usage_position = -1
        self._verdicts: Verdicts = {}

    def verdicts(self, table: ClusterTable, asked: Sequence[FilterColumn]) -> Verdicts:
        """The verdicts of these filters that still hold, and the place to put more."""
        verdicts = self._verdicts
        touched = table.usage_log.few_since(self._usage_position, FEW_ROWS)
        self._usage_position = table.usage_log.position
        if (
            touched is None
            or self._node_position != table.node_log.position
            or self._asked != asked
            or not all(column.reusable and column.traits.row_local for column in asked)
            or len(verdicts) > _MOST
        ):
            self._node_position = table.node_log.position
            self._asked = asked
            verdicts.clear()
        else:
            for row in touched:
                verdicts.pop(row, None)
        return verdicts
