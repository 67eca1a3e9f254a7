"""PodGroupPodsCount: a placement scores by the number of the group's pods that it takes."""

from collections.abc import Sequence

import numpy as np
import pytest

from scheduler.pod_groups.group_queue import GroupRig
from stowplan.scheduler.framework.advanced import (
    GroupCycle,
    Placement,
    PluginError,
    PodGroupAssignments,
    PodGroupInfo,
)
from stowplan.scheduler.framework.pod_groups.placement import ProposedAssignment
from stowplan.scheduler.plugins.pod_groups.podgrouppodscount import PodGroupPodsCount
from stowplan.testing import pod
from stowplan.testing.groups import composite_pod_group, pod_group


def scores(info: PodGroupInfo, sizes: Sequence[int]) -> list[int]:
    """Normalized scores of placements that take so many pods."""
    rig = GroupRig("GenericWorkload", "TopologyAwareWorkloadScheduling")
    plugin = rig.framework.plugins["PodGroupPodsCount"]
    assert isinstance(plugin, PodGroupPodsCount)
    member = rig.framework.table.info(pod("p").group("g").obj())
    placements = [
        PodGroupAssignments(Placement(f"r{number}"), [ProposedAssignment(member, -1)] * size)
        for number, size in enumerate(sizes)
    ]
    cycle = GroupCycle(rig.framework.table, info)
    raw = plugin.score_placements(cycle, info, placements)
    assert raw.dtype == np.int64
    found: list[int] = plugin.normalize_placement_scores(cycle, info, raw).tolist()
    return found


@pytest.mark.parametrize(
    ("sizes", "running", "expected"),
    [
        ([3, 6, 0], 0, [50, 100, 0]),
        ([1, 2, 3], 0, [33, 66, 100]),
        ([0, 2], 2, [50, 100]),
        ([0, 0], 1, [100, 100]),
    ],
)
def test_more_pods_score_more_and_running_ones_count(
    sizes: list[int], running: int, expected: list[int]
) -> None:
    table = GroupRig().framework.table
    there = [table.info(pod(f"r{number}").obj()) for number in range(running)]
    assert scores(PodGroupInfo(pod_group("g", min_count=2), running=there), sizes) == expected


def test_placements_without_any_pod_are_an_error() -> None:
    with pytest.raises(PluginError, match="no pods from pod group are assigned to any of the candidate"):
        scores(PodGroupInfo(pod_group("g")), [0, 0])


def test_a_tree_that_is_too_deep_is_an_error() -> None:
    info = PodGroupInfo(pod_group("leaf"))
    for level in range(4):
        info = PodGroupInfo(composite_pod_group(f"c{level}"), children=[info])
    with pytest.raises(PluginError, match="exceeded maximum hierarchy depth at podgroup/default/leaf"):
        scores(info, [1])
