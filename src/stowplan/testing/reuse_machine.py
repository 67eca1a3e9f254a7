"""Random histories of a cluster, in which kept results are compared with results from scratch.

`MirroredCluster` keeps a cluster twice: in one table that lives through every change, and as objects from
which a table can be built anew. `ReuseMachine` draws the changes. After every step it asks a framework that
reuses what it can over the first table, and one that reuses nothing over the second.
`describe_evaluation` puts what they say into names and numbers that do not depend on rows; the two must be
equal.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from stowplan.api.meta import Object, ObjectMeta
from stowplan.api.node import Node, NodeStatus
from stowplan.api.pod import Pod
from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.known_objects import KnownObjects
from stowplan.scheduler.framework.nominations import NominatedRows, Nominations
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import SUCCESS, PluginError, Status
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import cluster_strategies as some
from stowplan.testing.builders import HOSTNAME, ZONE
from stowplan.testing.cluster_strategies import RACK


class MirroredCluster:
    """Applies every change to `table` and remembers the objects, from which `rebuilt` makes a table anew."""

    def __init__(self) -> None:
        self.table = ClusterTable()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: set[str] = set()
        self.history: list[tuple[str, Object]] = []
        """Every change, in order: what was done, and the object."""
        self.around: dict[tuple[str, str], Object] = {}
        self._uids = 0

    def named(self, template: Pod, name: str = "") -> Pod:
        """A new pod made from a template."""
        self._uids += 1
        name = name or f"p{self._uids}"
        return replace(template, metadata=replace(template.metadata, name=name, uid=f"u{self._uids}"))

    # Nodes

    def put_node(self, node: Node) -> None:
        self._note("put", node)
        self.nodes[node.name] = node
        self.table.put_node(node)

    def remove_node(self, name: str) -> None:
        self._note("remove", self.nodes[name])
        del self.nodes[name]
        self.table.remove_node(name)

    # Pods

    def put_pod(self, pod: Pod, node_name: str) -> None:
        placed = replace(pod, spec=replace(pod.spec, node_name=node_name))
        self._note("put", placed)
        self.pods[placed.metadata.uid] = placed
        self.assumed.discard(placed.metadata.uid)
        self.table.put_pod(placed)

    def remove_pod(self, uid: str) -> None:
        self._note("remove", self.pods[uid])
        del self.pods[uid]
        self.assumed.discard(uid)
        self.table.remove_pod(uid)

    def assume(self, pod: Pod, node_name: str) -> None:
        info = self.table.info(pod)
        self.table.assume(info, node_name)
        placed = self.pods[pod.metadata.uid] = replace(pod, spec=replace(pod.spec, node_name=node_name))
        self._note("assume", placed)
        self.assumed.add(pod.metadata.uid)

    def confirm(self, uid: str, node_name: str | None, *, dying: bool, relabelled: bool = False) -> None:
        pod = self.pods[uid]
        if relabelled:
            labels = {**pod.metadata.labels, "topology.kubernetes.io/zone": "z1"}
            pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        if node_name is not None:
            pod = replace(pod, spec=replace(pod.spec, node_name=node_name))
        if dying:
            pod = terminating(pod)
        self.pods[uid] = pod
        self.assumed.discard(uid)
        self._note("confirm", pod)
        self.table.confirm(pod)

    def forget(self, uid: str) -> None:
        self._note("forget", self.pods[uid])
        del self.pods[uid]
        self.assumed.discard(uid)
        self.table.forget(uid)

    # Objects around pods

    def knows(self, obj: Object) -> bool:
        return (type(obj).__name__, obj.key) in self.around

    def put(self, obj: Object) -> None:
        self._note("put", obj)
        self.around[type(obj).__name__, obj.key] = obj
        self.table.put(obj)

    def discard(self, obj: Object) -> None:
        self._note("remove", obj)
        self.table.discard(self.around.pop((type(obj).__name__, obj.key)))

    def _note(self, verb: str, obj: Object) -> None:
        self.history.append((verb, obj))

    # The same from scratch

    def rebuilt(self) -> ClusterTable:
        """A table made from the objects as they are now, each taken in when all it refers to is there."""
        table = ClusterTable()
        for obj in self.around.values():
            table.put(obj)
        for name in sorted(self.nodes, reverse=True):
            table.put_node(self.nodes[name])
        for pod in self.pods.values():
            table.put_pod(pod)
        return table


def terminating(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


def nominations_by_row(table: ClusterTable, nominated: dict[str, list[Pod]]) -> dict[int, list[PodInfo]]:
    """Nominations by node name as a table wants them."""
    found: dict[int, list[PodInfo]] = {}
    for name, pods in nominated.items():
        row = table.row_of(name)
        if row is not None:
            found[row] = [table.info(pod) for pod in pods]
    return found


# Results of an evaluation


def describe_evaluation(framework: Framework, evaluation: Evaluation) -> dict[str, Any]:
    """All there is to see of an evaluation, in words and numbers that do not depend on rows."""
    table = framework.table
    found: dict[str, Any] = {
        "outright": evaluation.rejected_outright,
        "asked for": evaluation.pre_filtering.node_names,
        "rejectors": evaluation.pre_filtering.rejectors,
        "skipped filters": evaluation.cycle.skipped,
        "feasible": {table.name_of(int(row)) for row in evaluation.feasible_rows},
        "feasible count": evaluation.feasible_count,
        "scored": evaluation.scored,
    }
    if evaluation.rejected_outright is not None:
        return found
    rows = {name: row for row, name in rows_by_name(table)}
    found["verdicts"] = {name: evaluation.status(row) for name, row in rows.items()}
    found["codes"] = _codes(framework, evaluation, rows)
    if evaluation.only_row is not None:
        found["only"] = table.name_of(evaluation.only_row)
        return found
    found["rejections"] = {
        status: {table.name_of(int(row)) for row in rejected}
        for status, rejected in evaluation.rejections().items()
    }
    found["reasons"] = evaluation.reason_counts()
    if evaluation.scored:
        found |= _scores(table, evaluation)
    return found


def verdicts_as_pods_go(framework: Framework, evaluation: Evaluation, most: int = 3) -> dict[str, Any]:
    """Verdicts on the first few nodes that have pods as these are removed one by one.

    With none removed it is the evaluation's verdict, unless that left the node out.
    """
    table = framework.table
    crowded = sorted((name, row) for row, name in rows_by_name(table) if table.pods_on[row])
    found = {}
    with evaluation.simulations() as simulations:
        for name, row in crowded[:most]:
            pods = dict(table.pods_on[row])
            with simulations.row(row) as simulation:
                said = [simulation.verdict()]
                status = evaluation.status(row)
                assert status == evaluation.left_out or status == (said[0] or SUCCESS)
                for uid in sorted(pods):
                    simulation.remove_pod(pods[uid])
                    said.append(simulation.verdict())
            found[name] = said
    return found


def rows_by_name(table: ClusterTable) -> list[tuple[int, str]]:
    return [(row, table.name_of(row)) for row in range(table.rows_in_use) if table.valid[row]]


def _codes(
    framework: Framework, evaluation: Evaluation, rows: dict[str, int]
) -> dict[str, dict[str, Status]]:
    """Verdict of each filter on each node it rejects, by plugin, also where an earlier one rejects it too.

    Plugins by node are left out: they do not run for nodes that others rejected.
    """
    by_column = {p.name: p for p in framework.at(ExtensionPoint.FILTER) if hasattr(p, "filter")}
    cycle = evaluation.cycle
    found: dict[str, dict[str, Status]] = {}
    for plugin, codes in evaluation.codes().items():
        if plugin in by_column:
            rejected = {
                name: by_column[plugin].reason(cycle, cycle.pod, int(codes[row]))
                for name, row in rows.items()
                if codes[row]
            }
            if rejected:
                found[plugin] = rejected
    return found


def _scores(table: ClusterTable, evaluation: Evaluation) -> dict[str, Any]:
    rows = evaluation.feasible_rows
    names = [table.name_of(int(row)) for row in rows]
    top, ties = evaluation.pod_class.scores.ranking.best()
    return {
        "skipped scores": evaluation.cycle.skipped_score,
        "scores": {
            plugin: dict(zip(names, scores, strict=True))
            for plugin, scores in evaluation.scores(rows).items()
        },
        "totals": dict(zip(names, evaluation.totals()[rows].tolist(), strict=True)),
        "best": (top, ties),
        "best nodes": {table.name_of(int(row)) for row in evaluation.best_rows()},
        "picks": {_picked(table, evaluation, nth) for nth in range(ties)},
    }


def _picked(table: ClusterTable, evaluation: Evaluation, nth: int) -> str:
    row, _ = choose_node(evaluation, lambda _: nth)
    return table.name_of(row)


def describe_usage(table: ClusterTable) -> dict[str, Any]:
    """Counts of the table for each node."""
    found = {}
    for row, name in rows_by_name(table):
        found[name] = {
            "pods": int(table.pod_count[row]),
            "allowed": int(table.allowed_pods[row]),
            "non-zero": table.non_zero[:, row].tolist(),
            "uids": set(table.pods_on[row]),
            "labels": {key: _label(table, key, row) for key in (ZONE, HOSTNAME, RACK)},
            "allocatable": _line(table, table.allocatable, row),
            "requested": _line(table, table.requested, row),
        }
    return found


def _label(table: ClusterTable, key: str, row: int) -> str | None:
    column = table.label_column(key)
    return column.values[int(column.ids[row])]


def _line(table: ClusterTable, matrix: Any, row: int) -> dict[str, int]:
    amounts = matrix[:, row].tolist()
    names = map(str, table.resources.names)
    return {name: amount for name, amount in zip(names, amounts, strict=False) if amount}


# The machine

indexes = st.integers(0, 40)
whiches = st.integers(0, 2)
periods = st.sampled_from([1, 1, 2, 3, 7])
"""Number of steps between two queries for a pod."""
profile_names: st.SearchStrategy[str] = st.runner().flatmap(
    lambda machine: st.sampled_from(machine.asked_profiles)
)
pod_templates: st.SearchStrategy[Pod] = st.runner().flatmap(lambda machine: machine.pods)
cluster_nodes: st.SearchStrategy[Node] = st.runner().flatmap(lambda machine: machine.nodes)
"""Nodes of the current machine: subclasses bring their own."""


def ballast(count: int) -> list[Node]:
    """Plain nodes, so that a change touches a small part of the table."""
    return [
        Node(
            metadata=ObjectMeta(
                name=f"n{100 + i}",
                labels={some.ZONE: "za" if i % 3 else "zb", some.HOSTNAME: f"n{100 + i}"},
            ),
            status=NodeStatus(allocatable={"cpu": "4", "memory": "4Gi", "pods": "10"}),
        )
        for i in range(count)
    ]


class ReuseMachine(RuleBasedStateMachine):
    """Several profiles over one table, each queried time and again for the same pending pods.

    A pair of profile and pending pod is queried at intervals of some steps, so that results are kept over one
    change or over several. Some pending pods stay known to the table between attempts, as in a queue; others
    appear new each time.

    A subclass lists the `profiles` of its `registry`, and those to draw from (`asked_profiles`); it may bring
    strategies of its own for `pods` (templates) and `nodes`.
    """

    profiles: ClassVar[Mapping[str, ProfileSpec]]
    asked_profiles: ClassVar[Sequence[str]]
    registry: ClassVar[Registry]
    known: ClassVar[KnownObjects] = KnownObjects()
    pods: ClassVar[st.SearchStrategy[Pod]] = some.pods()
    nodes: ClassVar[st.SearchStrategy[Node]] = some.any_node

    def __init__(self) -> None:
        super().__init__()
        self.world = MirroredCluster()
        self.pending: list[Pod] = []
        self.queued: dict[str, PodInfo] = {}
        self.frameworks: dict[str, Framework] = {}
        self.asked: list[tuple[str, int, int]] = []
        self.nominated: dict[str, list[Pod]] = {}
        self.own_nomination: str | None = None
        self._handed_on = NominatedRows()
        self._topology = -1
        self.removes_pods = False
        self.steps = 0

    @initialize(
        templates=st.lists(pod_templates, min_size=2, max_size=3),
        asked=st.lists(st.tuples(profile_names, whiches, periods), min_size=2, max_size=4),
        nodes=st.lists(cluster_nodes, min_size=3, max_size=8),
        more=st.sampled_from([0, 0, 3, 12, 12, 58]),
    )
    def begin(
        self, templates: list[Pod], asked: list[tuple[str, int, int]], nodes: list[Node], more: int
    ) -> None:
        self._begin(templates, asked, nodes, more)

    def _begin(
        self, templates: list[Pod], asked: list[tuple[str, int, int]], nodes: list[Node], more: int
    ) -> None:
        self.pending = [self.world.named(template) for template in templates]
        self.asked = asked
        for node in (*nodes, *ballast(more)):
            self.world.put_node(node)
        for name in {name for name, _, _ in self.asked}:
            self.frameworks[name] = Framework(
                self.profiles[name], self.world.table, self.registry, lookup=self.known.of
            )

    # Nodes

    @rule(node=cluster_nodes)
    def add_or_replace_node(self, node: Node) -> None:
        self.world.put_node(node)

    @precondition(lambda self: self.world.nodes)
    @rule(index=indexes)
    def remove_node(self, index: int) -> None:
        self.world.remove_node(_pick(self.world.nodes, index))

    @precondition(lambda self: self.world.nodes)
    @rule(
        index=indexes,
        key=st.sampled_from([some.ZONE, some.HOSTNAME, some.RACK, some.BETA_ZONE, "disk"]),
        data=st.data(),
    )
    def relabel_node(self, index: int, key: str, data: st.DataObject) -> None:
        node = self._node(index)
        labels = data.draw(some.node_labels(node.name))
        changed = {name: value for name, value in node.metadata.labels.items() if name != key}
        if key in labels:
            changed[key] = labels[key]
        self.world.put_node(replace(node, metadata=replace(node.metadata, labels=changed)))

    @precondition(lambda self: self.world.nodes)
    @rule(index=indexes, taints=some.taints, unschedulable=some.rarely)
    def change_node_spec(self, index: int, taints: Any, unschedulable: bool) -> None:
        node = self._node(index)
        spec = replace(node.spec, taints=taints, unschedulable=unschedulable)
        self.world.put_node(replace(node, spec=spec))

    @precondition(lambda self: self.world.nodes)
    @rule(
        index=indexes,
        what=st.sampled_from(["allocatable", "images", "features", "conditions", "annotations"]),
        data=st.data(),
    )
    def change_node_quietly(self, index: int, what: str, data: st.DataObject) -> None:
        """Changes that leave the topology alone."""
        node = self._node(index)
        meta, status = node.metadata, node.status
        if what == "allocatable":
            status = replace(status, allocatable=data.draw(some.allocatables()))
        elif what == "images":
            status = replace(status, images=data.draw(some.images))
        elif what == "features":
            status = replace(status, declared_features=data.draw(some.features))
        elif what == "conditions":
            status = replace(status, conditions=data.draw(some.conditions))
        else:
            meta = replace(meta, annotations=data.draw(some.annotations))
        self.world.put_node(replace(node, metadata=meta, status=status))

    # Pods

    @rule(template=pod_templates, index=indexes, dying=st.sampled_from([False, False, True]))
    def add_pod(self, template: Pod, index: int, dying: bool) -> None:
        pod = self.world.named(template)
        self.world.put_pod(terminating(pod) if dying else pod, self._node_name(index))

    @rule(which=whiches, index=indexes)
    def add_sibling_of_pending_pod(self, which: int, index: int) -> None:
        pod = self.world.named(self._pending(which))
        self.world.put_pod(pod, self._node_name(index))

    @precondition(lambda self: self.world.pods)
    @rule(index=indexes, labels=some.pod_labels, dying=st.booleans())
    def update_pod(self, index: int, labels: dict[str, str], dying: bool) -> None:
        pod = self.world.pods[_pick(self.world.pods, index)]
        pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        self.world.put_pod(terminating(pod) if dying else pod, pod.spec.node_name)

    @precondition(lambda self: self.world.pods)
    @rule(index=indexes)
    def remove_pod(self, index: int) -> None:
        self.world.remove_pod(_pick(self.world.pods, index))

    @rule(which=whiches, index=indexes)
    def assume_sibling_of_pending_pod(self, which: int, index: int) -> None:
        self.world.assume(self.world.named(self._pending(which)), self._node_name(index))

    @precondition(lambda self: self.world.assumed)
    @rule(
        index=indexes,
        what=st.sampled_from(["confirm", "confirm elsewhere", "confirm dying", "forget"]),
        relabelled=st.booleans(),
    )
    def settle_assumed_pod(self, index: int, what: str, relabelled: bool) -> None:
        uid = _pick(self.world.assumed, index)
        if what == "forget":
            self.world.forget(uid)
        else:
            elsewhere = self._node_name(index) if what == "confirm elsewhere" else None
            self.world.confirm(uid, elsewhere, dying=what == "confirm dying", relabelled=relabelled)

    # Objects around pods

    @rule(obj=some.around, goes=st.booleans())
    def change_object(self, obj: Object, goes: bool) -> None:
        if goes and self.world.knows(obj):
            self.world.discard(obj)
        else:
            self.world.put(obj)

    # Nominations

    @precondition(lambda self: self.world.nodes)
    @rule(templates=st.lists(pod_templates, max_size=2), which=whiches, index=indexes)
    def nominate_others(self, templates: list[Pod], which: int, index: int) -> None:
        pods = [self.world.named(template) for template in templates]
        sibling = self.world.named(self._pending(which))
        self.nominated[_pick(self.world.nodes, index)] = [*pods, sibling]

    @rule(index=indexes, stays=st.booleans())
    def nominate(self, index: int, stays: bool) -> None:
        """One attempt, or all until further notice, with the pending pod nominated to a node; then the
        nominations of others are cleared."""
        if self.world.nodes:
            self.own_nomination = node = _pick(self.world.nodes, index)
            self.nominated[node] = [*self.nominated.get(node, ()), *self.pending]
            self.compare_with_scratch()
        if not stays:
            self.own_nomination = None
        self.nominated = {}

    # Pending pods

    @rule(which=whiches, template=pod_templates)
    def another_pending_pod(self, which: int, template: Pod) -> None:
        which %= len(self.pending)
        self.queued.pop(self.pending[which].metadata.uid, None)
        self.pending[which] = self.world.named(template)

    @rule()
    def simulate_pods_gone(self) -> None:
        """As preemption does, which must leave no trace."""
        self.removes_pods = True
        self.compare_with_scratch()
        self.removes_pods = False

    @rule(which=whiches)
    def pod_is_queued(self, which: int) -> None:
        pod = self._pending(which)
        self.queued[pod.metadata.uid] = self.world.table.info(pod)

    # Invariants

    @invariant()
    def compare_with_scratch(self) -> None:
        self.steps += 1
        due = [(name, which) for name, which, period in self.asked if self.steps % period == 0]
        if not due:
            return
        scratch = self.world.rebuilt()
        assert describe_usage(self.world.table) == describe_usage(scratch)
        for name, which in dict.fromkeys(due):
            pod = self._pending(which)
            queued = self.queued.get(pod.metadata.uid)
            kept = self._outcome(self.frameworks[name], queued or self.world.table.info(pod))
            fresh = Framework(self.profiles[name], scratch, self.registry, reuse=False, lookup=self.known.of)
            anew = self._outcome(fresh, scratch.info(pod))
            if kept != anew:
                self.differs(name, pod, kept, anew)
        assert describe_usage(self.world.table) == describe_usage(scratch)

    def differs(self, profile: str, pod: Pod, kept: dict[str, Any], anew: dict[str, Any]) -> None:
        """Kept results are not what is found from scratch. Raises AssertionError."""
        raise AssertionError(f"profile {profile}, pod {pod.key}: {difference(kept, anew)}")

    def failed(self, error: PluginError, pod: Pod) -> dict[str, Any]:
        """Result to compare where a plugin fails."""
        return {"error": error.message}

    def _outcome(self, framework: Framework, pod: PodInfo) -> dict[str, Any]:
        table = framework.table
        own = None if self.own_nomination is None else table.row_of(self.own_nomination)
        try:
            evaluation = framework.evaluate(pod, self._nominations(table), own)
        except PluginError as error:
            return self.failed(error, pod.pod)
        found = describe_evaluation(framework, evaluation)
        if self.removes_pods and evaluation.rejected_outright is None:
            found["with pods gone"] = verdicts_as_pods_go(framework, evaluation)
        return found

    def _nominations(self, table: ClusterTable) -> Nominations:
        """The nominations by row: for kept results handed on as in a scheduler, made current where they
        changed."""
        found = nominations_by_row(table, self.nominated)
        if table is not self.world.table:
            return found
        before = self._handed_on
        are_rows_others = self._topology != table.topology_version
        self._topology = table.topology_version
        changed = {
            row: found.get(row, [])
            for row in found.keys() | before.keys()
            if are_rows_others
            or [pod.uid for pod in found.get(row, ())] != [pod.uid for pod in before.get(row, ())]
        }
        if changed:
            self._handed_on = before.replaced(changed)
        return self._handed_on

    # Choosing

    def _pending(self, which: int) -> Pod:
        return self.pending[which % len(self.pending)]

    def _node(self, index: int) -> Node:
        return self.world.nodes[_pick(self.world.nodes, index)]

    def _node_name(self, index: int) -> str:
        """Mostly a node that is there, sometimes one that may come or come back."""
        if self.world.nodes and index % 8:
            name: str = _pick(self.world.nodes, index)
            return name
        return some.NODE_NAMES[index % len(some.NODE_NAMES)]


def _pick(choices: Any, index: int) -> Any:
    ordered = sorted(choices)
    return ordered[index % len(ordered)]


def difference(kept: Any, anew: Any, where: str = "") -> str:
    """The first few parts that differ, kept against from scratch."""
    if not (isinstance(kept, dict) and isinstance(anew, dict)):
        return f"{where}: {kept} instead of {anew}"
    keys = [key for key in {**kept, **anew} if kept.get(key) != anew.get(key)]
    return "; ".join(difference(kept.get(key), anew.get(key), f"{where} {key}") for key in keys[:4])
