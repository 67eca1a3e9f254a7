"""GangScheduling: PreEnqueue until the group is complete enough, feasibility of placements, hints."""

import pytest

from scheduler.pod_groups.group_queue import TREES, GroupRig
from stowplan.api.pod_groups import PodGroup
from stowplan.scheduler.framework import Action, Code, Hint, Status, unresolvable
from stowplan.scheduler.framework.advanced import (
    GroupCycle,
    Placement,
    PlacementCycle,
    PodGroupInfo,
    Progress,
)
from stowplan.scheduler.plugins.pod_groups.gangscheduling import GangScheduling
from stowplan.testing import PodBuilder, pod
from stowplan.testing.groups import composite_pod_group, pod_group

INCOMPLETE = unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
UNKNOWN = unresolvable('waiting for pods\'s pod group "g" to appear in scheduling queue')


def plugin_of(rig: GroupRig) -> GangScheduling:
    plugin = rig.framework.plugins["GangScheduling"]
    assert isinstance(plugin, GangScheduling)
    return plugin


def pre_enqueue(rig: GroupRig, one: PodBuilder) -> Status | None:
    return plugin_of(rig).pre_enqueue(rig.framework.table.info(one.obj()))


@pytest.mark.parametrize(
    ("group", "members", "held"),
    [
        (None, 1, UNKNOWN),
        (None, 3, UNKNOWN),
        (pod_group("g", min_count=3), 2, INCOMPLETE),
        (pod_group("g", min_count=3), 3, None),
        (pod_group("g", min_count=1), 1, None),
        (pod_group("g"), 1, None),
    ],
)
def test_members_are_held_until_their_group_is_there_and_large_enough(
    group: PodGroup | None, members: int, held: Status | None
) -> None:
    rig = GroupRig()
    pods = [pod(f"p{number}").group("g") for number in range(members)]
    rig.add(*([group] if group else []), *pods)
    assert pre_enqueue(rig, pods[0]) == held
    assert pre_enqueue(rig, pod("alone")) is None


def test_a_tree_of_groups_is_held_until_enough_of_its_groups_are_complete() -> None:
    rig = GroupRig(*TREES)
    groups = [pod_group(name, min_count=1, parent="top") for name in ("g", "h")]
    rig.add(composite_pod_group("top", min_group_count=2), *groups)
    first, second = pod("a").group("g"), pod("b").group("h")
    rig.add(first)
    waiting = unresolvable('waiting for composite pod group "top" tree to meet quorum')
    assert pre_enqueue(rig, first) == waiting
    rig.add(second)
    assert pre_enqueue(rig, first) is None


@pytest.mark.parametrize(
    ("remaining", "scheduled", "code"),
    [(0, 3, None), (5, 3, None), (1, 2, Code.WAIT), (2, 2, Code.WAIT), (0, 2, Code.UNSCHEDULABLE)],
)
def test_a_placement_is_feasible_from_the_minimum_on(
    remaining: int, scheduled: int, code: Code | None
) -> None:
    rig = GroupRig()
    info = PodGroupInfo(pod_group("g", min_count=3))
    cycle = PlacementCycle(GroupCycle(rig.framework.table, info), Placement())
    status = plugin_of(rig).placement_feasible(cycle, info, Progress(remaining, scheduled))
    if code is None:
        assert status is None
        return
    assert status is not None
    assert status.code is code
    rule = "is not yet satisfied" if code is Code.WAIT else "cannot be satisfied"
    assert status.message == f"minCount (3) {rule}: {scheduled} scheduled, {remaining} remaining"


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (pod_group("g", min_count=3), pod_group("g", min_count=2), Hint.QUEUE),
        (pod_group("g", min_count=3), pod_group("g", min_count=3), Hint.SKIP),
        (pod_group("g", min_count=3), pod_group("g", min_count=4), Hint.SKIP),
        (pod_group("other", min_count=3), pod_group("other", min_count=2), Hint.SKIP),
    ],
)
def test_a_lower_minimum_of_the_own_group_may_help(old: PodGroup, new: PodGroup, hint: Hint) -> None:
    rig = GroupRig()
    waiting = pod("p").group("g")
    rig.add(pod_group("g", min_count=3), waiting)
    update = next(one for one in plugin_of(rig).events() if one.event.action is Action.UPDATE)
    assert update.hint is not None
    assert update.hint(rig.framework.table.info(waiting.obj()), old, new) is hint
