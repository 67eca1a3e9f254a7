"""Members of groups in what is shown of the queue."""

from msgspec import to_builtins

from scheduler.live_scheduler import World, live
from stowplan.api.catalogue import POD_GROUPS
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import release
from stowplan.config import default_config
from stowplan.explain.states import LANES
from stowplan.explain.web.queues import lane_pods
from stowplan.testing.groups import pod_group

GATES = FeatureGates({"GenericWorkload": True}, release("1.37"))


def test_a_member_of_a_group_that_does_not_exist_is_shown_as_held_back() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", schedulingGroup={"podGroupName": "nowhere"})
        lanes = lane_pods(world.scheduler, {world.namespace})
        assert set(lanes) == set(LANES)
        assert [one.pod for one in lanes["gated"].pods] == [f"{world.namespace}/p"]

    live(story, config=default_config(GATES))


def test_members_that_wait_for_others_come_to_their_lane_once_each() -> None:
    """The metric counts all of them again whenever one joins, as in kube-scheduler; who looks at the page
    wants to know how many pods came."""

    async def story(world: World) -> None:
        gang = pod_group("g", min_count=4, namespace=world.namespace)
        world.store.create(POD_GROUPS, to_builtins(gang))
        for number in range(3):
            await world.add_pod(f"p{number}", schedulingGroup={"podGroupName": "g"})
        metrics = world.scheduler.context.metrics
        assert metrics.totals().incoming == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 3}
        lines = [one for one in metrics.text().decode().splitlines() if "queue_incoming_pods_total{" in one]
        assert [int(one.split()[-1]) for one in lines if 'queue="unschedulable"' in one] > [3]
        await world.add_pod("p3", schedulingGroup={"podGroupName": "g"})
        incoming = metrics.totals().incoming
        assert (incoming["gated"], incoming["active"]) == (4, 4), "the last one, too, until it is known"

    live(story, config=default_config(GATES))
