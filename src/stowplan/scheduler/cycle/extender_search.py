"""Extenders in the search for a node: the calls to them, and their effect on the result."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import numpy as np

from stowplan.api.node import Node
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.cycle import empty_node_scores
from stowplan.scheduler.cycle.schedule_result import ScheduleResult
from stowplan.scheduler.extenders.requests import (
    AskFilter,
    AskPrioritize,
    ExtenderError,
    FilterRound,
    PrioritizeRound,
)
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.pod_groups.placement import Waited
from stowplan.scheduler.table.changes import Rows

_IGNORED: Final = "Skipping extender as it returned error and has ignorable flag set"
_NO_SCORE: Final = "Failed to run extender's priority function. No score given by this extender."


def nominated_passes(evaluation: Evaluation, logger: Logger) -> Waited[bool]:
    """Do extenders accept the pod's nominated node? An error counts as no."""
    row = evaluation.only_row
    assert row is not None
    try:
        left: FilterRound = yield AskFilter(evaluation.cycle.pod.pod, _nodes(evaluation, [row]))
    except ExtenderError as failure:
        logger.error("Evaluation failed on nominated node", err=failure)
        return False
    return bool(left.kept)


def filter_by_extenders(evaluation: Evaluation, logger: Logger) -> Waited[tuple[bool, Mapping[str, Node]]]:
    """Leave out what extenders reject. Returns whether there was any, and the nodes that came back."""
    table = evaluation.cycle.table
    rows = evaluation.feasible_rows.tolist()
    left_out = None if evaluation.pre_filtering.node_names is None else evaluation.left_out
    left: FilterRound = yield AskFilter(evaluation.cycle.pod.pod, _nodes(evaluation, rows), left_out)
    for name, cause in left.ignored:
        logger.info(0, _IGNORED, pod=Ref(evaluation.cycle.pod.key), extender=name, err=cause)
    verdicts = {table.row_of(name): verdict for name, verdict in left.verdicts.items()}
    known = {row: verdict for row, verdict in verdicts.items() if row is not None}
    evaluation.leave_out(np.array(list(known), dtype=np.intp), known)
    return len(left.kept) != len(rows), left.fresh


def prioritize_by_extenders(
    evaluation: Evaluation, fresh: Mapping[str, Node], rng: Random, logger: Logger
) -> Waited[ScheduleResult]:
    """Add the scores of extenders, and choose."""
    rows = evaluation.feasible_rows
    nodes = _nodes(evaluation, rows.tolist())
    asked: PrioritizeRound = yield AskPrioritize(evaluation.cycle.pod.pod, nodes)
    for name, cause in asked.ignored:
        logger.info(5, _NO_SCORE, error=cause, pod=Ref(evaluation.cycle.pod.key), extender=name)
    shifts = empty_node_scores.differences(evaluation, rows, fresh) if fresh else {}
    totals = evaluation.totals()[rows] + empty_node_scores.total(shifts, len(rows))
    for given in asked.scores:
        totals += np.array([given.scores.get(node.name, 0) for node in nodes], dtype=np.int64)
    best: Rows = rows[totals == totals.max()]
    row = int(best[rng.randrange(len(best)) if len(best) > 1 else 0])
    evaluation.check_choice(row)
    return ScheduleResult(evaluation, row, len(best), asked.scores, shifts, totals)


def _nodes(evaluation: Evaluation, rows: Sequence[int]) -> list[Node]:
    nodes = evaluation.cycle.table.nodes
    return [node for node in (nodes[row] for row in rows) if node is not None]
