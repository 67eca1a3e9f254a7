"""Groups of pods in their scheduling cycle: arguments and results of plugins.

A group is tried in *placements*: sets of nodes, such as the racks of a cluster. PlacementGenerate plugins
list the placements, PlacementFeasible plugins decide if the group can still succeed in one, and
PlacementScore plugins which of those that can take the group is best. If none can, PodGroupPostFilter plugins
may make room for a later cycle. The scheduler decides member by member, as if each were a separate pod.
"""

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from stowplan.api.pod import Pod
from stowplan.api.pod_groups import MAX_TREE_DEPTH, CompositePodGroup, GroupObject, PodGroup
from stowplan.scheduler.framework.budget import Request, Step
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.explanation import GroupPreemption
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.pod_groups import GroupTree
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

if TYPE_CHECKING:
    from stowplan.scheduler.framework.evaluation import Evaluation
    from stowplan.scheduler.framework.interface import Plugin

T = TypeVar("T")


class Placement:
    """Nodes that a group is tried on, and what they are called; `rows` None: every node of the cluster.

    The name has to tell it from the other placements of the group.
    """

    __slots__ = ("_mask", "_table", "name", "rows")

    def __init__(self, name: str = "", rows: Rows | None = None) -> None:
        self.name = name
        self.rows = rows
        self._table: ClusterTable | None = None
        self._mask: BoolColumn | None = None

    def __repr__(self) -> str:
        return f"Placement({self.name!r}, {'all nodes' if self.rows is None else f'{len(self.rows)} nodes'})"

    def rows_of(self, table: ClusterTable) -> Rows:
        """Its rows of the table."""
        return np.flatnonzero(table.valid[: table.rows_in_use]) if self.rows is None else self.rows

    def count(self, table: ClusterTable) -> int:
        """Number of nodes in it."""
        return table.node_count if self.rows is None else len(self.rows)

    def mask(self, table: ClusterTable) -> BoolColumn | None:
        """By row, whether it is part of the placement; None if all nodes are."""
        if self.rows is None or len(self.rows) == table.node_count:
            return None
        if self._mask is None or len(self._mask) != table.capacity:
            self._mask = np.zeros(table.capacity, dtype=np.bool_)
            self._mask[self.rows] = True
        return self._mask


class Progress(NamedTuple):
    """How far a group has come in a placement: members (or child groups) yet to be tried, and those placed.

    Pods of the group that were placed in earlier cycles count as placed.
    """

    remaining: int
    scheduled: int


@dataclass(slots=True, eq=False)
class PodGroupInfo:
    """A group in its scheduling cycle: the object, and either its pods or its child groups.

    `pods` are the members that wait for a node, in the order in which they are tried. `running` are those
    that have one, also if they are only assumed there; of a composite group these are those of all its parts.
    """

    object: GroupObject
    pods: Sequence[PodInfo] = ()
    children: Sequence["PodGroupInfo"] = ()
    running: Sequence[PodInfo] = ()
    parent: "PodGroupInfo | None" = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """`podgroup/namespace/name` or `compositepodgroup/namespace/name`."""
        return self.object.group_key

    @property
    def namespace(self) -> str:
        return self.object.namespace

    @property
    def name(self) -> str:
        return self.object.name

    @property
    def pod_group(self) -> PodGroup | None:
        """The object, if it is a PodGroup."""
        return self.object if isinstance(self.object, PodGroup) else None

    @property
    def composite(self) -> CompositePodGroup | None:
        """The object, if it is a CompositePodGroup."""
        return self.object if isinstance(self.object, CompositePodGroup) else None

    @property
    def is_composite(self) -> bool:
        return isinstance(self.object, CompositePodGroup)

    @property
    def topology_key(self) -> str:
        """The node label whose value all pods of the group must share; "" for no constraint."""
        return self.object.topology_key

    def walk(self) -> "Iterator[PodGroupInfo]":
        """This group and all below it, parents first, children in order."""
        left = [self]
        while left:
            group = left.pop()
            yield group
            left.extend(reversed(group.children))

    def leaves(self) -> "Iterator[PodGroupInfo]":
        """The PodGroups of the tree, in order."""
        return (group for group in self.walk() if not group.is_composite)

    def too_deep(self) -> str:
        """Error message if the tree below is deeper than allowed; "" if it is not."""
        left = [(self, 0)]
        while left:
            group, depth = left.pop()
            if depth >= MAX_TREE_DEPTH:
                return f"exceeded maximum hierarchy depth at {group.key}"
            left.extend((child, depth + 1) for child in reversed(group.children))
        return ""

    def waiting_pods(self) -> Iterator[PodInfo]:
        """The pods of the whole tree that wait for a node."""
        return (pod for leaf in self.leaves() for pod in leaf.pods)


