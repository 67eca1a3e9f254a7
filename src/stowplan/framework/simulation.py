"""Simulation: a pod on single rows as if pods were added or removed, without a copy of the cluster.

The table is changed, asked, and put back. Nominated pods are reckoned with this way, and so is the room that
preemption would make.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.extension_points import ask_pre_filter
from stowplan.framework.filter_results import FilterColumn
from stowplan.framework.interface import Plugin, Traits
from stowplan.framework.status import Code, Status

if TYPE_CHECKING:
    from stowplan.framework.equivalence_class import EquivalenceClass
    from stowplan.framework.evaluation import Evaluation
    from stowplan.framework.runtime import Framework


class SimulatedRow:
    """One row as if some of its pods were gone and others stood there too.

    Inside the `with` block the table counts everything as it would if it were so. On leaving it every pod is
    back in its old place and every count is what it was. `gone` and `guests` say how the row differs from
    what it is.
    """

    __slots__ = ("_home", "_table", "gone", "guests", "row")

    def __init__(self, table: ClusterTable, row: int) -> None:
        self._table = table
        self.row = row
        self.gone: dict[str, PodInfo] = {}
        self.guests: list[PodInfo] = []

    def __enter__(self) -> Self:
        pods_on = self._table.pods_on
        self._home = pods_on[self.row]
        pods_on[self.row] = dict(self._home)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dismiss()
        for info in reversed(tuple(self.gone.values())):
            self.put_back(info)
        self._table.pods_on[self.row] = self._home

    def take_away(self, info: PodInfo) -> None:
        """As if a pod of the row were gone."""
        self._table.take_off(info)
        self.gone[info.uid] = info

    def put_back(self, info: PodInfo) -> None:
        """A pod taken away is there again."""
        del self.gone[info.uid]
        self._table.put_on(info, self.row)

    def invite(self, info: PodInfo) -> None:
        """As if a pod that is on no node stood here; the pod itself is left alone."""
        guest = PodInfo(info.pod, info.template)
        self._table.put_on(guest, self.row)
        self.guests.append(guest)

    def dismiss(self) -> None:
        """All guests leave."""
        while self.guests:
            self._table.take_off(self.guests.pop())


Nominations = Mapping[int, Sequence[PodInfo]]
"""Pods nominated to rows."""

NO_NOMINATIONS: Nominations = {}


def nominated_pods(nominations: Nominations, row: int, pod: PodInfo) -> list[PodInfo]:
    """The pods nominated to a row that another pod must leave room for: those at least as important."""
    return [
        other
        for other in nominations.get(row, ())
        if other.uid != pod.uid and other.priority >= pod.priority and other.row < 0
    ]


class Simulations:
    """Simulations of one pod on any number of rows, one after the other.

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

    def row(self, row: int) -> "Simulation":
        """A trial of one row, to be used in a `with` block."""
        return Simulation(self, row)

    def ask(self, as_if: SimulatedRow, passed: set[str]) -> Status | None:
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


class Simulation:
    """One row, and how it is imagined. Leaving the `with` block puts everything back as it was."""

    __slots__ = ("_as_if", "_nominated", "_passed", "_trials")

    def __init__(self, trials: Simulations, row: int) -> None:
        self._trials = trials
        self._as_if = SimulatedRow(trials.table, row)
        self._nominated = nominated_pods(trials.nominations, row, trials.pod)
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
        """The first rejection; None if the row can take the pod, beside pods nominated to it and without."""
        return self.with_nominated_pods() or self._trials.ask(self._as_if, self._passed)

    def with_nominated_pods(self) -> Status | None:
        """The first rejection with the nominated pods of the row added; None also if there are none."""
        if not self._nominated:
            return None
        try:
            for other in self._nominated:
                self._as_if.invite(other)
            return self._trials.ask(self._as_if, self._passed)
        finally:
            self._as_if.dismiss()


def try_nominated(framework: "Framework", evaluation: "Evaluation", row: int) -> Status | None:
    """What the filters say of the row nominated for the pod; None: it passes.

    It is tried even if PreFilter left it out, and then keeps the verdict it gets.
    """
    filters = evaluation.pod_class.filters
    if filters.asks_for(row):
        status = evaluation.status(row)
        return None if status.is_success else status
    verdict = evaluation.overruled.get(row)
    if verdict is None:
        cycle = evaluation.cycle
        with framework.trials(cycle, cycle.memos) as trials, trials.row(row) as trial:
            verdict = trial.verdict()
    if verdict is not None:
        evaluation.overrule(row, verdict)
    return verdict


def filter_with_nominated_pods(
    framework: "Framework",
    cycle: Cycle,
    pod_class: "EquivalenceClass",
    nominations: Nominations,
    nominated_row: int | None,
) -> dict[int, Status]:
    """Rows that could not take the pod beside pods nominated to them, with the reason; they are taken out."""
    filters = pod_class.filters
    concerned = {
        row: pods
        for row in nominations
        if (row == nominated_row or filters.asks_for(row))
        and (pods := nominated_pods(nominations, row, cycle.pod))
    }
    if not concerned:
        return {}
    asked = [column for column in filters.columns if column.active]
    if not all(column.traits.filter_row_with_pods for column in asked if column.traits.watches):
        verdicts = _tried(framework, cycle, nominations, concerned)
    else:
        kept = pod_class.beside.verdicts(framework.table, asked)
        for row, pods in concerned.items():
            if row not in kept or kept[row][0] != pods:
                kept[row] = (pods, filters.verdict_with(cycle, row, pods))
        verdicts = {row: kept[row][1] for row in concerned}
    overruled = {row: verdict for row, verdict in verdicts.items() if verdict is not None}
    if overruled:
        rows = np.array(sorted(overruled), dtype=np.intp)
        filters.overrule_many(rows)
    return overruled


def _tried(
    framework: "Framework", cycle: Cycle, nominations: Nominations, rows: Iterable[int]
) -> dict[int, Status | None]:
    """Put the nominated pods on each row in turn, and ask."""
    verdicts: dict[int, Status | None] = {}
    with framework.trials(cycle, cycle.memos, nominations) as trials:
        for row in rows:
            with trials.row(row) as trial:
                verdicts[row] = trial.with_nominated_pods()
    return verdicts
