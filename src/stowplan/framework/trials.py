"""Trying a pod on single rows, as they are or as if other pods stood there.

The filters that look at a whole table at once keep what they find. A trial keeps nothing: it changes a row,
asks, and puts everything back. Pods promised to a row are taken into account this way, and so is the room
that preemption would make.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from stowplan.cluster.asif import AsIf
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.cycle import Cycle
from stowplan.framework.filtercolumn import FilterColumn
from stowplan.framework.plugin import Plugin, Traits
from stowplan.framework.prefilter import ask_pre_filter
from stowplan.framework.status import Code, Status

Nominations = Mapping[int, Sequence[PodInfo]]
"""Pods nominated to rows."""

NO_NOMINATIONS: Nominations = {}


def promised(nominations: Nominations, row: int, pod: PodInfo) -> list[PodInfo]:
    """The pods promised to a row that another pod must leave room for: those at least as important."""
    return [
        other
        for other in nominations.get(row, ())
        if other.uid != pod.uid and other.priority >= pod.priority and other.row < 0
    ]


class Trials:
    """Trials of one pod on any number of rows, one after the other.

    Who skipped the pod in its attempt is not asked here either, whatever the rows would look like. PreFilter
    plugins whose answer depends on the pod alone are asked once, the others for every verdict.
    """

    def __init__(
        self,
        table: ClusterTable,
        pre_filters: Sequence[Plugin],
        filters: Sequence[tuple[Plugin, Traits]],
        attempt: Cycle,
        memos: Mapping[str, Any],
        nominations: Nominations,
    ) -> None:
        self.table = table
        self.pod = attempt.pod
        self.nominations = nominations
        self._plugins = {plugin.name: plugin for plugin, _ in filters}
        self._borrowed = memos
        self._memos = dict(memos)
        asked = [plugin for plugin in pre_filters if plugin.name not in attempt.skipped]
        self._plugins.update({plugin.name: plugin for plugin in asked})
        self._asking = [plugin for plugin in asked if not plugin.constant_pre_filter]
        self._constant = [plugin for plugin in asked if plugin.constant_pre_filter]
        self._states: dict[str, Any] | None = None
        self._columns = [
            FilterColumn(index, plugin, traits, reusable=False)
            for index, (plugin, traits) in enumerate(filters)
            if plugin.name not in attempt.skipped
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, memo in self._memos.items():
            if self._borrowed.get(name) is not memo:
                self._plugins[name].release(memo)

    def row(self, row: int) -> "Trial":
        """A trial of one row, to be used in a `with` block."""
        return Trial(self, row)

    def ask(self, as_if: AsIf, passed: set[str]) -> Status | None:
        """The first rejection of a row as it looks now; None: it passes.

        `passed` names filters that need not be asked again about this row; those whose answer does not
        depend on pods are added to it.
        """
        cycle = Cycle(self.table, self.pod, self._memos)
        cycle.as_if = as_if
        cycle.adopt(self._constant_states())
        for plugin in self._asking:
            answer = ask_pre_filter(plugin, cycle)
            if isinstance(answer, Status) and answer.code is Code.SKIP:
                cycle.skipped |= {plugin.name}
        for column in self._columns:
            name = column.plugin.name
            if name in passed or name in cycle.skipped:
                continue
            code = column.ask_row(self.table, cycle, as_if.row)
            if code:
                return column.status(cycle, self.pod, code)
            if not column.traits.watches:
                passed.add(name)
        return None

    def _constant_states(self) -> dict[str, Any]:
        if self._states is None:
            once = Cycle(self.table, self.pod, self._memos)
            for plugin in self._constant:
                ask_pre_filter(plugin, once)
            self._states = {plugin.name: once.read(plugin) for plugin in self._constant}
        return self._states


class Trial:
    """One row, and how it is imagined. Leaving the `with` block puts everything back as it was."""

    __slots__ = ("_as_if", "_passed", "_promised", "_trials")

    def __init__(self, trials: Trials, row: int) -> None:
        self._trials = trials
        self._as_if = AsIf(trials.table, row)
        self._promised = promised(trials.nominations, row, trials.pod)
        self._passed: set[str] = set()

    def __enter__(self) -> Self:
        self._as_if.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._as_if.__exit__(kind, error, trace)

    def take_away(self, info: PodInfo) -> None:
        """As if a pod of the row were gone."""
        self._as_if.take_away(info)

    def put_back(self, info: PodInfo) -> None:
        """A pod taken away is there again."""
        self._as_if.put_back(info)

    def verdict(self) -> Status | None:
        """The first rejection; None if the row can take the pod, beside pods promised to it and without."""
        return self.beside_promised() or self._trials.ask(self._as_if, self._passed)

    def beside_promised(self) -> Status | None:
        """The first rejection as if the pods promised to the row stood there; None also if there are none."""
        if not self._promised:
            return None
        try:
            for other in self._promised:
                self._as_if.invite(other)
            return self._trials.ask(self._as_if, self._passed)
        finally:
            self._as_if.dismiss()
