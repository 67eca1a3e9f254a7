"""The last decision about each pod, kept so that it can be explained."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec

from stowplan.framework.decision import Record


@dataclass(slots=True)
class Preempting:
    """What was tried to make room: the node and the pods that have to go, or why nothing was done."""

    node: str
    victims: tuple[str, ...]
    candidates: int
    message: str

    def document(self) -> dict[str, Any]:
        return {
            "node": self.node or None,
            "victims": list(self.victims),
            "candidates": self.candidates,
            "message": self.message,
        }


class LastDecision(msgspec.Struct):
    """What came of a pod's last attempt.

    `record` is None where it never came to one, because something went wrong before. `outcome` is where the
    attempt stands: `binding`, `bound`, `unschedulable` or `error`; `message` what was last said about it.
    """

    key: str
    uid: str
    time: float
    attempts: int
    record: Record | None
    outcome: str
    message: str
    preempting: Preempting | None = None


class LastDecisions:
    """The last decisions about the pods that were tried last, by uid; beyond `limit` the oldest go."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.wanted = limit > 0
        """Whether anything is kept at all."""
        self._by_uid: OrderedDict[str, LastDecision] = OrderedDict()
        self._uids: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def put(self, made: LastDecision) -> None:
        if not self._limit:
            return
        known = self._by_uid
        known[made.uid] = made
        known.move_to_end(made.uid)
        self._uids[made.key] = made.uid
        if len(known) > self._limit:
            _, gone = known.popitem(last=False)
            if self._uids.get(gone.key) == gone.uid:
                del self._uids[gone.key]

    def get(self, uid: str) -> LastDecision | None:
        return self._by_uid.get(uid)

    def by_key(self, key: str) -> LastDecision | None:
        """The last decision about the pod that had a name (`namespace/name`) most recently."""
        uid = self._uids.get(key)
        return None if uid is None else self._by_uid.get(uid)

    def update(self, uid: str, outcome: str, message: str) -> None:
        """How an attempt went on."""
        made = self._by_uid.get(uid)
        if made is not None:
            made.outcome, made.message = outcome, message
