"""Nodes that match the labels of the nodes where a service's pods are."""

from collections.abc import Sequence

import numpy as np

from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRows
from stowplan.framework.interface import ALL_ROWS, Codes, StaleRows

Demands = tuple[tuple[str, str], ...]
"""Labels and values that a node must have."""


def demands(pod: PodInfo, labels: Sequence[str], table: ClusterTable, anchor: int | None) -> Demands:
    """What the pod itself asks for, and for the other labels what the node of its siblings has."""
    own = pod.spec.node_selector or {}
    found = {label: own[label] for label in labels if label in own}
    if anchor is not None:
        node = table.nodes[anchor]
        assert node is not None
        there = node.metadata.labels
        found |= {label: there[label] for label in labels if label in there and label not in found}
    return tuple(found.items())


def codes(wanted: Demands, nodes: NodeRows) -> Codes | None:
    if not wanted:
        return None
    result = np.zeros(nodes.count, dtype=np.int64)
    for label, value in wanted:
        known = nodes.table.label_column(label).index.get(value, -1)
        result[nodes.labels(label) != known] = 1
    return result


def code_of_row(wanted: Demands, table: ClusterTable, row: int) -> int:
    for label, value in wanted:
        column = table.label_column(label)
        if column.ids.item(row) != column.index.get(value, -1):
            return 1
    return 0


def stale_rows(before: Demands | None, now: Demands | None) -> StaleRows:
    return NO_ROWS if before == now and now is not None else ALL_ROWS
