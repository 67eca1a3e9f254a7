"""The outcome of scheduling some pods in a simulated cluster."""

import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class Eviction(NamedTuple):
    """A pod that was evicted from a node. `by` is `drain`, or the pod that preempted it."""

    pod: str
    node: str
    by: str


class Refusal(NamedTuple):
    """Pods of a workload that the API server does not create, and why: in its words."""

    workload: str
    pods: int
    message: str

    @property
    def reason(self) -> str:
        """The message without the object that is refused: `exceeded quota: …`."""
        for verdict in (" is forbidden: ", " is invalid: "):
            _, found, reason = self.message.partition(verdict)
            if found:
                return reason
        return self.message

    @property
    def limits(self) -> tuple["QuotaLimit", ...]:
        """The resources of a quota that a pod exceeds; none if it is not a quota that refuses."""
        found = _EXCEEDED.match(self.reason)
        if found is None:
            return ()
        requested, used, hard = (_amounts(found[part]) for part in ("requested", "used", "limited"))
        return tuple(
            QuotaLimit(found["name"], name, amount, used.get(name, ""), hard.get(name, ""))
            for name, amount in requested.items()
        )

    @property
    def limit(self) -> str:
        """The reason with the number that ends it: `quota team, requests.cpu: 30 of 30 used`."""
        if not self.limits:
            return self.reason
        parts = [one.text for one in self.limits]
        return f"quota {self.limits[0].quota}, {', '.join(parts)}"

    def document(self) -> dict[str, Any]:
        """The refusal as plain data, ready for JSON."""
        return {**self._asdict(), "quota": [one._asdict() for one in self.limits]}


class QuotaLimit(NamedTuple):
    """A resource of a quota: what one more pod requests, what is used and what is allowed."""

    quota: str
    resource: str
    requested: str
    used: str
    hard: str

    @property
    def text(self) -> str:
        used = f"{self.resource}: {self.used} of {self.hard} used"
        return used if self.used == self.hard else f"{used}, a pod needs {self.requested}"


_EXCEEDED: Final = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<requested>\S+), used: (?P<used>\S+), "
    r"limited: (?P<limited>\S+)$"
)


def _amounts(text: str) -> dict[str, str]:
    """`a=1,b=2` as a mapping."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name: amount for name, _, amount in pairs}


@dataclass(slots=True)
class Outcome:
    """Where pods were placed, which stay pending and why, and who had to go.

    Pods are named `namespace/name`. A pod that was evicted and scheduled again is in `evictions` and in
    `placed`; `lost` are evicted pods without a controller; `refused` are pods that the API server does not
    create.
    """

    placed: dict[str, str] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    evictions: list[Eviction] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)

    def extend(self, later: "Outcome") -> None:
        """Add what came of a later step."""
        for key in later.placed:
            self.pending.pop(key, None)
        for key in later.pending:
            self.placed.pop(key, None)
        self.placed.update(later.placed)
        self.pending.update(later.pending)
        self.evictions += later.evictions
        self.lost += later.lost
        self.refused += later.refused

    @property
    def fits(self) -> bool:
        """True if every pod was created and has a node, and none was lost."""
        return not self.pending and not self.lost and not self.refused

    @property
    def moved(self) -> dict[str, tuple[str, str]]:
        """Pods that were evicted from one node and placed on another: (from, to)."""
        return {one.pod: (one.node, self.placed[one.pod]) for one in self.evictions if one.pod in self.placed}

    def document(self) -> dict[str, Any]:
        """The outcome as plain data, ready for JSON."""
        return {
            "placed": self.placed,
            "pending": self.pending,
            "evictions": [one._asdict() for one in self.evictions],
            "lost": self.lost,
            "notCreated": [one.document() for one in self.refused],
        }
