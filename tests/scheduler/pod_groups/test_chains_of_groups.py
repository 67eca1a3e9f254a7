"""Groups in deep chains or circles, which an API server admits: they cost in proportion to their number."""

import sys
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from effort import examples
from scheduler.live_scheduler import World, configured, live
from scheduler.pod_groups.group_queue import TREES, GroupRig
from stowplan.api.catalogue import COMPOSITE_POD_GROUPS, POD_GROUPS
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod_groups import MAX_TREE_DEPTH, GroupObject
from stowplan.api.releases import release
from stowplan.explain.web import Inspection
from stowplan.scheduler.framework.pod_groups.placement import Nested, finish, unnested
from stowplan.scheduler.queue.instrument import GATED, INCOMPLETE
from stowplan.scheduler.table.pod_groups import KNOWN, SCHEDULED, GroupLookupError, PodGroups
from stowplan.testing import pod
from stowplan.testing.groups import composite_pod_group, pod_group

DEEP = 1500
"""More levels than Python nests calls."""


def chain(levels: int, *, circle: bool = False) -> list[GroupObject]:
    """Groups `c0` to `cN`, each below the one before; in a circle the first is below the last."""
    top = f"c{levels - 1}" if circle else None
    return [composite_pod_group(f"c{n}", parent=f"c{n - 1}" if n else top) for n in range(levels)]


def calls(work: Callable[[], None]) -> int:
    """Number of function calls of a piece of work: unlike time, the same on every machine."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


ORDERS: dict[str, Callable[[list[GroupObject]], list[GroupObject]]] = {
    "from the top": list,
    "from the bottom": lambda objects: objects[::-1],
    "shuffled": lambda objects: Random(1).sample(objects, len(objects)),
}


def events(levels: int, order: str, *, circle: bool) -> Callable[[], None]:
    """All groups of a chain come with members at both ends, pods come one by one, and the groups go."""
    rig = GroupRig(*TREES)
    groups = ORDERS[order](chain(levels, circle=circle))

    def happens() -> None:
        rig.add(pod("p").group("low"), pod("q").group("high"))
        rig.add(pod_group("low", parent=f"c{levels - 1}"), pod_group("high", parent="c0"), *groups)
        for number in range(levels // 2):
            rig.add(pod(f"r{number}").group("low" if number % 2 else "high"))
        rig.delete(*ORDERS[order](groups))

    return happens


@pytest.mark.parametrize(("order", "circle"), [*product(ORDERS, (False, True))])
def test_twice_as_many_levels_cost_twice_as_much(order: str, circle: bool) -> None:
    once, twice = (calls(events(levels, order, circle=circle)) for levels in (60, 120))
    assert twice < 2.3 * once


@pytest.mark.parametrize("order", ORDERS)
def test_members_at_both_ends_of_a_deep_chain_wait_in_one_tree(order: str) -> None:
    rig = GroupRig(*TREES)
    rig.add(pod("p").group("low"), pod("q").group("high"))
    rig.add(*ORDERS[order](chain(DEEP)), pod_group("low", parent=f"c{DEEP - 1}"))
    assert (rig.place("p"), rig.place("q")) == (GATED, INCOMPLETE)
    rig.add(pod_group("high", parent="c0"))
    assert (rig.place("p"), rig.place("q")) == (GATED, GATED)
    rig.delete(chain(DEEP)[DEEP // 2])
    assert rig.place("p") == INCOMPLETE
    assert rig.place("q") != INCOMPLETE


def test_members_of_a_circle_are_incomplete_until_it_is_opened() -> None:
    rig = GroupRig(*TREES)
    rig.add(pod("p").group("g"), pod_group("g", parent="c1"), *chain(3, circle=True))
    assert rig.place("p") == INCOMPLETE
    rig.delete(composite_pod_group("c0", parent="c2"))
    rig.add(composite_pod_group("c0"))
    assert rig.pop_names() == ["p"]


def test_pods_that_come_to_a_group_one_by_one_cost_the_same_each() -> None:
    """Plugins are not asked again about thousands of members that are ready, because of one more."""

    def come(count: int) -> int:
        rig = GroupRig()
        rig.add(pod_group("g"), pod("first").group("g"))
        pods = [pod(f"p{number}").group("g") for number in range(count)]
        return calls(lambda: rig.add(*pods))

    assert come(200) < 2.2 * come(100)


def test_a_group_is_held_back_by_a_member_that_changes_after_it_was_ready() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *(pod(name).group("g") for name in "ab"))
    gated = pod("a").group("g").gates("example.com/wait")
    rig.queue.update(pod("a").group("g").obj(), gated.obj())
    rig.add(pod("c").group("g"))
    assert rig.place("c") == GATED


def test_a_group_below_a_deep_chain_is_scheduled_and_told_of() -> None:
    """The empty chain gets no place, which is all the same to a root that needs one group."""
    gates = FeatureGates(dict.fromkeys(TREES, True), release("1.37"))

    async def story(world: World) -> None:
        world.add_node("n", cpu="2")
        for group in chain(DEEP):
            world.store.create(COMPOSITE_POD_GROUPS, in_namespace(group))
        world.store.create(POD_GROUPS, in_namespace(pod_group("g", parent="c0")))
        await world.settle(1)
        world.put_pod("p", cpu="1", schedulingGroup={"podGroupName": "g"})
        await world.settle(30)
        assert world.node_of("p") == "n"
        inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
        assert inspection.groups({"d"}).total == DEEP + 1
        [line] = inspection.groups({"d"}, "c0").items
        assert (line.group, line.pods, line.scheduled) == ("d/c0", 1, 1)
        told = await inspection.group("compositepodgroup", "d", "c0")
        assert told is not None
        assert told.state == "placed"
        assert world.problems == []

    live(story, config=configured(gates=gates))


def in_namespace(group: GroupObject) -> Any:
    made = to_builtins(group)
    made["metadata"]["namespace"] = "d"
    return made


def test_work_that_contains_itself_may_be_nested_as_deep_as_one_likes() -> None:
    steps = 0

    def depth(levels: int) -> Nested[int]:
        yield None
        if levels == 0:
            raise LookupError("bottom")
        try:
            below: int = yield depth(levels - 1)
        except LookupError:
            below = 0
        return below + 1

    def counted() -> Any:
        nonlocal steps
        work = unnested(depth(10 * DEEP))
        while True:
            try:
                next(work)
            except StopIteration as end:
                return end.value
            steps += 1

    assert (counted(), steps) == (10 * DEEP, 10 * DEEP + 1)
    with pytest.raises(LookupError, match="bottom"):
        finish(unnested(depth(0)))


# Roots and minimums are kept up to date: the same as looking at everything


def naive_root(groups: PodGroups, key: str) -> str | None:
    for _ in range(20):
        obj = groups.object(key)
        if obj is None:
            return None
        if obj.parent is None:
            return key
        key = obj.parent
    return None


def naive_minimum(groups: PodGroups, key: str, measure: int) -> bool:
    obj, state = groups.object(key), groups.group(key)
    if obj is None:
        return False
    if state is not None:
        return state.count(measure) >= obj.minimum
    composite = groups.composite_group(key)
    children = () if composite is None else composite.children
    return sum(naive_minimum(groups, child, measure) for child in children) >= obj.minimum


def naive_check(groups: PodGroups, name: str) -> str:
    """kube-scheduler's findings on the way up from a PodGroup, and then on the way down."""
    key: str | None = f"podgroup/default/{name}"
    assert key is not None
    state = groups.group(key)
    if state is None or state.obj is None:
        return "missing"
    key = state.obj.parent
    for _ in range(MAX_TREE_DEPTH - 1):
        composite = None if key is None else groups.composite_group(key)
        if key is None or composite is None or composite.obj is None:
            break
        if composite.obj.parent is None:
            return key
        key = composite.obj.parent
    else:
        seen: set[str] = set()
        left = [] if key is None else [key]
        while left:
            at = left.pop()
            if at in seen:
                return f"cycle at {at}"
            seen.add(at)
            found = groups.composite_group(at)
            left += [] if found is None else list(found.children)
        return str(key) if key is not None and naive_root(groups, key) == key else "missing"
    return state.key if key is None else "missing"


