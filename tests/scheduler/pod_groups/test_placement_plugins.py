"""Plugins of placements: groups that cannot be placed, and placements of one's own."""

from pathlib import Path

import pytest

from scheduler.live_scheduler import World, configured, live
from scheduler.pod_groups.group_stories import add_group, put_members, with_gates
from stowplan.framework.advanced import PodGroupInfo
from stowplan.scheduler.framework.registry import load_plugin
from stowplan.testing.groups import composite_pod_group, pod_group


@pytest.mark.parametrize(("levels", "problem"), [(4, ""), (5, "podgroup/default/leaf")])
def test_a_tree_has_four_levels_at_most(levels: int, problem: str) -> None:
    info = PodGroupInfo(pod_group("leaf"))
    for level in range(levels - 1):
        info = PodGroupInfo(composite_pod_group(f"c{level}"), children=[info])
    told = f"exceeded maximum hierarchy depth at {problem}" if problem else ""
    assert info.too_deep() == told


def test_placements_of_a_plugin_from_outside_are_tried_and_scored() -> None:
    """Two pairs of racks have room; of these the pair behind one switch is chosen."""
    example = Path(__file__).parents[3] / "examples" / "rack_distance.py"

    async def story(world: World) -> None:
        for rack in ("east/1", "west/1", "west/2"):
            for number in "12":
                name = f"{rack.replace('/', '-')}-{number}"
                world.add_node(name, cpu="4", labels={"example.com/rack": rack})
        await world.add_pod("busy", cpu="4", nodeName="west-1-1")
        add_group(world, "g", 3)
        members = put_members(world, "g", 3, "3")
        await world.settle(0.5)
        assert {world.node_of(name) for name in members} == {"west-1-2", "west-2-1", "west-2-2"}

    points = {
        "placementGenerate": {"disabled": [{"name": "TopologyPlacementGenerator"}]},
        "multiPoint": {"enabled": [{"name": "RackDistance", "weight": 10}]},
    }
    profile = {"schedulerName": "default-scheduler", "plugins": points}
    gates = with_gates("TopologyAwareWorkloadScheduling").gates
    live(story, config=configured(profile, gates=gates), plugins=[load_plugin(f"{example}:RackDistance")])
