"""A pod as it stands now: why it is where it is, or why it still waits and what would help."""

from dataclasses import dataclass, field
from typing import Any, Final

from stowplan.api.timestamps import timestamp
from stowplan.explain.decisions import explain
from stowplan.explain.tables import indented, table
from stowplan.framework.decision import Decision

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


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a pod is now.

    `until` is when it is tried again if nothing happens. `wakers` are the kinds of events that may have it
    tried before that, with the plugins that registered for them. `held_by` are plugins it waits for at the
    gate or at Permit, with what they say.
    """

    place: str
    node: str | None = None
    since: float | None = None
    until: float | None = None
    rejected_by: tuple[str, ...] = ()
    held_by: dict[str, str] = field(default_factory=dict)
    wakers: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "node": self.node,
            "since": _time(self.since),
            "until": _time(self.until),
            "rejectedBy": list(self.rejected_by),
            "heldBy": self.held_by,
            "wakers": {label: list(plugins) for label, plugins in self.wakers.items()},
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
        rows = [(label, ", ".join(plugins)) for label, plugins in now.wakers.items()]
        lines += [
            "",
            "What would have it tried again:",
            "",
            *indented(table(("event", "asked for by"), rows)),
        ]
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
        lines += [
            "",
            f"Preemption: {victims} must go from {made['node']} ({made['candidates']} nodes to choose from).",
        ]
    elif made is not None:
        lines += ["", f"Preemption: {made['message']}"]
    return lines


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
