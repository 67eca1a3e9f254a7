"""Resource scores of all nodes, worked out from kept columns of floats, are those of single nodes."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from stowplan.plugins.noderesources import NodeResourcesBalancedAllocation, NodeResourcesFit
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
