"""The lasting record of one scheduling cycle, and the message about it.

An `Evaluation` reads arrays that the next cycle overwrites. A `DecisionRecord` is small, bounded in size and
permanent: it becomes a `Decision`, a part of a document, on request (`explain/recorded.py`). The message
(`0/5 nodes are available: 3 Insufficient cpu, ...`) is kube-scheduler's to the letter: people search for it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.reuse.ranking import Share
from stowplan.scheduler.framework.status import Status

NO_NODES = "no nodes available to schedule pods"
"""Message for a cluster without a single node, where no plugin runs."""


def fit_error(evaluation: Evaluation, post_filter_message: str = "") -> str:
    """Why an evaluation found no node; `post_filter_message` is what was said about making room."""
    node_count = evaluation.node_count
    if not node_count:
        return NO_NODES
    outright = evaluation.rejected_outright
    if outright is not None:
        return fit_error_text(node_count, {}, outright.message, post_filter_message)
    counts = every_reason(evaluation) if evaluation.profile.all_reasons else evaluation.reason_counts()
    return fit_error_text(node_count, counts, "", post_filter_message)


def every_reason(evaluation: Evaluation) -> Counter[str]:
    """Number of nodes by reason, including nodes that an earlier filter has already rejected.

    A filter written by node does not run for nodes that are already ruled out.
    """
    counts: Counter[str] = Counter()
    cycle, nodes_at_hand = evaluation.cycle, evaluation.all_rows()
    for column in evaluation.filters():
        if column.codes is None:
            continue
        for code, nodes in zip(*np.unique(column.codes[nodes_at_hand], return_counts=True), strict=True):
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


EXAMPLES = 3
"""Number of nodes named per reason."""
GROUPS = 24
"""Number of different verdicts that are kept; the rest is summed up in one more."""

_OTHER_REASONS = "for other reasons"


class RejectedNodes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Nodes that one plugin was the first to rule out, for the same reasons.

    `near_misses` counts those that no other plugin rules out, as far as the other filters were asked.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: int
    examples: tuple[str, ...] = ()
    near_misses: int = 0


class DecisionRecord:
    """A decision as it was found, before it is put into words.

    Every placed pod leaves one, so creating it must be cheap.
    """

    __slots__ = (
        "feasible",
        "funnel",
        "message",
        "names",
        "node",
        "nodes",
        "nominated",
        "old_names",
        "pod",
        "shares",
        "ties",
        "totals",
        "varying",
    )

    def __init__(self, evaluation: Evaluation, row: int | None, ties: int, top: int) -> None:
        table = evaluation.cycle.table
        self.pod = evaluation.cycle.pod.key
        self.node = None if row is None else table.name_of(row)
        self.nodes = evaluation.node_count
        self.feasible = evaluation.feasible_count
        self.ties = ties
        self.nominated = evaluation.only_row is not None
        self.message = ""
        self.funnel: tuple[RejectedNodes, ...] = ()
        self.names: Sequence[str] = ()
        self.totals: Sequence[int] = ()
        self.shares: tuple[Share, ...] = ()
        self.varying: Sequence[list[int]] = ()
        """By plugin that does not give every node the same, the scores of the best rows."""
        self.old_names = evaluation.profile.old_names
        if row is None:
            self.message = fit_error(evaluation)
            outright = evaluation.rejected_outright
            self.funnel = _funnel(evaluation) if outright is None else (_rejection(outright, self.nodes),)
        elif top and not self.nominated:
            self.funnel = _funnel(evaluation)
        if row is not None and top and evaluation.scored:
            # The next best total is wanted for the margin, however few nodes are kept.
            rows = evaluation.top_rows(min(max(top, 2), self.feasible), row)
            scores = evaluation.pod_class.scores
            self.names = [table.names[best] for best in rows[:top]]
            self.totals = list(map(scores.ranking.totals.item, rows))
            self.shares = scores.shares
            self.varying = [list(map(final.item, rows)) for final, _ in scores.varying]

    def scores(self, place: int) -> dict[str, int]:
        """Share of each plugin in the total of one of the best nodes."""
        varying = iter(self.varying)
        return {
            share.plugin: next(varying)[place] * share.weight if share.points is None else share.points
            for share in self.shares
        }


def _funnel(evaluation: Evaluation) -> tuple[RejectedNodes, ...]:
    """Why nodes are out of the question; the same as for the pod before where nothing about that changed."""
    pod_class = evaluation.pod_class
    version = pod_class.filters.rejections_version
    kept = pod_class.funnel
    if kept is not None and kept[0] == version and not evaluation.overruled:
        known: tuple[RejectedNodes, ...] = kept[1]
        return known
    found = _made_funnel(evaluation)
    pod_class.funnel = None if evaluation.overruled else (version, found)
    return found


def _made_funnel(evaluation: Evaluation) -> tuple[RejectedNodes, ...]:
    rejections = evaluation.rejections()
    if not rejections:
        return ()
    name_of = evaluation.cycle.table.name_of
    against = _plugins_against(evaluation)
    largest = sorted(rejections, key=lambda status: len(rejections[status]), reverse=True)
    kept, rest = set(largest[:GROUPS]), largest[GROUPS:]
    funnel = [
        _rejection(
            status,
            len(rows),
            tuple(name_of(row) for row in rows[:EXAMPLES].tolist()),
            int(np.count_nonzero(against[rows] <= 1)) if status.plugin else 0,
        )
        for status, rows in rejections.items()
        if status in kept
    ]
    if rest:
        others = sum(len(rejections[status]) for status in rest)
        funnel.append(RejectedNodes(plugin="", code="", reasons=(_OTHER_REASONS,), nodes=others))
    return tuple(funnel)


def _rejection(
    status: Status, nodes: int, examples: tuple[str, ...] = (), near_misses: int = 0
) -> RejectedNodes:
    return RejectedNodes(
        plugin=status.plugin,
        code=status.code.label,
        reasons=status.reasons,
        nodes=nodes,
        examples=examples,
        near_misses=near_misses,
    )


def _plugins_against(evaluation: Evaluation) -> "np.ndarray[tuple[int], np.dtype[np.int16]]":
    """By row, how many filters reject it."""
    against = np.zeros(evaluation.cycle.table.capacity, dtype=np.int16)
    for codes in evaluation.codes().values():
        against += codes != 0
    return against
