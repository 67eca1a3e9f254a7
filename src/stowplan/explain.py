"""Why a pod goes where it goes, or why it is still pending: text and tables for people, JSON for programs.

`explain` describes one decision, from the nodes that were filtered out to the winner. An `Explanation` is
about a pod: its last scheduling attempt, its state now, and the events that would requeue it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stowplan.api.meta import timestamp
from stowplan.framework.decision import Candidate, Decision, Rejection
from stowplan.framework.events import Action, ClusterEvent
from stowplan.plugins.legacy.names import old_points

QUEUES: Final = {
    "active": "It is in activeQ and will be tried.",
    "backoff": "It is in backoffQ after a failed attempt.",
    "unschedulable": "It is in unschedulablePods until an event may make it schedulable.",
    "gated": "A PreEnqueue plugin keeps it out of the queue.",
    "in flight": "It is in its scheduling cycle.",
    "waiting": "Its node is reserved, and it waits at Permit.",
    "binding": "It is in its binding cycle.",
    "bound": "It is bound to its node.",
    "unknown": "The scheduler does not know this pod.",
}
"""The states of a pod, and what they mean."""


# Text tables


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()) -> list[str]:
    """The lines of a table with headings and a ruler; `numeric` columns are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    ruler = ["-" * width for width in widths]
    return [_aligned(row, widths, numeric) for row in (headings, ruler, *rows)]


def _aligned(row: Sequence[str], widths: Sequence[int], numeric: Collection[int]) -> str:
    cells = (
        cell.rjust(width) if column in numeric else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def indented(lines: Sequence[str], by: int = 2) -> list[str]:
    """The lines, indented."""
    return [" " * by + line if line else line for line in lines]


# Decisions


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
        lines += ["", _scores_heading(decision), "", *indented(_scores(decision))]
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


# Pods


class Waker(NamedTuple):
    """Events of a resource that may requeue a pod, and the plugin that registered for them."""

    resource: str
    actions: tuple[str, ...]
    plugin: str


def wakers(events: Iterable[tuple[str, ClusterEvent]]) -> tuple[Waker, ...]:
    """The events of each plugin by resource; `Update` stands for all kinds of updates."""
    found: dict[tuple[str, str], Action] = {}
    for plugin, event in events:
        key = (event.resource, plugin)
        found[key] = found.get(key, Action(0)) | event.action
    return tuple(Waker(resource, _actions(action), plugin) for (resource, plugin), action in found.items())


def _actions(action: Action) -> tuple[str, ...]:
    if action & Action.UPDATE == Action.UPDATE:
        named = [one for one in (Action.ADD, Action.UPDATE, Action.DELETE) if action & one]
    else:
        named = list(action)
    return tuple(one.label for one in named)


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of a pod.

    `until` is when it is retried without any event, `wakers` are the events that may requeue it before.
    `held_by` are plugins it waits for at PreEnqueue or Permit, with their messages.
    """

    place: str
    node: str | None = None
    since: float | None = None
    until: float | None = None
    rejected_by: tuple[str, ...] = ()
    held_by: dict[str, str] = field(default_factory=dict)
    wakers: tuple[Waker, ...] = ()

    def document(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "node": self.node,
            "since": _time(self.since),
            "until": _time(self.until),
            "rejectedBy": list(self.rejected_by),
            "heldBy": self.held_by,
            "wakers": [
                {"resource": one.resource, "actions": list(one.actions), "plugin": one.plugin}
                for one in self.wakers
            ],
        }


@dataclass(frozen=True, slots=True)
class Attempted:
    """The last scheduling attempt; `outcome` is `binding`, `bound`, `unschedulable` or `error`."""

    time: float
    number: int
    outcome: str
    message: str
    decision: Decision | None = None
    preemption: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of a pod and its last scheduling attempt, None if there is none or it was evicted."""

    pod: str
    state: PodState
    attempt: Attempted | None = None

    def document(self) -> dict[str, Any]:
        """The explanation as plain data, ready for JSON."""
        attempt = self.attempt
        shown: dict[str, Any] | None = None
        if attempt is not None:
            shown = {
                "time": _time(attempt.time),
                "number": attempt.number,
                "outcome": attempt.outcome,
                "message": attempt.message,
                "decision": None if attempt.decision is None else attempt.decision.document(),
                "preemption": attempt.preemption,
            }
        return {"pod": self.pod, "now": self.state.document(), "lastAttempt": shown}

    def text(self) -> str:
        """The explanation for people."""
        lines = [*_now(self.pod, self.state)]
        if self.attempt is None:
            lines += ["", "No scheduling attempt is recorded."]
        else:
            lines += ["", *_attempt(self.attempt)]
        return "\n".join(lines) + "\n"


def _now(pod: str, now: PodState) -> list[str]:
    lines = [f"Pod {pod}: {now.place}{f' ({now.node})' if now.node else ''}", QUEUES[now.place]]
    for plugin, said in now.held_by.items():
        lines.append(f"  {plugin}: {said}" if said else f"  {plugin}")
    if now.rejected_by:
        lines.append(f"Rejected by: {', '.join(now.rejected_by)}")
    if now.until is not None:
        lines.append(f"Retried at {_time(now.until)} at the latest.")
    if now.wakers:
        rows = [(one.resource, ", ".join(one.actions), one.plugin) for one in now.wakers]
        shown = table(("resource", "event", "plugin"), rows)
        lines += ["", "Events that may requeue it:", "", *indented(shown)]
    return lines


def _attempt(attempt: Attempted) -> list[str]:
    lines = [f"Attempt {attempt.number}, {_time(attempt.time)}: {attempt.outcome}"]
    if attempt.decision is not None:
        lines += explain(attempt.decision).rstrip("\n").split("\n")
    else:
        lines.append(attempt.message)
    made = attempt.preemption
    if made is not None and made["node"]:
        victims = ", ".join(made["victims"])
        count = made["candidates"]
        candidates = "1 candidate node" if count == 1 else f"{count} candidate nodes"
        lines += ["", f"Preemption: victims on {made['node']}: {victims} ({candidates})."]
    elif made is not None:
        lines += ["", f"Preemption: {made['message']}"]
    return lines


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
