"""The feature gate SchedulerAsyncAPICalls: one call per pod at a time, and only what is still wanted."""

import asyncio
from typing import Any

import pytest

from releases import V1_36, V1_37
from scheduler.live_scheduler import World, configured, live
from scheduler.metrics.reading import scraped
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import Pod, PodCondition
from stowplan.api.releases import Release
from stowplan.api.status import ApiError
from stowplan.scheduler.api_dispatcher import ApiDispatcher

PATCH, BIND = "PATCH pods/p/status", "POST pods/p/binding"
FORBIDDEN = ApiError(403, "Forbidden", "not allowed")


def calling(story: Any, release: Release = V1_37, **options: Any) -> World:
    """Run a story with the gate on."""
    gates = FeatureGates({"SchedulerAsyncAPICalls": True}, release)
    return live(story, config=configured(gates=gates), **options)


def counted(world: World) -> dict[tuple[str, ...], float]:
    """Calls that were executed, by type and result."""
    return scraped(world.scheduler.context.metrics, "async_api_call_execution_total")


def pending(world: World) -> dict[str, float]:
    found = scraped(world.scheduler.context.metrics, "pending_async_api_calls")
    return {call_type: value for (call_type,), value in found.items() if value}


def sent(world: World) -> list[str]:
    """Requests about the pod, without events."""
    return [short for short in world.wire.shorts if short in (PATCH, BIND)]


def not_ready(message: str, type: str = "PodScheduled") -> PodCondition:
    return PodCondition(type=type, status="False", reason="Unschedulable", message=message)


async def dispatcher_and_pod(world: World) -> tuple[ApiDispatcher, Pod]:
    """A pod without a scheduler, and the dispatcher of calls about it."""
    await world.add_pod("p", schedulerName="somebody-else")
    known, dispatcher = world.scheduler.pod("d/p"), world.scheduler.context.dispatcher
    assert known is not None
    assert dispatcher is not None
    return dispatcher, known


def test_writes_of_a_scheduler_go_through_the_queue_and_are_counted(each_release: Release) -> None:
    async def story(world: World) -> None:
        await world.add_pod("p", cpu="2")
        assert sent(world) == [PATCH]
        world.add_node("n")
        await world.settle(15)
        assert sent(world) == [PATCH, BIND]
        assert world.node_of("p") == "n"
        assert counted(world) == {("pod_status_patch", "success"): 1, ("pod_binding", "success"): 1}
        assert not pending(world)
        took = scraped(world.scheduler.context.metrics, "async_api_call_execution_duration_seconds_count")
        assert took[("pod_binding", "success")] == 1

    calling(story, each_release)


def test_without_the_gate_nothing_is_counted() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert sent(world) == [BIND]
        assert world.scheduler.context.dispatcher is None
        assert counted(world) == {}

    live(story)


def test_a_binding_waits_for_the_status_that_is_being_written() -> None:
    async def story(world: World) -> None:
        world.wire.seconds = 30.0
        world.put_pod("p", cpu="2")
        await world.settle(1)
        world.add_node("n")
        await world.settle(20)
        assert sent(world) == [PATCH]
        assert not pending(world), "what waits for a call in flight is not in the queue"
        await world.settle(60)
        patch, bind = (one for one in world.wire.writes if one.short in (PATCH, BIND))
        assert bind.at == pytest.approx(patch.at + 30)
        assert world.node_of("p") == "n"

    calling(story)


def test_a_more_relevant_call_overwrites_one_that_was_not_sent_and_a_less_relevant_one_is_skipped() -> None:
    async def story(world: World) -> None:
        dispatcher, pod = await dispatcher_and_pod(world)
        binding = asyncio.ensure_future(dispatcher.bind(pod.metadata.uid, lambda: asyncio.sleep(10)))
        dispatcher.patch_status(pod, (not_ready("first"),), "m")
        assert pending(world) == {"pod_status_patch": 1}
        await asyncio.sleep(0)
        dispatcher.patch_status(pod, (not_ready("second"),), "m")
        await world.settle(5)
        dispatcher.patch_status(pod, (not_ready("third"),), "m")
        await binding
        await world.settle(30)
        assert sent(world) == []
        assert counted(world) == {("pod_binding", "success"): 1}
        assert not pending(world)

    calling(story)


