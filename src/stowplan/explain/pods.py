"""A pod as it stands now: why it is where it is, or why it still waits and what would help."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stowplan.api.meta import timestamp
from stowplan.explain.decisions import explain
from stowplan.explain.tables import indented, table
from stowplan.framework.decision import Decision
from stowplan.framework.events import Action, ClusterEvent

QUEUES: Final = {
    "active": "It is ready to be tried.",
    "backoff": "It waits out a backoff after a failed attempt.",
    "unschedulable": "It waits for something to happen that may help it.",
    "gated": "It is held back and not tried at all.",
    "in flight": "It is being tried right now.",
    "waiting": "Its node is held for it, but it waits for leave to go there.",
    "binding": "It is being bound to its node.",
    "bound": "It is on its node.",
    "unknown": "The scheduler does not know it.",
}
"""Where a pod can be, and what that means."""


class Waker(NamedTuple):
    """What may help a pod: what happens to which kind of object, and the plugin that wants to hear of it."""

    resource: str
    actions: tuple[str, ...]
    plugin: str


def wakers(events: Iterable[tuple[str, ClusterEvent]]) -> tuple[Waker, ...]:
    """Plugins and the events they registered for, by kind of object; `Update` stands for any change."""
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
class Whereabouts:
    """Where a pod is now.

    `until` is when it is tried again if nothing happens, `wakers` what may have it tried before that.
    `held_by` are plugins it waits for at the
    gate or at Permit, with what they say.
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
    """The last attempt: when, the how-manieth, and what came of it (`binding`, `bound`, `unschedulable`,
    `error`). `preemption` is what was tried to make room."""

    time: float
    number: int
    outcome: str
    message: str
    decision: Decision | None = None
    preemption: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """All there is to say about a pod. `attempt` is None if it was never tried, or too long ago."""

    pod: str
    whereabouts: Whereabouts
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
        return {"pod": self.pod, "now": self.whereabouts.document(), "lastAttempt": shown}

    def text(self) -> str:
        """The explanation for people."""
        lines = [*_now(self.pod, self.whereabouts)]
        if self.attempt is None:
            lines += ["", "No attempt to place it is remembered."]
        else:
            lines += ["", *_attempt(self.attempt)]
        return "\n".join(lines) + "\n"


def _now(pod: str, now: Whereabouts) -> list[str]:
    lines = [f"Pod {pod}: {now.place}{f' ({now.node})' if now.node else ''}", QUEUES[now.place]]
    for plugin, said in now.held_by.items():
        lines.append(f"  {plugin}: {said}" if said else f"  {plugin}")
    if now.rejected_by:
        lines.append(f"Rejected by: {', '.join(now.rejected_by)}")
    if now.until is not None:
        lines.append(f"Tried again at {_time(now.until)} at the latest.")
    if now.wakers:
        rows = [(one.resource, ", ".join(one.actions), one.plugin) for one in now.wakers]
        shown = table(("object", "what happens to it", "may help with"), rows)
        lines += ["", "What would have it tried again:", "", *indented(shown)]
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
        choice = f"{made['candidates']} nodes to choose from"
        lines += ["", f"Preemption: {victims} must go from {made['node']} ({choice})."]
    elif made is not None:
        lines += ["", f"Preemption: {made['message']}"]
    return lines


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
