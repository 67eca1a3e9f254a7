"""Why a group of pods waits: how many members would fit now, where, what stops the next one, what would help.

Every domain that the group may be in is tried, member by member, as the scheduler does it; but all members
are tried, also those after the first that finds no node. The table is left as it was after each trial, so
others may run between two of them.
"""

from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from stowplan.api.coscheduling import CoschedulingPodGroup
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import INITIALLY_SCHEDULED, MAX_TREE_DEPTH, GroupObject, PodGroup
from stowplan.api.rules.amounts import shown_amount
from stowplan.explain.commands import patching
from stowplan.explain.document.group import DomainOfGroup, GroupDocument, StoppedBy
from stowplan.explain.document.pod import FunnelLine, GroupChange
from stowplan.explain.document.preemption import GroupPreemption
from stowplan.explain.explainers.preemption import group_preemption
from stowplan.explain.explainers.rejections import Rejections
from stowplan.explain.explainers.trials import added_node, added_slices, like
from stowplan.explain.layers.owners import controller_of
from stowplan.explain.sentences.group import told_group
from stowplan.explain.states import FITS, INCOMPLETE, PLACED, WAITING
from stowplan.runtime.logs import Logger
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder, choose_node
from stowplan.scheduler.framework.decision import fit_error
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.nominations import NO_NOMINATIONS, Nominations
from stowplan.scheduler.framework.pod_groups.extension_points import GroupPoints
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupCycle,
    GroupTrial,
    Placement,
    PlacementCycle,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Waited,
    finish,
    group_info,
)
from stowplan.scheduler.framework.protocols import PodGroupPostFilterPlugin, PreemptionPlugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError, Status
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.pod_groups.algorithm import WHOLE_CLUSTER, GroupAlgorithm, Transaction
from stowplan.scheduler.pod_groups.cycle import Agreement, GroupConflictError
from stowplan.scheduler.table.pod_groups import GroupTree, PodGroupState
from stowplan.scheduler.table.podinfo import PodInfo

MOST_DOMAINS: Final = 100
"""How many domains are tried; of the others is only said how many there are."""
MOST_PODS: Final = 50_000
"""With more pods on nodes preemption is not tried: all of lower priority are taken off at once for that."""
MOST_NODES: Final = 16
"""How many nodes are added to a domain to see whether that is enough."""
MOST_SHAPES: Final = 3
"""How many shapes of nodes are added to see whether more of one are enough."""
_ROOM: Final = "NodeResourcesFit"
MOST_LEVELS: Final = MAX_TREE_DEPTH + 1
"""How many levels of a tree are looked into: no member further down is ever tried."""


class Conflict(NamedTuple):
    """A property that members of a group must share and do not, and what helps."""

    reason: str
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DomainTrial:
    """How far a group gets in a domain: so many members find a node, the first that does not is named."""

    placement: Placement
    nodes: int
    fits: int
    stopped_by: str = ""
    message: str = ""
    funnel: Sequence[FunnelLine] = ()
    asks: str = ""
    """Requests of that member."""

    def document(self, needed: int) -> DomainOfGroup:
        return DomainOfGroup(
            domain=self.placement.name,
            nodes=self.nodes,
            fits=self.fits,
            enough=self.fits >= needed,
            stopped_by=self.stopped_by or None,
            message=self.message,
        )

    def stop(self) -> StoppedBy | None:
        """The member that finds no node here; None if all do."""
        if not self.stopped_by:
            return None
        name = self.placement.name
        return StoppedBy(self.stopped_by, name, self.nodes, self.asks, self.message, tuple(self.funnel))


