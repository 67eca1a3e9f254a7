"""A cluster changes at random; after every change, kept results are compared with results from scratch."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from reuse import strategies as some
from reuse.picture import imagined, picture, usage
from reuse.profiles import GENERAL, PROFILES, REGISTRY
from reuse.world import World, marked_for_deletion, on_rows
from stowplan.api.meta import Object, ObjectMeta
from stowplan.api.node import Node, NodeStatus
from stowplan.api.pod import Pod
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.runtime import Framework
from stowplan.framework.status import PluginError

indexes = st.integers(0, 40)
whiches = st.integers(0, 2)
profile_names = st.sampled_from(sorted(GENERAL))


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
    """Several profiles over one table, each asked time and again about the same pending pods.

    A pair of profile and pending pod is asked every so many steps, so that results are kept over one change
    or over several. Some pending pods stay known to the table between attempts, as in a queue; others come
    as if for the first time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.pending: list[Pod] = []
        self.queued: dict[str, PodInfo] = {}
        self.frameworks: dict[str, Framework] = {}
        self.asked: list[tuple[str, int, int]] = []
        self.promised: dict[str, list[Pod]] = {}
        self.own_node: str | None = None
        self.imagines = False
        self.steps = 0

    @initialize(
        templates=st.lists(some.pods(), min_size=2, max_size=3),
        asked=st.lists(
            st.tuples(profile_names, whiches, st.sampled_from([1, 1, 2, 3, 7])), min_size=2, max_size=4
        ),
        nodes=st.lists(some.any_node, min_size=3, max_size=8),
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
            self.frameworks[name] = Framework(PROFILES[name], self.world.table, REGISTRY)

    # Nodes

    @rule(node=some.any_node)
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

    @rule(template=some.pods(), index=indexes, dying=st.sampled_from([False, False, True]))
    def add_pod(self, template: Pod, index: int, dying: bool) -> None:
        pod = self.world.named(template)
        self.world.put_pod(marked_for_deletion(pod) if dying else pod, self._node_name(index))

    @rule(which=whiches, index=indexes)
    def add_sibling_of_pending_pod(self, which: int, index: int) -> None:
        pod = self.world.named(self._pending(which))
        self.world.put_pod(pod, self._node_name(index))

    @precondition(lambda self: self.world.pods)
    @rule(index=indexes, labels=some.pod_labels, dying=st.booleans())
    def update_pod(self, index: int, labels: dict[str, str], dying: bool) -> None:
        pod = self.world.pods[_pick(self.world.pods, index)]
        pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        self.world.put_pod(marked_for_deletion(pod) if dying else pod, pod.spec.node_name)

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

    # Promises

    @precondition(lambda self: self.world.nodes)
    @rule(templates=st.lists(some.pods(), max_size=2), which=whiches, index=indexes)
    def promise(self, templates: list[Pod], which: int, index: int) -> None:
        pods = [self.world.named(template) for template in templates]
        sibling = self.world.named(self._pending(which))
        self.promised[_pick(self.world.nodes, index)] = [*pods, sibling]

    @rule(index=indexes, stays=st.booleans())
    def nominate(self, index: int, stays: bool) -> None:
        """One attempt, or all until further notice, with a node promised to the pending pod; then promises
        to others are taken back."""
        if self.world.nodes:
            self.own_node = _pick(self.world.nodes, index)
            self.compare_with_scratch()
        if not stays:
            self.own_node = None
        self.promised = {}

    # Pending pods

    @rule(which=whiches, template=some.pods())
    def another_pending_pod(self, which: int, template: Pod) -> None:
        which %= len(self.pending)
        self.queued.pop(self.pending[which].metadata.uid, None)
        self.pending[which] = self.world.named(template)

    @rule()
    def imagine_pods_gone(self) -> None:
        """As preemption does, which must leave no trace."""
        self.imagines = True
        self.compare_with_scratch()
        self.imagines = False

    @rule(which=whiches)
    def pod_is_queued(self, which: int) -> None:
        pod = self._pending(which)
        self.queued[pod.metadata.uid] = self.world.table.info(pod)

    # What must hold

    @invariant()
    def compare_with_scratch(self) -> None:
        self.steps += 1
        due = [(name, which) for name, which, period in self.asked if self.steps % period == 0]
        if not due:
            return
        scratch = self.world.rebuilt()
        assert usage(self.world.table) == usage(scratch)
        for name, which in dict.fromkeys(due):
            pod = self._pending(which)
            queued = self.queued.get(pod.metadata.uid)
            kept = self._outcome(self.frameworks[name], queued or self.world.table.info(pod))
            fresh = Framework(PROFILES[name], scratch, REGISTRY, reuse=False)
            anew = self._outcome(fresh, scratch.info(pod))
            assert kept == anew, f"profile {name}, pod {which}: {difference(kept, anew)}"
        assert usage(self.world.table) == usage(scratch)

    def _outcome(self, framework: Framework, pod: PodInfo) -> dict[str, Any]:
        table = framework.table
        own = None if self.own_node is None else table.row_of(self.own_node)
        try:
            evaluation = framework.evaluate(pod, on_rows(table, self.promised), own)
        except PluginError as error:
            return {"error": error.message}
        found = picture(framework, evaluation)
        if self.imagines and evaluation.rejected_outright is None:
            found["with pods gone"] = imagined(framework, evaluation)
        return found

    # Choosing

    def _pending(self, which: int) -> Pod:
        return self.pending[which % len(self.pending)]

    def _node(self, index: int) -> Node:
        return self.world.nodes[_pick(self.world.nodes, index)]

    def _node_name(self, index: int) -> str:
        """Mostly a node that is there, sometimes one that may come or come back."""
        if self.world.nodes and index % 8:
            return str(_pick(self.world.nodes, index))
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