class GroupCycle:
    """The scratch pad of one group for one scheduling cycle: state that plugins keep while its placements are
    tried. `parent` is that of the placement of the group above, for a part of a composite group.

    `shape` is everything besides nodes and their pods that a group's result depends on: groups of equal shape
    get equal results. None if more than that counts, such as randomness, nominated pods or plugins without a
    contract.
    """

    __slots__ = ("_states", "group", "parent", "shape", "table")

    def __init__(
        self, table: ClusterTable, group: PodGroupInfo, parent: "PlacementCycle | None" = None
    ) -> None:
        self.table = table
        self.group = group
        self.parent = parent
        self.shape: Hashable = None
        self._states: dict[str, Any] = {}

    def write(self, plugin: "Plugin", state: Any) -> None:
        self._states[plugin.name] = state

    def read(self, plugin: "Plugin") -> Any:
        """The plugin's state, None if there is none."""
        return self._states.get(plugin.name)


class PlacementCycle:
    """The scratch pad of one group in one placement; `Cycle.placement` of the pods that are tried in it."""

    __slots__ = ("_states", "group_cycle", "placement", "table")

    def __init__(self, group_cycle: GroupCycle, placement: Placement) -> None:
        self.table = group_cycle.table
        self.group_cycle = group_cycle
        self.placement = placement
        self._states: dict[str, Any] = {}

    @property
    def group(self) -> PodGroupInfo:
        return self.group_cycle.group

    def write(self, plugin: "Plugin", state: Any) -> None:
        self._states[plugin.name] = state

    def read(self, plugin: "Plugin") -> Any:
        """The plugin's state, None if there is none."""
        return self._states.get(plugin.name)


class ProposedAssignment(NamedTuple):
    """A pod and the node it would get. `cycle` is that of its evaluation, where there was one.

    The results of the evaluation are those of another pod by now; what can be done with it is to try the pod
    again on rows, as they are now (`Evaluation.simulations`).
    """

    pod: PodInfo
    row: int
    cycle: Cycle | None = None
    evaluation: "Evaluation | None" = None


class PodGroupAssignments:
    """The nodes that members of a group would get in a placement, in the order in which they got them.

    `rows` are their rows, for plugins that score by column. If identical members are known to fit in a
    placement, and no score depends on the nodes themselves, `rows` are not computed: -1 each.
    """

    __slots__ = ("assignments", "cycle", "placement")

    def __init__(
        self,
        placement: Placement,
        assignments: Sequence[ProposedAssignment],
        cycle: PlacementCycle | None = None,
    ) -> None:
        self.placement = placement
        self.assignments = assignments
        self.cycle = cycle

    def __len__(self) -> int:
        return len(self.assignments)

    @property
    def pods(self) -> list[PodInfo]:
        return [assignment.pod for assignment in self.assignments]

    @property
    def rows(self) -> Rows:
        """The row of every pod."""
        return np.array([assignment.row for assignment in self.assignments], dtype=np.intp)


class GroupTrial(NamedTuple):
    """Result of trying to place a whole group: the pods that would get nodes, and the verdict.

    `by_shape`: any other group of the same shape (`GroupCycle.shape`) would have got the same verdict.
    """

    assignments: Sequence[ProposedAssignment]
    status: Status
    by_shape: bool = False


