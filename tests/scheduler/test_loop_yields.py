"""The scheduling loop lets others run by elapsed time: no burst of slow pods makes a lease or a probe late.

Real time, since virtual time stands still while anything is computed.
"""

import asyncio
import time
from random import Random
from typing import Any

from msgspec import to_builtins

from scheduler.live_scheduler import configured, enabling
from stowplan.api.catalogue import NODES, PODS
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import Status, unschedulable
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.tasks import SLICE
from stowplan.testing import node, pod


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


class SlowPreFilter(Plugin):
    """Takes twice the time slice for every pod."""

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> None:
        busy(2 * SLICE)


class Crowded(Plugin):
    """Rejects important pods until unimportant ones have left a node, and takes its time to say so."""

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: Any) -> Status | None:
        busy(SLICE / 2)
        return unschedulable("crowded") if pod.priority and node.pods else None


def turns_meanwhile(plugin: type[Plugin], nodes: int, low: int, pods: list[Any]) -> int:
    """How often others had a turn of the loop while pods were scheduled."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def main() -> int:
        store = Store(RealClock(), Random(1))
        for number in range(nodes):
            store.create(NODES, to_builtins(node(f"n{number}").obj()))
        for number in range(low):
            store.create(PODS, to_builtins(pod(f"low{number}").on(f"n{number}").obj()))
        scheduler = Scheduler(
            InProcessClient(store),
            Settings.of(configured(enabling(plugin)), [plugin]),
            clock=RealClock(),
            rng=Random(2),
        )
        async with scheduler.watching():
            await scheduler.synced()
            for one in pods:
                store.create(PODS, to_builtins(one.obj()))
            while len(scheduler.context.queue) < len(pods):
                await asyncio.sleep(0)
            before = asyncio.ensure_future(others())
            begun = turns
            scheduler.begin_scheduling()
            while scheduler.context.queue.cycle < len(pods) or len(scheduler.context.queue.in_flight):
                await asyncio.sleep(0)
            before.cancel()
            return turns - begun

    return asyncio.run(main())


def test_others_run_between_slow_scheduling_cycles() -> None:
    pods = [pod(f"p{number}") for number in range(16)]
    assert turns_meanwhile(SlowPreFilter, 1, 0, pods) >= len(pods)


def test_others_run_in_the_middle_of_a_long_search_for_victims() -> None:
    """One pod, thirty nodes to look at one by one: that is a hundred and fifty milliseconds and more."""
    assert turns_meanwhile(Crowded, 30, 30, [pod("high").priority(10)]) >= 10
