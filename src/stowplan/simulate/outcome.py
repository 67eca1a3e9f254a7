"""The outcome of scheduling some pods in a simulated cluster."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


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

    def document(self) -> dict[str, Any]:
        """The refusal as plain data, ready for JSON."""
        return self._asdict()


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
        """Whether every pod was created and has a node, and nobody was lost."""
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
