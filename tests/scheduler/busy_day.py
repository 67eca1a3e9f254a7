"""A day with many ties, failed bindings and preemptions."""

from scheduler.live_scheduler import World, configured, live
from scheduler.recording_client import Write
from stowplan.api.status import ApiError


def busy_day(seed: int) -> list[Write]:
    """Everything that was written, with times."""
    config = configured(percentageOfNodesToScore=50)

    async def before(world: World) -> None:
        for number in range(120):
            world.add_node(f"n{number}", cpu="2")

    async def story(world: World) -> None:
        world.wire.answer("POST pods/p3/binding", *[ApiError(500, "InternalError", "x")] * 2)
        for number in range(150):
            world.put_pod(f"p{number}", cpu="1500m", priority=number % 7)
        await world.settle(3)
        for number in range(10):
            await world.add_pod(f"high{number}", cpu="2", priority=100)
        await world.settle(40)

    return live(story, before=before, config=config, seed=seed, latency=0.002).wire.writes
