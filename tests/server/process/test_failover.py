"""Two instances, one of which is shot again and again while pods keep coming."""

import asyncio
import os
import random
import signal
from pathlib import Path

from server.process.processes import Cluster, RunningScheduler, cluster
from stowplan.api.catalogue import PODS
from stowplan.localcluster.store import StoreChange
from waiting import eventually

KILLS = int(os.environ.get("STOWPLAN_KILLS", "3"))
LEASE = 6.0
RETRY = 0.3
FLAGS = (
    f"--leader-elect-lease-duration={LEASE:.0f}s",
    "--leader-elect-renew-deadline=5500ms",
    f"--leader-elect-retry-period={RETRY * 1000:.0f}ms",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
)
SLACK = 15.0
"""Seconds that a busy machine may take for everything that is not waiting."""


class Ledger:
    """Writes down every time a pod gets a node."""

    def __init__(self, place: Cluster) -> None:
        self.times: dict[str, list[str]] = {}
        place.store.watch(PODS, self._seen)

    def _seen(self, change: StoreChange) -> None:
        before = "" if change.previous is None else change.previous["spec"].get("nodeName", "")
        now = change.object["spec"].get("nodeName", "")
        if now != before:
            self.times.setdefault(change.object["metadata"]["name"], []).append(now)


def test_the_leader_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    async def story() -> None:
        rng = random.Random(6)
        async with cluster(tmp_path) as place:
            ledger = Ledger(place)
            place.add_nodes(20, cpu="640")
            pair = [await place.start(*FLAGS), await place.start(*FLAGS)]
            load = asyncio.create_task(keep_coming(place))
            for _ in range(KILLS):
                leader, standby = await who_leads(place, pair)
                await standby.says("Attempting to acquire leader lease")
                await asyncio.sleep(rng.random())
                leader.signal(signal.SIGKILL)
                shot_at = asyncio.get_running_loop().time()
                await leader.ends()
                await standby.says("Successfully acquired lease")
                took = asyncio.get_running_loop().time() - shot_at
                assert took < LEASE + RETRY * 2.2 + SLACK
                pair = [standby, await place.start(*FLAGS)]
            load.cancel()
            created = sorted(ledger_names(place))
            await place.bound(*created)
            assert {name: len(ledger.times[name]) for name in created} == dict.fromkeys(created, 1)
            assert len(created) > KILLS

    asyncio.run(story())


async def keep_coming(place: Cluster) -> None:
    number = 0
    while True:
        place.add_pod(f"p{number}")
        number += 1
        await asyncio.sleep(0.01)


def ledger_names(place: Cluster) -> list[str]:
    return [one["metadata"]["name"] for one in place.store.list(PODS, "default").items]


async def who_leads(
    place: Cluster, pair: list[RunningScheduler]
) -> tuple[RunningScheduler, RunningScheduler]:
    """The leader and the other one."""

    def leaders() -> list[RunningScheduler]:
        return [one for one in pair if "Successfully acquired lease" in one.log]

    await eventually(lambda: len(leaders()) == 1, lambda: f"{len(leaders())} leaders")
    leader = leaders()[0]
    return leader, next(one for one in pair if one is not leader)
