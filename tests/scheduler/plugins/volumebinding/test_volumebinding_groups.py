"""Free volumes, grouped by what can be told of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugins.volumebinding.storageobjects import volume
from stowplan.scheduler.table import volumepools
from stowplan.scheduler.table.volumepools import VolumeGroups

NAMES = st.sampled_from([f"v{number}" for number in range(12)])


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=300))
def test_the_first_volume_of_a_group_is_the_first_by_name_whatever_came_and_went(
    steps: list[tuple[str, bool]],
) -> None:
    groups = VolumeGroups()
    free: set[str] = set()
    for name, comes in steps:
        if comes:
            groups.put(volume(name))
            free.add(name)
        else:
            groups.remove(name)
            free.discard(name)
        found = groups.of_class("fast")
        assert {each for group in found for each in group.names} == free
        if free:
            (group,) = found
            assert group.first() == min(free)


def test_a_group_does_not_grow_when_a_volume_comes_and_goes() -> None:
    groups = VolumeGroups()
    groups.put(volume("a"))
    groups.put(volume("b"))
    for _ in range(500):
        groups.remove("a")
        groups.put(volume("a"))
    (group,) = groups.of_class("fast")
    assert group.first() == "a"
    assert len(group._heap) < 100


def test_groups_without_volumes_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumepools, "_MOST_EMPTY", 3)
    groups = VolumeGroups()
    groups.put(volume("kept", "99Gi"))
    for size in range(10):
        groups.put(volume("v", f"{size}Gi"))
    assert len(groups.by_number) <= 6
    assert {name for group in groups.of_class("fast") for name in group.names} == {"kept", "v"}
    groups.put(volume("v", "0Gi"))
    assert {name for group in groups.of_class("fast") for name in group.names} == {"kept", "v"}
    groups.remove("v")
    groups.remove("kept")
    assert not any(group.names for group in groups.of_class("fast"))


def test_a_volume_is_promised_or_free_but_never_both() -> None:
    groups = VolumeGroups()
    groups.put(volume("v"))
    groups.put(volume("v", claimed_by="c"))
    assert [found.name for found in groups.reserved_for("default/c")] == ["v"]
    assert not any(group.names for group in groups.of_class("fast"))
    groups.put(volume("v", claimed_by="d"))
    assert groups.reserved_for("default/c") == []
    groups.put(volume("v"))
    assert groups.reserved_for("default/d") == []
    assert [group.first() for group in groups.of_class("fast")] == ["v"]
