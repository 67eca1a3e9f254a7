"""TopologyPlacementGenerator: one placement per value of the topology key."""

from collections.abc import Sequence

import pytest

from scheduler.pod_groups.group_queue import GroupRig
from stowplan.scheduler.framework import Status, error
from stowplan.scheduler.framework.advanced import GroupCycle, Placement, PodGroupInfo
from stowplan.scheduler.plugins.pod_groups.topologyaware import TopologyPlacementGenerator
from stowplan.testing import node, pod
from stowplan.testing.groups import pod_group

RACK = "example.com/rack"
NODES = [
    node("n1").labels({RACK: "west"}),
    node("n2").labels({RACK: "east"}),
    node("n3").labels({RACK: "west"}),
    node("bare"),
]


def clustered(running: Sequence[str] = ()) -> tuple[GroupRig, PodGroupInfo]:
    """A cluster of two racks, and a group that has pods on these nodes."""
    rig = GroupRig("GenericWorkload", "TopologyAwareWorkloadScheduling")
    rig.add(*NODES)
    pods = [pod(f"p{number}").group("g").on(name).obj() for number, name in enumerate(running)]
    for one in pods:
        rig.handlers.add_pod(one)
    table = rig.framework.table
    return rig, PodGroupInfo(
        pod_group("g", min_count=2, topology=RACK), running=[table.pods[one.metadata.uid] for one in pods]
    )


def generated(rig: GroupRig, info: PodGroupInfo, parent: Placement) -> Status | dict[str, list[str]]:
    plugin = rig.framework.plugins["TopologyPlacementGenerator"]
    assert isinstance(plugin, TopologyPlacementGenerator)
    found = plugin.generate_placements(GroupCycle(rig.framework.table, info), info, parent)
    if isinstance(found, Status):
        return found
    names = rig.framework.table.names
    return {one.name: [names[row] for row in one.rows_of(rig.framework.table)] for one in found}


def test_every_rack_is_a_placement_in_the_order_of_their_names() -> None:
    rig, info = clustered()
    found = generated(rig, info, Placement())
    assert isinstance(found, dict)
    assert list(found.items()) == [("east", ["n2"]), ("west", ["n1", "n3"])]


def test_a_parent_limits_the_nodes() -> None:
    rig, info = clustered()
    rows = rig.framework.table.row_of("n3"), rig.framework.table.row_of("bare")
    import numpy as np

    assert generated(rig, info, Placement("part", np.array(rows))) == {"west": ["n3"]}


def test_without_a_constraint_the_parent_is_the_placement() -> None:
    rig, _ = clustered()
    free = PodGroupInfo(pod_group("g", min_count=2))
    assert generated(rig, free, Placement("all")) == {"all": ["n1", "n2", "n3", "bare"]}


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        (["n1"], {"west": ["n1", "n3"]}),
        (["n1", "n3"], {"west": ["n1", "n3"]}),
        (["n1", "n2"], "more than 1 domain found for pod group: west, east"),
        (["bare"], "no topology domain found for pod default/p0"),
    ],
)
def test_pods_that_run_already_fix_the_rack(running: list[str], expected: dict[str, list[str]] | str) -> None:
    rig, info = clustered(running)
    found = generated(rig, info, Placement())
    if isinstance(expected, str):
        assert found == error(f"cannot determine domain for already scheduled pods: {expected}")
    else:
        assert found == expected


def test_a_rack_that_changes_is_seen() -> None:
    rig, info = clustered()
    assert generated(rig, info, Placement()) == {"east": ["n2"], "west": ["n1", "n3"]}
    rig.handlers.update_node(NODES[3].obj(), NODES[3].labels({RACK: "east"}).obj())
    assert generated(rig, info, Placement()) == {"east": ["n2", "bare"], "west": ["n1", "n3"]}