class GroupExplainer:
    """Explains groups on one table with one profile. `source` is what it tells people it looked at.

    `placements`: whether groups are kept to topology domains (gate TopologyAwareWorkloadScheduling).
    `own_policy`: whether a group has a preemption policy (gate PodGroupPreemptionPolicy).
    """

    def __init__(
        self,
        framework: Framework,
        source: str,
        nominations: Nominations = NO_NOMINATIONS,
        *,
        placements: bool = True,
        own_policy: bool = False,
    ) -> None:
        self._framework = framework
        self._table = framework.table
        self._groups = framework.table.groups
        self._source = source
        self._nominations = nominations
        self._placements = placements
        self._own_policy = own_policy
        self._points = GroupPoints(framework)
        self._lifecycle = Lifecycle(framework)

    def explain(self, key: str) -> GroupDocument | None:
        """Explain a group by its key (`podgroup/namespace/name`); None if nothing is known of it."""
        steps = self.steps(key)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: GroupDocument | None = end.value
                return found

    def steps(self, key: str, level: int = 1) -> Generator[None, None, GroupDocument | None]:
        """The same in steps, so that a scheduler that is asked can go on with its work in between.

        `level` is how many levels of a tree have been come down, this one included.
        """
        obj = self._groups.object(key)
        if obj is None:
            state = self._groups.group(key)
            return None if state is None else told_group(self._unknown(key, state))
        if isinstance(obj, PodGroup):
            return told_group((yield from self._pod_group(obj)))
        return told_group((yield from self._composite(obj, level)))

    def placements(self, key: str) -> Sequence[Placement]:
        """The domains that the waiting members of a PodGroup are tried in; none if nothing is to be tried."""
        obj, state = self._groups.object(key), self._groups.group(key)
        waiting = [] if state is None else self._waiting(state)
        if not isinstance(obj, PodGroup) or not waiting or not obj.topology_key:
            return ()
        info = group_info(GroupTree(key, obj), {key: waiting}, self._table)
        found = self._domains(info)
        return () if isinstance(found, Status) else found

    def _unknown(self, key: str, state: PodGroupState) -> GroupDocument:
        """Pods name a group that does not exist."""
        name = key.split("/", 1)[1]
        found = GroupDocument(group=name, kind="PodGroup", state=INCOMPLETE, source=self._source)
        reason = f"{_count(state.all_count, 'pod names', 'pods name')} it"
        return replace(
            _counted(found, state.all_count, state.scheduled_count),
            reason=reason,
            exists=False,
            advice=(f"create PodGroup {name.partition('/')[2]}", "correct schedulingGroup of its pods"),
        )

    # A composite group: its parts, and what each of them lacks

    def _composite(self, obj: GroupObject, level: int) -> Generator[None, None, GroupDocument]:
        found = self._begun(obj, "CompositePodGroup")
        if level > MOST_LEVELS:
            reason = f"it is below {MOST_LEVELS} other groups: a tree may have {MAX_TREE_DEPTH} levels"
            return replace(found, state=INCOMPLETE, reason=reason)
        tree = self._groups.tree(obj.group_key)
        parts = []
        for child in () if tree is None else tree.children:
            part = yield from self.steps(child.key, level + 1)
            if part is not None:
                parts.append(part)
        ready = [part for part in parts if part.state in (FITS, PLACED)]
        placed = sum(part.state == PLACED for part in parts)
        found = _counted(replace(found, parts=tuple(parts)), sum(part.pods for part in parts), placed)
        if len(parts) < obj.minimum:
            return replace(found, state=INCOMPLETE, reason=f"{len(parts)} of {obj.minimum} groups exist")
        if placed >= obj.minimum:
            return replace(found, state=PLACED, reason=f"{placed} of {obj.minimum} groups are placed")
        would_fit = f"{len(ready)} of {obj.minimum} groups would fit"
        if len(ready) >= obj.minimum:
            return replace(found, state=FITS, reason=f"{would_fit}, each alone")
        lacking = next(part for part in parts if part not in ready)
        return replace(found, reason=f"{would_fit}; {lacking.group}: {lacking.reason}")

    # A PodGroup

    def _pod_group(self, obj: PodGroup) -> Generator[None, None, GroupDocument]:
        found = self._begun(obj, "PodGroup")
        state = self._groups.group(obj.group_key)
        waiting = [] if state is None else self._waiting(state)
        if state is not None:
            found = _counted(found, state.all_count, state.scheduled_count)
        if found.pods < obj.minimum:
            reason = f"{found.pods} of {obj.minimum} pods exist"
            more = _count(obj.minimum - found.pods, "more pod", "more pods")
            advice = (f"create {more}", f"lower minCount to {found.pods}")
            return replace(found, state=INCOMPLETE, reason=reason, advice=advice)
        if not waiting:
            reason = f"{found.scheduled} of {found.pods} pods have a node"
            return replace(found, state=PLACED, reason=reason)
        root = self._groups.root_of(obj)
        if root is None:
            reason = f"its parent {obj.spec.parent_composite_pod_group_name} does not exist"
            return replace(found, state=INCOMPLETE, reason=reason)
        gated = [info.key for info in waiting if info.spec.scheduling_gates]
        if gated:
            held = _count(len(gated), "pod is", "pods are")
            reason = f"{held} held by scheduling gates, {gated[0]} is the first"
            return replace(found, state=INCOMPLETE, reason=reason)
        tree = GroupTree(obj.group_key, obj)
        conflict = self._conflict(tree, waiting)
        if conflict is not None:
            return replace(found, reason=conflict.reason, advice=conflict.advice)
        info = group_info(tree, {obj.group_key: waiting}, self._table)
        found = yield from self._search(found, info)
        if found.state == WAITING and root == obj.group_key:
            found = replace(found, preemption=self._preemption(info))
        return found

    def _conflict(self, tree: GroupTree, waiting: Sequence[PodInfo]) -> Conflict | None:
        """Property that the members do not share, so that the scheduler does not try them."""
        check = Agreement(tree, self._own_policy)
        for info in waiting:
            try:
                check.take(info.pod)
            except GroupConflictError as error:
                priority = tree.obj.priority
                if info.priority != priority:
                    reason = f"its pods must have its priority, {priority}: {info.key} has {info.priority}"
                    return Conflict(reason, ("the same priorityClassName in the PodGroup and all its pods",))
                return Conflict(str(error), ("make all its pods agree",))
        return None

    def _begun(self, obj: GroupObject, kind: str) -> GroupDocument:
        said = (
            one.message
            for one in obj.status.conditions
            if one.type == INITIALLY_SCHEDULED and one.status == "False"
        )
        found = GroupDocument(
            group=obj.key,
            kind=kind,
            state=WAITING,
            source=self._source,
            policy="gang" if obj.is_gang else "basic",
            minimum=obj.minimum,
            topology_key=(obj.topology_key or None) if self._placements else None,
            message=next(said, ""),
        )
        return _counted(found, 0, 0)

    def _waiting(self, state: PodGroupState) -> list[PodInfo]:
        """The members without a node, in the order in which they are tried first."""
        pods = sorted(state.unscheduled_pods, key=_order)
        return [self._table.info(pod) for pod in pods if pod.metadata.deletion_timestamp is None]

    def _search(self, found: GroupDocument, info: PodGroupInfo) -> Generator[None, None, GroupDocument]:
        """Try the members in every domain, and look for what would help if that is not enough."""
        placements = self._domains(info)
        if isinstance(placements, Status):
            return replace(found, reason=self._no_domain(found, placements))
        trials: list[DomainTrial] = []
        for placement in placements[:MOST_DOMAINS]:
            trials.append(self._tried(info, placement))
            yield
        # The domain in which most members fit; the smallest of these.
        best = max(trials, key=lambda one: (one.fits, -one.nodes), default=None)
        found = replace(
            found,
            domain_count=len(placements),
            domains=tuple(one.document(found.needed) for one in trials),
            fits=None if best is None else best.fits,
            stopped_by=None if best is None else best.stop(),
        )
        if best is None:
            return replace(found, reason="there is no domain to be in")
        if best.fits >= found.needed:
            reason = f"{best.fits} of {len(info.pods)} waiting members would fit{_where(best)}"
            return replace(found, state=FITS, reason=reason)
        changes = []
        for change in self._changes(found, info, best):
            if change is not None:
                changes.append(change)
            yield
        reason = f"{best.fits} of {found.needed} needed members would fit{_where(best)}"
        return replace(found, reason=reason, changes=tuple(changes))

    def _domains(self, info: PodGroupInfo) -> Status | Sequence[Placement]:
        if not self._placements:
            return [WHOLE_CLUSTER]
        return self._points.generate(GroupCycle(self._table, info), info, WHOLE_CLUSTER)

    def _no_domain(self, found: GroupDocument, status: Status) -> str:
        """Why there is no domain that the group can be tried in."""
        key = found.topology_key
        nodes = (node for node in self._table.nodes[: self._table.rows_in_use] if node is not None)
        if key and not any(key in node.metadata.labels for node in nodes):
            return f"no node has the label {key}"
        return status.message

    def _tried(self, info: PodGroupInfo, placement: Placement) -> DomainTrial:
        """Place all members in a domain, one after the other, and take everything back.

        Of members that are alike only one is found to have no node: the others have none either.
        """
        cycle = PlacementCycle(GroupCycle(self._table, info), placement)
        transaction = Transaction(self._framework, self._lifecycle)
        stopped: tuple[str, str, Sequence[FunnelLine], str] = ("", "", (), "")
        hopeless: set[Any] = set()
        fits = 0
        try:
            for pod in info.pods:
                if pod.template in hopeless:
                    continue
                message, funnel = self._place(cycle, pod, transaction)
                if not message:
                    fits += 1
                    continue
                hopeless.add(pod.template)
                if not stopped[0]:
                    stopped = (pod.key, message, funnel, requests_of(pod))
        finally:
            transaction.rollback()
        return DomainTrial(placement, placement.count(self._table), fits, *stopped)

    def _place(
        self, cycle: PlacementCycle, pod: PodInfo, transaction: Transaction
    ) -> tuple[str, Sequence[FunnelLine]]:
        """Put a member on its best node; else why that is not possible."""
        if not cycle.placement.count(self._table):
            return "no nodes available to schedule pods", ()
        try:
            evaluation = self._framework.run_filters(pod, self._nominations, None, cycle)
            if not evaluation.feasible_count:
                return fit_error(evaluation), Rejections(evaluation).funnel
            self._framework.run_scores(evaluation)
            row, _ = choose_node(evaluation, lambda ties: 0)
            status, _ = transaction.place(evaluation.cycle, pod, row)
        except PluginError as failure:
            return str(failure), ()
        return ("", ()) if status.is_success else (status.message, ())

    def _preemption(self, info: PodGroupInfo) -> GroupPreemption | None:
        """Preemption for a whole group; None if it does not preempt, or too many pods could go."""
        plugin = next(
            (
                one
                for one in self._framework.at(ExtensionPoint.POD_GROUP_POST_FILTER)
                if isinstance(one, PreemptionPlugin) and isinstance(one, PodGroupPostFilterPlugin)
            ),
            None,
        )
        if plugin is None or len(self._table.pods) > MOST_PODS:
            return None
        table, priority = self._table, info.object.priority
        algorithm = GroupAlgorithm(
            self._framework,
            self._lifecycle,
            NodeFinder(NodeSampler(table), Random(0), Logger()),
            Random(0),
            placements=self._placements,
            nominations=lambda: self._nominations,
            timer=lambda: 0.0,
        )

        def again() -> Waited[GroupTrial]:
            result = yield from algorithm.run(info)
            return result.trial()

        answer = plugin.pod_group_post_filter(GroupCycle(table, info), info, again)
        if isinstance(answer, Status):
            answer = PodGroupPostFilterResult(answer)
        result = answer if isinstance(answer, PodGroupPostFilterResult) else finish(answer)
        return group_preemption(result, priority)

    # What would help

    def _changes(
        self, found: GroupDocument, info: PodGroupInfo, best: DomainTrial
    ) -> Iterator[GroupChange | None]:
        yield from self._more_nodes(found, info, best)
        if found.policy == "gang" and best.fits:
            lower = found.scheduled + best.fits
            text = f"minCount {lower} instead of {found.minimum}"
            command = _lower_minimum(info.object, lower)
            yield replace(_change("minimum", text, best.placement.name), command=command)
        yield self._without_constraint(found, info)

    def _without_constraint(self, found: GroupDocument, info: PodGroupInfo) -> GroupChange | None:
        """True if the group fits if it need not be in one domain."""
        if not found.topology_key:
            return None
        trial = self._tried(info, WHOLE_CLUSTER)
        if trial.fits < found.needed:
            return None
        return _change("topology", f"no constraint on {found.topology_key}")

    def _more_nodes(
        self, found: GroupDocument, info: PodGroupInfo, best: DomainTrial
    ) -> Iterator[GroupChange | None]:
        """How many more nodes like one of the domain are enough: tried with one, two, four and so on."""
        for node in self._useful_nodes(info, best):
            change = yield from self._more_like(found, info, best, node)
            if change is not None:
                yield change
                return

    def _useful_nodes(self, info: PodGroupInfo, best: DomainTrial) -> list[Node]:
        """Nodes of the domain that a member could take if they were empty: one of each shape, a few."""
        table = self._table
        rows = best.placement.rows_of(table)
        try:
            evaluation = self._framework.evaluate(info.pods[0], self._nominations)
        except PluginError:
            return []
        taken = np.zeros(table.capacity, dtype=bool)
        taken[evaluation.feasible_rows] = True
        for status, rejected in evaluation.rejections().items():
            if status.plugin == _ROOM:
                taken[rejected] = True
        shapes: dict[Hashable, Node] = {}
        for row in rows.tolist():
            node = table.nodes[row] if taken[row] else None
            if node is not None:
                labels = {k: v for k, v in node.metadata.labels.items() if v != node.name}
                shape = (*sorted(node.status.allocatable.items()), *sorted(labels.items()))
                shapes.setdefault(shape, node)
        return [*shapes.values()][:MOST_SHAPES]

    def _more_like(
        self, found: GroupDocument, info: PodGroupInfo, best: DomainTrial, node: Node
    ) -> Generator[None, None, GroupChange | None]:
        low, count, enough = 1, 1, 0
        while count <= MOST_NODES and not enough:
            if self._fits_with(found, info, best, node.name, count):
                enough = count
            else:
                low, count = count + 1, count * 2
            yield None
        while enough and low < enough:
            middle = (low + enough) // 2
            if self._fits_with(found, info, best, node.name, middle):
                enough = middle
            else:
                low = middle + 1
            yield None
        if not enough:
            return None
        more = "one more node" if enough == 1 else f"{enough} more nodes"
        change = _change("nodes", f"{more} like {node.name}", best.placement.name)
        return replace(change, action={"addNode": node.name}, count=enough)

    def _fits_with(
        self, found: GroupDocument, info: PodGroupInfo, best: DomainTrial, like_node: str, count: int
    ) -> bool:
        """True if n members fit in a domain that has more nodes of a kind."""
        table = self._table
        row = table.row_of(like_node)
        node = None if row is None else table.nodes[row]
        if node is None:
            return False
        with ExitStack() as stack:
            for _ in range(count):
                new = like(node, table)
                stack.enter_context(added_node(table, new, node.name))
                stack.enter_context(added_slices(table, node.name, new.name))
            placements = self._domains(info)
            if isinstance(placements, Status):
                return False
            same = [one for one in placements if one.name == best.placement.name]
            return bool(same) and self._tried(info, same[0]).fits >= found.needed


