"""Victim units: pods that preemption evicts together. A single pod, or all pods of a group with that mode.

A group, or a group above it, may require that its pods are disrupted only all together (`disruptionMode:
all`). Such a group is one unit, over all its nodes. Every other pod is a separate unit. The priority of a pod
that is a member of a group is that of the topmost group; the pod's own does not count.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final, NamedTuple, TypeVar

import numpy as np

from stowplan.api.pod import Pod
from stowplan.api.pod_groups import MAX_TREE_DEPTH, CompositePodGroup
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.framework.pod_groups.placement import finish
from stowplan.scheduler.plugins.defaultpreemption.importance import STEP, start_of
from stowplan.scheduler.table.columns import BoolColumn, IntColumn
from stowplan.scheduler.table.table import ClusterTable

POD, GROUP, COMPOSITE = 1, 2, 3
"""Ranks of units: at the same priority a group is more important than a pod. The single pod of a group ranks
as a group does."""

T = TypeVar("T")
InSteps = Generator[None, None, T]
"""Work of many steps, between which others may run."""

SORTED_AT_ONCE: Final = 2048
_NO_KEY: Final = ""
_NOBODY: Final = 2**31
"""Higher than any priority."""


class UnknownNodeError(Exception):
    """A pod of a unit is on a node that is not there."""


@dataclass(slots=True, eq=False)
class Unit:
    """Pods that are evicted together or not at all.

    `key` is that of the group that makes them a unit; empty for a single pod, which may be a member of a
    group. `start` is when the first of them started.
    """

    pods: list[PodInfo]
    priority: int
    rank: int
    start: int
    key: str = _NO_KEY

    @property
    def is_group(self) -> bool:
        """True if evicting it disrupts a group."""
        return self.rank > POD

    @property
    def name(self) -> str:
        """Name in lists of units: `podgroup/namespace/name` or `pod/namespace/name`."""
        return self.key or f"pod/{self.pods[0].key}"


class _Belonging(NamedTuple):
    """A group's effect on its pods: their priority, and the group that they are evicted with, if any."""

    priority: int
    together: str
    rank: int


class Units:
    """The units of the pods on nodes, for one search; what is found out about a group is kept until then."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._groups = table.groups
        self._belongings: dict[str, _Belonging | None] = {}

    def priority_of(self, info: PodInfo) -> int:
        """The priority of a pod as a victim."""
        belonging = self._belonging(info.pod)
        return info.priority if belonging is None else belonging.priority

    def check_nodes(self) -> None:
        """Raise UnknownNodeError if some pod of a unit is on a node that is gone, and another is not."""
        for lost in self._table.pods_without_row():
            belonging = self._belonging(lost.pod)
            if belonging is not None and belonging.together:
                pods = self._scheduled_below(belonging.together)
                if any(info.row >= 0 for info in pods):
                    _check_rows(pods)

    def of(self, pods: Iterable[PodInfo]) -> list[Unit]:
        """The units that some pods belong to, each once. Raises UnknownNodeError."""
        return finish(self._of(pods))

    def _of(self, pods: Iterable[PodInfo], below: int = _NOBODY) -> InSteps[list[Unit]]:
        """The units of lower priority than `below`. Of the others, too, no pod may be on a node that is gone:
        kube-scheduler leaves them out only afterwards."""
        found: list[Unit] = []
        seen: set[str] = set()
        for number, info in enumerate(pods, 1):
            if not number % STEP:
                yield None
            belonging = self._belonging(info.pod)
            is_lower = (info.priority if belonging is None else belonging.priority) < below
            if belonging is None or not belonging.together:
                if is_lower:
                    found.append(self._single(info, belonging))
            elif belonging.together not in seen:
                seen.add(belonging.together)
                unit = self._together(info, belonging)
                if is_lower:
                    found.append(unit)
        return found

    def below(self, pods: Iterable[PodInfo], priority: int) -> InSteps[list[Unit]]:
        """The units of lower priority than this, the most important first. Raises UnknownNodeError."""
        found = yield from self._of(pods, priority)
        return (yield from _by_importance_in_steps(found))

    def _single(self, info: PodInfo, belonging: _Belonging | None) -> Unit:
        rank = POD if self._groups.key_of(info.pod) is None else GROUP
        priority = info.priority if belonging is None else belonging.priority
        return Unit([info], priority, rank, start_of(info.pod))

    def _together(self, info: PodInfo, belonging: _Belonging) -> Unit:
        pods = self._scheduled_below(belonging.together)
        _check_rows(pods)
        if not pods:
            return self._single(info, belonging)
        start = min(start_of(pod.pod) for pod in pods)
        return Unit(pods, belonging.priority, belonging.rank, start, belonging.together)

    def _scheduled_below(self, key: str) -> list[PodInfo]:
        """The pods on nodes of all groups below one, by name."""
        tree = self._groups.tree(key)
        states = [self._groups.group(leaf.key) for leaf in ([] if tree is None else tree.leaves)]
        known = self._table.pods
        uids = [uid for state in states if state is not None for uid in state.scheduled]
        return sorted((known[uid] for uid in uids if uid in known), key=lambda info: info.key)

    def _belonging(self, pod: Pod) -> _Belonging | None:
        """Effect of a pod's group on it; None without a group."""
        key = self._groups.key_of(pod)
        if key is None:
            return None
        if key not in self._belongings:
            self._belongings[key] = self._way_up(key)
        return self._belongings[key]

    def _way_up(self, key: str) -> _Belonging | None:
        """Go up from a group as far as groups are known; None if it is not known itself."""
        found: _Belonging | None = None
        seen: set[str] = set()
        above: str | None = key
        for _ in range(MAX_TREE_DEPTH):
            group = None if above is None or above in seen else self._groups.object(above)
            if above is None or group is None:
                break
            seen.add(above)
            together, rank = (_NO_KEY, POD) if found is None else (found.together, found.rank)
            if group.disrupted_together:
                together, rank = above, COMPOSITE if isinstance(group, CompositePodGroup) else GROUP
            found = _Belonging(group.priority, together, rank)
            above = self._groups.parent_of(group)
        return found


