"""Rows of docs/parity.md: filters by what a node is, rules of the queue, profiles."""

from typing import NamedTuple

import pytest

from scheduler.plugins.answers import PASSES, gated_cluster, profile_with, verdicts
from stowplan.api.pod import (
    Affinity,
    Container,
    ContainerRestartRule,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from stowplan.scheduler.framework.status import Status, unresolvable, unschedulable
from stowplan.scheduler.plugins.prioritysort import PrioritySort
from stowplan.scheduler.plugins.schedulinggates import SchedulingGates
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import PodBuilder, cluster, node, pod
from stowplan.testing.builders import ZONE

CORDONED = unresolvable("node(s) were unschedulable").by("NodeUnschedulable")
TAINTED = unresolvable("node(s) had untolerated taint(s)").by("TaintToleration")
NOT_MATCHED = unresolvable("node(s) didn't match Pod's node affinity/selector").by("NodeAffinity")
SKEWED = unschedulable("node(s) didn't match pod topology spread constraints").by("PodTopologySpread")

COMPARISONS = "TaintTolerationComparisonOperators"


class Waiting(NamedTuple):
    pod: PodInfo
    timestamp: float

    @property
    def priority(self) -> int:
        return self.pod.priority


def test_more_important_pods_come_first_and_equals_in_order_of_arrival() -> None:
    table = ClusterTable()
    rule = PrioritySort(None, None)  # type: ignore[arg-type]
    queue = [
        Waiting(table.info(pod(name).priority(priority).obj()), since)
        for name, priority, since in [("low", 1, 0.0), ("late", 5, 2.0), ("early", 5, 1.0), ("none", 0, 0.0)]
    ]
    assert [entry.pod.name for entry in sorted(queue, key=rule.sort_key)] == ["early", "late", "low", "none"]


def test_a_pod_with_scheduling_gates_is_held_back_with_their_names() -> None:
    table = ClusterTable()
    rule = SchedulingGates(None, None)  # type: ignore[arg-type]
    held = rule.pre_enqueue(table.info(pod("p").gates("a.io/one", "a.io/two").obj()))
    assert held == unresolvable("waiting for scheduling gates: [a.io/one a.io/two]")
    assert rule.pre_enqueue(table.info(pod("p").obj())) is None


def test_a_cordoned_node_takes_only_pods_that_tolerate_its_taint() -> None:
    world = cluster(nodes=[node("on"), node("off").unschedulable()])
    assert verdicts(world, pod("p")) == {"on": PASSES, "off": CORDONED}
    tolerant = pod("p").tolerates("node.kubernetes.io/unschedulable", effect="NoSchedule")
    assert verdicts(world, tolerant) == {"on": PASSES, "off": PASSES}


def test_a_pod_that_names_its_node_goes_nowhere_else() -> None:
    by_filter = unresolvable("node(s) didn't match the requested node name").by("NodeName")
    by_pre_filter = unresolvable("node(s) didn't satisfy plugin(s) [NodeName]")
    for release, elsewhere in (("1.36", by_filter), ("1.37", by_pre_filter)):
        world = cluster(nodes=[node("a"), node("b")], release=release)
        assert verdicts(world, pod("p").spec(node_name="b")) == {"a": elsewhere, "b": PASSES}


@pytest.mark.parametrize(
    ("effect", "expected"),
    [("NoSchedule", TAINTED), ("NoExecute", TAINTED), ("PreferNoSchedule", PASSES)],
)
def test_hard_taints_keep_pods_away_that_do_not_tolerate_them(effect: str, expected: Status) -> None:
    world = cluster(nodes=[node("a").taint("gpu", "big", effect)])
    assert verdicts(world, pod("p")) == {"a": expected}
    assert verdicts(world, pod("p").tolerates("gpu", "small")) == {"a": expected}
    assert verdicts(world, pod("p").tolerates("gpu", "big")) == {"a": PASSES}


def tolerating(operator: str, bound: str, effect: str = "") -> PodBuilder:
    toleration = Toleration(key="level", operator=operator, value=bound, effect=effect)
    return pod("p").labels(app="x").spec(tolerations=(toleration,))


@pytest.mark.parametrize(
    ("operator", "bound", "fits"), [("Gt", "4", True), ("Gt", "5", False), ("Lt", "6", True)]
)
def test_numeric_tolerations_count_only_behind_their_gate(operator: str, bound: str, fits: bool) -> None:
    nodes = [node("a").taint("level", "5"), node("b").unschedulable()]
    wanting = tolerating(operator, bound)
    off = gated_cluster({}, nodes, [])
    assert verdicts(off, wanting) == {"a": TAINTED, "b": CORDONED}
    on = gated_cluster({COMPARISONS: True}, nodes, [])
    assert verdicts(on, wanting) == {"a": PASSES if fits else TAINTED, "b": CORDONED}


@pytest.mark.parametrize(("on", "expected"), [(False, PASSES), (True, SKEWED)])
def test_numeric_tolerations_decide_behind_their_gate_which_nodes_are_spread_over(
    on: bool, expected: Status
) -> None:
    nodes = [node("empty").zone("1").taint("level", "5"), node("full").zone("2")]
    world = gated_cluster({COMPARISONS: on}, nodes, [pod("old").labels(app="x").on("full")])
    wanting = tolerating("Gt", "4").spread(ZONE, node_taints_policy="Honor")
    assert verdicts(world, wanting)["full"] == expected


@pytest.mark.parametrize(
    ("wanting", "fits"),
    [
        (pod("p").node_selector(disk="ssd"), "b"),
        (pod("p").node_affinity("disk", "In", "ssd", "nvme"), "b"),
        (pod("p").node_affinity("disk", "NotIn", "ssd"), "ac"),
        (pod("p").node_affinity("disk", "Exists"), "ab"),
        (pod("p").node_affinity("disk", "DoesNotExist"), "c"),
        (pod("p").node_affinity("cores", "Gt", "8"), "c"),
        (pod("p").node_affinity("cores", "Lt", "8"), "a"),
        (pod("p").node_selector(disk="ssd").node_affinity("cores", "Lt", "8"), ""),
    ],
)
def test_a_pod_goes_where_labels_meet_its_selector_and_its_affinity(wanting: PodBuilder, fits: str) -> None:
    nodes = [
        node("a").labels(disk="hdd", cores="4"),
        node("b").labels(disk="ssd"),
        node("c").labels(cores="16"),
    ]
    expected = {name: PASSES if name in fits else NOT_MATCHED for name in "abc"}
    assert verdicts(cluster(nodes=nodes), wanting) == expected


def test_a_profile_can_add_an_affinity_to_that_of_every_pod() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    world = cluster(
        nodes=[node("a"), node("b").labels(disk="hdd"), node("c").labels(disk="ssd")],
        config=profile_with("NodeAffinity", {"addedAffinity": required}),
    )
    enforced = unresolvable("node(s) didn't match scheduler-enforced node affinity").by("NodeAffinity")
    assert verdicts(world, pod("p")) == {"a": enforced, "b": PASSES, "c": PASSES}
    choosy = pod("p").node_selector(disk="ssd")
    assert verdicts(world, choosy) == {"a": enforced, "b": NOT_MATCHED, "c": PASSES}


def test_a_host_port_is_taken_once_per_node_address_and_protocol() -> None:
    holder = pod("old").port(80, host_port=8080, host_ip="10.0.0.1").on("a")
    world = cluster(nodes=[node("a"), node("b")], pods=[holder])
    taken = unschedulable("node(s) didn't have free ports for the requested pod ports").by("NodePorts")
    assert verdicts(world, pod("p").port(80, host_port=8080)) == {"a": taken, "b": PASSES}
    assert verdicts(world, pod("p").port(80, host_port=8080, protocol="UDP"))["a"] == PASSES
    assert verdicts(world, pod("p").port(80, host_port=8080, host_ip="10.0.0.2"))["a"] == PASSES
    assert verdicts(world, pod("p").port(8080))["a"] == PASSES


def test_a_pod_that_needs_a_feature_goes_where_it_is_declared() -> None:
    lacking = unresolvable("node(s) didn't match Pod's required features").by("NodeDeclaredFeatures")
    world = cluster(
        nodes=[
            node("none"),
            node("restart").features("RestartAllContainersOnContainerExits"),
            node("users").features("UserNamespacesHostNetworkSupport", "Other"),
        ]
    )
    rule = ContainerRestartRule(action="RestartAllContainers")
    restarting = pod("p").spec(containers=(Container(name="c", restart_policy_rules=(rule,)),))
    assert verdicts(world, restarting) == {"none": lacking, "restart": PASSES, "users": lacking}
    confined = pod("p").spec(host_network=True, host_users=False)
    assert verdicts(world, confined) == {"none": lacking, "restart": lacking, "users": PASSES}
    assert set(verdicts(world, pod("p").spec(host_network=True)).values()) == {PASSES}


def naming(*terms: str) -> PodBuilder:
    """A pod whose affinity asks for nodes by name; one of the terms must be met, with all its letters."""
    alternatives = tuple(
        NodeSelectorTerm(
            match_fields=tuple(
                NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)) for name in term
            )
        )
        for term in terms
    )
    selector = NodeSelector(node_selector_terms=alternatives)
    rules = NodeAffinity(required_during_scheduling_ignored_during_execution=selector)
    return pod("p").spec(affinity=Affinity(node_affinity=rules))


