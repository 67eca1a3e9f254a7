"""Pods that a node is promised to: room is kept for them, and one's own promise is looked at first."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.podclass import PodClass
from stowplan.framework.status import Status
from stowplan.framework.trials import Nominations, promised

if TYPE_CHECKING:
    from stowplan.framework.framework import Framework


def try_nominated(framework: "Framework", evaluation: Evaluation, row: int) -> Status | None:
    """What the filters say of the row promised to the pod; None: it passes.

    It is tried even if PreFilter left it out, and then keeps the verdict it gets.
    """
    feasibility = evaluation.pod_class.feasibility
    if feasibility.asks_for(row):
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


def beside_nominated(
    framework: "Framework",
    cycle: Cycle,
    pod_class: PodClass,
    nominations: Nominations,
    nominated_row: int | None,
) -> dict[int, Status]:
    """Rows that could not take the pod beside pods promised to them, with the reason; they are taken out."""
    feasibility = pod_class.feasibility
    concerned = {
        row: pods
        for row in nominations
        if (row == nominated_row or feasibility.asks_for(row))
        and (pods := promised(nominations, row, cycle.pod))
    }
    if not concerned:
        return {}
    asked = [column for column in feasibility.columns if column.active]
    if not all(column.traits.filter_beside for column in asked if column.traits.watches):
        verdicts = _tried(framework, cycle, nominations, concerned)
    else:
        kept = pod_class.beside.verdicts(framework.table, asked)
        for row, pods in concerned.items():
            if row not in kept or kept[row][0] != pods:
                kept[row] = (pods, feasibility.verdict_beside(cycle, row, pods))
        verdicts = {row: kept[row][1] for row in concerned}
    overruled = {row: verdict for row, verdict in verdicts.items() if verdict is not None}
    if overruled:
        rows = np.array(sorted(overruled), dtype=np.intp)
        feasibility.overrule_many(rows)
    return overruled


def _tried(
    framework: "Framework", cycle: Cycle, nominations: Nominations, rows: Iterable[int]
) -> dict[int, Status | None]:
    """Put the promised pods on each row in turn, and ask."""
    verdicts: dict[int, Status | None] = {}
    with framework.trials(cycle, cycle.memos, nominations) as trials:
        for row in rows:
            with trials.row(row) as trial:
                verdicts[row] = trial.beside_promised()
    return verdicts
