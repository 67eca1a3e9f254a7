"""Simulation: a pod on single rows as if pods were added or removed, without a copy of the cluster.

The table is changed, asked, and put back. Nominated pods are reckoned with this way, and so is the room that
preemption would make.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import ask_pre_filter
from stowplan.scheduler.framework.interface import Plugin, Traits
from stowplan.scheduler.framework.nominations import (
    NominatedRows,
    Nominations,
    nominated_pods,
    rows_with_nominated_pods,
)
from stowplan.scheduler.framework.reuse.filter_results import FilterColumn, Untold
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

if TYPE_CHECKING:
    from stowplan.scheduler.framework.evaluation import Evaluation
    from stowplan.scheduler.framework.reuse.equivalence_class import EquivalenceClass
    from stowplan.scheduler.framework.runtime import Framework


class SimulatedRow:
    """One row with some of its pods removed and others added.

    Inside the `with` block the table counts everything as it would if it were so. On leaving it every pod is
    back in its old place and every count is what it was. `removed` and `added` say how the row differs from
    what it is. `others` are rows that are imagined differently at the same time.
    """

    __slots__ = ("_home", "_table", "added", "others", "removed", "row")

    def __init__(self, table: ClusterTable, row: int) -> None:
        self._table = table
        self.row = row
        self.removed: dict[str, PodInfo] = {}
        self.added: list[PodInfo] = []
        self.others: tuple[SimulatedRow, ...] = ()

    @property
    def rows(self) -> "tuple[SimulatedRow, ...]":
        """All rows that are imagined differently, this one first."""
        return (self, *self.others)

    def __enter__(self) -> Self:
        pods_on = self._table.pods_on
        self._home = pods_on[self.row]
        pods_on[self.row] = dict(self._home)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove_added()
        for info in reversed(tuple(self.removed.values())):
            self.restore_pod(info)
        self._table.pods_on[self.row] = self._home

    def remove_pod(self, info: PodInfo) -> None:
        """Simulate that a pod of the row is gone."""
        self._table.take_off(info)
        self.removed[info.uid] = info

    def restore_pod(self, info: PodInfo) -> None:
        """Add a removed pod again."""
        del self.removed[info.uid]
        self._table.put_on(info, self.row)

    def add_pod(self, info: PodInfo) -> None:
        """Simulate a pod on the row; the pod itself is not changed."""
        added = PodInfo(info.pod, info.template)
        self._table.put_on(added, self.row)
        self.added.append(added)

    def remove_added(self) -> None:
        """Remove what was added."""
        while self.added:
            self._table.take_off(self.added.pop())


class SimulatedRows:
    """Any number of rows with some of their pods removed; leaving the `with` block puts everything back."""

    __slots__ = ("_rows", "_table", "_where")

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._rows: dict[int, SimulatedRow] = {}
        self._where: dict[str, SimulatedRow] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for simulated in reversed(self._rows.values()):
            simulated.__exit__(kind, error, trace)

    def put_back(self) -> Iterator[None]:
        """Put everything back row by row; others may run in between if the table is frozen."""
        while self._rows:
            self._rows.popitem()[1].__exit__(None, None, None)
            yield

    def remove_pod(self, info: PodInfo) -> None:
        """Simulate that a pod is gone."""
        row = info.row
        simulated = self._rows.get(row)
        if simulated is None:
            simulated = self._rows[row] = SimulatedRow(self._table, row).__enter__()
        simulated.remove_pod(info)
        self._where[info.uid] = simulated

    def row_of(self, info: PodInfo) -> int:
        """Where a pod was that is removed."""
        return self._where[info.uid].row

    def restore_pod(self, info: PodInfo) -> None:
        """Add a removed pod again."""
        self._where.pop(info.uid).restore_pod(info)


class Simulations:
    """Simulations of one pod on any number of rows, one after the other.

    Plugins that skipped the pod in its attempt are skipped here too, whatever the rows would look like.
    PreFilter plugins whose answer depends on the pod alone run once, the others for every verdict.
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
        self._pre_filters = pre_filters
        self._filters = filters
        self._skipped = attempt.skipped
        self._borrowed = memos
        self._memos: dict[str, Any] = {}
        self._asking: list[Plugin] = []
        self._constant: list[Plugin] = []
        self._states: dict[str, Any] | None = None

    @cached_property
    def filters(self) -> Sequence[FilterColumn]:
        """The filters that run. Created for the first row: often there is none."""
        asked = [plugin for plugin in self._pre_filters if plugin.name not in self._skipped]
        self._asking = [plugin for plugin in asked if not plugin.contract.constant_pre_filter]
        self._constant = [plugin for plugin in asked if plugin.contract.constant_pre_filter]
        self._memos = dict(self._borrowed)
        return [
            FilterColumn(index, plugin, traits, reusable=False)
            for index, (plugin, traits) in enumerate(self._filters)
            if plugin.name not in self._skipped
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        new = {name: memo for name, memo in self._memos.items() if self._borrowed.get(name) is not memo}
        if new:
            filters = [plugin for plugin, _ in self._filters]
            plugins = {plugin.name: plugin for plugin in (*filters, *self._asking, *self._constant)}
            for name, memo in new.items():
                plugins[name].release(memo)

    def row(self, row: int) -> "Simulation":
        """A simulation of one row, to be used in a `with` block."""
        return Simulation(self, row)

    def ask(self, simulated: SimulatedRow, passed: set[str]) -> Status | None:
        """The first rejection of a row as it looks now; None: it passes.

        `passed` names filters that need not be asked again about this row; those whose answer does not
        depend on pods are added to it.
        """
        filters = self.filters
        cycle = Cycle(self.table, self.pod, self._memos)
        cycle.simulated = simulated
        cycle.adopt(self._constant_states())
        for plugin in self._asking:
            if plugin.name in passed:
                continue
            answer = ask_pre_filter(plugin, cycle)
            if isinstance(answer, Status) and answer.code is Code.SKIP:
                cycle.skipped |= {plugin.name}
        for column in filters:
            name = column.plugin.name
            if name in passed or name in cycle.skipped:
                continue
            code = column.ask_row(self.table, cycle, simulated.row)
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


class Simulation:
    """One row, and how it is imagined. Leaving the `with` block puts everything back as it was.

    Pods of other rows can be imagined away, too: what the filters say of the row may depend on them.
    """

    __slots__ = ("_nominated", "_passed", "_simulated", "_simulations")

    def __init__(self, simulations: Simulations, row: int) -> None:
        self._simulations = simulations
        self._simulated = SimulatedRow(simulations.table, row)
        self._nominated = nominated_pods(simulations.nominations, row, simulations.pod)
        self._passed: set[str] = set()

    def __enter__(self) -> Self:
        self._simulated.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for simulated in self._simulated.rows:
            simulated.__exit__(kind, error, trace)

    def remove_pod(self, info: PodInfo) -> None:
        """Simulate that a pod is gone."""
        simulated = self._simulated
        if info.row != simulated.row:
            simulated = self._other(info.row)
        simulated.remove_pod(info)

    def restore_pod(self, info: PodInfo) -> None:
        """Add a removed pod again."""
        simulated = self._simulated
        if info.uid not in simulated.removed:
            simulated = next(other for other in simulated.others if info.uid in other.removed)
        simulated.restore_pod(info)

    def _other(self, row: int) -> SimulatedRow:
        """Another row, from now on one that is imagined differently."""
        main = self._simulated
        for other in main.others:
            if other.row == row:
                return other
        new = SimulatedRow(self._simulations.table, row).__enter__()
        main.others += (new,)
        return new

    def verdict(self) -> Status | None:
        """The first rejection; None if the row can take the pod, both with the pods nominated to it and
        without."""
        return self.with_nominated_pods() or self._simulations.ask(self._simulated, self._passed)

    def with_nominated_pods(self) -> Status | None:
        """The first rejection with the nominated pods of the row added; None also if there are none."""
        if not self._nominated:
            return None
        try:
            for other in self._nominated:
                self._simulated.add_pod(other)
            return self._simulations.ask(self._simulated, self._passed)
        finally:
            self._simulated.remove_added()


def try_nominated(framework: "Framework", evaluation: "Evaluation", row: int) -> Status | None:
    """Verdict of the filters on the row nominated for the pod; None: it passes.

    It is tried even if PreFilter left it out, and then keeps the verdict it gets.
    """
    filters = evaluation.pod_class.filters
    if filters.asks_for(row):
        status = evaluation.status(row)
        return None if status.is_success else status
    verdict = evaluation.overruled.get(row)
    if verdict is None:
        cycle = evaluation.cycle
        with framework.simulations(cycle, cycle.memos) as simulations, simulations.row(row) as simulation:
            verdict = simulation.verdict()
    if verdict is not None:
        evaluation.overrule(row, verdict)
    return verdict


def filter_with_nominated_pods(
    framework: "Framework",
    cycle: Cycle,
    pod_class: "EquivalenceClass",
    nominations: Nominations,
    nominated_row: int | None,
    but: int | None,
) -> dict[int, Status]:
    """Rows that could not take the pod together with pods nominated to them, with the reason; they are
    removed.

    The row `but` is left as it is. The one that this pod is nominated to is evaluated in any case.
    """
    filters = pod_class.filters
    asked = [column for column in filters.columns if column.active]
    reasons: dict[tuple[int, int], Status] = {}
    with _Trials(framework, cycle, nominations) as trials:

        def ask(row: int, pods: Sequence[PodInfo]) -> Status | None:
            verdict = filters.verdict_with(cycle, row, pods, reasons)
            return trials.verdict(row) if isinstance(verdict, Untold) else verdict

        if isinstance(nominations, NominatedRows) and not filters.is_restricted:
            beside = pod_class.beside
            overruled = beside.rejected(framework.table, asked, nominations, cycle.pod, ask, trials.rows)
            if but in overruled:
                overruled = {row: status for row, status in overruled.items() if row != but}
        else:
            concerned = {
                row: pods
                for row, pods in rows_with_nominated_pods(nominations, cycle.pod).items()
                if row != but and (row == nominated_row or filters.asks_for(row))
            }
            verdicts = {row: ask(row, pods) for row, pods in concerned.items()}
            overruled = {row: verdict for row, verdict in verdicts.items() if verdict is not None}
    if overruled:
        rows = np.fromiter(overruled, dtype=np.intp, count=len(overruled))
        rows.sort()
        filters.overrule_many(rows)
    return overruled


class _Trials:
    """Rows that are tried with the nominated pods on them, because filters cannot tell otherwise."""

    def __init__(self, framework: "Framework", cycle: Cycle, nominations: Nominations) -> None:
        self._framework = framework
        self._cycle = cycle
        self._nominations = nominations
        self._simulations: Simulations | None = None
        self.rows: set[int] = set()
        """Those that were tried."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._simulations is not None:
            self._simulations.__exit__(kind, error, trace)

    def verdict(self, row: int) -> Status | None:
        """The first rejection of a row with the nominated pods; None: it passes."""
        if self._simulations is None:
            cycle = self._cycle
            self._simulations = self._framework.simulations(cycle, cycle.memos, self._nominations)
        self.rows.add(row)
        with self._simulations.row(row) as simulation:
            return simulation.with_nominated_pods()
