"""Common rules of control loops: writes name the version they are based on, failures stop no other key."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar

import pytest

from localcluster.controllers.small_clusters import World, live, selecting, template
from stowplan.api.catalogue import CONFIG_MAPS, EVENTS, PODS, REPLICA_SETS, Resource
from stowplan.api.status import ApiError
from stowplan.client.interface import GeneratorWatch
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import (
    Controller,
    ControllerContext,
    ControllerManager,
    slow_start_batch,
)
from stowplan.localcluster.controllers.workloads.replicaset import ReplicaSetController
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run


class Marker(Controller):
    """Marks every config map it sees, except those it chokes on."""

    name: ClassVar[str] = "marker"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.maps = self.follow(CONFIG_MAPS)
        self.seen: list[str] = []

    async def sync(self, key: str) -> None:
        obj = self.maps.get(key)
        if obj is None:
            return
        self.seen.append(key)
        if "choke" in key:
            raise KeyError("spec")
        if "marked" not in (obj.get("data") or {}):
            await self.change(CONFIG_MAPS, obj, {"data": {"marked": "yes"}})
            await self.record_event(obj, "Marked", "It is marked")


def test_one_object_that_makes_no_sense_does_not_stop_the_others() -> None:
    async def story(world: World) -> None:
        for name in ("a-choke", "b"):
            world.put(CONFIG_MAPS, {"metadata": {"name": name}})
        await world.settle(2)
        assert world.get(CONFIG_MAPS, "b")["data"] == {"marked": "yes"}
        assert "marker: d/a-choke: KeyError: 'spec'" in world.problems
        (marker,) = world.controllers
        assert isinstance(marker, Marker)
        assert 2 <= marker.seen.count("d/a-choke") < 15

    live(story, lambda context: [Marker(context)])


def test_nothing_is_written_over_what_was_not_looked_at() -> None:
    async def story(world: World) -> None:
        (marker,) = world.controllers
        old = world.put(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"marked": "no"}})
        world.patch(CONFIG_MAPS, "m", {"data": {"other": "x"}})
        with pytest.raises(ApiError) as error:
            await marker.change(CONFIG_MAPS, old, {"data": {"marked": "yes"}})
        assert error.value.is_conflict

    live(story, lambda context: [Marker(context)])


class Stale(Marker):
    """Marks every config map as if it still were the one of that name from before."""

    name: ClassVar[str] = "stale"

    async def sync(self, key: str) -> None:
        self.seen.append(key)
        old = {"metadata": {"namespace": "d", "name": key.removeprefix("d/")}}
        patch = {"metadata": {"uid": "of-the-one-before"}, "data": {"marked": "yes"}}
        await self.change(CONFIG_MAPS, old, patch, guarded=False)


def test_an_object_replaced_under_its_name_is_no_problem_and_stays_as_it_is() -> None:
    async def story(world: World) -> None:
        world.put(CONFIG_MAPS, {"metadata": {"name": "m"}})
        await world.settle(2)
        (stale,) = world.controllers
        assert isinstance(stale, Stale)
        assert len(stale.seen) > 1
        assert "data" not in world.get(CONFIG_MAPS, "m")
        assert world.problems == []

    live(story, lambda context: [Stale(context)])


class LateNews(InProcessClient):
    """A client whose watches tell of pods a second late."""

    def watch(self, resource: Resource, *args: Any, **options: Any) -> Any:
        watch = super().watch(resource, *args, **options)
        return GeneratorWatch(self._late(watch)) if resource == PODS else watch

    async def _late(self, watch: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(watch) as events:
            async for event in events:
                await asyncio.sleep(1.0)
                yield event


def test_what_was_written_is_seen_before_the_next_decision() -> None:
    async def begin(clock: VirtualClock) -> None:
        store = Store(clock, random.Random(1))
        context = ControllerContext.of(LateNews(store), clock, random.Random(2))
        async with ControllerManager(context, [ReplicaSetController(context)]).running():
            spec = {"replicas": 1, "selector": selecting(), "template": template()}
            store.create(REPLICA_SETS, {"metadata": {"name": "rs", "namespace": "d"}, "spec": spec})
            await asyncio.sleep(0.5)
            store.patch(REPLICA_SETS, "d", "rs", {"metadata": {"labels": {"looked": "at-again"}}})
            for _ in range(30):
                await asyncio.sleep(0.2)
                assert store.count(PODS) == 1

    run(begin)


def test_equal_events_are_counted_similar_ones_combined_and_too_many_dropped() -> None:
    async def story(world: World) -> None:
        (marker,) = world.controllers
        about = world.put(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"marked": "yes"}})

        def told() -> list[tuple[str, int]]:
            return sorted((event["note"], event["deprecatedCount"]) for event in world.all(EVENTS))

        for _ in range(3):
            await marker.record_event(about, "Happened", "the same")
        assert told() == [("the same", 3)]
        event = world.all(EVENTS)[0]
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("ConfigMap", "m")
        assert event["reportingController"] == event["deprecatedSource"]["component"] == "marker"

        for number in range(12):
            await marker.record_event(about, "Happened", f"number {number:02}")
        combined = ("(combined from similar events): number 11", 4)
        assert told() == [combined, *((f"number {n:02}", 1) for n in range(8)), ("the same", 3)]

        for number in range(40):
            await marker.record_event(about, "Happened", f"again {number}")
        assert told()[0] == ("(combined from similar events): again 9", 14)
        await marker.record_event(about, "Failed", "of another type", "Warning")
        await world.settle(301)
        await marker.record_event(about, "Happened", "after a while")
        assert told()[0][0] == "(combined from similar events): after a while"
        assert ("of another type", 1) in told()

    live(story, lambda context: [Marker(context)])


def test_a_server_that_refuses_everything_is_not_asked_a_thousand_times() -> None:
    asked: list[int] = []

    async def refuse(number: int) -> None:
        asked.append(number)
        if number >= 3:
            raise ApiError(403, "Forbidden", "no")

    with pytest.raises(ApiError):
        asyncio.run(slow_start_batch(1000, refuse))
    assert asked == [0, 1, 2, 3, 4, 5, 6]
