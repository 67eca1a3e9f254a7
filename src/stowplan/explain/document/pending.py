"""The document about all pods that wait, by cause."""

from stowplan.explain.document.part import Part
from stowplan.explain.document.pod import PodDocument


class GroupOfCause(Part, frozen=True):
    """The group that the pods of a cause wait for together."""

    group: str
    kind: str
    state: str
    pods: int
    scheduled: int


class Cause(Part, frozen=True):
    """Pods that wait for the same reason, and what would help them."""

    pods: tuple[str, ...]
    count: int
    name: str
    """The pods by one name: `ml/train-*`, or that of their group."""
    reason: str
    help: str
    explanation: PodDocument | None = None
    group: GroupOfCause | None = None


class PendingDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="pending"):
    """The waiting pods of a cluster by cause, biggest cause first."""

    pods: int = 0
    causes: tuple[Cause, ...] = ()
    source: str = ""
    headline: str = ""