def _check_rows(pods: Iterable[PodInfo]) -> None:
    """Raise UnknownNodeError if some of the pods of a unit is on a node that is gone."""
    for info in pods:
        if info.row < 0:
            node = quote(info.pod.spec.node_name)
            raise UnknownNodeError(
                f"failed to get node info for node {node} from snapshot: "
                f"nodeinfo not found for node name {node}"
            )


def by_importance(units: Iterable[Unit]) -> list[Unit]:
    """Units, the most important first: priority, kind, number of pods, start. Equals go by name."""
    return sorted(units, key=_importance)


def _importance(unit: Unit) -> tuple[int, int, int, int, str]:
    return -unit.priority, -unit.rank, -len(unit.pods), unit.start, unit.pods[0].key


def _by_importance_in_steps(units: Sequence[Unit]) -> InSteps[list[Unit]]:
    """The same; of very many units some at a time are put in order, and then all of these together."""
    parts: list[list[Unit]] = []
    for first in range(0, len(units), SORTED_AT_ONCE):
        parts.append(by_importance(units[first : first + SORTED_AT_ONCE]))
        yield None
    if len(parts) < 2:
        return parts[0] if parts else []
    found: list[Unit] = []
    for number, unit in enumerate(merge(*parts, key=_importance), 1):
        found.append(unit)
        if not number % STEP:
            yield None
    return found


class PodsOfRows:
    """Summary of the pods of rows, kept up to date from the rows that changed.

    By row: if there are members of groups, and the lowest priority of all other pods. The priority of members
    depends on their groups, which may change at any time.
    """

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._with_members: BoolColumn = np.zeros(0, dtype=np.bool_)
        self._lowest: IntColumn = np.zeros(0, dtype=np.int64)
        self._position = -1

    def with_members(self) -> InSteps[BoolColumn]:
        """By row, whether pods of groups are there."""
        yield from self._sync()
        return self._with_members

    def none_below(self, priority: int) -> InSteps[BoolColumn]:
        """By row, whether it is certain that no pod there has a lower priority than this."""
        yield from self._sync()
        none: BoolColumn = ~self._with_members & (self._lowest >= priority)
        return none

    def below(self, priority: int) -> InSteps[Iterator[PodInfo]]:
        """All pods on nodes that may have a lower priority than this: all members of groups, and the others
        that do."""
        yield from self._sync()
        return self._below(priority)

    def _below(self, priority: int) -> Iterator[PodInfo]:
        table, groups = self._table, self._table.groups
        for row in np.flatnonzero((self._lowest < priority)[: table.rows_in_use]).tolist():
            for info in table.pods_on[row].values():
                if info.priority < priority and groups.key_of(info.pod) is None:
                    yield info
        for state in groups:
            for uid in state.scheduled:
                member = table.pods.get(uid)
                if member is not None and member.row >= 0:
                    yield member

    def _sync(self) -> InSteps[None]:
        """Look at the rows that changed: many after a search, as every pod was imagined away."""
        table, log = self._table, self._table.usage_log
        touched, position = log.since(self._position) if self._position >= 0 else None, log.position
        self._position = -1
        if touched is None or len(self._with_members) != table.capacity:
            self._with_members = np.zeros(table.capacity, dtype=np.bool_)
            self._lowest = np.full(table.capacity, _NOBODY, dtype=np.int64)
            touched = np.arange(table.rows_in_use)
        key_of = table.groups.key_of
        seen = 0
        for row in touched.tolist():
            here = table.pods_on[row].values()
            seen += 1 + len(here)
            if seen >= STEP:
                yield None
                seen = 0
            alone = [info.priority for info in here if key_of(info.pod) is None]
            self._with_members[row] = len(alone) < len(here)
            self._lowest[row] = min(alone, default=_NOBODY)
        self._position = position
