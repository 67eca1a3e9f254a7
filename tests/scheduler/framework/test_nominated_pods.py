"""Results for a row with its nominated pods are reused for the next pod of the class while they hold."""

from collections.abc import Callable

import pytest

from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.nodedeclaredfeatures import USER_NAMESPACES_HOST_NETWORK
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import PodBuilder, cluster, node, pod

Change = Callable[[ClusterTable, list[PodInfo]], object]


def nomination(table: ClusterTable, name: str, cpu: int, priority: int = 5) -> PodInfo:
    return table.info(pod(name).requests(cpu=cpu).priority(priority).obj())


CHANGES: dict[str, Change] = {
    "nothing": lambda table, nominated: None,
    "a pod comes": lambda table, nominated: table.put_pod(pod("new").requests(cpu=2).on("n").obj()),
    "a pod goes": lambda table, nominated: table.remove_pod(pod("old").obj().metadata.uid),
    "the node grows": lambda table, nominated: table.put_node(node("n").capacity(cpu=9).obj()),
    "the node is tainted": lambda table, nominated: table.put_node(
        node("n").capacity(cpu=6).taint("t").obj()
    ),
    "one more nomination": lambda table, nominated: nominated.append(nomination(table, "more", 2)),
    "no nomination": lambda table, nominated: nominated.clear(),
    "the nominated pod changes": lambda table, nominated: nominated.__setitem__(0, nomination(table, "p", 1)),
    "the nominated pod moves in": lambda table, nominated: table.assume(nominated[0], "n"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("cpu", [1, 2, 3])
def test_after_any_change_it_is_as_if_nothing_had_been_kept(change: str, cpu: int) -> None:
    old = pod("old").requests(cpu=1).on("n")
    world = cluster(nodes=[node("n").capacity(cpu=6), node("m").capacity(cpu=6)], pods=[old])
    table, keeping = world.table, world.frameworks["default-scheduler"]
    row = table.row_of("n")
    assert row is not None
    nominated = [nomination(table, "p", 3)]
    wanting = pod("w").requests(cpu=cpu)
    said(keeping, wanting, {row: nominated})
    CHANGES[change](table, nominated)
    fresh = Framework(keeping.profile, table, in_tree_registry(), reuse=False)
    for priority in (0, 9, 0):
        asking = wanting.priority(priority)
        nominations = {row: nominated}
        assert said(keeping, asking, nominations) == said(fresh, asking, nominations)


def said(framework: Framework, asking: PodBuilder, nominated: dict[int, list[PodInfo]]) -> object:
    """The verdict on every node, and the nodes that are left."""
    evaluation = framework.evaluate(framework.table.info(asking.obj()), nominated)
    return [evaluation.status(row) for row in range(2)], evaluation.feasible_rows.tolist()


def test_a_node_that_changes_in_nothing_but_its_status_is_looked_at_again() -> None:
    needing = pod("w").requests(cpu=1).spec(host_network=True, host_users=False)
    world = cluster(nodes=[node("n").capacity(cpu=6), node("m").capacity(cpu=6)])
    table, keeping = world.table, world.frameworks["default-scheduler"]
    row = table.row_of("n")
    assert row is not None
    nominations = {row: [nomination(table, "p", 3)]}
    before = said(keeping, needing, nominations)
    table.put_node(node("n").capacity(cpu=6).features(USER_NAMESPACES_HOST_NETWORK).obj())
    after = said(keeping, needing, nominations)
    assert before != after
    fresh = Framework(keeping.profile, table, in_tree_registry(), reuse=False)
    assert after == said(fresh, needing, nominations)