def _lower_minimum(obj: GroupObject, lower: int) -> str:
    """The command that lowers the minimum of a group; "" if it is its controller's to say."""
    if controller_of(obj) is not None:
        return ""
    argument = "podgroup"
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": lower}}}
    if isinstance(obj, CoschedulingPodGroup):
        argument, spec = "podgroup.scheduling.x-k8s.io", {"minMember": lower}
    return patching(f"{argument}/{obj.name}", obj.namespace, {"spec": spec}, "merge")


def _change(kind: str, text: str, domain: str = "") -> GroupChange:
    return GroupChange(kind=kind, text=text, domain=domain, outcome=domain or "fits")


def _counted(found: GroupDocument, pods: int, scheduled: int) -> GroupDocument:
    needed = max(found.minimum - scheduled, 1)
    return replace(found, pods=pods, scheduled=scheduled, needed=needed)


def _where(trial: DomainTrial) -> str:
    return f" in {trial.placement.name}" if trial.placement.name else ""


def _order(pod: Pod) -> tuple[int, str, str]:
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp, pod.metadata.name


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def requests_of(info: PodInfo) -> str:
    """Requests of a pod, in a few words."""
    amounts = info.requests.amounts()
    return ", ".join(f"{name} {shown_amount(name, amount)}" for name, amount in sorted(amounts.items()))
