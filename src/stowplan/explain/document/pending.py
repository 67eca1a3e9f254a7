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
    scheduler: str | None = None
    """The scheduler that the pods name, if this one does not decide them."""
    workload: str | None = None
    """The workload that lacks `count` pods, as kubectl takes it: `deployment/web`. Then `pods` is empty."""


class PendingDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="pending"):
    """All pods of a cluster that do not run, by cause, biggest cause first.

    `pods` and `causes` are those that this scheduler decides and that have no node.
    """

    pods: int = 0
    causes: tuple[Cause, ...] = ()
    source: str = ""
    headline: str = ""
    incomplete: tuple[str, ...] = ()
    """Things not read or not evaluated although the answer depends on them."""
    elsewhere: tuple[Cause, ...] = ()
    """Pods without a node that another scheduler decides, or nobody."""
    not_started: tuple[Cause, ...] = ()
    """Pods that have a node and wait there: for a volume, an image, a container that keeps failing."""
    not_created: tuple[Cause, ...] = ()
    """Pods that a controller wants and cannot create."""
