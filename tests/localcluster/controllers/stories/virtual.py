"""Stories in virtual time: against the API server's handlers, every controller, and the scheduler."""

import asyncio

from localcluster.controllers.stories.comparison import differences
from localcluster.controllers.stories.player import Player
from localcluster.controllers.stories.recording import Observation, Story, recorded_stories
from localcluster.controllers.stories.transports import HandlerTransport
from stowplan.localcluster.controllers.nodes.nodelifecycle import LifecycleSettings
from stowplan.localcluster.up.cluster import ClusterPlan, LocalCluster
from stowplan.runtime.clock import VirtualClock, run

LIFECYCLE = LifecycleSettings(period=2.0, grace=8.0)
"""How soon a silent node was noticed in the recording."""

APART = 0.17
"""Seconds between the beginnings of two stories: work of one is not to queue behind that of all others."""


def play_stories(prefix: str = "") -> dict[str, list[str]]:
    """Play every story whose name begins so, all at once; their differences from the recording by name."""

    async def play(clock: VirtualClock) -> dict[str, list[str]]:
        async def one(number: int, story: Story) -> list[Observation]:
            await asyncio.sleep(number * APART)
            return await player.play(story)

        stories = list(recorded_stories(prefix))
        cluster = LocalCluster(ClusterPlan(shapes=(), lifecycle=LIFECYCLE, seed=1), clock=clock)
        token = {"Authorization": f"Bearer {cluster.server.token}"}
        transport = HandlerTransport(cluster.server.handler, cluster.store, token)
        async with cluster.running(listen=False), Player(transport, clock).running() as player:
            outcomes = await asyncio.gather(*map(one, range(len(stories)), stories))
        return {s.name: differences(s, outcome) for s, outcome in zip(stories, outcomes, strict=True)}

    return run(play)
