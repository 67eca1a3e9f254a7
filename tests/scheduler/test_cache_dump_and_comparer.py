"""The comparison of what is believed with what is so, and the dump of it."""

import asyncio
import os
import signal

from scheduler.live_scheduler import World, live, node, pod
from stowplan.api.catalogue import NODES, PODS
from stowplan.runtime.clock import RealClock
from stowplan.scheduler.debugger import CacheComparison
from waiting import PATIENCE, eventually


def test_a_scheduler_that_heard_everything_believes_what_is_so() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.add_pod("waits", cpu="100")
        await world.add_pod("others", schedulerName="somebody-else")
        assert world.scheduler.debugger.compare() == CacheComparison()
        assert (await world.scheduler.debugger.compare_with_server()).is_equal
        assert list(world.scheduler.debugger.compare().lines()) == []

    live(story)


def test_what_was_not_heard_of_yet_is_missed_and_what_is_gone_is_redundant() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.add_node("gone")
        made = await world.add_pod("p")
        world.store.delete(NODES, "", "gone")
        world.add_node("new")
        world.delete_pod("p")
        fresh = world.put_pod("fresh")
        found = await world.scheduler.debugger.compare_with_server()
        assert found == CacheComparison(
            missed_nodes=("new",),
            redundant_nodes=("gone",),
            missed_pods=(fresh["metadata"]["uid"],),
            redundant_pods=(made["metadata"]["uid"],),
        )
        assert "missedNodes=['new'] redundantNodes=['gone']" in next(iter(found.lines()))
        await world.settle()
        assert (await world.scheduler.debugger.compare_with_server()).is_equal

    live(story)


def test_sums_that_are_not_those_of_the_pods_are_found() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        table = world.scheduler.context.cache.table
        table.requested[0, table.row_of("n")] += 1
        [wrong] = world.scheduler.debugger.compare().wrong_totals
        assert wrong.startswith("n: kept [1001, ")

    live(story)


def test_a_dump_has_the_nodes_their_pods_the_nominations_and_the_queue() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("low", terminationGracePeriodSeconds=30)
        await world.add_pod("high", priority=10)
        lines = list(world.scheduler.debugger.report())
        assert lines[:3] == [
            "Compared the cache with what was watched: equal",
            "Dump of cached NodeInfo",
            "Node name: n",
        ]
        assert any("name: low, namespace: d" in line for line in lines)
        nominated = lines[lines.index("  Nominated Pods:") + 1]
        assert "name: high" in nominated
        assert any(line.startswith("Dump of scheduling queue: activeQ:0; backoffQ:0;") for line in lines)

    live(story)


def test_sigusr2_has_it_all_written() -> None:
    async def main() -> None:
        world = World(RealClock())
        world.store.create(NODES, node("n"))
        written: list[str] = []
        heard = asyncio.Event()

        def write(line: str) -> None:
            written.append(line)
            heard.set()

        async with world.scheduler.running():
            world.store.create(PODS, pod("p"))
            await eventually(lambda: "nodeName" in world.store.list(PODS).items[0]["spec"])
            world.scheduler.debugger.on_signal(write)
            os.kill(os.getpid(), signal.SIGUSR2)
            async with asyncio.timeout(PATIENCE):
                await heard.wait()
        assert "Node name: n" in written
        assert any("name: p" in line for line in written)

    asyncio.run(main())


def test_an_assumed_pod_counts_as_known() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.seconds = 5
        await world.add_pod("p")
        assert world.scheduler.context.cache.assumed
        assert world.scheduler.debugger.compare().is_equal

    live(story)
