"""An explanation for a terminal: the answer first, then the evidence, then what to do, on one screen."""

from collections.abc import Sequence
from typing import Final

from stowplan.explain.changes import Change
from stowplan.explain.explainer import FITS, PENDING, PodExplanation, decided_by
from stowplan.explain.rejections import NearMiss
from stowplan.explain.state import QUEUES, Waker
from stowplan.explain.text import indented, scores_table
from stowplan.framework.decision import Decision

WIDTH: Final = 100
NEAREST: Final = 3
"""How many near misses are shown unless all are asked for."""

_EVENTS: Final = {
    "Add": "is added",
    "Delete": "is deleted",
    "Update": "changes",
}


def render(explanation: PodExplanation, *, all_nodes: bool = False) -> str:
    """The explanation as text."""
    lines = [_headline(explanation), *_situation(explanation), ""]
    if explanation.state == PENDING:
        lines += _pending(explanation, all_nodes)
    else:
        lines += _chosen(explanation)
    return "\n".join(_cut(line) for line in lines).rstrip() + "\n"


def _cut(line: str) -> str:
    return line.rstrip()


def _headline(explanation: PodExplanation) -> str:
    pod, nodes = explanation.pod, explanation.nodes
    if explanation.state == PENDING:
        if not explanation.funnel:
            return f"{pod} is pending: {explanation.message}"
        return f"{pod} is pending: no node fits (0 of {nodes})"
    if explanation.state == FITS:
        decision = explanation.decision
        node = decision.node if decision is not None else None
        return f"{pod} would go to {node}: {_nodes(explanation.feasible)} of {nodes} fit"
    return f"{pod} is on {explanation.node}"


def _situation(explanation: PodExplanation) -> list[str]:
    parts = []
    if explanation.attempt is not None:
        parts.append(f"attempt {explanation.attempt.number}: {explanation.attempt.outcome}")
    if explanation.now is not None and explanation.now.place in QUEUES:
        parts.append(QUEUES[explanation.now.place].rstrip("."))
    parts.append(f"source: {explanation.source}")
    lines = [" · ".join(parts)]
    if explanation.now is not None:
        lines += [f"{plugin}: {said}" for plugin, said in explanation.now.held_by.items()]
    return lines


# A pod that waits


def _pending(explanation: PodExplanation, all_nodes: bool) -> list[str]:
    lines = _funnel(explanation)
    if explanation.near_misses:
        lines += ["", "Closest: only one thing in the way", *_near_misses(explanation.near_misses, all_nodes)]
    if explanation.changes:
        lines += ["", "Any one of these would place it (each tried on this state)"]
        lines += _changes(explanation.changes)
    elif explanation.funnel:
        lines += ["", "No single change was found that would place it."]
    lines += _preemption(explanation)
    if explanation.wakes:
        lines += ["", f"Wakes it: {_wakes(explanation.wakes)}"]
    return lines


def _funnel(explanation: PodExplanation) -> list[str]:
    if not explanation.funnel:
        return []
    figures = [str(explanation.nodes), *(f"-{line.nodes}" for line in explanation.funnel)]
    width = max(map(len, figures))
    plugins = max(len(line.plugin) for line in explanation.funnel)
    lines = [f"{explanation.nodes:>{width}} nodes"]
    for line in explanation.funnel:
        lines.append(f"{f'-{line.nodes}':>{width}}  {line.plugin:<{plugins}}  {line.reason}")
    return [*lines, f"{f'= {explanation.feasible}':>{width}}"]


def _near_misses(misses: Sequence[NearMiss], all_nodes: bool) -> list[str]:
    shown = misses if all_nodes else misses[:NEAREST]
    names = [_middle(miss.node, 40) for miss in shown]
    width, about = max(map(len, names)), max(len(miss.missing) for miss in shown)
    lines = [
        f"  {name:<{width}}  {miss.missing:<{about}}  {miss.detail}"
        for name, miss in zip(names, shown, strict=True)
    ]
    if len(shown) < len(misses):
        lines[-1] += f"  (+{len(misses) - len(shown)} more: --all-nodes)"
    return lines


def _changes(changes: Sequence[Change]) -> list[str]:
    width = min(max(len(change.text) for change in changes), 56)
    return [f"  {change.text:<{width}}  → {_outcome(change)}" for change in changes]


def _outcome(change: Change) -> str:
    if change.victims:
        names = " and ".join(change.victims[:2])
        more = f" and {len(change.victims) - 2} more" if len(change.victims) > 2 else ""
        return f"{change.node}; {names}{more} would go"
    return change.node if change.nodes == 1 else f"{change.node}, {_nodes(change.nodes)} fit"


def _preemption(explanation: PodExplanation) -> list[str]:
    found = explanation.preemption
    if found is None or not found.node:
        return []
    return ["", f"Preemption would make room on {found.node}: {', '.join(found.victims)} would go."]


def _wakes(wakes: Sequence[Waker]) -> str:
    texts = dict.fromkeys(
        f"a {_words(one.resource)} {' or '.join(dict.fromkeys(_event(action) for action in one.actions))}"
        for one in wakes
    )
    return " · ".join(texts)


def _words(resource: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in resource).strip()


def _event(action: str) -> str:
    if action in _EVENTS:
        return _EVENTS[action]
    return "changes" if action.startswith("Update") else action


# A pod that is placed, or could be


def _chosen(explanation: PodExplanation) -> list[str]:
    decision = explanation.decision
    lines = _funnel(explanation) if explanation.funnel else []
    if decision is None or decision.node is None:
        return [*lines, "", explanation.message] if explanation.message else lines
    if decision.best:
        count = len(decision.best)
        lines += ["", f"Points of the best {count} (score times weight)", *indented(scores_table(decision))]
    lines += ["", _why(decision)]
    if explanation.state != FITS:
        lines.append(_again(explanation, decision))
    return [line for place, line in enumerate(lines) if line or place]


def _why(decision: Decision) -> str:
    if decision.ties > 1:
        return f"{decision.ties} nodes are equally good; ties are broken at random."
    by = decided_by(decision)
    if by is not None:
        runner_up = decision.best[1].node
        points = "1 point" if decision.margin == 1 else f"{decision.margin} points"
        return f"{decision.node} is ahead of {runner_up} by {points}, most of it from {by}."
    return f"{decision.node} is the only node that fits."


def _again(explanation: PodExplanation, decision: Decision) -> str:
    if decision.node == explanation.node:
        return "It would be placed there again now."
    if explanation.message:
        return f"{explanation.message}; it would go to {decision.node}."
    lead = _lead(explanation, decision)
    return f"It would go to {decision.node} now{lead}."


def _lead(explanation: PodExplanation, decision: Decision) -> str:
    own = next((one.total for one in decision.best if one.node == explanation.node), None)
    return "" if own is None else f", {decision.best[0].total - own} points better"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _middle(name: str, width: int) -> str:
    """A name cut in the middle: both ends tell names apart."""
    if len(name) <= width:
        return name
    half = (width - 1) // 2
    return f"{name[: width - 1 - half]}…{name[-half:]}"
