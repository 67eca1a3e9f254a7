"""Where a pod is in a running scheduler: its queue, its last attempt, the events that would requeue it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stowplan.api.meta import timestamp
from stowplan.explain.layout import indented, table
from stowplan.explain.text import explain
from stowplan.scheduler.framework.decision import Decision
from stowplan.scheduler.framework.events import Action, ClusterEvent
from stowplan.scheduler.framework.interface import PREEMPTION_PREFIX

QUEUES: Final = {
    "active": "It is in activeQ and will be tried.",
    "backoff": "It is in backoffQ after a failed attempt.",
    "unschedulable": "It is in unschedulablePods until an event may make it schedulable.",
    "gated": "A PreEnqueue plugin keeps it out of the queue.",
    "incomplete": "Its group, or a group above that, does not exist yet.",
    "pending": "Its group is in its scheduling cycle, and it joins the next one.",
    "in flight": "It is in its scheduling cycle.",
    "waiting": "Its node is reserved, and it waits at Permit.",
    "binding": "It is in its binding cycle.",
    "bound": "It is bound to its node.",
    "unknown": "The scheduler does not know this pod.",
}
"""The states of a pod, and what they mean."""


class Requeuer(NamedTuple):
    """Events of a resource that may requeue a pod, and the plugin that registered for them."""

    resource: str
    actions: tuple[str, ...]
    plugin: str


def wakers(events: Iterable[tuple[str, ClusterEvent]]) -> tuple[Requeuer, ...]:
    """The events of each plugin by resource; `Update` stands for all kinds of updates."""
    found: dict[tuple[str, str], Action] = {}
    for plugin, event in events:
        key = (event.resource, plugin)
        found[key] = found.get(key, Action(0)) | event.action
    return tuple(Requeuer(resource, _actions(action), plugin) for (resource, plugin), action in found.items())


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
    wakers: tuple[Requeuer, ...] = ()

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
    earlier: Sequence[tuple[float, int, str, str]] = ()
    """The attempts before, oldest first: time, number, outcome and message of each."""


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
        lines += ["", f"Preemption: {made['message'].removeprefix(PREEMPTION_PREFIX)}"]
    return lines


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
