"""A group's preemption that does not help is not searched again while it cannot help: it says the same."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from scheduler.plugins.defaultpreemption.group_clusters import GroupWorld, gang
from scheduler.plugins.defaultpreemption.preempting import low, small
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupCycle,
    PodGroupInfo,
    PodGroupPostFilterResult,
    finish,
)
from stowplan.scheduler.plugins.defaultpreemption.group import KnownFailures
from stowplan.scheduler.plugins.defaultpreemption.plugin import DefaultPreemption
from stowplan.testing import PodBuilder, pod
from stowplan.testing.builders import ZONE
from stowplan.testing.groups import pod_group

TOPOLOGY = "TopologyAwareWorkloadScheduling"


def members(group: str, count: int, cpu: int, priority: int = 10) -> list[PodBuilder]:
    return [pod(f"{group}-{n}").priority(priority).requests(cpu=cpu).group(group) for n in range(count)]


def full(*more: PodBuilder) -> GroupWorld:
    """Two nodes of 4 CPU with a pod each that can be evicted, and gangs that want more than that."""
    pods = [low("a", "n1", 1, 2), low("b", "n2", 2, 2), *more]
    groups = [gang("one", 3), gang("two", 3), gang("higher", 3, 11), gang("fewer", 2)]
    return GroupWorld([small("n1"), small("n2")], pods, [*groups, pod_group("old", priority=1)])


def group_of(world: GroupWorld, name: str, wanting: Sequence[PodBuilder]) -> PodGroupInfo:
    return world.info(f"podgroup/default/{name}", {name: wanting})


def preempt(world: GroupWorld, name: str, count: int = 3, priority: int = 10) -> PodGroupPostFilterResult:
    return world.preempt(group_of(world, name, members(name, count, 4, priority)))


def is_searched(world: GroupWorld, name: str, count: int = 3, priority: int = 10) -> bool:
    """True if a group that cannot be placed is searched victims for."""
    before = world.searches
    assert not preempt(world, name, count, priority).status.is_success
    return world.searches > before


def test_a_search_in_vain_serves_every_group_of_its_shape_and_no_other() -> None:
    world = full()
    vain = preempt(world, "one")
    assert vain.preemption is not None
    assert vain.preemption.candidates == 2
    assert not is_searched(world, "one")
    assert not is_searched(world, "two")
    assert preempt(world, "two") == vain
    assert is_searched(world, "two", count=4)
    assert is_searched(world, "higher", priority=11)
    assert len(preempt(world, "fewer", count=2).victims) == 2
    assert not is_searched(world, "one")


def test_it_is_searched_again_once_a_pod_a_node_or_a_group_with_pods_changes() -> None:
    world = full(low("c", "n2", 10, 2).group("old"))
    world.table.put(pod_group("old", priority=20))
    assert is_searched(world, "fewer", count=2)
    world.table.put(pod_group("new", priority=3))
    assert not is_searched(world, "fewer", count=2), "no pod of it has a node"
    world.table.put(pod_group("old", priority=1))
    assert len(preempt(world, "fewer", count=2).victims) == 3
    world.table.put_pod(low("d", "n1", 30, 1).obj())
    assert is_searched(world, "fewer", count=2)
    assert not is_searched(world, "fewer", count=2)
    world.table.put_node(small("n3").obj())
    world.table.put_pod(low("e", "n3", 1, 1).obj())
    assert len(preempt(world, "fewer", count=2).victims) == 3


def test_nothing_is_kept_where_room_has_to_be_left_for_others() -> None:
    world = full()
    assert is_searched(world, "one")
    waiting = world.table.info(pod("waits").priority(10).requests(cpu=1).obj())
    world.nominations = {0: [waiting]}
    assert is_searched(world, "one")
    assert is_searched(world, "one")
    world.nominations = {}
    assert not is_searched(world, "one")


def test_whoever_follows_groups_sees_every_search() -> None:
    world = full()
    world.observed = True
    for group in ("one", "one", "two"):
        assert is_searched(world, group)
    assert len(preempt(world, "fewer", count=2).victims) == 2


CHANGES = st.one_of(
    st.tuples(st.just("pod"), st.integers(0, 5), st.integers(0, 4), st.integers(0, 12), st.integers(1, 3)),
    st.tuples(st.just("gone"), st.integers(0, 5)),
    st.tuples(st.just("node"), st.integers(0, 3), st.integers(1, 5), st.sampled_from(["x", "y"])),
    st.tuples(st.just("lost"), st.integers(0, 3)),
    st.tuples(st.just("group"), st.integers(0, 1), st.integers(0, 12), st.booleans()),
    st.tuples(st.just("nominated"), st.integers(0, 4), st.integers(5, 12)),
    st.tuples(st.just("nothing")),
)


def change(world: GroupWorld, what: str, *how: Any) -> None:
    """Something happens in the cluster; pods 0 to 2 are of groups, and node n4 never exists."""
    table = world.table
    match what, how:
        case "pod" | "gone", (number, *where):
            made = pod(f"p{number}")
            known = table.pods.get(made.obj().metadata.uid)
            if known is not None:
                table.groups.remove_pod(known.pod)
                table.remove_pod(known.uid)
            if where:
                made = made.on(f"n{where[0]}").priority(where[1]).requests(cpu=where[2])
                made = made.group(f"g{number % 2}") if number < 3 else made
                table.put_pod(made.obj())
                table.groups.put_pod(made.obj())
        case "node", (number, cpu, zone):
            table.put_node(small(f"n{number}", cpu).zone(zone).obj())
        case "lost", (number,) if table.row_of(f"n{number}") is not None:
            table.remove_node(f"n{number}")
        case "group", (number, priority, together):
            table.put(pod_group(f"g{number}", priority=priority, disrupted_together=together))
        case "nominated", (node, priority):
            row = table.row_of(f"n{node}")
            other = table.info(pod("other").priority(priority).requests(cpu=2).obj())
            world.nominations = {} if row is None else {row: [other]}


def told(found: PodGroupPostFilterResult) -> Any:
    preemption = found.preemption
    return found._replace(preemption=preemption and preemption._replace(seconds=0.0))


@given(st.lists(CHANGES, min_size=1, max_size=12), st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_what_is_known_is_what_a_new_search_would_find_out(
    changes: list[tuple[Any, ...]], in_zones: bool
) -> None:
    """Random numbers included: the next pod gets the same node either way."""
    nodes = [small(f"n{number}").zone("xy"[number % 2]) for number in range(3)]
    more: dict[str, Any] = {"topology": ZONE} if in_zones else {}
    groups = [gang("one", 3, **more), gang("two", 3, **more), gang("mixed", 2), gang("small", 2, 5)]
    pods = [low("a", "n0", 1, 2), low("b", "n1", 2, 3)]
    world = GroupWorld(nodes, pods, groups, *([TOPOLOGY] if in_zones else []))
    world.finder.choose = None
    wanting = [
        group_of(world, "one", members("one", 3, 3)),
        group_of(world, "two", members("two", 3, 3)),
        group_of(world, "mixed", [*members("mixed", 1, 3), pod("m").priority(10).requests(cpu=5)]),
        group_of(world, "small", members("small", 2, 3, 5)),
    ]
    for one in changes:
        change(world, *one)
        for group in (*wanting, wanting[0]):
            compare(world, group)


def compare(world: GroupWorld, group: PodGroupInfo) -> None:
    cycle = GroupCycle(world.table, group)
    if finish(world.algorithm.run(group, cycle)).status.is_success:
        return
    plugin = world.framework.plugins["DefaultPreemption"]
    assert isinstance(plugin, DefaultPreemption)
    rng, before = world.finder.rng, world.finder.rng.getstate()
    known = world.search(cycle)
    after = rng.getstate()
    kept, plugin._known_failures = plugin._known_failures, KnownFailures(world.table)
    rng.setstate(before)
    assert told(world.search(cycle)) == told(known)
    assert rng.getstate() == after
    plugin._known_failures = kept
