"""Explanations are true: for random clusters and pods, checked on engines built from scratch."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from effort import examples
from stowplan.api.catalogue import PODS
from stowplan.api.meta import LabelSelector
from stowplan.api.node import Node
from stowplan.api.pod import Pod, ResourceList, ResourceRequirements, TopologySpreadConstraint
from stowplan.api.requests import PatchType
from stowplan.config.build import default_profile
from stowplan.explain.document.pod import Change, PodDocument
from stowplan.explain.explainers.pod import Explainer
from stowplan.explain.explainers.trials import like
from stowplan.explain.states import PENDING
from stowplan.localcluster.store.patches import patched
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import cluster_strategies as some

PROFILE = default_profile()


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod], Pod]:
    """Nodes, pods on them, and one that asks for much."""
    nodes = [draw(some.nodes(name)) for name in draw(st.sets(st.sampled_from(some.NODE_NAMES), min_size=1))]
    placed = []
    for number in range(draw(st.integers(0, 8))):
        pod = _named(draw(some.pods()), f"p{number}")
        node = draw(st.sampled_from(nodes)).name
        placed.append(replace(pod, spec=replace(pod.spec, node_name=node)))
    return nodes, placed, draw(demanding(_named(draw(some.pods()), "wanting")))


@st.composite
def demanding(draw: st.DrawFn, pod: Pod) -> Pod:
    """A pod that is likely to find no node: it asks for much, or to be spread."""
    asked: ResourceList = {"cpu": draw(st.sampled_from(["1", "3", "5", "9"]))}
    if draw(st.booleans()):
        asked[some.GPU] = draw(st.sampled_from(["1", "2", "5"]))
    main = replace(pod.spec.containers[0], name="main", resources=ResourceRequirements(asked, dict(asked)))
    spec = replace(pod.spec, containers=(main, *pod.spec.containers[1:]))
    if draw(st.booleans()):
        constraint = TopologySpreadConstraint(
            max_skew=1,
            topology_key=draw(st.sampled_from([some.ZONE, some.HOSTNAME])),
            when_unsatisfiable="DoNotSchedule",
            label_selector=LabelSelector(match_labels={"app": "a"}),
        )
        spec = replace(spec, topology_spread_constraints=(constraint,))
    return replace(pod, spec=spec)


def _named(pod: Pod, name: str) -> Pod:
    metadata = replace(pod.metadata, name=name, uid=f"uid-{name}", deletion_timestamp=None)
    return replace(pod, metadata=metadata)


def engine(nodes: Iterable[Node], pods: Iterable[Pod]) -> Framework:
    table = ClusterTable()
    for node in nodes:
        table.put_node(node)
    for pod in pods:
        table.put_pod(pod)
    return Framework(PROFILE, table, in_tree_registry())


def fits(nodes: Iterable[Node], pods: Iterable[Pod], pod: Pod) -> set[str]:
    """The nodes that a new engine finds for a pod."""
    framework = engine(nodes, pods)
    evaluation = framework.evaluate(framework.table.info(pod))
    return {framework.table.name_of(row) for row in evaluation.feasible_rows.tolist()}


def explained(nodes: Sequence[Node], pods: Sequence[Pod], pod: Pod) -> PodDocument:
    framework = engine(nodes, pods)
    return Explainer(framework, "a test").explain(framework.table.info(pod))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_every_change_places_the_pod_when_it_is_made(cluster: tuple[list[Node], list[Pod], Pod]) -> None:
    nodes, pods, wanting = cluster
    found = explained(nodes, pods, wanting)
    for change in found.changes:
        note(str(change))
        made = _made(nodes, pods, wanting, change)
        if change.kind == "priority":
            assert _preempts(*made, change)
        else:
            assert fits(*made)


def _made(nodes: list[Node], pods: list[Pod], pod: Pod, change: Change) -> tuple[list[Node], list[Pod], Pod]:
    """The cluster and the pod after a change: patched as an API server patches."""
    if change.patch is not None:
        document: Any = msgspec.to_builtins(pod)
        new = patched(PODS, document, msgspec.to_builtins(change.patch), PatchType.STRATEGIC)
        return nodes, pods, msgspec.convert(new, Pod)
    assert change.action is not None
    [(verb, name)] = change.action.items()
    if verb == "delete":
        return nodes, [other for other in pods if other.key != name], pod
    if verb == "uncordon":
        open_ = [
            replace(node, spec=replace(node.spec, unschedulable=False)) if node.name == name else node
            for node in nodes
        ]
        return open_, pods, pod
    assert verb == "addNode"
    [shape] = [node for node in nodes if node.name == name]
    return [*nodes, like(shape, engine(nodes, pods).table)], pods, pod


def _preempts(nodes: list[Node], pods: list[Pod], pod: Pod, change: Change) -> bool:
    """Without its victims there is room on the node, and all of them are less important."""
    victims = [other for other in pods if other.key in change.victims]
    left = [other for other in pods if other.key not in change.victims]
    priority = pod.spec.priority or 0
    assert len(victims) == len(change.victims) > 0
    return change.node in fits(nodes, left, pod) and all(
        (one.spec.priority or 0) < priority for one in victims
    )


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_near_misses_are_the_nodes_that_one_filter_rejects(
    cluster: tuple[list[Node], list[Pod], Pod],
) -> None:
    """Each filter runs alone, on a separate engine."""
    nodes, pods, wanting = cluster
    found = explained(nodes, pods, wanting)
    if found.state != PENDING or (len(found.funnel) == 1 and not found.funnel[0].examples):
        return
    against = {node.name: [*_rejecting(nodes, pods, wanting, node.name)] for node in nodes}
    expected = {name: plugins[0] for name, plugins in against.items() if len(plugins) == 1}
    assert {miss.node: miss.plugin for miss in found.near_misses} == expected


def _rejecting(nodes: list[Node], pods: list[Pod], pod: Pod, node: str) -> Iterable[str]:
    for use in PROFILE.plugins[ExtensionPoint.FILTER]:
        points = {
            ExtensionPoint.FILTER: (use,),
            ExtensionPoint.PRE_FILTER: tuple(
                one for one in PROFILE.plugins[ExtensionPoint.PRE_FILTER] if one.name == use.name
            ),
        }
        alone = dataclasses.replace(PROFILE, plugins=points)
        framework = Framework(alone, engine(nodes, pods).table, in_tree_registry())
        row = framework.table.row_of(node)
        assert row is not None
        if not framework.evaluate(framework.table.info(pod)).status(row).is_success:
            yield use.name


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_the_funnel_adds_up_and_the_cluster_is_as_before(
    cluster: tuple[list[Node], list[Pod], Pod],
) -> None:
    nodes, pods, wanting = cluster
    framework = engine(nodes, pods)
    table = framework.table
    before = _state(table)
    explainer = Explainer(framework, "a test")
    for info in (table.info(wanting), *table.pods.values()):
        found = explainer.explain(info)
        assert sum(line.nodes for line in found.funnel) + found.feasible == len(nodes)
        assert 0 <= found.feasible <= len(nodes)
        assert found.document()["pod"] == info.key
        assert _state(table) == before


def _state(table: ClusterTable) -> Any:
    rows = [row for row in range(table.rows_in_use) if table.nodes[row] is not None]
    return {
        table.name_of(row): (sorted(table.pods_on[row]), table.requested[:, row].tolist()) for row in rows
    }
