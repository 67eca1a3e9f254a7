"""Scratch pads of plugins while one pod is being placed."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stowplan.api.pod import Pod
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

if TYPE_CHECKING:
    from stowplan.scheduler.framework.budget import Budget
    from stowplan.scheduler.framework.evaluation import Evaluation
    from stowplan.scheduler.framework.instrument import Probe
    from stowplan.scheduler.framework.interface import Plugin
    from stowplan.scheduler.framework.pod_groups.placement import GroupCycle, PlacementCycle
    from stowplan.scheduler.framework.simulation import SimulatedRow

NOBODY: Final[frozenset[str]] = frozenset()
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Cycle:
    """The scratch pad of one attempt.

    `write` and `read` hold a plugin's state from PreFilter, `write_score` and `read_score` its state from
    PreScore. `memo` holds data for all pods of the class as long as the class is remembered: parsed terms,
    counters, never anything about one attempt.

    `evaluation` is that of an attempt that found no node, for PostFilter plugins. `simulated` describes how
    the row at hand differs from reality while it is tried with other pods on it. Pods that a plugin adds to
    `pods_to_activate` are retried once this pod has its node, or is bound.

    `skipped` and `skipped_score` name the plugins that skip the pod at Filter and at Score.

    `placement` is where the pod's group is being tried; None for a pod that is scheduled on its own.

    `watch` records the time of every plugin call; it is set for a sample of the attempts only.

    `group` is the scratch pad of the group while the pod is placed together with others, else None.

    `budget` is the time that the attempt may take; None if only a single answer is computed.
    """

    __slots__ = (
        "_rows",
        "_score_states",
        "_states",
        "budget",
        "evaluation",
        "feasible",
        "feasible_count",
        "feasible_version",
        "group",
        "memos",
        "placement",
        "pod",
        "pods_to_activate",
        "simulated",
        "skipped",
        "skipped_score",
        "table",
        "watch",
    )

    def __init__(self, table: ClusterTable, pod: PodInfo, memos: "dict[str, Any]") -> None:
        self.table = table
        self.pod = pod
        self.skipped: frozenset[str] = NOBODY
        self.skipped_score: frozenset[str] = NOBODY
        self.feasible: BoolColumn | None = None
        self.feasible_count = 0
        self.feasible_version = 0
        self.memos = memos
        self.simulated: SimulatedRow | None = None
        self.evaluation: Evaluation | None = None
        self.pods_to_activate: list[Pod] = []
        self.watch: Probe | None = None
        self.placement: PlacementCycle | None = None
        self.group: GroupCycle | None = None
        self.budget: Budget | None = None
        self._states: Mapping[str, Any] = NOTHING
        self._score_states: Mapping[str, Any] = NOTHING
        self._rows: Rows | None = None

    def write(self, plugin: "Plugin", state: Any) -> None:
        self._states = {**self._states, plugin.name: state}

    def read(self, plugin: "Plugin") -> Any:
        """The plugin's state from this attempt's PreFilter, None if there is none."""
        return self._states.get(plugin.name)

    def write_score(self, plugin: "Plugin", state: Any) -> None:
        self._score_states = {**self._score_states, plugin.name: state}

    def read_score(self, plugin: "Plugin") -> Any:
        """The plugin's state from this attempt's PreScore, None if there is none."""
        return self._score_states.get(plugin.name)

    def states_of(self, plugins: frozenset[str]) -> dict[str, Any]:
        """PreFilter states of some plugins, by their names."""
        return {name: state for name, state in self._states.items() if name in plugins}

    def score_states_of(self, plugins: frozenset[str]) -> dict[str, Any]:
        """PreScore states of some plugins, by their names."""
        return {name: state for name, state in self._score_states.items() if name in plugins}

    def adopt(self, states: Mapping[str, Any]) -> None:
        """Take over PreFilter findings that hold for the whole class; they are never written to."""
        self._states = states

    def adopt_score(self, states: Mapping[str, Any]) -> None:
        """Take over PreScore findings that hold for the whole class; they are never written to."""
        self._score_states = states

    def remember(self, plugin: "Plugin", memo: Any) -> None:
        self.memos[plugin.name] = memo

    def memo(self, plugin: "Plugin") -> Any:
        """The plugin's memo for pods of this class, None if there is none."""
        return self.memos.get(plugin.name)

    @property
    def feasible_rows(self) -> Rows:
        """The rows that passed every filter, in row order."""
        if self._rows is None:
            assert self.feasible is not None
            self._rows = np.flatnonzero(self.feasible[: self.table.rows_in_use])
        return self._rows
