"""The nodes that a pod means, and what rules them out.

A message that counts all nodes hides the answer: most nodes of a cluster were never meant. The pod tells
which ones it means, in the order in which people err least: the labels that it asks for, the kind of
resource, device or volume, the taints that it tolerates. Nodes that pass all of this are meant, and what else
rules them out is the cause. Where none passes, the first of these demands that no node meets is the cause.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from stowplan.explain.document.pod import NodeGroup
from stowplan.explain.explainers.naming import node_names
from stowplan.explain.explainers.rejections import EXAMPLES, Rejections
from stowplan.scheduler.framework.explanation import (
    FloatArray,
    Obstacle,
    ObstacleKindsPlugin,
    ObstaclePlugin,
    Relevance,
    RelevancePlugin,
    Shortfall,
    ShortfallPlugin,
    ShortfallSizesPlugin,
)
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn, IntArray

_DEMANDS: Final = (Relevance.PLACE, Relevance.KIND, Relevance.LEAVE)
_POOLS: Final = 3
"""Pools into which nodes with the same obstacle are divided at most."""
_OTHER_GROUPS: Final = 12
"""Groups of nodes that the pod does not mean which are named, those that lack least."""


class Blocked(NamedTuple):
    """Rows that the same filters rule out, those first that lack least."""

    plugins: tuple[str, ...]
    rows: tuple[int, ...]
    sizes: tuple[float, ...]
    """How much each row lacks."""

    @property
    def size(self) -> float:
        return self.sizes[0] if self.sizes else 1.0

    def only(self, rows: Collection[int]) -> "Blocked":
        """The same for some of the rows, in the same order."""
        kept = [(row, size) for row, size in zip(self.rows, self.sizes, strict=True) if row in rows]
        return Blocked(self.plugins, tuple(row for row, _ in kept), tuple(size for _, size in kept))


class NodesMeant:
    """The nodes that a pod means and the demand that no node meets, of a pod that no node takes."""

    def __init__(self, rejections: Rejections) -> None:
        self._rejections = rejections
        self._cycle = rejections.cycle
        self._table = rejections.cycle.table
        self._against = rejections.against
        self._names = node_names(self._table)
        self._asked = _asked_keys(rejections)
        self.unmet: Relevance | None = None
        """The first kind of demand that no node meets."""
        self.rows = self._find()

    # The nodes that are meant

    def _find(self) -> Rows:
        rows = np.flatnonzero(self._table.valid)
        self._relevance = {
            name: self._relevance_of(name, np.flatnonzero(codes & self._table.valid))
            for name, codes in self._against.items()
        }
        for demand in _DEMANDS:
            rejected = np.zeros(self._table.capacity, dtype=np.bool_)
            for kinds in self._relevance.values():
                rejected |= kinds == demand
            passing = rows[~rejected[rows]]
            if len(passing):
                rows = passing
            elif self.unmet is None:
                self.unmet = demand
                break
        return rows

    def _relevance_of(self, name: str, rows: Rows) -> IntArray:
        """The kind of rejection by row; 0 where the filter passes the row."""
        found = np.zeros(self._table.capacity, dtype=np.int64)
        plugin = self._rejections.plugin(name)
        if plugin is None:
            found[rows] = Relevance.PLACE
        elif isinstance(plugin, RelevancePlugin) and len(rows):
            found[rows] = plugin.relevance(self._cycle, self._cycle.pod, rows)
        else:
            found[rows] = Relevance.STATE
        return found

    @property
    def _blaming(self) -> dict[str, BoolColumn]:
        """The filters that count for the nodes that are meant, with the rows that each rejects.

        Where nothing is where the pod wants to be, or of the kind it wants, that alone is said: what else
        rules nodes out has nothing to do with the pod.
        """
        if self.unmet in (Relevance.PLACE, Relevance.KIND):
            return {name: kinds == self.unmet for name, kinds in self._relevance.items()}
        return self._against

    def blocked(self) -> list[Blocked]:
        """The rows that are meant by the filters that rule them out.

        A filter that rejects all of them is enough for one group, unless every row has another obstacle too.
        """
        rows = self.rows
        rejecting = {name: codes[rows] for name, codes in self._blaming.items() if codes[rows].any()}
        common = tuple(name for name, codes in rejecting.items() if codes.all())
        others = {name: codes for name, codes in rejecting.items() if name not in common}
        more = np.zeros(len(rows), dtype=np.bool_)
        for codes in others.values():
            more |= codes
        if common and (not others or not more.all()):
            return [self._nearest_first(common, rows)]
        by_set: dict[tuple[str, ...], list[int]] = {}
        for place, row in enumerate(rows.tolist()):
            mine = tuple(name for name, codes in others.items() if codes[place])
            by_set.setdefault(mine, []).append(row)
        found = [
            self._nearest_first((*common, *names), np.array(those, dtype=np.intp))
            for names, those in by_set.items()
        ]
        return sorted(found, key=lambda one: (len(one.plugins), one.size, -len(one.rows)))

    def others(self) -> list[Blocked]:
        """The rows that are not meant and that one filter alone rejects, by filter."""
        meant = np.zeros(self._table.capacity, dtype=np.bool_)
        meant[self.rows] = True
        alone = self._rejections.rejected_once & ~meant
        found = [
            self._nearest_first((name,), rows)
            for name, codes in self._against.items()
            if len(rows := np.flatnonzero(alone & codes))
        ]
        return sorted(found, key=lambda one: (one.size, -len(one.rows)))

    def _nearest_first(self, names: Sequence[str], rows: Rows) -> Blocked:
        sizes = np.zeros(len(rows))
        for name in names:
            sizes = np.maximum(sizes, self._sizes(name, rows))
        order = np.argsort(sizes, kind="stable")
        return Blocked(tuple(names), tuple(rows[order].tolist()), tuple(sizes[order].tolist()))

    def _sizes(self, name: str, rows: Rows) -> FloatArray:
        """How much each row lacks: everything, if it has nothing of the kind that the pod wants."""
        plugin = self._rejections.plugin(name)
        sizes = np.ones(len(rows))
        if isinstance(plugin, ShortfallSizesPlugin):
            near = self._relevance[name][rows] != Relevance.KIND
            if near.any():
                sizes[near] = plugin.shortfall_sizes(self._cycle, self._cycle.pod, rows[near])
            return sizes
        told = self._shortfall(name, rows[:1])
        return sizes if told is None else np.full(len(rows), told.size)

    # In words

    def groups(self) -> Iterator[NodeGroup | None]:
        """The groups of nodes that are meant, then the others; None is a step without one."""
        for one in self.blocked():
            yield from self._groups_of(one, meant=True)
        yield None
        found: list[NodeGroup] = []
        for one in self.others():
            found += self._groups_of(one, meant=False)
            yield None
        yield from sorted(found, key=lambda group: group.size)[:_OTHER_GROUPS]

    def _groups_of(self, blocked: Blocked, *, meant: bool) -> Iterator[NodeGroup]:
        parts = self._parts(blocked)
        if len(parts) > 1:
            for part in parts:
                yield from self._groups_of(part, meant=meant)
            return
        whole = self._group(blocked.plugins, blocked.rows, meant, blocked.size)
        if whole.form == "cluster":
            yield whole
            return
        pools = self._names.by_pool(blocked.rows)
        if len(pools) == 1 or (meant and len(pools) > _POOLS):
            yield whole
            return
        for rows in pools.values():
            part = blocked.only(set(rows))
            yield self._group(part.plugins, part.rows, meant, part.size)

    def _parts(self, blocked: Blocked) -> list[Blocked]:
        """Rows by the kind of their obstacle, where one filter has several."""
        plugin = self._rejections.plugin(blocked.plugins[0]) if len(blocked.plugins) == 1 else None
        if not isinstance(plugin, ObstacleKindsPlugin):
            return [blocked]
        rows = np.array(blocked.rows, dtype=np.intp)
        kinds = np.array(plugin.obstacle_kinds(self._cycle, self._cycle.pod, rows))
        distinct = list(dict.fromkeys(kinds.tolist()))
        if len(distinct) == 1:
            return [blocked]
        return [blocked.only(set(rows[kinds == kind].tolist())) for kind in distinct]

    def _group(self, plugins: Sequence[str], rows: Sequence[int], meant: bool, size: float) -> NodeGroup:
        told: dict[Obstacle, None] = {}
        for plugin in plugins:
            told.setdefault(self._obstacle(plugin, np.array(rows, dtype=np.intp)))
        name = self._names.name(rows, self._asked)
        obstacle = _joined([*told], name)
        name_of = self._table.name_of
        return NodeGroup(
            name=name,
            nodes=len(rows),
            plugin=plugins[0] if plugins else "",
            text=obstacle.text,
            form=obstacle.form,
            examples=tuple(map(name_of, rows[:EXAMPLES])),
            size=round(size, 4),
            meant=meant,
        )

    def _obstacle(self, name: str, rows: Rows) -> Obstacle:
        plugin = self._rejections.plugin(name)
        if isinstance(plugin, ObstaclePlugin):
            found = plugin.obstacle(self._cycle, self._cycle.pod, rows)
            if found is not None:
                return found
        told = self._shortfall(name, rows[:1])
        if told is None:
            return Obstacle(self._rejections.reason_on(name, int(rows[0])))
        return Obstacle(f"{told.about} ({told.text})" if told.text and len(rows) == 1 else told.about)

    def _shortfall(self, name: str, rows: Rows) -> Shortfall | None:
        plugin = self._rejections.plugin(name)
        if not isinstance(plugin, ShortfallPlugin) or not len(rows):
            return None
        return plugin.shortfall(self._cycle, self._cycle.pod, int(rows[0]))


def _joined(found: Sequence[Obstacle], name: str) -> Obstacle:
    """Several obstacles of the nodes of a name as one."""
    if not found:
        return Obstacle("room is kept for pods that are nominated there")
    if len(found) == 1:
        return found[0]
    forms = {one.form for one in found}
    texts = list(dict.fromkeys(one.text for one in found))
    if forms == {"is"} or forms == {"on"}:
        return Obstacle(" and ".join(texts), found[0].form)
    if "cluster" in forms:
        clauses = [one.text if one.form == "cluster" else f"{one.text} on {name}" for one in found]
        return Obstacle("; ".join(dict.fromkeys(clauses)), "cluster")
    return Obstacle(" and ".join(texts))


def _asked_keys(rejections: Rejections) -> frozenset[str]:
    """The labels that the pod asks its node for."""
    spec = rejections.cycle.pod.spec
    rules = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if rules is None else rules.required_during_scheduling_ignored_during_execution
    terms = () if required is None else required.node_selector_terms
    keys = {one.key for term in terms for one in term.match_expressions}
    return frozenset(keys | set(spec.node_selector or {}))
