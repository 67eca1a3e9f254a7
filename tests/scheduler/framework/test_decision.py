"""The lasting record of an attempt."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.api.pod import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.explain.document.decision import Decision, Rejection
from stowplan.explain.recorded import decide
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.decision import EXAMPLES, GROUPS
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import Status, unschedulable
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.view import NodeRow
from stowplan.testing import Cluster, NodeBuilder, cluster, node, pod

TAINTED = "node(s) had untolerated taint(s)"


def first(ties: int) -> int:
    return 0


def mixed_cluster() -> Cluster:
    """Two nodes tainted, one of them small as well; one small; two that fit, one of them busier."""
    return cluster(
        nodes=[
            node("tainted").taint("gpu"),
            node("tainted-small").taint("gpu").capacity(cpu="100m"),
            node("small").capacity(cpu="100m"),
            node("busy"),
            node("free"),
        ],
        pods=[pod("old").requests(cpu="2").on("busy")],
    )


def on_two_nodes_at_once() -> Affinity:
    fields = tuple(
        NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
        for name in ("busy", "free")
    )
    term = NodeSelectorTerm(match_fields=fields)
    required = NodeSelector(node_selector_terms=(term,))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def test_the_funnel_says_who_ruled_out_what_and_what_else_stood_against_it() -> None:
    decision = mixed_cluster().decide(pod("p").requests(cpu="500m"))
    assert decision.funnel == (
        Rejection(
            plugin="TaintToleration",
            code="UnschedulableAndUnresolvable",
            reasons=(TAINTED,),
            nodes=2,
            examples=("tainted", "tainted-small"),
            near_misses=1,
        ),
        Rejection(
            plugin="NodeResourcesFit",
            code="UnschedulableAndUnresolvable",
            reasons=("Insufficient cpu",),
            nodes=1,
            examples=("small",),
            near_misses=1,
        ),
    )
    assert (decision.nodes, decision.feasible) == (5, 2)


def test_the_best_nodes_come_with_their_scores_by_plugin_and_the_margin() -> None:
    decision = mixed_cluster().decide(pod("p").requests(cpu="500m"))
    assert decision.node == "free"
    assert [candidate.node for candidate in decision.best] == ["free", "busy"]
    best, second = decision.best
    assert (decision.ties, decision.margin) == (1, best.total - second.total)
    assert best.scores.keys() == second.scores.keys() == decision.weights.keys()
    for candidate in decision.best:
        assert sum(candidate.scores.values()) == candidate.total
    assert best.scores["TaintToleration"] == 100 * decision.weights["TaintToleration"]
    assert decision.message == "Successfully assigned default/p to free"


def test_a_pod_without_a_node_keeps_the_message_and_the_whole_funnel() -> None:
    for top in (0, 5):
        decision = decide(mixed_cluster().evaluate(pod("p").requests(cpu="50")), first, top)
        assert decision.message == (f"0/5 nodes are available: 2 {TAINTED}, 3 Insufficient cpu.")
        assert not decision.scheduled
        assert [(rejection.plugin, rejection.nodes) for rejection in decision.funnel] == [
            ("TaintToleration", 2),
            ("NodeResourcesFit", 3),
        ]
        assert (decision.best, decision.ties, decision.margin) == ((), 0, None)


def test_without_scores_asked_for_a_placed_pod_gets_a_short_record() -> None:
    decision = decide(mixed_cluster().evaluate(pod("p").requests(cpu="500m")), first, top=0)
    assert decision == Decision(
        pod="default/p",
        node="free",
        nodes=5,
        feasible=2,
        message="Successfully assigned default/p to free",
        ties=1,
    )


def test_a_single_feasible_node_is_not_scored() -> None:
    decision = mixed_cluster().decide(pod("p").node_selector({"kubernetes.io/hostname": "busy"}))
    assert (decision.node, decision.ties, decision.margin) == ("busy", 1, None)
    assert (decision.best, decision.weights) == ((), {})


def test_a_nominated_node_has_no_funnel() -> None:
    decision = mixed_cluster().decide(pod("p").nominated("busy"))
    assert decision.nominated
    assert (decision.node, decision.feasible, decision.funnel) == ("busy", 1, ())


def test_a_pod_rejected_outright_is_rejected_on_all_nodes() -> None:
    decision = mixed_cluster().decide(pod("p").spec(affinity=on_two_nodes_at_once()))
    assert decision.funnel == (
        Rejection(
            plugin="NodeAffinity",
            code="UnschedulableAndUnresolvable",
            reasons=("pod affinity terms conflict",),
            nodes=5,
        ),
    )
    assert decision.message == "0/5 nodes are available: pod affinity terms conflict."


def test_ties_are_decided_by_the_chooser_and_said() -> None:
    c = cluster(nodes=[node(name) for name in "abcd"])
    asked: list[int] = []

    def third(ties: int) -> int:
        asked.append(ties)
        return 2

    decision = decide(c.evaluate(pod("p")), third, top=2)
    assert asked == [4]
    assert (decision.node, decision.ties, decision.margin) == ("c", 4, 0)
    assert [candidate.node for candidate in decision.best] == ["c", "a"]


def test_nobody_is_asked_to_choose_from_one() -> None:
    def never(ties: int) -> int:
        raise AssertionError("asked")

    assert decide(mixed_cluster().evaluate(pod("p").requests(cpu="500m")), never).node == "free"


class OwnWords(Plugin):
    """Rejects every node in different words."""

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status:
        return unschedulable(f"not {node.name}")


def test_a_record_is_bounded_whatever_plugins_say() -> None:
    count = GROUPS + 30
    decision = cluster(nodes=[node(f"n{n}") for n in range(count)], plugins=[OwnWords]).decide(pod("p"))
    assert len(decision.funnel) == GROUPS + 1
    assert sum(rejection.nodes for rejection in decision.funnel) == count
    assert decision.funnel[-1].reasons == ("for other reasons",)


def test_only_a_few_nodes_are_named() -> None:
    decision = cluster(nodes=[node(f"n{n}").taint("x") for n in range(10)]).decide(pod("p"))
    assert decision.funnel[0].examples == ("n0", "n1", "n2")
    assert len(decision.funnel[0].examples) == EXAMPLES


def test_a_decision_is_plain_data() -> None:
    decision = mixed_cluster().decide(pod("p").requests(cpu="500m"))
    document = decision.document()
    assert json.loads(json.dumps(document)) == document
    assert document["node"] == "free"
    assert document["funnel"][0]["nearMisses"] == 1
    assert document["best"][0]["scores"]["TaintToleration"] == 300


def test_a_decision_lasts_when_the_cluster_changes() -> None:
    c = mixed_cluster()
    decision = c.schedule(pod("p").requests(cpu="500m"))
    before = decision.document()
    c.schedule(pod("q").requests(cpu="3"))
    c.remove(node("free"))
    assert decision.document() == before


def _nodes(shapes: list[tuple[int, int, bool]]) -> list[NodeBuilder]:
    made = []
    for number, (cpu, zone, tainted) in enumerate(shapes):
        built = node(f"n{number}").capacity(cpu=cpu).labels(zone=str(zone))
        made.append(built.taint("t") if tainted else built)
    return made


SHAPES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.booleans()), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(0, 3), st.integers(0, 7), st.integers(1, 12))
def test_funnel_and_ranking_agree_with_the_evaluation(
    shapes: list[tuple[int, int, bool]], cpu: int, nth: int, top: int
) -> None:
    c = cluster(nodes=_nodes(shapes))
    evaluation = c.evaluate(pod("p").requests(cpu=cpu).node_affinity("zone", "NotIn", "1"))
    decision = decide(evaluation, lambda ties: nth % ties, top)
    rejected = sum(rejection.nodes for rejection in decision.funnel)
    assert rejected + decision.feasible == decision.nodes == len(shapes)
    for rejection in decision.funnel:
        assert 0 <= rejection.near_misses <= rejection.nodes
    against = sum((codes != 0).astype(int) for codes in evaluation.codes().values())
    once = int(np.count_nonzero(against == 1)) if evaluation.codes() else 0
    assert sum(rejection.near_misses for rejection in decision.funnel) == once
    totals = sorted((int(t) for t in evaluation.totals() if t >= 0), reverse=True)
    if decision.feasible > 1:
        assert [candidate.total for candidate in decision.best] == totals[:top]
        assert decision.best[0].node == decision.node
        assert decision.ties == totals.count(totals[0])
        assert decision.margin == (totals[0] - totals[1] if len(totals) > 1 else None)
        assert len({candidate.node for candidate in decision.best}) == len(decision.best)


@pytest.mark.parametrize("top", [1, 2, 3])
def test_no_more_nodes_are_kept_than_asked_for(top: int) -> None:
    c = cluster(
        nodes=[node(name).capacity(cpu=cpu) for name, cpu in zip("abcde", (4, 8, 16, 8, 4), strict=True)]
    )
    decision = decide(c.evaluate(pod("p").requests(cpu="1")), first, top)
    assert [candidate.node for candidate in decision.best] == ["c", "b", "d"][:top]
