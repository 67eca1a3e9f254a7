"""Decisions as text: from the nodes that were filtered out to the scores of the best ones."""

from stowplan.explain.document.decision import Candidate, Decision, Rejection
from stowplan.explain.layout import indented, table


def explain(decision: Decision) -> str:
    """The decision as text for people."""
    lines = [_headline(decision)]
    if decision.nominated:
        lines += ["", "The pod was nominated to this node, so no other node was evaluated."]
    if decision.funnel:
        lines += ["", "Filter: which nodes are feasible", "", *indented(_funnel(decision))]
    elif decision.scheduled and not decision.nominated and decision.feasible == decision.nodes:
        lines += ["", _all_feasible(decision.nodes)]
    if decision.best:
        lines += ["", _scores_heading(decision), "", *indented(scores_table(decision))]
    if decision.scheduled:
        lines += ["", _verdict(decision)]
    return "\n".join(lines) + "\n"


def _all_feasible(nodes: int) -> str:
    return "Filter: the only node is feasible" if nodes == 1 else f"Filter: all {nodes} nodes are feasible"


def _headline(decision: Decision) -> str:
    if decision.node is None:
        return f"Pod {decision.pod}: no node fits\n\n{decision.message}"
    return f"Pod {decision.pod}: goes to {decision.node}"


def _funnel(decision: Decision) -> list[str]:
    rows = [(str(decision.nodes), "nodes", "")]
    for rejection in decision.funnel:
        reasons = ", ".join(rejection.reasons)
        rows.append((f"- {rejection.nodes}", rejection.plugin or "(several)", reasons))
        if rejection.examples:
            rows.append(("", "", f"  {_examples(rejection)}"))
    rows.append((f"= {decision.feasible}", "feasible", ""))
    return table(("", "rejected by", "reason"), rows, numeric=(0,))


def _examples(rejection: Rejection) -> str:
    names = ", ".join(rejection.examples)
    if rejection.nodes > len(rejection.examples):
        names += ", …"
    near = rejection.near_misses
    if not near:
        return names
    where = "" if near == rejection.nodes else f" on {near} of them"
    return f"{names} (only blocker{where})"


def _scores_heading(decision: Decision) -> str:
    shown = len(decision.best)
    which = f"all {shown}" if shown == decision.feasible else f"the best {shown} of {decision.feasible}"
    points = "points are score times weight"
    if decision.old_names:
        points += ", in brackets the score from 0 to 10"
    return f"Score: {which} feasible nodes ({points})"


def scores_table(decision: Decision) -> list[str]:
    best = decision.best
    if decision.old_names:
        return _priorities(decision)
    headings = ("plugin", "weight", *(_name(candidate, decision) for candidate in best))
    rows = [
        (plugin, str(weight), *(str(candidate.scores[plugin]) for candidate in best))
        for plugin, weight in decision.weights.items()
    ]
    rows.append(("total", "", *(str(candidate.total) for candidate in best)))
    return table(headings, rows, numeric=range(1, len(headings)))


def _priorities(decision: Decision) -> list[str]:
    """The table for a Policy: priorities, with scores from 0 to 10."""
    best = decision.best
    headings = ("priority", "plugin", "weight", *(_name(candidate, decision) for candidate in best))
    rows = [
        (
            decision.old_names.get(plugin, ""),
            plugin,
            str(weight),
            *(_on_old_scale(candidate.scores[plugin], weight) for candidate in best),
        )
        for plugin, weight in decision.weights.items()
    ]
    rows.append(("total", "", "", *(str(candidate.total) for candidate in best)))
    return table(headings, rows, numeric=range(2, len(headings)))


def _on_old_scale(points: int, weight: int) -> str:
    from stowplan.scheduler.plugins.legacy.names import old_points

    return f"{points} ({old_points(points // weight):g})"


def _name(candidate: Candidate, decision: Decision) -> str:
    return f"> {candidate.node}" if candidate.node == decision.node else candidate.node


def _verdict(decision: Decision) -> str:
    if decision.ties > 1:
        return f"{decision.node} was chosen by random tie-break among {decision.ties} equal nodes."
    if decision.margin is not None:
        ahead = decision.best[0].total - decision.margin
        points = "point" if decision.margin == 1 else "points"
        return f"{decision.node} wins by {decision.margin} {points} ({decision.best[0].total} to {ahead})."
    if decision.feasible == 1 and not decision.nominated:
        return f"{decision.node} is the only feasible node, so nothing was scored."
    return decision.message + "."
