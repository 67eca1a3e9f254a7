"""Which node the victims are taken from: six criteria, each asked only where those before it are equal."""

from collections import Counter

import pytest

from scheduler.plugins.defaultpreemption.preempting import (
    budget,
    by_node,
    framework_of,
    fresh_chance,
    high,
    low,
    plugin_of,
    preempt,
    small,
    victims,
)
from stowplan.api.workloads import PodDisruptionBudget
from stowplan.scheduler.framework.extension_points import run_to_end
from stowplan.testing import Cluster, PodBuilder, cluster

FULL = 4

CRITERIA = [
    pytest.param(
        [low("cheap", "worse", -9, cpu=FULL), low("dear", "better", 9, cpu=FULL)],
        [budget("b", {"app": "cheap"})],
        "pdbViolations",
        id="fewer violated budgets, whatever the priorities",
    ),
    pytest.param(
        [low("dear", "worse", 2, cpu=FULL), *(low(f"v{i}", "better", 1) for i in range(4))],
        [],
        "highestPriority",
        id="a lower priority of the most important victim, however many there are",
    ),
    pytest.param(
        [
            *(low(f"w{i}", "worse", priority, cpu=2, hour=23) for i, priority in enumerate((3, 2))),
            *(low(f"b{i}", "better", priority, cpu=2) for i, priority in enumerate((3, 1))),
        ],
        [],
        "sumOfPriorities",
        id="a lower sum of priorities",
    ),
    pytest.param(
        [
            *(low(f"w{i}", "worse", -5, cpu=2, hour=23) for i in range(2)),
            low("only", "better", -5, cpu=FULL),
        ],
        [],
        "sumOfPriorities",
        id="a lower sum even where priorities are negative: fewer victims",
    ),
    pytest.param(
        [
            low("w0", "worse", 1, cpu=2),
            low("w1", "worse", -(2**31), cpu=2, hour=23),
            low("only", "better", 1, cpu=FULL),
        ],
        [],
        "victims",
        id="fewer victims where the sum is the same",
    ),
    pytest.param(
        [low("early", "worse", cpu=FULL, hour=3), low("late", "better", cpu=FULL, hour=4)],
        [],
        "startTime",
        id="a later start",
    ),
    pytest.param(
        [low("early", "worse", cpu=FULL, hour=23), low("unstarted", "better", cpu=FULL, hour=None)],
        [],
        "startTime",
        id="not started at all is later still",
    ),
    pytest.param(
        [
            low("w0", "worse", 2, cpu=2, hour=3),
            low("w1", "worse", 1, cpu=2, hour=23),
            low("b0", "better", 2, cpu=2, hour=4),
            low("b1", "better", 1, cpu=2, hour=0),
        ],
        [],
        "startTime",
        id="the start of the most important victims only",
    ),
    pytest.param(
        [
            low("w0", "worse", 2, cpu=2, hour=3),
            low("w1", "worse", 2, cpu=2, hour=23),
            low("b0", "better", 2, cpu=2, hour=4),
            low("b1", "better", 2, cpu=2, hour=5),
        ],
        [],
        "startTime",
        id="the first of the most important victims to start",
    ),
]


@pytest.mark.parametrize("names", [("better", "worse"), ("worse", "better")])
@pytest.mark.parametrize(("pods", "budgets", "criterion"), CRITERIA)
def test_the_node_where_the_least_harm_is_done_is_chosen(
    pods: list[PodBuilder], budgets: list[PodDisruptionBudget], criterion: str, names: tuple[str, str]
) -> None:
    world = cluster(nodes=[small(name) for name in names], pods=pods, objects=budgets)
    result = preempt(world, high(cpu=FULL))
    assert by_node(result).keys() == {"better", "worse"}
    assert result.nominated_node == "better"
    assert result.ties == ("better",)
    assert victims(result) == by_node(result)["better"][0]
    assert result.choice is not None
    assert result.choice.criterion == criterion
    [lost] = result.choice.ruled_out()
    assert (lost.criterion, lost.nodes, [node.node for node in lost.examples]) == (criterion, 1, ["worse"])
    assert lost.examples[0].victims == tuple(f"default/{name}" for name in by_node(result)["worse"][0])


def twins(count: int) -> Cluster:
    nodes = [small(f"n{i}") for i in range(count)]
    return cluster(nodes=nodes, pods=[low(f"v{i}", f"n{i}", cpu=FULL) for i in range(count)])


def test_among_nodes_that_are_equal_in_everything_chance_decides() -> None:
    world = twins(3)
    framework = framework_of(world)
    chosen: Counter[str | None] = Counter()
    fresh_chance(framework, 1)
    for _ in range(60):
        info = world.table.info(high().obj())
        result = run_to_end(plugin_of(framework).post_filter(framework.evaluate(info).cycle, info))
        assert sorted(result.ties) == ["n0", "n1", "n2"]
        assert result.choice is not None
        assert result.choice.text == "at random among 3 equal candidates"
        [equals] = result.choice.ruled_out()
        assert {node.node for node in equals.examples} | {result.nominated_node} == {"n0", "n1", "n2"}
        assert [pod.name for pod in result.victims] == [f"v{str(result.nominated_node)[1:]}"]
        chosen[result.nominated_node] += 1
    assert min(chosen[f"n{i}"] for i in range(3)) > 5


def test_the_same_seed_decides_the_same() -> None:
    assert preempt(twins(5), high()).nominated_node == preempt(twins(5), high()).nominated_node


COMPARED = [
    (low("w", "n1", 5, cpu=FULL), "highestPriority", "5, n0: 0"),
    (low("w", "n1", cpu=FULL, hour=3), "startTime", "2025-01-01T03:00:00Z, n0: 2025-01-01T04:00:00Z"),
]


@pytest.mark.parametrize(("victim", "criterion", "text"), COMPARED)
def test_what_a_criterion_compared_is_told_of_both_nodes(
    victim: PodBuilder, criterion: str, text: str
) -> None:
    pods = [low("v", "n0", cpu=FULL, hour=4), victim]
    result = preempt(cluster(nodes=[small("n0"), small("n1")], pods=pods), high(cpu=FULL))
    assert result.choice is not None
    [lost] = result.choice.ruled_out()
    assert (lost.criterion, lost.examples[0].text) == (criterion, text)


def test_a_choice_names_the_pods_that_stay() -> None:
    pods = [low("goes", "n0", cpu=2), low("stays", "n0", 1), *(low(f"high-{i}", "n0", 99) for i in range(2))]
    result = preempt(cluster(nodes=[small("n0", cpu=5)], pods=pods), high(cpu=2))
    assert result.choice is not None
    assert (result.choice.criterion, result.choice.text) == ("only", "the only candidate")
    assert (victims(result), list(result.choice.spared)) == (["goes"], ["default/stays"])
    assert result.choice.spared_count == 1
