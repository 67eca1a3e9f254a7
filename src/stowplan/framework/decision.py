"""The lasting record of one attempt to place a pod: what was ruled out and why, what was best and why.

An `Evaluation` reads arrays that the next attempt overwrites. A `Decision` is small, of bounded size and
keeps: events, conditions, explanations and tests all read it. It is also plain data: `Decision.document()`
is what JSON shows.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.fiterror import fit_error
from stowplan.framework.status import Status

EXAMPLES = 3
"""How many nodes are named per reason."""
GROUPS = 24
"""How many different verdicts are kept; what the rest amount to is summed up in one more."""

_OTHER_REASONS = "for other reasons"


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Immutable plain data, camelCase as JSON."""


class Rejection(_Record, frozen=True):
    """Nodes that one plugin was the first to rule out, for the same reasons.

    `near_misses` counts those that no other plugin rules out. A filter written by node is only asked about
    nodes that are still left when its turn comes, so for nodes rejected earlier its word is not known.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: int
    examples: tuple[str, ...] = ()
    near_misses: int = 0


class Candidate(_Record, frozen=True):
    """A node that can take the pod, with its total and what each plugin added to it (score times weight)."""

    node: str
    total: int
    scores: dict[str, int]


class Decision(_Record, frozen=True):
    """What came of one attempt.

    `funnel` is in the order in which filters run. `best` begins with the chosen node; it is empty where no
    scores were asked for or there was nothing to choose from. `ties` is how many nodes share the highest
    total, `margin` how far the next best one is behind (None: not known, or there is none).
    """

    pod: str
    node: str | None
    nodes: int
    feasible: int
    message: str
    ties: int = 0
    margin: int | None = None
    nominated: bool = False
    """The pod was given the node that an earlier attempt had made room on; no other was looked at."""
    funnel: tuple[Rejection, ...] = ()
    best: tuple[Candidate, ...] = ()
    weights: dict[str, int] = {}

    @property
    def scheduled(self) -> bool:
        return self.node is not None

    def document(self) -> dict[str, Any]:
        """The decision as plain data, ready for JSON."""
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return document


def decide(evaluation: Evaluation, choose: Callable[[int], int], top: int = 5) -> Decision:
    """Choose a node and record why.

    `choose(n)` picks one of n equally good nodes, by its number from 0. See `record` for `top`.
    """
    if not evaluation.feasible_count:
        return record(evaluation, None, 0, top)
    ties = evaluation.best()[1] if evaluation.scored else 1
    return record(evaluation, evaluation.pick(choose(ties) if ties > 1 else 0), ties, top)


def record(evaluation: Evaluation, row: int | None, ties: int, top: int = 5) -> Decision:
    """Record why a row was chosen, or none was.

    `top` is how many of the best nodes are kept with their scores. With 0 a pod that finds a node gets a
    short record without funnel and scores, which costs next to nothing; one that finds none always gets the
    whole funnel.
    """
    if row is None:
        return _without_node(evaluation)
    table = evaluation.cycle.table
    pod = evaluation.cycle.pod.key
    node = table.name_of(row)
    message = f"Successfully assigned {pod} to {node}"
    count, nodes = evaluation.feasible_count, table.node_count
    nominated = evaluation.only_row is not None
    if not top:
        return Decision(
            pod=pod, node=node, nodes=nodes, feasible=count, message=message, ties=ties, nominated=nominated
        )
    scored = evaluation.scored
    return Decision(
        pod=pod,
        node=node,
        nodes=nodes,
        feasible=count,
        message=message,
        ties=ties,
        margin=_margin(evaluation, evaluation.best()[0], ties) if scored else None,
        nominated=nominated,
        funnel=() if nominated else _funnel(evaluation),
        best=_best(evaluation, row, top) if scored else (),
        weights=evaluation.weights() if scored else {},
    )


def _without_node(evaluation: Evaluation) -> Decision:
    table = evaluation.cycle.table
    outright = evaluation.rejected_outright
    if outright is None:
        funnel = _funnel(evaluation)
    else:
        funnel = (_rejection(outright, table.node_count),)
    return Decision(
        pod=evaluation.cycle.pod.key,
        node=None,
        nodes=table.node_count,
        feasible=0,
        message=fit_error(evaluation),
        funnel=funnel,
    )


def _funnel(evaluation: Evaluation) -> tuple[Rejection, ...]:
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
        funnel.append(Rejection(plugin="", code="", reasons=(_OTHER_REASONS,), nodes=others))
    return tuple(funnel)


def _rejection(status: Status, nodes: int, examples: tuple[str, ...] = (), near_misses: int = 0) -> Rejection:
    return Rejection(
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


def _margin(evaluation: Evaluation, highest: int, ties: int) -> int | None:
    if ties > 1:
        return 0
    totals = evaluation.totals()
    second = int(totals[totals != highest].max())
    return highest - second if second >= 0 else None


def _best(evaluation: Evaluation, chosen: int, top: int) -> tuple[Candidate, ...]:
    """The chosen node, then the next best ones; among equals in row order."""
    totals = evaluation.totals()
    rows = _top_rows(totals, min(top, evaluation.feasible_count), chosen)
    name_of = evaluation.cycle.table.name_of
    by_plugin = evaluation.scores(rows)
    return tuple(
        Candidate(
            node=name_of(row),
            total=int(totals[row]),
            scores={plugin: values[place] for plugin, values in by_plugin.items()},
        )
        for place, row in enumerate(rows.tolist())
    )


def _top_rows(totals: "np.ndarray[tuple[int], np.dtype[np.int64]]", count: int, chosen: int) -> Rows:
    """`count` rows with the highest totals, best first, beginning with the chosen one."""
    lowest = np.partition(totals, -count)[-count]
    better = np.flatnonzero(totals > lowest)
    equal = np.flatnonzero(totals == lowest)[:count]
    rows = np.concatenate((better, equal))
    rows = rows[rows != chosen]
    ordered = rows[np.argsort(-totals[rows], kind="stable")]
    return np.concatenate((np.array([chosen], dtype=np.intp), ordered))[:count]
