"""Plugin additions to explanations: what exactly a node lacks for a pod, what would help, and why preemption
chose one node and not another.

All of it is optional and never called while pods are scheduled, only for an explanation. A remedy is a
proposal. Running the filters again on the changed pod decides if the pod really fits with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from stowplan.api.devices import ResourceClaim
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.podinfo import PodInfo

if TYPE_CHECKING:
    from stowplan.scheduler.framework.cycle_state import Cycle

FloatArray = npt.NDArray[np.float64]


class Shortfall(NamedTuple):
    """A node's shortfall for a pod, in words, and its size: 0 is nearly nothing, 1 everything.

    `about` names it in a word or two for a table: `1 nvidia.com/gpu short`, `taint`; `text` has the details.
    `devices` has the reason why each device cannot be used, as plain data.
    """

    about: str
    text: str = ""
    size: float = 1.0
    devices: tuple[Mapping[str, Any], ...] = ()


class Relevance(IntEnum):
    """Kind of a rejection, which tells whether the pod could mean the node at all.

    A pod means nodes with the labels it asks for, then those that have the kind of thing it asks for, then
    those whose taints it tolerates. What rules these out is the cause; other nodes were never meant.
    """

    PLACE = 1
    """The pod asks for another node or other labels."""
    KIND = 2
    """The node has nothing of the kind: no such resource, no such device, out of reach of the volume."""
    LEAVE = 3
    """The node has a taint for pods of another purpose."""
    STATE = 4
    """Anything that changes while the cluster works: room, ports, neighbours, the node's health."""


ObstacleForm = Literal["on", "is", "cluster"]


class Obstacle(NamedTuple):
    """A filter's reason to reject some nodes, in words.

    `form` is the way it reads for a node: `2 cpu short on n1` (on), `n1 is cordoned` (is), or as a sentence
    about the whole cluster that needs no nodes (cluster): `no node has pool=genral`.
    """

    text: str
    form: ObstacleForm = "on"


class Remedy(NamedTuple):
    """A change that may make a node acceptable to the plugin that rejected it.

    `patch` is a strategic merge patch of the pod, `node_patch` one of the node for the rare thing that is
    wrong with the node itself. `size` orders remedies of one kind: smaller changes less.

    `claims` are resource claims as they would be. Then `patch` is one of the claim `of_claim` names, or
    `action` says what has to happen to the cluster.
    """

    kind: str
    text: str
    patch: Mapping[str, Any]
    size: float = 1.0
    node_patch: Mapping[str, Any] | None = None
    claims: Sequence[ResourceClaim] = ()
    of_claim: str = ""
    action: Mapping[str, str] | None = None


@runtime_checkable
class ShortfallPlugin(Protocol):
    """A Filter plugin that can say what a node it rejected lacks. Provisional."""

    def shortfall(self, cycle: "Cycle", pod: PodInfo, row: int, /) -> Shortfall | None: ...


@runtime_checkable
class ShortfallSizesPlugin(Protocol):
    """One that can say of many nodes at once how much they lack, as `shortfall` says of each. Provisional."""

    def shortfall_sizes(self, cycle: "Cycle", pod: PodInfo, rows: Rows, /) -> FloatArray: ...


@runtime_checkable
class RelevancePlugin(Protocol):
    """A Filter plugin whose rejections are not all about a node's state. Provisional."""

    def relevance(self, cycle: "Cycle", pod: PodInfo, rows: Rows, /) -> npt.NDArray[np.int64]:
        """The kind of rejection (`Relevance`) by row, of rows that it rejects."""
        ...


@runtime_checkable
class ObstaclePlugin(Protocol):
    """A Filter plugin that can say in one phrase why it rejects several nodes. Provisional."""

    def obstacle(self, cycle: "Cycle", pod: PodInfo, rows: Rows, /) -> Obstacle | None:
        """The reason for rows that it rejects all; None if there is no better one than `shortfall` has."""
        ...


@runtime_checkable
class ObstacleKindsPlugin(Protocol):
    """A Filter plugin that rejects nodes for reasons that differ more than in amounts. Provisional."""

    def obstacle_kinds(self, cycle: "Cycle", pod: PodInfo, rows: Rows, /) -> Sequence[int]:
        """A number for each of some rows that it rejects, equal for rows with the same reason."""
        ...


@runtime_checkable
class RemedyPlugin(Protocol):
    """A Filter plugin that can propose changes of the pod for a node it rejected. Provisional."""

    def remedies(self, cycle: "Cycle", pod: PodInfo, row: int, /) -> Iterable[Remedy]: ...


@runtime_checkable
class FailurePlugin(Protocol):
    """A Filter plugin that can say more about why it failed than its message does. Provisional."""

    def failure(self, pod: PodInfo, nodes: Sequence[str], /) -> str: ...


# Preemption


class RuledOutNode(NamedTuple):
    """A node that preemption did not choose, what exactly stands against it, and who would have had to go."""

    node: str
    text: str = ""
    victims: tuple[str, ...] = ()


class RuledOut(NamedTuple):
    """Nodes that preemption did not choose for the same reason, with examples.

    `criterion` names the criterion by which candidates were worse than the chosen one; the other nodes were
    no candidates.
    """

    reason: str
    nodes: int
    examples: tuple[RuledOutNode, ...] = ()
    criterion: str = ""


class Choice(Protocol):
    """How the node was chosen among the candidates of a preemption: little data, put into words when asked.

    Provisional. It is kept with the decision, so it must not hold on to pods or tables.
    """

    @property
    def criterion(self) -> str:
        """Deciding criterion: its name, `only` for the only candidate, `random` among equals."""
        ...

    @property
    def text(self) -> str:
        """The same in words."""
        ...

    @property
    def spared(self) -> Sequence[str]:
        """Some pods of lower priority that stay on the node."""
        ...

    @property
    def spared_count(self) -> int:
        """Number of spared pods."""
        ...

    def ruled_out(self) -> Sequence[RuledOut]:
        """The other candidates by the criterion that ruled them out."""
        ...


@runtime_checkable
class PreemptionSearchPlugin(Protocol):
    """A preemption plugin that can say which nodes its last search found to be no candidates. Provisional."""

    keeps_search: bool
    """True to keep searches for explanations: only while one is being made."""

    def not_candidates(self) -> Sequence[RuledOut]:
        """Called right after `post_filter`; empty if there was no search, or it was not kept."""
        ...


# Preemption for a group


class UnitOutcome(NamedTuple):
    """Outcome of a group's preemption for pods that are evicted together.

    `unit` is the key of a group (`podgroup/namespace/name`), or of a pod (`pod/namespace/name`). `problem` is
    the reason for their eviction, empty if they stay: the first member that would not fit with them in place.
    """

    unit: str
    priority: int
    pods: int
    violations: int
    problem: str


class GroupPreemption(NamedTuple):
    """Summary of a group's search for victims; little data, to be kept with the decision.

    `candidates` is the number of units with a lower priority than the group. `victims` are those to evict,
    `spared` some of the others, both the most important first and truncated if there are many. `disruptions`
    is the number of victims that are groups or pods of one, `violations` the number of pods that violate a
    disruption budget. `without_victims` is the reason why the group finds no place even without all
    candidates. `result` is the label of the resulting status code, `seconds` the duration; None if the group
    may not preempt, or its victims are being deleted already.
    """

    result: str
    seconds: float | None = None
    candidates: int = 0
    victims: tuple[UnitOutcome, ...] = ()
    victim_units: int = 0
    spared: tuple[UnitOutcome, ...] = ()
    violations: int = 0
    disruptions: int = 0
    without_victims: str = ""
