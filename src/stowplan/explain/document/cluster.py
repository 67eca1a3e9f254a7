"""Documents about a cluster as a scheduler sees it: the whole, its nodes, pods and groups as lists, maps."""

import msgspec
from msgspec.structs import replace

from stowplan.explain.document.part import Part


class SchedulerOverview(Part, frozen=True):
    """The scheduler that answers. `release` is the Kubernetes release that it decides like."""

    name: str
    release: str
    version: str
    leader: bool
    profiles: tuple[str, ...] = ()


class PodCounts(Part, frozen=True):
    """Numbers of pods with a node and of pending pods."""

    assigned: int = 0
    waiting: int = 0


class Overview(Part, frozen=True, kw_only=True, tag_field="document", tag="overview"):
    """The cluster at a glance; totals are null for viewers who may not see nodes."""

    api_version: str
    cluster: str
    scheduler: SchedulerOverview
    nodes: int | None = 0
    pods: PodCounts | None = PodCounts()
    rate: float | None = 0.0
    time: str | None = None

    def without_totals(self) -> "Overview":
        """The same for viewers who may not see nodes."""
        return replace(self, nodes=None, pods=None, rate=None)


# Nodes


class IndexedColumn(Part, frozen=True):
    """A column of few different values: the values, and for every row which one it has."""

    values: list[str]
    index: list[int]


class NodesDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="nodes"):
    """All nodes by column, in an order that stays as long as no node comes or goes."""

    names: list[str] = msgspec.field(default_factory=list)
    keys: list[str] = msgspec.field(default_factory=list)
    labels: dict[str, IndexedColumn] = msgspec.field(default_factory=dict)
    resources: list[str] = msgspec.field(default_factory=list)
    allocatable: dict[str, list[int]] = msgspec.field(default_factory=dict)
    requested: dict[str, list[int]] = msgspec.field(default_factory=dict)
    unschedulable: list[int] = msgspec.field(default_factory=list)
    ready: list[int] = msgspec.field(default_factory=list)


class TaintOnNode(Part, frozen=True):
    """A taint of a node."""

    key: str
    value: str
    effect: str


class ConditionOfNode(Part, frozen=True):
    """A condition of a node."""

    type: str
    status: str
    reason: str


class ResourceOnNode(Part, frozen=True):
    """How much of a resource a node has, and how much of it is requested."""

    allocatable: int
    requested: int


class PodOnNode(Part, frozen=True):
    """A pod on a node."""

    pod: str
    priority: int
    requests: dict[str, int]


class CouldTake(Part, frozen=True):
    """Room of a node for more pods of one template; `pods` is their number in the cluster.

    `reason` says why `more` is 0 although resources may be free: the filter that rejects the next pod.
    """

    like: str
    pods: int
    more: int
    reason: str = ""


class TurnedAway(Part, frozen=True):
    """A pod that found no node, and why this one did not take it."""

    pod: str
    time: str
    plugin: str
    reason: str


class DeviceOnNode(Part, frozen=True, kw_only=True):
    """A device of a node. `claim` and `pods` hold it, unless the viewer may not see them.

    `counters` are the counter sets that it draws from: devices that share one may exclude each other.
    """

    name: str
    driver: str
    pool: str
    taken: bool
    claim: str = ""
    pods: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()


class CounterOnNode(Part, frozen=True):
    """A counter that devices of a node share, and how much of it taken devices draw."""

    set: str
    counter: str
    total: str
    drawn: str
    share: float


class NodeDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="node"):
    """Everything about one node; pods only of namespaces that the viewer may see."""

    name: str
    headline: str = ""
    """Its readiness and schedulability, as a phrase."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[TaintOnNode, ...] = ()
    unschedulable: bool = False
    conditions: tuple[ConditionOfNode, ...] = ()
    resources: dict[str, ResourceOnNode] = msgspec.field(default_factory=dict)
    pods: tuple[PodOnNode, ...] = ()
    hidden_pods: int = 0
    devices: tuple[DeviceOnNode, ...] = ()
    device_count: int = 0
    counters: tuple[CounterOnNode, ...] = ()
    """Counters of partitionable devices: a free device that needs more than is left cannot be taken."""
    could_take: tuple[CouldTake, ...] = ()
    turned_away: tuple[TurnedAway, ...] = ()


# Pods and groups as lists


class PodLine(Part, frozen=True):
    """A pod as one line of a list."""

    pod: str
    state: str
    node: str | None
    created: str | None
    priority: int
    cause: str
    owner: str = ""
    """The workload that made it, such as `deployment/web`."""


class PodsDocument(Part, frozen=True, tag_field="document", tag="pods"):
    """Pods that were searched for, and how many were found."""

    items: tuple[PodLine, ...] = ()
    total: int = 0


class GroupLine(Part, frozen=True, kw_only=True):
    """A group as one line of a list: what it asks for, how many of its pods have a node, where it waits."""

    group: str
    kind: str
    state: str
    policy: str | None
    minimum: int | None
    priority: int | None
    topology_key: str | None
    pods: int
    scheduled: int
    parent: str | None
    created: str | None
    message: str
    place: str | None
    since: str | None
    until: str | None
    attempts: int
    held_by: str


class GroupsDocument(Part, frozen=True, tag_field="document", tag="groups"):
    """Groups that were searched for, and how many were found."""

    items: tuple[GroupLine, ...] = ()
    total: int = 0


# Maps: something about every node, in the order of `NodesDocument`


class RejectedBy(Part, frozen=True):
    """A reason on the map of a pod, and how many nodes it rules out."""

    plugin: str
    reason: str
    nodes: int


class PodMap(Part, frozen=True, tag_field="document", tag="podMap"):
    """The rejecting plugin of each node, as an index of `legend`; -1 where the pod fits."""

    legend: tuple[RejectedBy, ...]
    nodes: list[int]
    node: str | None


class GroupMap(Part, frozen=True, tag_field="document", tag="groupMap"):
    """By node the domain it is in (-1: none), and how many members of the group are on it."""

    domains: tuple[str, ...]
    nodes: list[int]
    members: list[int]
