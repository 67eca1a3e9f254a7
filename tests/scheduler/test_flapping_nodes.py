"""Nodes that are cordoned and uncordoned a hundred times a second."""

from scheduler.live_scheduler import World, live, node
from stowplan.api.catalogue import NODES


def test_pods_that_no_node_can_take_are_not_tried_for_every_flap_and_others_are_bound() -> None:
    async def story(world: World) -> None:
        for number in range(10):
            world.add_node(f"n{number}", cpu="4")
            world.put_pod(f"large-{number}", cpu="40")
        await world.settle(20)
        tried = sum(len(world.attempts(f"large-{number}")) for number in range(10))
        assert tried >= 10
        for flap in range(1000):
            body = node(f"n{flap % 10}")
            body["spec"] = {"unschedulable": (flap // 10) % 2 == 0}
            world.store.update(NODES, body)
            await world.settle(0.01)
            if flap % 100 == 55:
                await world.add_pod(f"ordinary-{flap}", cpu="100m")
                assert world.node_of(f"ordinary-{flap}")
        again = sum(len(world.attempts(f"large-{number}")) for number in range(10)) - tried
        assert again == 0, "no flap makes room for them"

    live(story, verbosity=3)
