"""Documents about the state of a cluster at a glance: what needs attention now, and how it was before."""

from stowplan.explain.document.part import Part


class NodesInState(Part, frozen=True):
    """Number of nodes in a state, with the names of some."""

    count: int = 0
    names: tuple[str, ...] = ()


class ScarceResource(Part, frozen=True):
    """The resource of which the largest share is requested, over all nodes that have it."""

    resource: str
    share: float


class TrendColumns(Part, frozen=True):
    """The last hours by column, oldest first: pending pods, and the largest requested share of a resource."""

    times: tuple[str, ...] = ()
    waiting: tuple[int, ...] = ()
    share: tuple[float, ...] = ()


class AttentionDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="attention"):
    """Problems of a cluster now, as figures; the causes are in the document `pending`."""

    waiting: int = 0
    oldest: str | None = None
    """Since when the oldest pending pod waits."""
    not_ready: NodesInState = NodesInState()
    cordoned: NodesInState = NodesInState()
    scarcest: ScarceResource | None = None
    trend: TrendColumns = TrendColumns()


class MomentDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="moment"):
    """How the nodes and the queue were at a moment. Node columns are in the order of `names`."""

    time: str
    names: tuple[str, ...]
    fills: dict[str, list[float]]
    """Requested share by resource; -1 for a node without any."""
    unschedulable: list[int]
    ready: list[int]
    lanes: dict[str, int]
    until: str = ""
    changes: tuple[str, ...] = ()
    """Changes from then until `until`, in words: another moment, or now."""
