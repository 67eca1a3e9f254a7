"""What is told about pods on their way: the lanes of the queue, and decisions as lines of a list."""

from collections.abc import Collection
from heapq import nsmallest
from typing import Any, Final, NamedTuple

from stowplan.api.meta import timestamp
from stowplan.clock import as_date
from stowplan.queue.queued_pod import QueuedPod
from stowplan.scheduler import Scheduler
from stowplan.scheduler.decisions import LastDecision

LANES: Final = ("active", "backoff", "unschedulable", "gated", "permit", "binding")
OLDEST: Final = 500
"""How many pods of a lane are shown."""


class Oldest(NamedTuple):
    """The pods that have been in a lane longest, and how many are in it that may be seen."""

    pods: list[dict[str, Any]]
    total: int


def lane_of(place: str) -> str:
    """The lane of a place in the queue: members that wait for their group are where it is.

    Those of a group that does not exist yet are held back; those of one in its cycle will be tried next.
    """
    return {"incomplete": "gated", "pending": "active"}.get(place, place)


def lane_pods(scheduler: Scheduler, visible: Collection[str]) -> dict[str, Oldest]:
    """The oldest pods of each lane."""
    context = scheduler.context
    queued: dict[str, list[QueuedPod]] = {name: [] for name in LANES[:4]}
    for one in context.queue:
        place = context.queue.place_of(one.key)
        if place is not None and one.pod.namespace in visible:
            queued[lane_of(place)].append(one)
    lanes = {
        name: Oldest(
            [_queued(scheduler, one) for one in nsmallest(OLDEST, pods, key=lambda one: one.timestamp)],
            len(pods),
        )
        for name, pods in queued.items()
    }
    permit = [
        {
            "pod": waiting.pod.key,
            "node": waiting.node,
            "cause": f"waits for {', '.join(waiting.pending_plugins)}",
        }
        for waiting in context.waiting
        if waiting.pod.namespace in visible
    ]
    held = {waiting.pod.uid for waiting in context.waiting}
    binding = [
        {"pod": info.key, "node": node, "cause": ""}
        for uid, node in context.cache.assumed.items()
        if uid not in held
        and (info := context.cache.table.pods.get(uid)) is not None
        and info.namespace in visible
    ]
    lanes["permit"] = Oldest(permit[:OLDEST], len(permit))
    lanes["binding"] = Oldest(binding[:OLDEST], len(binding))
    return lanes


def _queued(scheduler: Scheduler, queued: QueuedPod) -> dict[str, Any]:
    queue, clock = scheduler.context.queue, scheduler.context.clock
    made = scheduler.context.decisions.get(queued.uid)
    until = queue.next_try(queued.key)
    gate = "" if queued.gate is None else queued.gate.message
    return {
        "pod": queued.key,
        "since": timestamp(as_date(clock, queued.timestamp)),
        "until": None if until is None else timestamp(as_date(clock, until)),
        "attempts": queued.attempts,
        "priority": queued.pod.priority,
        "cause": gate or ("" if made is None else made.message),
    }


def decision_line(made: LastDecision) -> dict[str, Any]:
    """A decision as one line of a list."""
    decision = None if made.record is None else made.record.decision()
    points = decision.best[0].total if decision is not None and decision.best else None
    return {
        "time": timestamp(made.time),
        "pod": made.key,
        "node": None if decision is None else decision.node,
        "outcome": made.outcome,
        "message": made.message,
        "attempt": made.attempts,
        "points": points,
        "margin": None if decision is None else decision.margin,
        "ties": 0 if decision is None else decision.ties,
        "seconds": made.seconds,
        "victims": [] if made.preempting is None else list(made.preempting.victims),
    }