def test_a_pod_whose_affinity_names_nodes_is_tried_on_those_alone() -> None:
    world = cluster(nodes=[node("a"), node("b").taint("gpu"), node("c").taint("gpu")])
    left_out = unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]")
    assert verdicts(world, naming("a", "b")) == {"a": PASSES, "b": TAINTED, "c": left_out}
    nowhere = world.decide(naming("ab"))
    assert nowhere.message == "0/3 nodes are available: pod affinity terms conflict."


def test_each_pod_is_judged_by_the_profile_it_names() -> None:
    picky = profile_with("NodeResourcesFit", {"ignoredResources": ["example.com/gpu"]})
    picky["profiles"][0]["schedulerName"] = "gpu-blind"
    picky["profiles"].append({"schedulerName": "default-scheduler"})
    world = cluster(nodes=[node("a")], config=picky)
    wanting = pod("p").requests({"example.com/gpu": 1})
    assert world.decide(wanting).node is None
    assert world.decide(wanting.scheduler("gpu-blind")).node == "a"


def test_an_assumed_pod_takes_its_room_until_it_is_forgotten() -> None:
    world = cluster(nodes=[node("a").capacity(cpu="1")])
    wanting = pod("q").requests(cpu="600m")
    assumed = world.table.info(pod("p").requests(cpu="600m").obj())
    world.table.assume(assumed, "a")
    full = unschedulable("Insufficient cpu").by("NodeResourcesFit")
    assert verdicts(world, wanting) == {"a": full}
    world.table.confirm(pod("p").requests(cpu="600m").on("a").obj())
    assert verdicts(world, wanting) == {"a": full}
    world.table.forget(assumed.uid)
    assert verdicts(world, wanting) == {"a": PASSES}
