"""Resource scores of all nodes, worked out from kept columns of floats, are those of single nodes."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from stowplan.scheduler.plugins.noderesources import NodeResourcesBalancedAllocation, NodeResourcesFit
from stowplan.testing import Cluster, cluster, node, pod
from stowplan.testing.builders import PodBuilder

HUGE = (1 << 46) + 12_345
"""More than floats are used for."""

amounts = st.one_of(st.integers(1, 64), st.sampled_from((3, 7, 99, 100, 101, 1 << 33, (1 << 46) - 1, HUGE)))


class Case(NamedTuple):
    """By node: allocatable and requested CPUs and bytes. A node may have no memory at all."""

    nodes: list[tuple[int, int, int, int]]
    wanted: tuple[int, int]
    strategy: str


cases = st.builds(
    Case,
    st.lists(st.tuples(amounts, st.one_of(st.just(0), amounts), amounts, amounts), min_size=2, max_size=12),
    st.tuples(amounts, amounts),
    st.sampled_from(("LeastAllocated", "MostAllocated")),
)

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: {}
        resources: [{{name: cpu, weight: 3}}, {{name: memory, weight: 1}}]
"""


@settings(max_examples=examples(80), deadline=None)
@given(cases)
def test_all_nodes_and_single_nodes_get_the_same_scores(case: Case) -> None:
    world = cluster(config=CONFIG.format(case.strategy))
    world.add(
        *(
            node(f"n{number}").capacity({"cpu": cpu, "pods": 10, **({"memory": memory} if memory else {})})
            for number, (cpu, memory, _, _) in enumerate(case.nodes)
        )
    )
    waiting = pod("p").requests({"cpu": case.wanted[0], "memory": case.wanted[1]})
    for number, (_, _, cpu, memory) in enumerate(case.nodes):
        check(world, waiting)
        world.add(pod(f"on-{number}").requests({"cpu": cpu, "memory": memory}).on(f"n{number}"))
    check(world, waiting)


def check(world: Cluster, waiting: PodBuilder) -> None:
    cycle = world.evaluate(waiting).cycle
    nodes = world.table.all_rows()
    for plugin in world.frameworks["default-scheduler"].plugins.values():
        if isinstance(plugin, NodeResourcesFit | NodeResourcesBalancedAllocation):
            plugin.pre_score(cycle, cycle.pod)
            scores = plugin.score(cycle, cycle.pod, nodes)
            assert scores is not None
            assert scores.tolist() == [plugin.score_row(cycle, cycle.pod, row) for row in range(nodes.count)]


MEMORY_ALONE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: {}
        resources: [{{name: memory, weight: 1}}]
"""


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
@pytest.mark.parametrize("power", range(40, 60))
def test_a_share_just_below_a_whole_number_is_rounded_down_however_large_nodes_are(
    strategy: str, power: int
) -> None:
    """A hundredth of 99 times the memory, but for a hundredth of a byte: from 2**47 on a float says 99."""
    memory = (1 << power) + 99 - (1 << power) % 100
    part = (99 * memory - 1) // 100
    assert 100 * part == 99 * memory - 1
    left = part if strategy == "LeastAllocated" else memory - part
    world = cluster(config=MEMORY_ALONE.format(strategy))
    world.add(*(node(f"n{number}").capacity({"cpu": 8, "memory": memory, "pods": 10}) for number in range(8)))
    for number in range(8):
        world.add(pod(f"on-{number}").requests({"memory": memory - left - 1}).on(f"n{number}"))
    waiting = pod("p").requests({"memory": 1})
    check(world, waiting)
    plugin = world.frameworks["default-scheduler"].plugins["NodeResourcesFit"]
    assert isinstance(plugin, NodeResourcesFit)
    cycle = world.evaluate(waiting).cycle
    assert plugin.score(cycle, cycle.pod, world.table.all_rows()).tolist() == [98] * 8


def test_whether_every_node_has_room_is_known_after_pods_come_and_go() -> None:
    world = cluster(nodes=[node(f"n{number}").capacity({"cpu": 4, "pods": 2}) for number in range(4)])
    small, large = pod("small").requests(cpu="1"), pod("large").requests(cpu="3")
    assert [feasible(world, small), feasible(world, large)] == [4, 4]
    world.add(pod("one").requests(cpu="2").on("n1"))
    assert [feasible(world, small), feasible(world, large)] == [4, 3]
    world.add(pod("two").requests(cpu="1").on("n1"))
    assert [feasible(world, small), feasible(world, large)] == [3, 3], "n1 may have two pods"
    world.remove(pod("one").requests(cpu="2").on("n1"))
    assert [feasible(world, small), feasible(world, large)] == [4, 4]
    world.add(node("n2").capacity({"cpu": 2, "pods": 2}))
    assert [feasible(world, small), feasible(world, large)] == [4, 3]
    world.add(node("n2").capacity({"cpu": 8, "pods": 2}))
    assert [feasible(world, small), feasible(world, large)] == [4, 4]


def feasible(world: Cluster, waiting: PodBuilder) -> int:
    """Number of nodes that pass, for a class of pods that is met for the first time."""
    world.frameworks["default-scheduler"].forget_classes()
    return world.evaluate(waiting).feasible_count
