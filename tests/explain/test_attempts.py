"""The attempts of a waiting pod: the latest first, ten at most."""

from scheduler.live_scheduler import World, live
from stowplan.explain.web import Inspection
from stowplan.scheduler.decisions import EARLIER


def test_the_attempts_before_the_last_one_are_remembered_up_to_a_limit() -> None:
    async def story(world: World) -> None:
        inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
        world.add_node("n", cpu="1")
        await world.add_pod("p", cpu="40")
        await world.settle((EARLIER + 5) * 400)
        found = await inspection.pod(world.namespace, "p")
        assert found is not None
        numbers = [one.number for one in found.attempts]
        assert found.situation[0].startswith(f"attempt {numbers[0]}, "), "the last one, not the oldest"
        assert len(numbers) == EARLIER + 1
        assert numbers == list(range(numbers[0], numbers[0] - len(numbers), -1))
        assert {one.outcome for one in found.attempts} == {"unschedulable"}
        assert "Insufficient cpu" in found.attempts[-1].message
        times = [one.time for one in found.attempts]
        assert times == sorted(times, reverse=True)

    live(story)
