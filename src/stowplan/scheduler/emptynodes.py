"""What nodes score as if no pod were on them.

An extender that is sent whole nodes sends them back, and kube-scheduler then scores the nodes it got back:
without the pods on them and without their images. Decisions shall be the same, so this does the same.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from stowplan.api.node import Node
from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import IntColumn
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRow
from stowplan.framework.cycle import Cycle
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.scorecolumn import ScoreColumn

Difference = dict[str, list[int]]


def differences(evaluation: Evaluation, rows: Rows, fresh: Mapping[str, Node]) -> Difference:
    """By plugin, how much more each row scores (times the weight) when it is taken for empty.

    This concerns plugins that look at one node at a time. The others, and those that put scores in relation
    to each other, look at the cluster as it is or at what a node is, not at what is on it.
    """
    table = evaluation.cycle.table
    names = [table.name_of(row) for row in rows.tolist()]
    empty = ClusterTable()
    for name in names:
        node = fresh.get(name)
        if node is not None:
            empty.put_node(replace(node, status=replace(node.status, images=())))
    info = empty.info(evaluation.cycle.pod.pod)
    found: Difference = {}
    for column in evaluation.pod_class.preference.columns:
        if column.active and column.traits.row_local and not column.normalizes:
            now = _scores(column, empty, info)
            kept = [column.constant] * len(rows) if column.final is None else column.final[rows].tolist()
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


def _scores(column: ScoreColumn, table: ClusterTable, info: PodInfo) -> dict[str, int]:
    """What a plugin gives the nodes of another table."""
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
