"""Lines that people look for on bad days, and those for the curious."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import convert

from scheduler.comparable_writes import RECORDED
from scheduler.live_scheduler import World, live, node, plugin, pod
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.node import Node
from stowplan.api.status import ApiError
from stowplan.runtime.clock import RealClock
from stowplan.runtime.logs import ERROR, FATAL, Logger
from waiting import eventually

Told = tuple[int, str, dict[str, Any]]


def about(world: World, name: str) -> list[Told]:
    """Log lines about a pod or without a pod, with levels and values."""
    return [
        (level, message, {key: value for key, value in values.items() if key != "pod"})
        for _, level, message, values in world.told
        if values.get("pod", name) == name
    ]


def messages(world: World, name: str) -> list[str]:
    return [message for _, message, _ in about(world, name)]


def day(
    happens: Callable[[World], object], verbosity: int = 2, seconds: float = 0.5, **options: Any
) -> World:
    """A world with a node in which something happens."""

    async def story(world: World) -> None:
        world.add_node("n")
        happens(world)
        await world.settle(seconds)

    recorded = {} if "plugins" in options else {"config": RECORDED}
    return live(story, latency=0.006, verbosity=verbosity, **{**recorded, **options})


def test_a_binding_that_fails_and_a_pod_that_is_gone() -> None:
    def happens(world: World) -> None:
        world.put_pod("p")
        world.wire.answer("POST pods/p/binding", lambda: world.delete_pod("p"))

    told = about(day(happens), "d/p")
    assert (1, "Failed to bind pod", {}) in told
    failed = {"err": 'running Bind plugin "DefaultBinder": pods "p" not found', "logger": "UnhandledError"}
    assert (ERROR, "Error scheduling pod; retrying", failed) in told
    assert (0, "Pod doesn't exist in informer cache", {"err": 'pod "p" not found'}) in told


def test_a_pod_that_another_has_bound() -> None:
    def happens(world: World) -> None:
        world.put_pod("p")
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        world.wire.answer("POST pods/p/binding", lambda: world.store.bind("d", "p", binding))

    told = about(day(happens), "d/p")
    assert (0, "Pod has been assigned to node. Abort adding it back to queue.", {"node": "n"}) in told


def test_a_pod_that_was_made_anew() -> None:
    def happens(world: World) -> None:
        def anew() -> None:
            world.delete_pod("p")
            world.put_pod("p")

        world.put_pod("p")
        world.wire.answer("POST pods/p/binding", anew)

    message = "Pod was recreated while handling scheduling failure. Skip requeueing and status updates."
    [values] = [values for _, said, values in about(day(happens), "d/p") if said == message]
    assert set(values) == {"oldUID", "newUID"}


def test_a_plugin_that_fails_while_a_node_is_looked_for() -> None:
    def broken(self: Any, cycle: Any, pod: Any) -> Any:
        raise RuntimeError("broken")

    world = day(lambda world: world.put_pod("p"), plugins=[plugin("Broken", pre_filter=broken)])
    levels = {message: level for level, message, _ in about(world, "d/p")}
    assert levels["Error selecting node for pod"] == ERROR
    assert levels["Error scheduling pod; retrying"] == ERROR


def test_a_gated_pod_is_told_of() -> None:
    gates = [{"name": "example.com/a"}]
    world = day(lambda world: world.put_pod("p", schedulingGates=gates), verbosity=5)
    told = about(world, "d/p")
    status = {"plugin": "SchedulingGates", "status": "waiting for scheduling gates: [example.com/a]"}
    assert (4, "Status after running PreEnqueue plugin", status) in told
    moved = {"event": "UnschedulablePodAdd", "queue": "Unschedulable"}
    assert (5, "Pod moved to an internal scheduling queue, because the pod is gated", moved) in told


def test_every_move_in_the_queue_is_told_to_the_curious() -> None:
    def happens(world: World) -> None:
        world.put_pod("p")
        world.wire.answer("POST pods/p/binding", ApiError(500, "InternalError", "no"))

    assert _moves(day(happens, verbosity=5, seconds=5)) == [
        (5, "UnschedulablePodAdd", "Active"),
        (5, "ScheduleAttemptFailure", "Backoff"),
        (3, "ScheduleAttemptFailure", "Backoff"),
        (5, "BackoffComplete", "Active"),
    ]


def test_a_pod_that_does_not_fit_moves_as_recorded() -> None:
    world = day(lambda world: world.put_pod("p", cpu="9"), verbosity=5, seconds=400)
    assert _moves(world) == [
        (5, "UnschedulablePodAdd", "Active"),
        (3, "ScheduleAttemptFailure", "Unschedulable"),
        (5, "UnschedulableTimeout", "Active"),
        (3, "ScheduleAttemptFailure", "Unschedulable"),
    ]


def _moves(world: World) -> list[tuple[int, str, str]]:
    return [
        (level, values["event"], values["queue"])
        for level, message, values in about(world, "d/p")
        if message == "Pod moved to an internal scheduling queue"
    ]


def test_every_score_is_told_to_the_very_curious() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.add_node("m")
        await world.add_pod("p")

    world = live(story, verbosity=10)
    told = about(world, "d/p")
    by_plugin = [values for _, message, values in told if message == "Plugin scored node for pod"]
    totals = {
        values["node"]: values["score"]
        for level, message, values in told
        if message == "Calculated node's final score for pod" and level == 10
    }
    assert set(totals) == {"n", "m"}
    for name, total in totals.items():
        assert total == sum(values["score"] for values in by_plugin if values["node"] == name)
    assert "Plugin scored node for pod" not in messages(live(story, verbosity=9), "d/p")


def test_a_pod_that_may_not_preempt_is_told_of() -> None:
    def happens(world: World) -> None:
        world.put_pod("p", cpu="9", preemptionPolicy="Never")

    told = about(day(happens, verbosity=5), "d/p")
    reason = "not eligible due to preemptionPolicy=Never."
    values = {"reason": reason, "logger": "PostFilter.DefaultPreemption"}
    assert (5, "Pod is not eligible for preemption", values) in told


def test_victims_that_are_going_already_are_told_of() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="2")
        world.put_pod("low", priority=1, cpu="2")
        await world.settle(0.1)
        world.wire.answer("DELETE pods/low", ApiError(404, "NotFound", "gone"))
        world.put_pod("high", priority=2, cpu="2")
        await world.settle(0.1)

    world = live(story, latency=0.006, verbosity=2)
    told = [(message, values) for _, _, message, values in world.told if "preemptor" in values]
    gone = {"preemptor": "d/high", "victim": "d/low", "node": "n"}
    assert ("Victim Pod is already deleted", gone) in told


@pytest.mark.parametrize(
    ("verbosity", "steps"),
    [(2, ["Computing predicates done"]), (4, ["Computing predicates done", "Prioritizing done"])],
)
def test_a_slow_search_says_where_the_time_went(verbosity: int, steps: list[str]) -> None:
    spent = 0.0

    def slowly(self: Any, cycle: Any, pod: Any) -> Any:
        nonlocal spent
        spent += 0.2

    def a_little(self: Any, cycle: Any, pod: Any) -> Any:
        nonlocal spent
        spent += 0.01

    async def story(world: World) -> None:
        world.add_node("n")
        world.add_node("m")
        await world.add_pod("p")

    slow = plugin("Slow", pre_filter=slowly, pre_score=a_little)
    world = live(story, plugins=[slow], verbosity=verbosity, timer=lambda: spent)
    [trace] = [message for _, _, message, _ in world.told if message.startswith("Trace[")]
    first, *inner, last = trace.splitlines()
    assert first.startswith('Trace[1]: "Scheduling" namespace:d,name:p (')
    assert first.endswith("(total time: 210ms):")
    assert [line.split('"')[1] for line in inner] == steps
    assert last == "Trace[1]: [210.000000ms] [210.000000ms] END"


def test_sigusr2_writes_a_comparison_and_a_dump_to_the_log() -> None:
    async def main() -> list[tuple[int, str, Any]]:
        told: list[tuple[int, str, Any]] = []
        logger = Logger(lambda *said: told.append(said), 3)
        world = World(RealClock(), logger=logger, config=RECORDED)
        world.store.create(NODES, node("n"))
        async with world.scheduler.running():
            world.store.create(PODS, pod("p"))
            world.store.create(PODS, pod("big", cpu="9"))
            queue = world.scheduler.context.queue
            await eventually(lambda: queue.summary() == "activeQ:0; backoffQ:0; unschedulablePods:1")
            told.clear()
            world.scheduler.debugger.on_signal()
            os.kill(os.getpid(), signal.SIGUSR2)
            await eventually(lambda: "Dump of scheduling queue" in [message for _, message, _ in told])
            return [one for one in told if one[1].startswith(("Cache comparer", "Dump of"))]

    told = asyncio.run(main())
    assert [(level, message) for level, message, _ in told] == [
        (3, "Cache comparer started"),
        (3, "Cache comparer finished"),
        (0, "Dump of cached NodeInfo"),
        (0, "Dump of scheduling queue"),
    ]
    lines = told[2][2]["nodes"].splitlines()
    assert lines[:5] == [
        "Node name: n",
        "Deleted: false",
        "Requested Resources: &{MilliCPU:1000 Memory:134217728 EphemeralStorage:0 AllowedPodNumber:0 "
        "ScalarResources:map[]}",
        "Allocatable Resources:&{MilliCPU:4000 Memory:8589934592 EphemeralStorage:107374182400 "
        "AllowedPodNumber:110 ScalarResources:map[]}",
        "Scheduled Pods(number: 1):",
    ]
    assert lines[5].startswith("name: p, namespace: d, uid: ")
    assert lines[5].endswith(", phase: Pending, nominated node: ")
    assert told[3][2]["summary"] == "activeQ:0; backoffQ:0; unschedulablePods:1"
    assert told[3][2]["pods"].startswith("name: big, namespace: d, uid: ")


def test_differences_between_cache_and_watches_are_told() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.settle()
        world.scheduler.context.cache.table.put_node(convert(node("unheard-of"), Node))
        world.scheduler.debugger.tell()

    told = [values for _, _, message, values in live(story).told if message == "Cache mismatch"]
    assert told == [{"missedNodes": [], "redundantNodes": ["unheard-of"]}]


def test_nothing_fatal_is_said_on_an_ordinary_day() -> None:
    world = day(lambda world: world.put_pod("p"), verbosity=10)
    assert not [said for said in world.told if said[1] in (FATAL, ERROR)]
