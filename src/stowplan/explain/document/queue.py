"""Documents about pods on their way: the queue, the latest decisions, costs, and `stowplan top`."""

from collections.abc import Mapping

import msgspec

from stowplan.explain.document.part import Part, SparsePart
from stowplan.explain.document.pending import Cause


class QueueEntry(SparsePart, frozen=True, kw_only=True):
    """A pod in a lane, or a group, which is one entry however many pods it has.

    `brief` is the cause without what all such messages begin with.
    """

    pod: str
    cause: str
    brief: str = ""
    since: str | msgspec.UnsetType | None = msgspec.UNSET
    until: str | msgspec.UnsetType | None = msgspec.UNSET
    attempts: int | msgspec.UnsetType = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    node: str | None = None
    group: str | None = None
    kind: str | None = None
    pods: int | None = None


class Lane(Part, frozen=True):
    """A lane of the queue with its oldest pods. `in` and `out` are pods a second over the last minute."""

    name: str
    text: str
    total: int
    groups: int
    incoming: float | None = msgspec.field(name="in")
    outgoing: float | None = msgspec.field(name="out")
    pods: tuple[QueueEntry, ...]


class QueueDocument(Part, frozen=True, tag_field="document", tag="queue"):
    """The lanes of the queue."""

    lanes: tuple[Lane, ...]


class DecisionLine(Part, frozen=True, kw_only=True):
    """A decision as one line of a list."""

    time: str
    pod: str
    node: str | None
    outcome: str
    message: str
    brief: str
    attempt: int
    points: int | None
    margin: int | None
    ties: int
    seconds: float | None
    victims: tuple[str, ...]
    group: str | None = None


class Latency(Part, frozen=True):
    """Seconds from the queue to the binding: the median and the 99th percentile."""

    p50: float
    p99: float


class HistoryColumns(Part, frozen=True):
    """Rates and latencies of the last quarter of an hour by column, oldest first."""

    every: float
    times: tuple[str, ...]
    bound: tuple[float, ...]
    unschedulable: tuple[float, ...]
    errors: tuple[float, ...]
    p50: tuple[float | None, ...]
    p99: tuple[float | None, ...]


class PluginShare(Part, frozen=True):
    """A plugin at an extension point, and its share of the time that all took."""

    plugin: str
    point: str
    share: float


class DecisionsDocument(Part, frozen=True, tag_field="document", tag="decisions"):
    """The latest decisions, newest first, and what they add up to."""

    items: tuple[DecisionLine, ...] = ()
    rate: float | None = 0.0
    latency: Latency | None = None
    history: HistoryColumns | None = None
    plugins: tuple[PluginShare, ...] = ()


class Cost(Part, frozen=True):
    """Time spent in scheduling cycles for the pods of one owner."""

    namespace: str
    owner: str
    attempts: int
    seconds: float
    mean: float
    worst: float
    slow: int
    pod: str = ""


class CostsDocument(Part, frozen=True, tag_field="document", tag="costs"):
    """The owners whose scheduling cycles took most time, and what those of all took."""

    items: tuple[Cost, ...] = ()
    attempts: int | None = None
    seconds: float | None = None


class Board(Part, frozen=True, kw_only=True, tag_field="document", tag="top"):
    """The content of `stowplan top`. `oldest` has the pods that wait longest."""

    title: str
    source: str
    nodes: int | None = None
    assigned: int | None = None
    waiting: int = 0
    lanes: Mapping[str, int] = msgspec.field(default_factory=dict)
    headline: str = ""
    """The sentence above the causes."""
    causes: tuple[Cause, ...] = ()
    elsewhere: tuple[Cause, ...] = ()
    """Pods without a node that another scheduler decides, or nobody."""
    not_started: tuple[Cause, ...] = ()
    """Pods that have a node and do not run."""
    not_created: tuple[Cause, ...] = ()
    """Pods that a controller wants and cannot create."""
    oldest: tuple[QueueEntry, ...] = ()
    rate: float | None = None
    latency: Latency | None = None
    costs: CostsDocument | None = None
