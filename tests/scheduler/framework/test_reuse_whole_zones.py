"""Whole zones become feasible and infeasible with single pods; what is kept equals what is found anew."""

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from stowplan.config import default_profile
from stowplan.explain.recorded import decision_of
from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.decision import DecisionRecord
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import PodBuilder, node, pod
from stowplan.testing.builders import ZONE
from stowplan.testing.reuse_machine import MirroredCluster, describe_evaluation

PLAIN = pod("p").labels(app="x").requests(cpu="500m", memory="256Mi").spread(ZONE, max_skew=1)
WISHES = (
    PLAIN,
    PLAIN.node_affinity("disk", "In", "ssd", weight=30),
    PLAIN.affinity(ZONE, {"app": "x"}, weight=7),
    PLAIN.spread("kubernetes.io/hostname", max_skew=1, when_unsatisfiable="ScheduleAnyway"),
    pod("p")
    .labels(app="x")
    .requests(cpu="500m", memory="256Mi")
    .spread(ZONE, max_skew=3, when_unsatisfiable="ScheduleAnyway")
    .spread("kubernetes.io/hostname", max_skew=5, when_unsatisfiable="ScheduleAnyway"),
)
"""With scores that are the same everywhere, by node, by zone, by what stands on a node, and by the two."""

zones = st.lists(st.tuples(st.integers(17, 24), st.integers(0, 2)), min_size=2, max_size=3)
"""Number of nodes in each zone, more than are visited one by one, and of their taints."""
steps = st.lists(st.tuples(st.sampled_from((True, True, False)), st.integers(0, 60)), min_size=4, max_size=14)
"""True if a pod is placed (else one leaves), and the index of its feasible node, or of the pod that
leaves."""


def filled(zones: list[tuple[int, int]]) -> MirroredCluster:
    world = MirroredCluster()
    for zone, (size, taints) in enumerate(zones):
        for number in range(size):
            one = node(f"n{zone}-{number}").zone(str(zone)).capacity(cpu="2", memory="4Gi", pods="10")
            one = one.labels(disk="ssd" if number % 5 else "hdd")
            for taint in range(taints):
                one = one.taint(f"t{taint}", effect="PreferNoSchedule")
            world.put_node(one.obj())
    return world


def profile_over(table: ClusterTable, *, reuse: bool) -> Framework:
    return Framework(default_profile(), table, in_tree_registry(), reuse=reuse)


def everything(framework: Framework, wish: PodBuilder, which: int) -> tuple[object, str | None]:
    """All that is said of a pod, but which of equal nodes come first; and a node that can take it."""
    evaluation = framework.evaluate(framework.table.info(wish.obj()))
    said = describe_evaluation(framework, evaluation)
    row, ties = choose_node(evaluation, lambda best: which % best) if evaluation.feasible_count else (None, 0)
    made = decision_of(DecisionRecord(evaluation, row, ties, 5))
    assert all(sum(candidate.scores.values()) == candidate.total for candidate in made.best)
    told = (
        (made.nodes, made.feasible, made.ties, made.margin, made.weights),
        [candidate.total for candidate in made.best],
        sorted((one.plugin, one.reasons, one.nodes, one.near_misses) for one in made.funnel),
    )
    rows = evaluation.feasible_rows.tolist()
    return (said, told), framework.table.name_of(rows[which % len(rows)]) if rows else None


@settings(max_examples=examples(40), deadline=None)
@given(zones, st.sampled_from(WISHES), steps)
def test_decisions_are_the_same_as_from_scratch(
    zones: list[tuple[int, int]], wish: PodBuilder, steps: list[tuple[bool, int]]
) -> None:
    world = filled(zones)
    kept = profile_over(world.table, reuse=True)
    for places, which in steps:
        found, name = everything(kept, wish, which)
        anew = profile_over(world.rebuilt(), reuse=False)
        assert found == everything(anew, wish, which)[0]
        if places and name is not None:
            world.assume(world.named(wish.obj()), name)
        elif world.pods:
            world.remove_pod(list(world.pods)[which % len(world.pods)])
