"""Scores of nodes as if they were empty.

An extender that receives whole nodes returns them, and kube-scheduler then scores the returned nodes:
without the pods on them and without their images. To make the same decisions, this does so, too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from stowplan.api.node import Node
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import IGNORED, ScoreRange
from stowplan.scheduler.framework.protocols import EmptyNodeScorer
from stowplan.scheduler.framework.reuse.score_results import ScoreColumn
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IntColumn
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.view import NodeRow, NodeRows

Difference = dict[str, list[int]]


def differences(evaluation: Evaluation, rows: Rows, fresh: Mapping[str, Node]) -> Difference:
    """By plugin, how much more each row scores (times the weight) when it is taken for empty.

    This concerns plugins that give each node its score by itself, and those that say with
    `score_without_pods` what they make of empty nodes. The others look at the cluster as it is, or at what a
    node is and not at what is on it.
    """
    table = evaluation.cycle.table
    names = [table.name_of(row) for row in rows.tolist()]
    empty = ClusterTable(table.release)
    for name in names:
        node = fresh.get(name)
        if node is not None:
            empty.put_node(replace(node, status=replace(node.status, images=())))
    info = empty.info(evaluation.cycle.pod.pod)
    found: Difference = {}
    for column in evaluation.pod_class.scores.columns:
        if not column.active:
            continue
        if not column.normalizes:
            now: dict[str, int] | None = _scores(column, empty, info)
        elif isinstance(column.plugin, EmptyNodeScorer):
            now = _normalized(column, evaluation.cycle, rows, [name in fresh for name in names])
        else:
            continue
        kept = [column.constant] * len(rows) if column.final is None else column.final[rows].tolist()
        if now is not None:
            found[column.plugin.name] = [
                (now[name] - before) * column.weight if name in now else 0
                for name, before in zip(names, kept, strict=True)
            ]
    return found


def total(found: Difference, count: int) -> IntColumn:
    """All plugins' differences together, by row."""
    result: IntColumn = np.zeros(count, dtype=np.int64)
    for values in found.values():
        result += np.array(values, dtype=np.int64)
    return result


def _normalized(column: ScoreColumn, cycle: Cycle, rows: Rows, is_fresh: list[bool]) -> dict[str, int] | None:
    """Normalized scores of rows some of which are empty."""
    plugin: Any = column.plugin
    empty = column.call(plugin.score_without_pods, cycle, NodeRows(cycle.table, rows))
    if empty is None:
        return None
    as_it_is = np.zeros(len(rows), dtype=np.int64) if column.raw is None else column.raw[rows]
    raw = np.where(is_fresh, empty, as_it_is)
    counted = raw[raw != IGNORED]
    extremes = ScoreRange(int(counted.min()), int(counted.max())) if len(counted) else ScoreRange(0, 0)
    scores = column.call(plugin.normalize, cycle, raw, extremes).tolist()
    return dict(zip([cycle.table.name_of(row) for row in rows.tolist()], scores, strict=True))


def _scores(column: ScoreColumn, table: ClusterTable, info: PodInfo) -> dict[str, int]:
    """Scores that a plugin gives the nodes of another table."""
    plugin: Any = column.plugin
    cycle = Cycle(table, info, {})
    cycle.feasible = table.valid.copy()
    cycle.feasible_count = table.node_count
    if hasattr(plugin, "pre_score"):
        column.call(plugin.pre_score, cycle)
    names = [table.name_of(row) for row in range(table.rows_in_use)]
    if column.by_node:
        return {
            name: int(column.call(plugin.score_node, cycle, NodeRow(table, row), node=name))
            for row, name in enumerate(names)
        }
    scores = column.call(plugin.score, cycle, table.all_rows())
    values = [0] * len(names) if scores is None else scores.tolist()
    return dict(zip(names, values, strict=True))