@pytest.mark.parametrize(("release", "kept"), [(V1_36, ["PodScheduled"]), (V1_37, ["PodScheduled", "Other"])])
def test_status_patches_that_wait_are_merged(release: Release, kept: list[str]) -> None:
    async def story(world: World) -> None:
        dispatcher, pod = await dispatcher_and_pod(world)
        world.wire.seconds = 10.0
        dispatcher.patch_status(pod, (not_ready("in flight"),))
        await world.settle(1)
        dispatcher.patch_status(pod, (not_ready("older", "Other"),), "m")
        dispatcher.patch_status(pod, (not_ready("newer"),))
        dispatcher.patch_status(pod)
        await world.settle(60)
        assert len(sent(world)) == 2
        status = world.pod("p")["status"]
        assert status["nominatedNodeName"] == "m", "a nomination is inherited"
        assert world.message("p") == "newer", "and so is a condition, by a call without any"
        assert {one["type"] for one in status["conditions"]} == set(kept)
        assert counted(world) == {("pod_status_patch", "success"): 2}

    calling(story, release)


def test_calls_without_effect_are_not_sent() -> None:
    async def story(world: World) -> None:
        dispatcher, pod = await dispatcher_and_pod(world)
        dispatcher.patch_status(pod, nominated_node="")
        assert not pending(world)
        dispatcher.patch_status(pod, nominated_node="m")
        dispatcher.patch_status(pod, nominated_node="")
        assert not pending(world), "the two together change nothing"
        await world.settle(5)
        assert sent(world) == []
        assert counted(world) == {}

    calling(story)


def test_a_call_that_lost_its_effect_while_another_was_sent_is_executed_without_a_request() -> None:
    async def story(world: World) -> None:
        dispatcher, pod = await dispatcher_and_pod(world)
        world.wire.seconds = 10.0
        dispatcher.patch_status(pod, (not_ready("same"),))
        await world.settle(1)
        dispatcher.patch_status(pod, (not_ready("same"),))
        await world.settle(40)
        assert len(sent(world)) == 1
        assert counted(world) == {("pod_status_patch", "success"): 2}

    calling(story)


def test_calls_that_fail_are_counted_and_told() -> None:
    async def story(world: World) -> None:
        world.wire.answer(PATCH, FORBIDDEN)
        world.wire.answer(BIND, FORBIDDEN)
        await world.add_pod("p", cpu="2")
        assert world.problems == ["Failed to patch pod status"]
        world.add_node("n")
        await world.settle(30)
        assert "Error scheduling pod; retrying" in world.problems
        assert world.node_of("p") == "n"
        failed = [
            (call_type, value) for (call_type, result), value in counted(world).items() if result == "error"
        ]
        assert sorted(failed) == [("pod_binding", 1), ("pod_status_patch", 1)]

    calling(story)


def test_a_binding_that_nobody_waits_for_any_more_is_not_sent() -> None:
    async def story(world: World) -> None:
        dispatcher, pod = await dispatcher_and_pod(world)
        world.wire.seconds = 10.0
        dispatcher.patch_status(pod, (not_ready("in flight"),))
        await world.settle(1)
        made: list[str] = []

        async def send() -> None:
            made.append("sent")

        waiting = asyncio.ensure_future(dispatcher.bind(pod.metadata.uid, send))
        await world.settle(1)
        waiting.cancel()
        await world.settle(60)
        assert made == []
        dispatcher.patch_status(pod, (not_ready("later"),))
        await world.settle(60)
        assert world.message("p") == "later"

    calling(story)
