"""The stream of open pages: one computation for all viewers, by change logs; it ends before the server."""

import asyncio
import json
from random import Random
from typing import Any

from msgspec import to_builtins

from stowplan.api.catalogue import NODES, PODS
from stowplan.explain.web import EVERYTHING, Inspection
from stowplan.explain.web.stream import Subscription
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.testing import node, pod

Json = dict[str, Any]


class Watched:
    """A scheduler in virtual time with the feed of its pages."""

    def __init__(self, clock: VirtualClock) -> None:
        self.store = Store(clock, Random(1))
        for name in ("n0", "n1", "n2"):
            self.store.create(NODES, to_builtins(node(name).capacity(cpu=4).obj()))
        self.scheduler = Scheduler(InProcessClient(self.store), Settings.of(), clock=clock, rng=Random(2))
        self.inspection = Inspection(lambda: self.scheduler, cluster="a test", release="1.37")
        self.feed = self.inspection.feed

    def create(self, name: str, cpu: int = 1) -> None:
        self.store.create(PODS, to_builtins(pod(name).requests(cpu=cpu).obj()))

    def subscribe(self, about: str = "") -> Subscription:
        return Subscription(self.inspection, EVERYTHING, about)


async def told(subscription: Subscription, watched: Watched) -> dict[str, Json]:
    """The events of a look that is made now, by name."""
    return parsed(await subscription.told(watched.feed.look()))


def parsed(events: list[bytes]) -> dict[str, Json]:
    found = {}
    for one in events:
        name, data = one.decode().strip().split("\n")
        found[name.removeprefix("event: ")] = json.loads(data.removeprefix("data: "))
    return found


def test_nodes_are_told_by_what_has_changed() -> None:
    async def story(clock: VirtualClock) -> None:
        watched = Watched(clock)
        async with watched.scheduler.running():
            page = watched.subscribe()
            assert "nodes" not in await told(page, watched)
            watched.create("web")
            await asyncio.sleep(1)
            used = (await told(page, watched))["nodes"]
            assert [len(used["index"]), used["requested"]["cpu"], used["requested"]["pods"]] == [
                1,
                [1000],
                [1],
            ]
            assert "nodes" not in await told(page, watched), "nothing has changed since"

            cordoned = to_builtins(node("n1").capacity(cpu=4).obj())
            cordoned["spec"] = {"unschedulable": True}
            watched.store.update(NODES, {**watched.store.get(NODES, "", "n1"), "spec": cordoned["spec"]})
            await asyncio.sleep(1)
            assert (await told(page, watched))["nodes"] == {"reload": True}, "its taints are new"

            ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
            body = watched.store.get(NODES, "", "n2")
            watched.store.update(
                NODES, {**body, "status": {**body["status"], "conditions": [ready]}}, subresource="status"
            )
            await asyncio.sleep(1)
            states = (await told(page, watched))["nodes"]["states"]
            assert (states["index"], states["ready"], states["allocatable"]["cpu"]) == ([2], [0], [4000])

            watched.store.delete(NODES, "", "n2")
            await asyncio.sleep(1)
            assert (await told(page, watched))["nodes"] == {"reload": True}

    run(story)


def test_a_viewer_who_skipped_a_look_loads_the_nodes_again() -> None:
    async def story(clock: VirtualClock) -> None:
        watched = Watched(clock)
        async with watched.scheduler.running():
            slow = watched.subscribe()
            await told(slow, watched)
            watched.create("web")
            await asyncio.sleep(1)
            watched.feed.look()
            events = await told(slow, watched)
            assert events["nodes"] == {"reload": True}

    run(story)


def test_decisions_come_with_the_stream_and_say_when_some_are_missing() -> None:
    async def story(clock: VirtualClock) -> None:
        watched = Watched(clock)
        async with watched.scheduler.running():
            page = watched.subscribe()
            watched.create("before")
            await asyncio.sleep(1)
            await told(page, watched)
            watched.create("web")
            await asyncio.sleep(1)
            found = (await told(page, watched))["decisions"]
            assert [one["pod"] for one in found["items"]] == ["default/web"]
            assert found["complete"] is True
            for number in range(60):
                watched.create(f"many-{number}", cpu=9)
            await asyncio.sleep(1)
            found = (await told(page, watched))["decisions"]
            assert (len(found["items"]), found["complete"]) == (50, False)

    run(story)


def test_a_page_is_told_that_the_pod_it_shows_has_changed() -> None:
    async def story(clock: VirtualClock) -> None:
        watched = Watched(clock)
        gated = to_builtins(pod("web").requests(cpu=1).obj())
        gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
        watched.store.create(PODS, gated)
        async with watched.scheduler.running():
            page, other = watched.subscribe("pod/default/web"), watched.subscribe("pod/default/db")
            on_node = watched.subscribe("node/n0")
            for one in (page, other, on_node):
                assert "about" not in await told(one, watched)
            body = watched.store.get(PODS, "default", "web")
            watched.store.update(PODS, {**body, "spec": {**body["spec"], "schedulingGates": []}})
            await asyncio.sleep(1)
            look = watched.feed.look()
            events = [parsed(await one.told(look)) for one in (page, other, on_node)]
            bound = watched.store.get(PODS, "default", "web")["spec"]["nodeName"]
            assert [one.get("about") for one in events[:2]] == [{"of": "pod/default/web"}, None]
            assert ("about" in events[2]) == (bound == "n0")

    run(story)


def test_one_look_serves_all_pages_and_none_is_made_without_them() -> None:
    async def story(clock: VirtualClock) -> None:
        watched = Watched(clock)
        looks = 0
        look = watched.feed.look

        def counted() -> Any:
            nonlocal looks
            looks += 1
            return look()

        watched.feed.look = counted  # type: ignore[method-assign]

        async def page() -> int:
            return len([one async for one in watched.feed.events(EVERYTHING)])

        async with watched.scheduler.running(), watched.inspection.following():
            pages = [asyncio.create_task(page()) for _ in range(10)]
            await asyncio.sleep(10)
            assert looks <= 10 + 41, "one for each page that comes, then four a second"
            pages.pop().cancel()
            watched.feed.close()
            assert all(await asyncio.gather(*pages)), "each has got events, and has ended"
            before = looks
            await asyncio.sleep(10)
            assert looks == before

    run(story)


def test_streams_end_with_what_follows_the_scheduler() -> None:
    async def story(clock: VirtualClock) -> None:
        watched = Watched(clock)

        async def page() -> None:
            async for _ in watched.feed.events(EVERYTHING):
                pass

        async with watched.scheduler.running():
            async with watched.inspection.following():
                open_page = asyncio.create_task(page())
                await asyncio.sleep(3)
                assert not open_page.done()
            await open_page
            await page()  # a browser that comes back while the server stops is not kept waiting

    run(story)
