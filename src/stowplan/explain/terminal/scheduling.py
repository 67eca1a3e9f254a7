"""Where a pod is in a running scheduler, and its last attempt, as text."""

from collections.abc import Iterator

from stowplan.explain.document.pod import LastAttempt, QueueState, SchedulingDocument
from stowplan.explain.layout import indented, table
from stowplan.explain.states import PLACES
from stowplan.explain.terminal.decision import explain

_PREFIX = "preemption: "
"""How the scheduler's message about preemption begins."""


def render_scheduling(found: SchedulingDocument) -> str:
    """The document for people."""
    lines = [*_now(found.pod, found.state), ""]
    if found.attempt is None:
        lines.append("No scheduling attempt is recorded.")
    else:
        lines += _attempt(found.attempt)
    return "\n".join(lines) + "\n"


def _now(pod: str, now: QueueState) -> Iterator[str]:
    yield f"Pod {pod}: {now.place}{f' ({now.node})' if now.node else ''}"
    yield PLACES[now.place].sentence
    for plugin, said in now.held_by.items():
        yield f"  {plugin}: {said}" if said else f"  {plugin}"
    if now.rejected_by:
        yield f"Rejected by: {', '.join(now.rejected_by)}"
    if now.until is not None:
        yield f"Retried at {now.until} at the latest."
    if now.wakers:
        rows = [(one.resource, ", ".join(one.actions), one.plugin) for one in now.wakers]
        yield from ("", "Events that may requeue it:", "")
        yield from indented(table(("resource", "event", "plugin"), rows))


def _attempt(attempt: LastAttempt) -> list[str]:
    lines = [f"Attempt {attempt.number}, {attempt.time}: {attempt.outcome}"]
    if attempt.decision is not None:
        lines += explain(attempt.decision).rstrip("\n").split("\n")
    else:
        lines.append(attempt.message)
    made = attempt.preemption
    if made is not None and made.node:
        victims = ", ".join(made.victims)
        candidates = "1 candidate node" if made.candidates == 1 else f"{made.candidates} candidate nodes"
        lines += ["", f"Preemption: victims on {made.node}: {victims} ({candidates})."]
    elif made is not None:
        lines += ["", f"Preemption: {made.message.removeprefix(_PREFIX)}"]
    return lines
