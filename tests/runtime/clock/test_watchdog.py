"""The watchdog of the event loop: who held it, and for how long."""

import asyncio
import gc
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stowplan.runtime.clock import Hold, LoopWatchdog, run
from stowplan.runtime.clock.watchdog import Holder
from stowplan.scheduler import Scheduler, Settings
from stowplan.testing import node, pod
from waiting import eventually

LIMIT = 0.05


def watched(story: Callable[[], Awaitable[None]], **options: Any) -> tuple[LoopWatchdog, list[Hold]]:
    """Run a coroutine on a watched loop in real time; what was reported.

    By time on the CPU, unless a test wants otherwise: on a busy machine any turn may be interrupted.
    """
    reported: list[Hold] = []
    watchdog = LoopWatchdog(lambda hold, others: reported.append(hold), **{"by_cpu": True, **options})
    with asyncio.Runner(loop_factory=watchdog.new_loop) as runner, watchdog:
        runner.run(story())  # type: ignore[arg-type]
    return watchdog, reported


def busy(seconds: float) -> None:
    """Compute for a while."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


def test_a_turn_that_takes_too_long_is_reported_with_who_held_the_loop() -> None:
    async def story() -> None:
        await asyncio.sleep(0.01)
        busy(6 * LIMIT)
        await asyncio.sleep(0.01)

    watchdog, [hold] = watched(story)
    assert hold.seconds >= 6 * LIMIT
    assert hold.holder.activity
    assert watchdog.longest is hold
    assert sum(watchdog.holds.values()) == 1


def test_waiting_is_no_hold_and_neither_are_many_short_turns() -> None:
    async def story() -> None:
        await asyncio.sleep(3 * LIMIT)
        for _ in range(20):
            busy(LIMIT / 10)
            await asyncio.sleep(0)

    watchdog, reported = watched(story)
    assert (reported, watchdog.longest.seconds) == ([], 0.0)


def test_by_cpu_it_does_not_matter_how_long_a_turn_slept() -> None:
    async def story() -> None:
        await asyncio.sleep(0)
        time.sleep(3 * LIMIT)
        await asyncio.sleep(0)

    assert watched(story)[1] == []
    assert len(watched(story, by_cpu=False)[1]) == 1


def test_reports_are_not_repeated_within_seconds_but_holds_are_counted() -> None:
    async def story() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            busy(2 * LIMIT)
        await asyncio.sleep(0)

    watchdog, reported = watched(story)
    assert len(reported) == 1
    assert sum(watchdog.holds.values()) == 3


def test_the_time_of_the_garbage_collector_is_told_apart() -> None:
    async def story() -> None:
        heap: list[list[int]] = [[] for _ in range(300_000)]
        await asyncio.sleep(0)
        busy(LIMIT)
        gc.collect()
        await asyncio.sleep(0)
        del heap

    [hold] = watched(story)[1]
    assert 0 < hold.collecting < hold.seconds
    assert "garbageCollection" in hold.values()


SLOW_PLUGIN = """
import time
from stowplan.framework import Plugin

class Sluggish(Plugin):
    def filter_node(self, cycle, pod, node):
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
"""


def test_a_slow_plugin_is_named_with_its_pod(tmp_path: Any) -> None:
    from random import Random

    from msgspec import to_builtins

    from stowplan.api.catalogue import NODES, PODS
    from stowplan.config import load
    from stowplan.localcluster.client import InProcessClient
    from stowplan.localcluster.store import Store
    from stowplan.runtime.clock import RealClock
    from stowplan.scheduler.framework.registry import load_plugin

    (tmp_path / "sluggish.py").write_text(SLOW_PLUGIN)
    plugin = load_plugin(f"{tmp_path / 'sluggish.py'}:Sluggish")
    config = load(
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": '
        '[{"plugins": {"multiPoint": {"enabled": [{"name": "Sluggish"}]}}}]}'
    )

    async def story() -> None:
        store = Store(RealClock(), Random(1))
        store.create(NODES, to_builtins(node("n").obj()))
        scheduler = Scheduler(
            InProcessClient(store), Settings.of(config, [plugin]), clock=RealClock(), rng=Random(2)
        )
        async with scheduler.running():
            store.create(PODS, to_builtins(pod("slow").obj()))
            await eventually(lambda: store.get(PODS, "default", "slow")["spec"].get("nodeName"))

    watchdog, _ = watched(story, limit=0.1)
    values = watchdog.longest.values()
    assert (values["plugin"], values["pod"]) == ("Sluggish", "default/slow")
    assert (values["activity"], "filter_node" in str(values["where"])) == ("Scheduler._schedule", True)


def test_virtual_time_is_watched_too() -> None:
    watchdog = LoopWatchdog()

    async def main(clock: object) -> None:
        await asyncio.sleep(3600)
        busy(6 * LIMIT)
        await asyncio.sleep(3600)

    with watchdog:
        run(main, watchdog=watchdog)
    assert 6 * LIMIT <= watchdog.longest.seconds < 600
    assert watchdog.longest.holder != Holder()


def test_a_watchdog_leaves_nothing_behind() -> None:
    before = list(gc.callbacks)

    async def story() -> None:
        await asyncio.sleep(0)

    watched(story)
    assert gc.callbacks == before
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_what_held_the_loop_is_not_kept_alive_by_whoever_looked() -> None:
    class Subject:
        key = "default/large"

    def deal_with_a_pod() -> weakref.ref[Subject]:
        pod = Subject()
        busy(6 * LIMIT)
        return weakref.ref(pod)

    async def story() -> None:
        kept = deal_with_a_pod()
        gc.collect()
        assert kept() is None

    _, [hold] = watched(story)
    assert hold.holder.pod == "default/large"


def test_a_turn_whose_objects_cannot_be_looked_at_is_reported_without_a_name() -> None:
    class Unfinished:
        @property
        def key(self) -> str:
            raise ValueError("not ready to be asked")

    async def story() -> None:
        pod = Unfinished()
        busy(6 * LIMIT)
        assert pod is not None
        await asyncio.sleep(0.01)
        busy(6 * LIMIT)

    watchdog, _ = watched(story)
    assert sum(watchdog.holds.values()) == 2
