"""Records of the last decision about each pod, of what preemption did for it, and of who was evicted."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from stowplan.scheduler.framework.decision import DecisionRecord

if TYPE_CHECKING:
    from stowplan.scheduler.framework.explanation import Choice
    from stowplan.scheduler.framework.interface import PostFilterResult

EARLIER: Final = 9
"""Number of attempts before the last one that are remembered per pod."""


@dataclass(frozen=True, slots=True)
class PreemptionRecord:
    """Result of a search for victims: the node and the pods that have to go, or why there are none.

    `choice` tells why this candidate and no other.
    """

    node: str
    victims: tuple[str, ...]
    candidates: int
    message: str
    nodes: int = 0
    choice: "Choice | None" = None

    @classmethod
    def of(cls, result: "PostFilterResult", nodes: int) -> "PreemptionRecord":
        return cls(
            result.nominated_node or "",
            tuple(pod.key for pod in result.victims),
            len(result.candidates),
            result.status.message,
            nodes,
            result.choice,
        )


class EarlierAttempt(NamedTuple):
    """Result of an attempt before the last one."""

    time: float
    number: int
    outcome: str
    message: str
    preempting: PreemptionRecord | None = None


class PodRecord(msgspec.Struct):
    """Result of a pod's last attempt, and in short of those before it.

    `record` is None if the attempt failed before there was one. `outcome` is the state of the attempt:
    `binding`, `bound`, `unschedulable` or `error`; `message` is its latest message.
    """

    key: str
    uid: str
    time: float
    attempts: int
    record: DecisionRecord | None
    outcome: str
    message: str
    preempting: PreemptionRecord | None = None
    seconds: float | None = None
    """How long it took from the queue to the binding."""
    earlier: tuple[EarlierAttempt, ...] = ()
    """Oldest first."""

    def follow(self, before: "PodRecord") -> None:
        """This attempt comes after another one of the same pod."""
        same = before.earlier[-1].message if before.earlier else ""
        message = same if same == before.message else before.message
        last = EarlierAttempt(before.time, before.attempts, before.outcome, message, before.preempting)
        self.earlier = (*before.earlier[1 - EARLIER :], last)


class EvictionRecord(NamedTuple):
    """That pods were evicted for another one, or for a group of pods, and why these."""

    preemptor: str
    done: PreemptionRecord
    time: float
    is_group: bool = False

    @property
    def by(self) -> str:
        """The preemptor in words."""
        return f"group {self.preemptor}" if self.is_group else self.preemptor


class LastDecisions:
    """The last decisions about the pods that were tried last, by uid; beyond `limit` the oldest go."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.wanted = limit > 0
        """True if anything is kept at all."""
        self._by_uid: OrderedDict[str, PodRecord] = OrderedDict()
        self._uids: dict[str, str] = {}
        self._evictions: OrderedDict[str, EvictionRecord] = OrderedDict()
        """By victim, and by preemptor."""

    def __len__(self) -> int:
        return len(self._by_uid)

    def put(self, made: PodRecord) -> None:
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
            self._keep(EvictionRecord(made.key, made.preempting, made.time), (made.uid,))

    def put_group(self, key: str, members: Iterable[str], done: PreemptionRecord, time: float) -> None:
        """A group preempted; `members` are the uids of the pods that wait for it."""
        if self._limit:
            self._keep(EvictionRecord(key, done, time, is_group=True), members)

    def _keep(self, eviction: EvictionRecord, preemptors: Iterable[str]) -> None:
        for key in (*preemptors, *eviction.done.victims):
            self._evictions[key] = eviction
            self._evictions.move_to_end(key)
        while len(self._evictions) > self._limit:
            self._evictions.popitem(last=False)

    def eviction_of(self, key: str) -> EvictionRecord | None:
        """The last time a pod of a name (`namespace/name`) was evicted."""
        return self._evictions.get(key)

    def evicted_for(self, uid: str) -> EvictionRecord | None:
        """Last eviction for a pod."""
        return self._evictions.get(uid)

    def namespaces(self) -> set[str]:
        """The namespaces of pods that decisions are about, or that were evicted."""
        keys = [made.key for made in self._by_uid.values()]
        for eviction in self._evictions.values():
            keys += (eviction.preemptor, *eviction.done.victims)
        return {key.partition("/")[0] for key in keys}

    def latest(self) -> Iterator[PodRecord]:
        """Newest first. To be read before anything else happens to the scheduler."""
        return reversed(self._by_uid.values())

    def get(self, uid: str) -> PodRecord | None:
        return self._by_uid.get(uid)

    def by_key(self, key: str) -> PodRecord | None:
        """The last decision about the pod that had a name (`namespace/name`) most recently."""
        uid = self._uids.get(key)
        return None if uid is None else self._by_uid.get(uid)

    def update(self, uid: str, outcome: str, message: str, seconds: float | None = None) -> None:
        """How an attempt went on."""
        made = self._by_uid.get(uid)
        if made is not None:
            made.outcome, made.message, made.seconds = outcome, message, seconds
