"""The view of groups: members by state, trees, and the texts of failed lookups."""

import pytest

from stowplan.scheduler.cache import GroupCache
from stowplan.scheduler.table.pod_groups import GroupLookupError, PodGroups
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod
from stowplan.testing.groups import composite_pod_group, pod_group

G = "podgroup/default/g"


def groups(*, composite: bool = True) -> PodGroups:
    made = PodGroups()
    made.enable(composite=composite)
    return made


def test_nothing_is_kept_without_the_gate() -> None:
    made = PodGroups()
    made.put(pod_group("g"))
    made.put_pod(pod("p").group("g").obj())
    assert len(made) == 0
    assert made.group_of(pod("p").group("g").obj()) is None


def test_a_pod_goes_through_the_states_of_a_member() -> None:
    made = groups()
    member = pod("p").group("g").obj()
    made.put_pod(member)
    state = made.group(G)
    assert state is not None
    assert state.unscheduled_pods == [member]
    assert state.scheduled_count == 0
    made.assume(member)
    made.put_pod(member)
    assert (list(state.assumed), list(state.unscheduled), state.scheduled_count) == (
        [member.metadata.uid],
        [],
        1,
    )
    made.forget(member)
    assert list(state.unscheduled) == [member.metadata.uid]
    made.assume(member)
    made.put_pod(pod("p").group("g").on("n").obj())
    assert (list(state.assigned), list(state.assumed), state.all_count) == ([member.metadata.uid], [], 1)
    made.forget(member)
    assert list(state.assigned) == [member.metadata.uid]
    made.remove_pod(member)
    assert made.group(G) is None


def test_an_unknown_pod_is_not_assumed() -> None:
    made = groups()
    made.put(pod_group("g"))
    made.assume(pod("p").group("g").obj())
    assert made.scheduled_count(G) == 0


def test_a_group_stays_while_it_has_an_object_or_pods() -> None:
    made = groups()
    member = pod("p").group("g").obj()
    made.put(pod_group("g"))
    made.put_pod(member)
    made.remove_pod(member)
    assert made.pod_group(G).name == "g"
    made.put_pod(member)
    made.remove(pod_group("g"))
    assert made.all_count(G) == 1
    with pytest.raises(GroupLookupError, match=f"^pod group object not found for pod group {G}$"):
        made.pod_group(G)
    made.remove_pod(member)
    with pytest.raises(GroupLookupError, match=f"^pod group state not found for pod group {G}$"):
        made.pod_group(G)


def test_a_tree_is_ordered_by_creation_and_name() -> None:
    made = groups()
    made.put(pod_group("late", parent="top", created="2026-01-02T00:00:00Z"))
    made.put(pod_group("b", parent="top", created="2026-01-01T00:00:00Z"))
    assert made.root_of(pod("p").group("b").obj()) is None, "the parent is not known yet"
    made.put(composite_pod_group("top"))
    made.put(composite_pod_group("a", parent="top", created="2026-01-01T00:00:00Z"))
    made.put(pod_group("inner", parent="a"))
    tree = made.tree("compositepodgroup/default/top")
    assert tree is not None
    assert [one.key.split("/")[-1] for one in tree.walk()] == ["top", "a", "inner", "b", "late"]
    assert [one.obj.name for one in tree.leaves] == ["inner", "b", "late"]
    assert made.root_of(pod_group("inner")) == tree.key
    made.remove(composite_pod_group("a", parent="top"))
    assert made.root_of(pod_group("inner")) is None
    assert made.root_of(pod_group("late")) == tree.key


def test_parents_are_ignored_without_the_gate() -> None:
    made = groups(composite=False)
    made.put(pod_group("g", parent="top"))
    assert made.root_of(pod("p").group("g").obj()) == G


def test_circles_have_no_root() -> None:
    made = groups()
    made.put(composite_pod_group("a", parent="b"))
    made.put(composite_pod_group("b", parent="a"))
    made.put(pod_group("g", parent="a"))
    assert made.root_of(pod_group("g")) is None


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ([], f"pod group object not found in state for {G}"),
        (["g"], "composite pod group object not found in state for compositepodgroup/default/c1"),
        (["g", "c1"], "composite pod group object not found in state for compositepodgroup/default/c2"),
        (
            ["g", "c1", "c2", "c3", "c4"],
            "composite pod group object not found in state for compositepodgroup/default/c1",
        ),
    ],
)
def test_what_is_missing_in_a_hierarchy(known: list[str], text: str) -> None:
    made = groups()
    member = pod("p").group("g").obj()
    made.put_pod(member)
    if "g" in known:
        made.put(pod_group("g", parent="c1"))
    for number in range(1, len(known)):
        made.put(composite_pod_group(f"c{number}", parent=f"c{number + 1}"))
    with pytest.raises(GroupLookupError) as raised:
        made.check_hierarchy(member)
    assert str(raised.value) == text


def test_a_hierarchy_of_the_greatest_depth() -> None:
    made = groups()
    made.put(pod_group("g", parent="c1"))
    for number in (1, 2, 3):
        made.put(composite_pod_group(f"c{number}", parent=None if number == 3 else f"c{number + 1}"))
    assert made.check_hierarchy(pod("p").group("g").obj()) == "compositepodgroup/default/c3"


def test_the_cache_keeps_members_up_to_date() -> None:
    table = ClusterTable()
    table.groups.enable(composite=False)
    cache = GroupCache(table, lambda text: None)
    cache.put_node(node("n").obj())
    cache.put(pod_group("g", min_count=2))
    first, second = (pod(name).group("g").obj() for name in ("a", "b"))
    cache.put_unscheduled(first)
    cache.put_unscheduled(second)
    state = cache.groups.group(G)
    assert state is not None
    for one in (first, second):
        cache.assume(table.info(one), "n")
    assert state.scheduled_count == 2
    cache.forget(first.metadata.uid)
    assert state.unscheduled_pods == [first]
    cache.put_pod(pod("b").group("g").on("n").obj())
    assert list(state.assigned) == [second.metadata.uid]
    cache.assume(table.info(first), "n")
    cache.remove_assumed(first.metadata.uid)
    assert list(state.pods) == [second.metadata.uid]
    cache.remove_pod(pod("b").group("g").on("n").obj())
    assert state.all_count == 0
