"""PreFilter plugins that ask for some nodes only: every pod anew, nominated nodes and pods included."""

from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import Plugin, PreFilterResult
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import Cluster, PodBuilder, cluster, node, pod


class Only(Plugin):
    """Asks for the one node a pod names."""

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterResult | None:
        wanted = pod.annotations.get("only")
        return PreFilterResult(frozenset((wanted,))) if wanted else None


class Idle(Plugin):
    """Skips pods that say so."""

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return SKIP if "idle" in pod.annotations else None


def small_cluster(*more: type[Plugin]) -> Cluster:
    nodes = [node("a"), node("b").taint("gpu"), node("c").allocatable(cpu="1")]
    return cluster(nodes=nodes, plugins=[Only, *more])


def evaluated(world: Cluster, wanting: PodBuilder, nominations: Nominations | None = None) -> Evaluation:
    [framework] = world.frameworks.values()
    info = world.table.info(wanting.obj())
    nominated = world.table.row_of(info.pod.status.nominated_node_name)
    return framework.evaluate(info, nominations or {}, nominated)


def verdicts(evaluation: Evaluation) -> dict[str, Status]:
    table = evaluation.cycle.table
    return {
        table.name_of(row): status
        for status, rows in evaluation.rejections().items()
        for row in rows.tolist()
    }


def left_out(*plugins: str) -> Status:
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]")


def test_what_one_pod_asks_for_does_not_stick_to_the_next_of_its_kind() -> None:
    world = small_cluster()
    for name in ("a", "c", None, "a"):
        wanting = pod(f"p-{name}").annotations({"only": name} if name else {})
        rows = evaluated(world, wanting).feasible_rows.tolist()
        assert [world.table.name_of(row) for row in rows] == ([name] if name else ["a", "c"])


def test_a_nominated_node_that_was_not_asked_for_keeps_its_own_verdict() -> None:
    wanting = pod("p").annotations(only="c").requests(cpu="2").nominated("b")
    evaluation = evaluated(small_cluster(), wanting)
    assert evaluation.feasible_count == 0
    assert verdicts(evaluation) == {
        "a": left_out("Only", "TaintToleration"),
        "b": unresolvable("node(s) had untolerated taint(s)").by("TaintToleration"),
        "c": unresolvable("Insufficient cpu").by("NodeResourcesFit"),
    }


def test_a_nominated_node_that_was_not_asked_for_is_taken_if_it_fits() -> None:
    evaluation = evaluated(small_cluster(), pod("p").annotations(only="c").nominated("a"))
    assert evaluation.only_row == evaluation.cycle.table.row_of("a")


def test_pods_nominated_to_nodes_that_were_not_asked_for_do_not_matter() -> None:
    world = small_cluster()
    nominated = world.table.info(pod("big").requests(cpu="4").priority(1).obj())
    row = world.table.row_of("a")
    assert row is not None
    evaluation = evaluated(world, pod("p").annotations(only="b").requests(cpu="1"), {row: [nominated]})
    assert verdicts(evaluation)["a"] == left_out("Only")


def test_pods_nominated_to_a_node_that_was_asked_for_do_matter() -> None:
    world = small_cluster()
    nominated = world.table.info(pod("big").requests(cpu="4").priority(1).obj())
    row = world.table.row_of("a")
    assert row is not None
    wanting = pod("p").annotations(only="a").requests(cpu="1")
    overruled = verdicts(evaluated(world, wanting, {row: [nominated]}))["a"]
    assert overruled == unschedulable("Insufficient cpu").by("NodeResourcesFit")
    assert overruled.code is Code.UNSCHEDULABLE
    assert evaluated(world, wanting).feasible_rows.tolist() == [row]


def test_a_node_that_was_taken_out_twice_comes_back_once() -> None:
    """It was excluded by PreFilter, and had no room together with a pod nominated to it."""
    world = small_cluster(Idle)
    nominated = world.table.info(pod("big").requests(cpu="4").priority(1).obj())
    row = world.table.row_of("a")
    assert row is not None
    wanting = pod("p").annotations(only="b").requests(cpu="1").nominated("a")
    assert evaluated(world, wanting, {row: [nominated]}).feasible_count == 0
    next_one = evaluated(world, pod("q").annotations(only="a", idle="").requests(cpu="1"))
    assert next_one.feasible_rows.tolist() == [row]
    assert next_one.feasible_count == 1
