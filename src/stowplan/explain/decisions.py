"""A decision in words and tables: first what was ruled out and why, then what was best and by how much."""

from stowplan.explain.tables import indented, table
from stowplan.framework.decision import Candidate, Decision, Rejection
from stowplan.plugins.legacy.names import old_points


def explain(decision: Decision) -> str:
    """The decision as text for people."""
    lines = [_headline(decision)]
    if decision.nominated:
        lines += ["", "The node was promised to the pod before, so no other was looked at."]
    if decision.funnel:
        lines += ["", "Filters: which nodes can take it", "", *indented(_funnel(decision))]
    elif decision.scheduled and not decision.nominated and decision.feasible == decision.nodes:
        lines += ["", f"Filters: every node can take it ({decision.nodes})"]
    if decision.best:
        lines += ["", _scores_heading(decision), "", *indented(_scores(decision))]
    if decision.scheduled:
        lines += ["", _verdict(decision)]
    return "\n".join(lines) + "\n"


def _headline(decision: Decision) -> str:
    if decision.node is None:
        return f"Pod {decision.pod}: no node found\n\n{decision.message}"
    return f"Pod {decision.pod}: goes to {decision.node}"


def _funnel(decision: Decision) -> list[str]:
    rows = [(str(decision.nodes), "nodes", "")]
    for rejection in decision.funnel:
        reasons = ", ".join(rejection.reasons)
        rows.append((f"- {rejection.nodes}", rejection.plugin or "(several)", reasons))
        if rejection.examples:
            rows.append(("", "", f"  {_examples(rejection)}"))
    rows.append((f"= {decision.feasible}", "can take it", ""))
    return table(("", "ruled out by", "because"), rows, figures=(0,))


def _examples(rejection: Rejection) -> str:
    names = ", ".join(rejection.examples)
    if rejection.nodes > len(rejection.examples):
        names += ", …"
    near = rejection.near_misses
    if not near:
        return names
    if near == rejection.nodes:
        against = "it" if near == 1 else "them"
    else:
        against = f"{near} of them"
    return f"{names} (nothing else stands against {against})"


def _scores_heading(decision: Decision) -> str:
    shown = len(decision.best)
    which = f"all {shown}" if shown == decision.feasible else f"the best {shown} of {decision.feasible}"
    points = "points are score times weight"
    if decision.old_names:
        points += "; in brackets the score from 0 to 10"
    return f"Scores: how good they are ({which}; {points})"


def _scores(decision: Decision) -> list[str]:
    best = decision.best
    if decision.old_names:
        return _priorities(decision)
    headings = ("plugin", "weight", *(_name(candidate, decision) for candidate in best))
    rows = [
        (plugin, str(weight), *(str(candidate.scores[plugin]) for candidate in best))
        for plugin, weight in decision.weights.items()
    ]
    rows.append(("total", "", *(str(candidate.total) for candidate in best)))
    return table(headings, rows, figures=range(1, len(headings)))


def _priorities(decision: Decision) -> list[str]:
    """The same table in terms of priorities, with scores on the scale they had."""
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
    return table(headings, rows, figures=range(2, len(headings)))


def _on_old_scale(points: int, weight: int) -> str:
    return f"{points} ({old_points(points // weight):g})"


def _name(candidate: Candidate, decision: Decision) -> str:
    return f"> {candidate.node}" if candidate.node == decision.node else candidate.node


def _verdict(decision: Decision) -> str:
    if decision.ties > 1:
        others = decision.ties - 1
        equal = "one other node is" if others == 1 else f"{others} others are"
        return f"{decision.node} was chosen by lot: {equal} just as good."
    if decision.margin is not None:
        ahead = decision.best[0].total - decision.margin
        points = "point" if decision.margin == 1 else "points"
        return f"{decision.node} wins by {decision.margin} {points} ({decision.best[0].total} to {ahead})."
    if decision.feasible == 1 and not decision.nominated:
        return f"{decision.node} is the only node that can take it, so nothing was scored."
    return decision.message + "."
