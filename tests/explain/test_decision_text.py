"""Decisions in words."""

import pytest

from stowplan.explain.document.decision import Candidate, Decision, Rejection
from stowplan.explain.layout import table
from stowplan.explain.terminal.decision import explain
from stowplan.testing import cluster, node, pod

TAINTED = Rejection(
    plugin="TaintToleration",
    code="UnschedulableAndUnresolvable",
    reasons=("node(s) had untolerated taint(s)",),
    nodes=4,
    examples=("n1", "n2", "n3"),
    near_misses=2,
)
SMALL = Rejection(
    plugin="NodeResourcesFit",
    code="Unschedulable",
    reasons=("Insufficient cpu", "Insufficient memory"),
    nodes=1,
    examples=("n5",),
    near_misses=1,
)


def test_a_placed_pod_reads_from_funnel_to_winner() -> None:
    decision = Decision(
        pod="shop/cart-0",
        node="n6",
        nodes=8,
        feasible=3,
        message="",
        ties=1,
        margin=12,
        funnel=(TAINTED, SMALL),
        best=(
            Candidate(node="n6", total=350, scores={"TaintToleration": 300, "Fit": 50}),
            Candidate(node="n8", total=338, scores={"TaintToleration": 300, "Fit": 38}),
        ),
        weights={"TaintToleration": 3, "Fit": 1},
    )
    assert explain(decision) == (
        "Pod shop/cart-0: goes to n6\n"
        "\n"
        "Filter: which nodes are feasible\n"
        "\n"
        "       rejected by       reason\n"
        "  ---  ----------------  -------------------------------------------\n"
        "    8  nodes\n"
        "  - 4  TaintToleration   node(s) had untolerated taint(s)\n"
        "                           n1, n2, n3, … (only blocker on 2 of them)\n"
        "  - 1  NodeResourcesFit  Insufficient cpu, Insufficient memory\n"
        "                           n5 (only blocker)\n"
        "  = 3  feasible\n"
        "\n"
        "Score: the best 2 of 3 feasible nodes (points are score times weight)\n"
        "\n"
        "  plugin           weight  > n6   n8\n"
        "  ---------------  ------  ----  ---\n"
        "  TaintToleration       3   300  300\n"
        "  Fit                   1    50   38\n"
        "  total                     350  338\n"
        "\n"
        "n6 wins by 12 points (350 to 338).\n"
    )


def test_a_pod_without_a_node_reads_as_message_and_funnel() -> None:
    decision = Decision(pod="a/p", node=None, nodes=1, feasible=0, message="0/1 nodes …", funnel=(SMALL,))
    text = explain(decision)
    assert text.startswith("Pod a/p: no node fits\n\n0/1 nodes …\n\nFilter")
    assert text.endswith("= 0  feasible\n")
    assert "Score" not in text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(
            lambda: cluster(nodes=[node("a"), node("b")]).decide(pod("p")),
            "was chosen by random tie-break among 2 equal nodes.",
            id="a tie of two",
        ),
        pytest.param(
            lambda: cluster(nodes=[node("a"), node("b"), node("c")]).decide(pod("p")),
            "was chosen by random tie-break among 3 equal nodes.",
            id="a tie of three",
        ),
        pytest.param(
            lambda: cluster(nodes=[node("a")]).decide(pod("p")),
            "a is the only feasible node, so nothing was scored.",
            id="a single node",
        ),
        pytest.param(
            lambda: cluster(nodes=[node("a"), node("b")]).decide(pod("p")),
            "Filter: all 2 nodes are feasible",
            id="nothing ruled out",
        ),
        pytest.param(
            lambda: cluster(nodes=[node("a"), node("b")]).decide(pod("p").nominated("a")),
            "The pod was nominated to this node, so no other node was evaluated.",
            id="a nominated node",
        ),
        pytest.param(
            lambda: cluster(nodes=[node(n).taint("x") for n in "ab"]).decide(pod("p")),
            "a, b (only blocker)",
            id="near misses",
        ),
        pytest.param(
            lambda: cluster(nodes=[node("a"), node("b")]).decide(pod("p"), top=0),
            "was chosen by random tie-break",
            id="a short record",
        ),
    ],
)
def test_special_cases_are_said(make: object, said: str) -> None:
    assert callable(make)
    assert said in explain(make())


def test_a_table_is_aligned_and_has_no_trailing_blanks() -> None:
    assert table(("name", "n", "note"), [("a", "1", ""), ("bcdef", "100", "x")], numeric=(1,)) == [
        "name     n  note",
        "-----  ---  ----",
        "a        1",
        "bcdef  100  x",
    ]
