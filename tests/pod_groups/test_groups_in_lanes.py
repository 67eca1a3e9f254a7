"""Members of groups in what is shown of the queue."""

from scheduler.worlds import World, live
from stowplan.api.feature_gates import FeatureGates
from stowplan.config import default_config
from stowplan.inspection.queues import LANES, lane_pods
from stowplan.releases import release

GATES = FeatureGates({"GenericWorkload": True}, release("1.37"))


def test_a_member_of_a_group_that_does_not_exist_is_shown_as_held_back() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", schedulingGroup={"podGroupName": "nowhere"})
        lanes = lane_pods(world.scheduler, {world.namespace})
        assert set(lanes) == set(LANES)
        assert [one["pod"] for one in lanes["gated"].pods] == [f"{world.namespace}/p"]

    live(story, config=default_config(GATES))
