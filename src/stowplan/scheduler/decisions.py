"""The last decision about each pod, and the explanation made of it and of where the pod is now."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.explain.preemption import Preempting
from stowplan.explain.state import Attempted, Explanation, PodState, wakers
from stowplan.runtime.clock import as_date
from stowplan.scheduler.framework.decision import DecisionRecord
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.context import Context


EARLIER: Final = 9
"""How many attempts before the last one are remembered of a pod."""


class EarlierAttempt(NamedTuple):
    """What came of an attempt before the last one."""

    time: float
    number: int
    outcome: str
    message: str


class LastDecision(msgspec.Struct):
    """What came of a pod's last attempt, and in short of those before it.

    `record` is None where it never came to one, because something went wrong before. `outcome` is where the
    attempt stands: `binding`, `bound`, `unschedulable` or `error`; `message` what was last said about it.
    """

    key: str
    uid: str
    time: float
    attempts: int
    record: DecisionRecord | None
    outcome: str
    message: str
    preempting: Preempting | None = None
    seconds: float | None = None
    """How long it took from the queue to the binding."""
    earlier: tuple[EarlierAttempt, ...] = ()
    """Oldest first."""

    def follow(self, before: "LastDecision") -> None:
        """This attempt comes after another one of the same pod."""
        same = before.earlier[-1].message if before.earlier else ""
        message = same if same == before.message else before.message
        last = EarlierAttempt(before.time, before.attempts, before.outcome, message)
        self.earlier = (*before.earlier[1 - EARLIER :], last)


class Eviction(NamedTuple):
    """That pods were evicted for another one, or for a group of pods, and why these."""

    preemptor: str
    done: Preempting
    time: float
    is_group: bool = False

    @property
    def by(self) -> str:
        """The preemptor in words."""
        return f"group {self.preemptor}" if self.is_group else self.preemptor

    def document(self) -> dict[str, Any]:
        return {
            "by": [self.by],
            "node": self.done.node,
            "victims": list(self.done.victims),
            "candidates": self.done.candidates,
            "time": timestamp(self.time),
            "preemption": self.done.document(),
        }


class LastDecisions:
    """The last decisions about the pods that were tried last, by uid; beyond `limit` the oldest go."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.wanted = limit > 0
        """Whether anything is kept at all."""
        self._by_uid: OrderedDict[str, LastDecision] = OrderedDict()
        self._uids: dict[str, str] = {}
        self._evictions: OrderedDict[str, Eviction] = OrderedDict()
        """By victim, and by preemptor."""

    def __len__(self) -> int:
        return len(self._by_uid)

    def put(self, made: LastDecision) -> None:
        if not self._limit:
            return
        known = self._by_uid
        before = known.get(made.uid)
        if before is not None:
            made.follow(before)
        known[made.uid] = made
        known.move_to_end(made.uid)
        self._uids[made.key] = made.uid
        if len(known) > self._limit:
            _, gone = known.popitem(last=False)
            if self._uids.get(gone.key) == gone.uid:
                del self._uids[gone.key]
        if made.preempting is not None and made.preempting.victims:
            self._keep(Eviction(made.key, made.preempting, made.time), (made.uid,))

    def put_group(self, key: str, members: Iterable[str], done: Preempting, time: float) -> None:
        """A group preempted; `members` are the uids of the pods that wait for it."""
        if self._limit:
            self._keep(Eviction(key, done, time, is_group=True), members)

    def _keep(self, eviction: Eviction, preemptors: Iterable[str]) -> None:
        for key in (*preemptors, *eviction.done.victims):
            self._evictions[key] = eviction
            self._evictions.move_to_end(key)
        while len(self._evictions) > self._limit:
            self._evictions.popitem(last=False)

    def eviction_of(self, key: str) -> Eviction | None:
        """The last time a pod of a name (`namespace/name`) was evicted."""
        return self._evictions.get(key)

    def evicted_for(self, uid: str) -> Eviction | None:
        """Who was evicted last for a pod."""
        return self._evictions.get(uid)

    def namespaces(self) -> set[str]:
        """The namespaces of pods that decisions are about, or that were evicted."""
        keys = [made.key for made in self._by_uid.values()]
        for eviction in self._evictions.values():
            keys += (eviction.preemptor, *eviction.done.victims)
        return {key.partition("/")[0] for key in keys}

    def latest(self) -> Iterator[LastDecision]:
        """Newest first. To be read before anything else happens to the scheduler."""
        return reversed(self._by_uid.values())

    def get(self, uid: str) -> LastDecision | None:
        return self._by_uid.get(uid)

    def by_key(self, key: str) -> LastDecision | None:
        """The last decision about the pod that had a name (`namespace/name`) most recently."""
        uid = self._uids.get(key)
        return None if uid is None else self._by_uid.get(uid)

    def update(self, uid: str, outcome: str, message: str, seconds: float | None = None) -> None:
        """How an attempt went on."""
        made = self._by_uid.get(uid)
        if made is not None:
            made.outcome, made.message, made.seconds = outcome, message, seconds


class Explainer:
    """Answers why a pod is where it is."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def explain(self, key: str) -> Explanation | None:
        """Everything about the pod `namespace/name`; None if nothing is known of it."""
        made = self._context.decisions.by_key(key)
        now = self._pod_state(key)
        if now.place == "unknown" and made is None:
            return None
        return Explanation(key, now, None if made is None else _attempted(made))

    def _pod_state(self, key: str) -> PodState:
        context = self._context
        queued = context.queue.get(key)
        if queued is not None:
            return self._in_queue(queued)
        pod = context.find(key)
        if pod is None:
            return PodState("unknown")
        uid = pod.metadata.uid
        waiting = context.waiting.get(uid)
        if waiting is not None:
            held = dict.fromkeys(waiting.pending_plugins, "has not let it go yet")
            return PodState("waiting", waiting.node, held_by=held)
        if pod.spec.node_name:
            return PodState("bound", pod.spec.node_name)
        if uid in context.cache.assumed:
            return PodState("binding", context.cache.assumed[uid])
        return PodState("in flight" if uid in context.queue.in_flight else "unknown")

    def _in_queue(self, queued: QueuedPod) -> PodState:
        queue, clock = self._context.queue, self._context.clock
        next_try = queue.next_try(queued.key)
        held = {} if queued.gate is None else {queued.gating_plugin: queued.gate.message}
        return PodState(
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
        made.earlier,
    )