NAMES = st.integers(0, 4)
CHANGES = st.one_of(
    st.tuples(st.just("composite"), NAMES, st.none() | NAMES, st.integers(1, 2)),
    st.tuples(st.just("group"), NAMES, st.none() | NAMES, st.integers(1, 2)),
    st.tuples(st.just("no composite"), NAMES, st.none(), st.just(0)),
    st.tuples(st.just("no group"), NAMES, st.none(), st.just(0)),
    st.tuples(st.sampled_from(("pod", "assume", "forget", "no pod")), NAMES, NAMES, st.just(0)),
)


def change(groups: PodGroups, what: str, number: int, other: int | None, least: int) -> None:
    parent = None if other is None else f"c{other}"
    member = pod(f"p{number}-{other}").group(f"g{number}").obj()
    match what:
        case "composite":
            groups.put(composite_pod_group(f"c{number}", parent=parent, min_group_count=least))
        case "group":
            groups.put(pod_group(f"g{number}", parent=parent, min_count=least))
        case "no composite":
            groups.remove(composite_pod_group(f"c{number}"))
        case "no group":
            groups.remove(pod_group(f"g{number}"))
        case "pod":
            groups.put_pod(member)
        case "assume":
            groups.assume(member)
        case "forget":
            groups.forget(member)
        case "no pod":
            groups.remove_pod(member)


@settings(max_examples=examples(150), deadline=None)
@given(changes=st.lists(CHANGES, max_size=40))
def test_what_is_kept_of_groups_is_what_looking_at_all_of_them_gives(changes: list[Any]) -> None:
    groups = PodGroups()
    groups.enable(composite=True)
    for one in changes:
        change(groups, *one)
        for key in groups.all_keys():
            root = naive_root(groups, key)
            assert groups.root_of(key) == root
            if root is not None:
                for measure in (KNOWN, SCHEDULED):
                    assert groups.has_minimum(key, measure) == naive_minimum(groups, key, measure)
        for number in range(5):
            assert checked(groups, f"g{number}") == naive_check(groups, f"g{number}")


def checked(groups: PodGroups, name: str) -> str:
    try:
        return groups.check_hierarchy(pod("any").group(name).obj())
    except GroupLookupError as problem:
        said, _, key = str(problem).partition("cycle detected in composite pod group hierarchy: ")
        return f"cycle at {key}" if key and not said else "missing"