Waited = Generator[Request | Step | Awaitable[Any], Any, T]
"""Work in steps with a result of type T. At a `yield` other tasks may run. A yielded `Step` has to be done
before the work continues, and the answer to a yielded `Request` sent back. A plugin may yield an awaitable;
its result is sent back. Nested work is run with `yield from`."""

Nested = Generator[Any, Any, T]
"""The same of work that contains itself, as deep as users nest what it is about. The part that is like the
whole is yielded itself (`part = yield self.work(...)`), and what it comes to is sent back: see `unnested`."""

ScheduleGroup = Callable[[], Waited[GroupTrial]]
"""Places the group at hand as the table is now, with fresh states, and leaves the table as it was. It is work
in steps, because extenders may have to be asked: `trial = yield from schedule()`."""


_NO_NOMINATIONS: Mapping[str, str] = {}


class PodGroupPostFilterResult(NamedTuple):
    """Result of a PodGroupPostFilter plugin.

    `nominations` are the new nominated nodes of pods, by uid ("": none any more); the others keep theirs.
    `victims` are pods to evict. `writes` are the plugin's writes to the API server: a running scheduler calls
    and awaits each. A status that one returns is an error. `preemption` describes the search for victims,
    None if there was none.
    """

    status: Status
    nominations: Mapping[str, str] = _NO_NOMINATIONS
    victims: tuple[Pod, ...] = ()
    writes: tuple[Callable[[], Awaitable[Status | None]], ...] = ()
    preemption: GroupPreemption | None = None


GroupSteps = Waited[PodGroupPostFilterResult]
"""A search in steps."""


def unnested(work: Nested[T]) -> Waited[T]:
    """Do nested work with a stack of its parts, where a call within a call would exceed Python's limit."""
    parts: list[Nested[Any]] = [work]
    step: Callable[[], Any] = partial(work.send, None)
    try:
        while True:
            try:
                wanted = step()
            except StopIteration as end:
                parts.pop()
                if not parts:
                    done: T = end.value
                    return done
                step = partial(parts[-1].send, end.value)
            except BaseException as failure:
                parts.pop()
                if not parts:
                    raise
                step = partial(parts[-1].throw, failure)
            else:
                if isinstance(wanted, Generator):
                    parts.append(wanted)
                    step = partial(wanted.send, None)
                else:
                    try:
                        step = partial(parts[-1].send, (yield wanted))
                    except GeneratorExit:
                        raise
                    except BaseException as failure:  # noqa: BLE001 - the part that waited has to handle it
                        step = partial(parts[-1].throw, failure)
    finally:
        while parts:
            parts.pop().close()


def finish(work: Waited[T]) -> T:
    """Run work that waits for nothing to its end, its steps included, and return its result."""
    while True:
        try:
            wanted = work.send(None)
        except StopIteration as end:
            done: T = end.value
            return done
        if callable(wanted):
            wanted()
        elif wanted is not None:
            raise RuntimeError(f"this needs somebody who waits for {wanted!r}")


def group_info(
    tree: GroupTree, members: Mapping[str, Sequence[PodInfo]], table: ClusterTable
) -> PodGroupInfo:
    """A tree of groups with the members that wait, by the key of their PodGroup, as plugins see it."""
    made: dict[str, PodGroupInfo] = {}
    for group in reversed(list(tree.walk())):
        children = [made[child.key] for child in group.children]
        if group.is_leaf:
            state = table.groups.group(group.key)
            uids = () if state is None else state.scheduled
            running: Sequence[PodInfo] = [table.pods[uid] for uid in uids if uid in table.pods]
        else:
            parts = [child.running for child in children if child.running]
            # The levels of a chain share one list.
            running = parts[0] if len(parts) == 1 else [pod for part in parts for pod in part]
        info = made[group.key] = PodGroupInfo(group.obj, members.get(group.key, ()), children, running)
        for child in children:
            child.parent = info
    return made[tree.key]
