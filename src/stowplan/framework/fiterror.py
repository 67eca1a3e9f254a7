"""The words in which a failed attempt is told: `0/5 nodes are available: 3 Insufficient cpu, …`.

People search for these sentences and tools parse them, so they are the same to the letter.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from stowplan.framework.evaluation import Evaluation

NO_NODES = "no nodes available to schedule pods"
"""Said of a cluster without a single node, where no plugin is asked anything."""


def fit_error(evaluation: Evaluation, post_filter_message: str = "") -> str:
    """Why an evaluation found no node; `post_filter_message` is what was said about making room."""
    node_count = evaluation.cycle.table.node_count
    if not node_count:
        return NO_NODES
    outright = evaluation.rejected_outright
    if outright is not None:
        return fit_error_text(node_count, {}, outright.message, post_filter_message)
    counts = every_reason(evaluation) if evaluation.profile.all_reasons else evaluation.reason_counts()
    return fit_error_text(node_count, counts, "", post_filter_message)


def every_reason(evaluation: Evaluation) -> Counter[str]:
    """How many nodes each reason stands against, also where an earlier filter has rejected the node.

    A filter written by node is not asked about nodes that are out of the question already.
    """
    counts: Counter[str] = Counter()
    cycle = evaluation.cycle
    for column in evaluation.filters():
        if column.codes is None:
            continue
        for code, nodes in zip(*np.unique(column.codes[cycle.table.valid], return_counts=True), strict=True):
            if code:
                reasons = column.status(cycle, cycle.pod, int(code)).reasons
                counts.update(dict.fromkeys(reasons, int(nodes)))
    for status, rows in evaluation.rejections().items():
        if status.plugin not in {column.plugin.name for column in evaluation.filters()}:
            counts.update(dict.fromkeys(status.reasons, len(rows)))
    return counts


def fit_error_text(
    node_count: int,
    reason_counts: Mapping[str, int],
    pre_filter_message: str = "",
    post_filter_message: str = "",
) -> str:
    """The message itself: reasons with the number of nodes they stand against, or what PreFilter said.

    Entries are sorted as text, so `10 Too many pods` comes before `2 Insufficient cpu`.
    """
    why = pre_filter_message or ", ".join(
        sorted(f"{count} {reason}" for reason, count in reason_counts.items())
    )
    parts = [f"{none_available(node_count)}:"]
    if why:
        parts.append(f"{why}.")
    if post_filter_message:
        parts.append(post_filter_message)
    return " ".join(parts)


def none_available(node_count: int) -> str:
    """How every such message begins."""
    return f"0/{node_count} nodes are available"
