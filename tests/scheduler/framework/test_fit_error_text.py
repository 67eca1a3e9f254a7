"""The message of a failed attempt, to the letter."""

import pytest

from stowplan.scheduler.framework.decision import NO_NODES, fit_error, fit_error_text
from stowplan.testing import NodeBuilder, PodBuilder, cluster, node, pod

MESSAGES = [
    (3, {"Insufficient cpu": 3}, "", "", "0/3 nodes are available: 3 Insufficient cpu."),
    (12, {"a": 2, "b": 10}, "", "", "0/12 nodes are available: 10 b, 2 a."),
    (2, {"x": 1, "X": 1}, "", "", "0/2 nodes are available: 1 X, 1 x."),
    (2, {"x": 2}, "", "and more", "0/2 nodes are available: 2 x. and more"),
    (2, {}, "no such claim", "", "0/2 nodes are available: no such claim."),
    (2, {}, "no such claim", "not found", "0/2 nodes are available: no such claim. not found"),
    (2, {}, "", "", "0/2 nodes are available:"),
    (2, {}, "", "and more", "0/2 nodes are available: and more"),
]


@pytest.mark.parametrize(("nodes", "reasons", "pre_filter", "post_filter", "message"), MESSAGES)
def test_reasons_are_counted_sorted_as_text_and_followed_by_what_else_was_tried(
    nodes: int, reasons: dict[str, int], pre_filter: str, post_filter: str, message: str
) -> None:
    assert fit_error_text(nodes, reasons, pre_filter, post_filter) == message


NODES = [
    node("a").taint("gpu"),
    node("b").taint("gpu"),
    node("c").allocatable(cpu="1"),
    node("d").unschedulable(),
]


@pytest.mark.parametrize(
    ("nodes", "wanting", "message"),
    [
        ([], pod("p"), NO_NODES),
        (
            NODES,
            pod("p").requests(cpu="2"),
            "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, "
            "2 node(s) had untolerated taint(s).",
        ),
        (
            NODES,
            pod("p").requests(cpu="2", memory="64Gi").tolerates(),
            "0/4 nodes are available: 1 Insufficient cpu, 4 Insufficient memory.",
        ),
    ],
)
def test_an_evaluation_that_finds_nothing_is_put_into_words(
    nodes: list[NodeBuilder], wanting: PodBuilder, message: str
) -> None:
    world = cluster(nodes=nodes)
    framework = world.frameworks["default-scheduler"]
    assert fit_error(framework.evaluate(world.table.info(wanting.obj()))) == message
