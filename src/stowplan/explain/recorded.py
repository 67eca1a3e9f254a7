"""From the scheduler's records to documents: decisions, attempts, evictions, where a pod is now.

A record is what the hot path writes (`DecisionRecord`, `PodRecord` and what they refer to): little work to
make and little to keep. It becomes a part of a document here, when somebody asks.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.explain.document.decision import Candidate, Decision, Rejection
from stowplan.explain.document.pod import (
    Attempt,
    LastAttempt,
    PodDocument,
    QueueState,
    Refusal,
    RequeueEvent,
    SchedulingDocument,
)
from stowplan.explain.document.preemption import (
    ChosenBy,
    Eviction,
    Preemption,
    PreemptionLine,
    RuledOutExample,
    Spared,
)
from stowplan.explain.sentences.preemption import did_preempt, stay, would_preempt
from stowplan.explain.sentences.words import brief, names
from stowplan.explain.states import FITS, PENDING
from stowplan.runtime.clock import as_date
from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.decision import DecisionRecord
from stowplan.scheduler.framework.events import Action, ClusterEvent

if TYPE_CHECKING:
    from stowplan.scheduler.context import Context
    from stowplan.scheduler.decisions import EvictionRecord, PodRecord, PreemptionRecord
    from stowplan.scheduler.framework.evaluation import Evaluation
    from stowplan.scheduler.framework.explanation import RuledOut
    from stowplan.scheduler.queue.queued_pod import QueuedPod

_FAILED: Final = ("unschedulable", "backoff")
"""Places in the queue of pods whose last attempt failed."""
_COUNT: Final = re.compile(r"^\d+ ")

# Decisions


def decide(evaluation: "Evaluation", choose: Callable[[int], int], top: int = 5) -> Decision:
    """Choose a node and say why.

    `choose(n)` picks one of n equally good nodes, by its number from 0. `top` is how many of the best nodes
    are kept with their scores. With 0 a pod that finds a node gets a short decision without funnel and
    scores; one that finds none always gets the whole funnel.
    """
    if not evaluation.feasible_count:
        return decision_of(DecisionRecord(evaluation, None, 0, top))
    row, ties = choose_node(evaluation, choose)
    return decision_of(DecisionRecord(evaluation, row, ties, top))


def decision_of(record: DecisionRecord) -> Decision:
    """The decision that a record is about."""
    totals = record.totals
    margin = None
    if totals:
        margin = 0 if record.ties > 1 else totals[0] - totals[1]
    weights = {share.plugin: share.weight for share in record.shares}
    return Decision(
        pod=record.pod,
        node=record.node,
        nodes=record.nodes,
        feasible=record.feasible,
        message=record.message or f"Successfully assigned {record.pod} to {record.node}",
        ties=record.ties,
        margin=margin if len(totals) > 1 else None,
        nominated=record.nominated,
        funnel=tuple(
            Rejection(
                plugin=one.plugin,
                code=one.code,
                reasons=one.reasons,
                nodes=one.nodes,
                examples=one.examples,
                near_misses=one.near_misses,
            )
            for one in record.funnel
        ),
        best=tuple(
            Candidate(node=name, total=totals[place], scores=record.scores(place))
            for place, name in enumerate(record.names)
        ),
        weights=weights,
        old_names={plugin: name for plugin, name in record.old_names.items() if plugin in weights},
    )


# Attempts


def attempts_of(made: "PodRecord") -> tuple[Attempt, ...]:
    """The last attempt, then those before it, the latest first."""
    done = None if made.preempting is None else preemption_document(made.preempting)
    last = _attempt(made.attempts, made.time, made.outcome, made.message)
    earlier = (
        replace(
            _attempt(one.number, one.time, one.outcome, one.message),
            preemption=None if one.preempting is None else preemption_document(one.preempting),
        )
        for one in reversed(made.earlier)
    )
    return (replace(last, preemption=done), *earlier)


def _attempt(number: int, time: float, outcome: str, message: str) -> Attempt:
    return Attempt(number, timestamp(time), outcome, message, brief=brief(message))


def with_refusal(found: PodDocument, made: "PodRecord | None") -> PodDocument:
    """The document of a pod that a node fits and that was refused after the choice in its last attempt."""
    queue, record = found.queue, None if made is None else made.record
    if made is None or record is None or record.node is None or queue is None or found.state != FITS:
        return found
    if queue.place not in _FAILED or made.outcome == "bound":
        return found
    said = _COUNT.sub("", brief(made.message)).rstrip(".")
    refusal = Refusal(record.node, queue.rejected_by, said)
    return replace(found, state=PENDING, message=made.message, refusal=refusal)


def _last_attempt(made: "PodRecord") -> LastAttempt:
    decision = None if made.record is None else decision_of(made.record)
    if decision is not None and decision.scheduled and made.outcome != "bound":
        decision = replace(decision, message=made.message)
    done = None if made.preempting is None else preemption_document(made.preempting)
    return LastAttempt(timestamp(made.time), made.attempts, made.outcome, made.message, decision, done)


# Preemption


def preemption_document(
    record: "PreemptionRecord", not_candidates: "Sequence[RuledOut]" = (), *, is_done: bool = True
) -> Preemption:
    """A search for victims; with `not_candidates` its funnel adds up to the number of nodes."""
    choice = record.choice
    ruled_out = [*not_candidates, *(() if choice is None else choice.ruled_out())]
    found = Preemption(
        node=record.node or None,
        victims=record.victims,
        candidates=record.candidates,
        message=record.message,
        nodes=record.nodes,
        funnel=tuple(map(_line, ruled_out)),
        chosen_by=None if choice is None else ChosenBy(choice.criterion, choice.text),
        spared=None if choice is None else _spared(tuple(choice.spared), choice.spared_count),
    )
    return replace(found, headline=did_preempt(found) if is_done else would_preempt(found))


def _spared(pods: tuple[str, ...], count: int) -> Spared:
    listed = [*pods, *[""] * (count - len(pods))]
    return Spared(pods, count, f"{names(listed, len(pods))} {stay(count)}" if count else "")


def _line(one: "RuledOut") -> PreemptionLine:
    examples = tuple(RuledOutExample(node.node, node.text, node.victims) for node in one.examples)
    return PreemptionLine(one.criterion or None, one.reason, one.nodes, examples)


def eviction_document(record: "EvictionRecord", message: str = "") -> Eviction:
    """Pods that were evicted for another one, or for a group."""
    return Eviction(
        by=(record.by,),
        message=message,
        node=record.done.node,
        victims=record.done.victims,
        candidates=record.done.candidates,
        time=timestamp(record.time),
        preemption=preemption_document(record.done),
    )


# Where a pod is now


def scheduling_document(context: "Context", key: str) -> SchedulingDocument | None:
    """The state of the pod `namespace/name` and its last attempt; None if nothing is known of it."""
    made = context.decisions.by_key(key)
    now = queue_state(context, key)
    if now.place == "unknown" and made is None:
        return None
    return SchedulingDocument(key, now, None if made is None else _last_attempt(made))


def queue_state(context: "Context", key: str) -> QueueState:
    """Where a pod is in a running scheduler."""
    queued = context.queue.get(key)
    if queued is not None:
        return _in_queue(context, queued)
    pod = context.find(key)
    if pod is None:
        return QueueState("unknown")
    uid = pod.metadata.uid
    waiting = context.waiting.get(uid)
    if waiting is not None:
        held = dict.fromkeys(waiting.pending_plugins, "has not let it go yet")
        return QueueState("waiting", waiting.node, held_by=held)
    if pod.spec.node_name:
        return QueueState("bound", pod.spec.node_name)
    if uid in context.cache.assumed:
        return QueueState("binding", context.cache.assumed[uid])
    return QueueState("in flight" if uid in context.queue.in_flight else "unknown")


def _in_queue(context: "Context", queued: "QueuedPod") -> QueueState:
    queue, clock = context.queue, context.clock
    next_try = queue.next_try(queued.key)
    return QueueState(
        queue.place_of(queued.key) or "unknown",
        since=timestamp(as_date(clock, queued.timestamp)),
        until=None if next_try is None else timestamp(as_date(clock, next_try)),
        rejected_by=tuple(sorted(queued.rejectors)),
        held_by={} if queued.gate is None else {queued.gating_plugin: queued.gate.message},
        wakers=requeue_events(queue.wakers(queued.key)),
    )


def requeue_events(events: Iterable[tuple[str, ClusterEvent]]) -> tuple[RequeueEvent, ...]:
    """The events of each plugin by resource; `Update` stands for all kinds of updates."""
    found: dict[tuple[str, str], Action] = {}
    for plugin, event in events:
        key = (event.resource, plugin)
        found[key] = found.get(key, Action(0)) | event.action
    return tuple(
        RequeueEvent(resource, _actions(action), plugin) for (resource, plugin), action in found.items()
    )


def _actions(action: Action) -> tuple[str, ...]:
    if action & Action.UPDATE == Action.UPDATE:
        named = [one for one in (Action.ADD, Action.UPDATE, Action.DELETE) if action & one]
    else:
        named = list(action)
    return tuple(one.label for one in named)
