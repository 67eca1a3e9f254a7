"""Documents about pods on their way: the lanes of the queue, and decisions as lines of a list."""

from collections.abc import Collection
from heapq import nsmallest
from typing import Final, NamedTuple

from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.explain.document.queue import Cost, DecisionLine, QueueEntry
from stowplan.explain.recorded import decision_of
from stowplan.explain.sentences.lists import decision_in_brief
from stowplan.explain.sentences.words import brief
from stowplan.explain.web.groups import KINDS
from stowplan.runtime.clock import as_date
from stowplan.scheduler import Scheduler
from stowplan.scheduler.cycle.costs import OwnerCost
from stowplan.scheduler.decisions import PodRecord
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod

WAITING_LANES: Final = ("active", "backoff", "unschedulable", "gated")
OLDEST: Final = 500
"""How many pods of a lane are shown."""


class Oldest(NamedTuple):
    """Entries that have been in a lane longest, a group being one; numbers of its pods and groups.

    Only what may be seen counts.
    """

    pods: list[QueueEntry]
    total: int
    groups: int = 0


class _Entry:
    """A pod in a lane, or the members of a group there, which are tried together."""

    __slots__ = ("group", "pods", "queued")

    def __init__(self, member: QueuedPod, group: str | None) -> None:
        self.group = group
        self.pods = 0
        self.queued = member.group if isinstance(member.group, QueuedGroup) else member


def lane_of(place: str) -> str:
    """The lane of a place in the queue: members that wait for their group are where it is.

    Those of a group that does not exist yet are held back; those of one in its cycle will be tried next.
    """
    return {"incomplete": "gated", "pending": "active"}.get(place, place)


def lane_pods(scheduler: Scheduler, visible: Collection[str]) -> dict[str, Oldest]:
    """The oldest pods of each lane."""
    context = scheduler.context
    groups = context.cache.table.groups
    queued: dict[str, dict[str, _Entry]] = {name: {} for name in WAITING_LANES}
    for one in context.queue:
        place = context.queue.place_of(one.key)
        if place is not None and one.pod.namespace in visible:
            group = groups.whole_of(one.pod.pod)
            entry = queued[lane_of(place)].setdefault(group or one.key, _Entry(one, group))
            entry.pods += 1
    lanes = {
        name: Oldest(
            [
                _queued(scheduler, one)
                for one in nsmallest(OLDEST, entries.values(), key=lambda one: one.queued.timestamp)
            ],
            sum(one.pods for one in entries.values()),
            sum(one.group is not None for one in entries.values()),
        )
        for name, entries in queued.items()
    }
    permit = [
        _reserved(waiting.pod.key, waiting.node, f"waits for {', '.join(waiting.pending_plugins)}")
        for waiting in context.waiting
        if waiting.pod.namespace in visible
    ]
    held = {waiting.pod.uid for waiting in context.waiting}
    binding = [
        _reserved(info.key, node, "")
        for uid, node in context.cache.assumed.items()
        if uid not in held
        and (info := context.cache.table.pods.get(uid)) is not None
        and info.namespace in visible
    ]
    lanes["permit"] = Oldest(permit[:OLDEST], len(permit))
    lanes["binding"] = Oldest(binding[:OLDEST], len(binding))
    return lanes


def _reserved(pod: str, node: str, cause: str) -> QueueEntry:
    return QueueEntry(pod=pod, node=node, cause=cause, brief=cause)


def _queued(scheduler: Scheduler, entry: _Entry) -> QueueEntry:
    queue, clock, queued = scheduler.context.queue, scheduler.context.clock, entry.queued
    first = queued.pod
    made = scheduler.context.decisions.get(first.uid)
    until = queue.next_try(first.key)
    gate = "" if queued.gate is None else queued.gate.message
    cause = gate or ("" if made is None else made.message)
    found = QueueEntry(
        pod=first.key,
        since=timestamp(as_date(clock, queued.timestamp)),
        until=None if until is None else timestamp(as_date(clock, until)),
        attempts=queued.attempts,
        priority=queued.priority if isinstance(queued, QueuedGroup) else first.priority,
        cause=cause,
        brief=brief(cause),
    )
    if entry.group is None:
        return found
    kind, _, name = entry.group.partition("/")
    return replace(found, group=name, kind=KINDS[kind], pods=entry.pods)


def decision_line(made: PodRecord) -> DecisionLine:
    """A decision as one line of a list."""
    decision = None if made.record is None else decision_of(made.record)
    victims = () if made.preempting is None else made.preempting.victims
    return DecisionLine(
        time=timestamp(made.time),
        pod=made.key,
        node=None if decision is None else decision.node,
        outcome=made.outcome,
        message=made.message,
        brief=decision_in_brief(made.outcome, made.message, victims),
        attempt=made.attempts,
        points=decision.best[0].total if decision is not None and decision.best else None,
        margin=None if decision is None else decision.margin,
        ties=0 if decision is None else decision.ties,
        seconds=made.seconds,
        victims=victims,
    )


def cost_document(cost: OwnerCost) -> Cost:
    """Cost of the scheduling cycles of one owner of pods."""
    return Cost(
        namespace=cost.owner.namespace,
        owner=cost.owner.text,
        attempts=cost.attempts,
        seconds=round(cost.seconds, 6),
        mean=round(cost.seconds / max(cost.attempts, 1), 6),
        worst=round(cost.worst, 6),
        slow=cost.slow,
        pod=cost.pod,
    )
