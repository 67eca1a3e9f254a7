"""percentageOfNodesToScore: the search stops when enough nodes are found, and continues there the next
time."""

from typing import Any

from scheduler.live_scheduler import World, configured, enabling, live, plugin

ZONES = 3
NODES = 120


def _nosy(asked: list[list[str]]) -> Any:
    """A plugin that notes which nodes are scored, by attempt."""

    def score_node(self: Any, cycle: Any, pod: Any, node: Any) -> int:
        asked[-1].append(node.name)
        return 0

    return plugin("Nosy", pre_score=lambda self, cycle, pod: asked.append([]), score_node=score_node)


async def _zones(world: World) -> None:
    """Nodes z0-00, z0-01, … of one zone after the other."""
    for zone in range(ZONES):
        for number in range(NODES // ZONES):
            world.add_node(f"z{zone}-{number:02}", labels={"topology.kubernetes.io/zone": f"z{zone}"})


def _interleaved() -> list[str]:
    return [f"z{zone}-{number:02}" for number in range(NODES // ZONES) for zone in range(ZONES)]


def test_the_search_goes_zone_by_zone_in_turn_and_begins_where_the_last_one_ended() -> None:
    asked: list[list[str]] = []
    nosy = _nosy(asked)
    config = configured(enabling(nosy), percentageOfNodesToScore=50)

    async def story(world: World) -> None:
        for number in range(3):
            await world.add_pod(f"p{number}", cpu="10m")
        order = _interleaved() * 4
        for attempt, names in enumerate(asked):
            assert len(names) == 100  # half of the nodes would be fewer than the least there must be
            assert set(names) == set(order[attempt * 100 : attempt * 100 + 100])
        assert len(asked) == 3

    live(story, before=_zones, config=config, plugins=[nosy])


def test_nodes_that_cannot_take_the_pod_do_not_count() -> None:
    asked: list[list[str]] = []
    nosy = _nosy(asked)
    config = configured(enabling(nosy), percentageOfNodesToScore=50)

    async def before(world: World) -> None:
        for number in range(150):
            world.add_node(f"n{number:03}", cpu="4" if number % 3 else "1")

    async def story(world: World) -> None:
        await world.add_pod("p", cpu="2")
        assert sorted(asked[0]) == [f"n{number:03}" for number in range(150) if number % 3]

    live(story, before=before, config=config, plugins=[nosy])


def test_without_the_setting_every_node_is_looked_at() -> None:
    asked: list[list[str]] = []
    nosy = _nosy(asked)

    async def story(world: World) -> None:
        await world.add_pod("p")
        assert len(asked[0]) == NODES

    live(story, before=_zones, plugins=[nosy])


def test_a_profile_can_have_its_own_setting() -> None:
    asked: list[list[str]] = []
    nosy = _nosy(asked)
    sparing = {**enabling(nosy, name="sparing"), "percentageOfNodesToScore": 1}
    config = configured(enabling(nosy), sparing)

    async def story(world: World) -> None:
        await world.add_pod("p", schedulerName="sparing")
        await world.add_pod("q")
        assert [len(names) for names in asked] == [100, NODES]

    live(story, before=_zones, config=config, plugins=[nosy])


def test_nodes_that_go_and_come_leave_no_hole() -> None:
    asked: list[list[str]] = []
    nosy = _nosy(asked)
    config = configured(enabling(nosy), percentageOfNodesToScore=50)

    async def story(world: World) -> None:
        await world.add_pod("p", cpu="10m")
        world.remove_node("z1-00")
        await world.settle()
        await world.add_pod("q", cpu="10m")
        assert len(asked[1]) == 100
        assert "z1-00" not in asked[1]
        for name in ("new", "z1-00"):
            world.add_node(name)
            await world.settle()
            asked.clear()
            for number in range(3):
                await world.add_pod(f"{name}-{number}", cpu="10m")
            assert [len(names) for names in asked] == [100] * 3
        assert {name for names in asked for name in names} == {*_interleaved(), "new"}

    live(story, before=_zones, config=config, plugins=[nosy])
