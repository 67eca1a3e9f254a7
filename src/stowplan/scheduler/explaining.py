"""Explaining a pod: what is remembered of its last attempt, and where it is now."""

from msgspec.structs import replace

from stowplan.clock import as_date
from stowplan.explain.pods import Attempted, Explanation, Whereabouts, wakers
from stowplan.queue.queued import QueuedPod
from stowplan.scheduler.context import Context
from stowplan.scheduler.decisions import LastDecision


class Explainer:
    """Answers why a pod is where it is."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def explain(self, key: str) -> Explanation | None:
        """Everything about the pod `namespace/name`; None if nothing is known of it."""
        made = self._context.decisions.by_key(key)
        now = self._whereabouts(key)
        if now.place == "unknown" and made is None:
            return None
        return Explanation(key, now, None if made is None else _attempted(made))

    def _whereabouts(self, key: str) -> Whereabouts:
        context = self._context
        queued = context.queue.get(key)
        if queued is not None:
            return self._in_queue(queued)
        pod = context.find(key)
        if pod is None:
            return Whereabouts("unknown")
        uid = pod.metadata.uid
        waiting = context.waiting.get(uid)
        if waiting is not None:
            held = dict.fromkeys(waiting.pending_plugins, "has not let it go yet")
            return Whereabouts("waiting", waiting.node, held_by=held)
        if pod.spec.node_name:
            return Whereabouts("bound", pod.spec.node_name)
        if uid in context.cache.assumed:
            return Whereabouts("binding", context.cache.assumed[uid])
        return Whereabouts("in flight" if uid in context.queue.in_flight else "unknown")

    def _in_queue(self, queued: QueuedPod) -> Whereabouts:
        queue, clock = self._context.queue, self._context.clock
        next_try = queue.next_try(queued.key)
        held = {} if queued.gate is None else {queued.gating_plugin: queued.gate.message}
        return Whereabouts(
            queue.place_of(queued.key) or "unknown",
            since=as_date(clock, queued.timestamp),
            until=None if next_try is None else as_date(clock, next_try),
            rejected_by=tuple(sorted(queued.rejectors)),
            held_by=held,
            wakers=wakers(queue.wakers(queued.key)),
        )


def _attempted(made: LastDecision) -> Attempted:
    decision = None if made.record is None else made.record.decision()
    if decision is not None and decision.scheduled and made.outcome != "bound":
        decision = replace(decision, message=made.message)
    return Attempted(
        made.time,
        made.attempts,
        made.outcome,
        made.message,
        decision,
        None if made.preempting is None else made.preempting.document(),
    )
