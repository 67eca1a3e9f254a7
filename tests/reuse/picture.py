"""Everything an evaluation says, by node name, so that two tables with other rows can be compared."""

from collections.abc import Callable
from typing import Any

from reuse.strategies import HOSTNAME, RACK, ZONE
from stowplan.cluster.table import ClusterTable
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.interface import Point
from stowplan.framework.runtime import Framework
from stowplan.framework.status import SUCCESS, Status


def picture(framework: Framework, evaluation: Evaluation) -> dict[str, Any]:
    """All there is to see of an evaluation, in words and numbers that do not depend on rows."""
    table = framework.table
    found: dict[str, Any] = {
        "outright": evaluation.rejected_outright,
        "asked for": evaluation.pre_filtering.node_names,
        "rejectors": evaluation.pre_filtering.rejectors,
        "skipped filters": evaluation.cycle.skipped,
        "feasible": {table.name_of(int(row)) for row in evaluation.feasible_rows},
        "feasible count": evaluation.feasible_count,
        "scored": evaluation.scored,
    }
    if evaluation.rejected_outright is not None:
        return found
    rows = {name: row for row, name in rows_by_name(table)}
    found["verdicts"] = {name: evaluation.status(row) for name, row in rows.items()}
    found["codes"] = _codes(framework, evaluation, rows)
    if evaluation.only_row is not None:
        found["only"] = table.name_of(evaluation.only_row)
        return found
    found["rejections"] = {
        status: {table.name_of(int(row)) for row in rejected}
        for status, rejected in evaluation.rejections().items()
    }
    found["reasons"] = evaluation.reason_counts()
    if evaluation.scored:
        found |= _scores(table, evaluation)
    return found


def imagined(framework: Framework, evaluation: Evaluation, most: int = 3) -> dict[str, Any]:
    """What is said of the first few nodes that have pods as these are taken away one by one.

    With none taken away it is what the evaluation says, unless that left the node out.
    """
    table = framework.table
    crowded = sorted((name, row) for row, name in rows_by_name(table) if table.pods_on[row])
    found = {}
    with evaluation.trials() as trials:
        for name, row in crowded[:most]:
            pods = dict(table.pods_on[row])
            with trials.row(row) as trial:
                said = [trial.verdict()]
                status = evaluation.status(row)
                assert status == evaluation.left_out or status == (said[0] or SUCCESS)
                for uid in sorted(pods):
                    trial.take_away(pods[uid])
                    said.append(trial.verdict())
            found[name] = said
    return found


def rows_by_name(table: ClusterTable) -> list[tuple[int, str]]:
    return [(row, table.name_of(row)) for row in range(table.rows_in_use) if table.valid[row]]


def _codes(
    framework: Framework, evaluation: Evaluation, rows: dict[str, int]
) -> dict[str, dict[str, Status]]:
    """What each filter says of each node it rejects, by plugin, also where an earlier one rejects it too.

    Plugins asked node by node are left out: they are not asked about nodes that others rejected.
    """
    by_column = {p.name: p for p in framework.at(Point.FILTER) if hasattr(p, "filter")}
    cycle = evaluation.cycle
    found: dict[str, dict[str, Status]] = {}
    for plugin, codes in evaluation.codes().items():
        if plugin in by_column:
            rejected = {
                name: by_column[plugin].reason(cycle, cycle.pod, int(codes[row]))
                for name, row in rows.items()
                if codes[row]
            }
            if rejected:
                found[plugin] = rejected
    return found


def _scores(table: ClusterTable, evaluation: Evaluation) -> dict[str, Any]:
    rows = evaluation.feasible_rows
    names = [table.name_of(int(row)) for row in rows]
    top, ties = evaluation.pod_class.scores.ranking.best()
    return {
        "skipped scores": evaluation.cycle.skipped_score,
        "scores": {
            plugin: dict(zip(names, scores, strict=True))
            for plugin, scores in evaluation.scores(rows).items()
        },
        "totals": dict(zip(names, evaluation.totals()[rows].tolist(), strict=True)),
        "best": (top, ties),
        "best nodes": {table.name_of(int(row)) for row in evaluation.best_rows()},
        "picks": {table.name_of(evaluation.choose(_always(nth))[0]) for nth in range(ties)},
    }


def usage(table: ClusterTable) -> dict[str, Any]:
    """What the table counts on each node."""
    found = {}
    for row, name in rows_by_name(table):
        found[name] = {
            "pods": int(table.pod_count[row]),
            "allowed": int(table.allowed_pods[row]),
            "non-zero": table.non_zero[:, row].tolist(),
            "uids": set(table.pods_on[row]),
            "labels": {key: _label(table, key, row) for key in (ZONE, HOSTNAME, RACK)},
            "allocatable": _line(table, table.allocatable, row),
            "requested": _line(table, table.requested, row),
        }
    return found


def _label(table: ClusterTable, key: str, row: int) -> str | None:
    column = table.label_column(key)
    return column.values[int(column.ids[row])]


def _always(nth: int) -> Callable[[int], int]:
    return lambda count: nth


def _line(table: ClusterTable, matrix: Any, row: int) -> dict[str, int]:
    amounts = matrix[:, row].tolist()
    return {str(name): amount for name, amount in zip(table.resources.names, amounts, strict=False) if amount}
