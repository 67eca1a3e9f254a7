"""What needs attention now, and the cluster as it was: frames of each minute, in bounded memory."""

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

from msgspec import to_builtins

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import timestamp
from stowplan.explain.web import EVERYTHING, Inspection, Routes, Viewer
from stowplan.explain.web.past import FINE, OLD, Past
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.testing import node, pod

Json = dict[str, Any]
MINUTE = 60.0


class Remembered:
    """A scheduler whose past is kept, in virtual time."""

    def __init__(self, clock: VirtualClock, *names: str) -> None:
        self.clock = clock
        self.store = Store(clock, Random(1))
        for name in names:
            self.add_node(name)
        self.scheduler = Scheduler(InProcessClient(self.store), Settings.of(), clock=clock, rng=Random(2))
        self.inspection = Inspection(lambda: self.scheduler, cluster="a test", release="1.37")
        self.routes = Routes(self.inspection, dict)

    def add_node(self, name: str) -> None:
        self.store.create(NODES, to_builtins(node(name).capacity(cpu=4).obj()))

    def create(self, name: str, cpu: int) -> None:
        self.store.create(PODS, to_builtins(pod(name).requests(cpu=cpu).obj()))

    async def get(self, path: str, code: int = 200, **query: str) -> Json:
        answer = await self.routes.answer(f"/stowplan/v1/{path}", query, EVERYTHING)
        assert answer.code == code, answer
        found: Json = answer.document if code != 200 else answer.document.document()
        return found


def test_attention_counts_what_is_wrong_and_names_nodes() -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = Remembered(clock, "n0", "n1", "n2")
        async with cluster.scheduler.running(), cluster.inspection.following():
            calm = await cluster.get("attention")
            assert (calm["waiting"], calm["oldest"]) == (0, None)
            assert calm["scarcest"] == {"resource": "cpu", "share": 0}
            cluster.create("huge", 9)
            body = cluster.store.get(NODES, "", "n1")
            cluster.store.update(NODES, {**body, "spec": {"unschedulable": True}})
            ready = {"type": "Ready", "status": "Unknown"}
            body = cluster.store.get(NODES, "", "n2")
            status = {**body["status"], "conditions": [ready]}
            cluster.store.update(NODES, {**body, "status": status}, subresource="status")
            cluster.create("web", 3)
            await asyncio.sleep(1)
            found = await cluster.get("attention")
            assert found["waiting"] == 1
            assert (
                found["oldest"] == cluster.store.get(PODS, "default", "huge")["metadata"]["creationTimestamp"]
            )
            assert found["cordoned"] == {"count": 1, "names": ["n1"]}
            assert found["notReady"] == {"count": 1, "names": ["n2"]}
            assert found["scarcest"] == {"resource": "cpu", "share": 0.25}

    run(story)


def test_a_moment_is_shown_as_it_was_with_what_has_changed_since() -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = Remembered(clock, "n0", "n1")
        async with cluster.scheduler.running(), cluster.inspection.following():
            begun = clock.now()
            await asyncio.sleep(2 * MINUTE)
            cluster.create("web", 3)
            cluster.create("huge", 9)
            cluster.store.delete(NODES, "", "n1")
            cluster.add_node("n2")
            await asyncio.sleep(10 * MINUTE)
            then = await cluster.get(f"moments/{timestamp(begun + MINUTE)}")
            assert (then["names"], then["fills"]["cpu"], then["fills"]["pods"]) == (
                ["n0", "n1"],
                [0, 0],
                [0, 0],
            )
            assert (then["ready"], then["unschedulable"]) == ([1, 1], [0, 0])
            changes = "; ".join(then["changes"])
            assert "1 node added; 1 node gone" in changes
            assert "pending pods: 0, now 1" in changes
            now = await cluster.get(f"moments/{timestamp(clock.now())}")
            assert now["changes"] == []
            assert sorted(now["fills"]["cpu"]) == [0, 0.75]
            trend = (await cluster.get("attention"))["trend"]
            assert (trend["waiting"][0], trend["waiting"][-1]) == (0, 1)
            assert await cluster.get("moments/yesterday", 400)
            # Between two moments before the pods came nothing had changed.
            first, later = timestamp(begun), timestamp(begun + MINUTE)
            between = await cluster.get(f"moments/{first}", until=later)
            assert (between["changes"], between["until"]) == ([], later)
            whole = await cluster.get(f"moments/{first}", until=timestamp(clock.now()))
            assert "pending pods: 0, now 1" in whole["changes"]
            assert await cluster.get(f"moments/{first}", 400, until="tomorrow")

    run(story)


def test_a_day_fits_in_a_bounded_number_of_frames() -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = Remembered(clock, "n0")
        past = Past()
        async with cluster.scheduler.running():
            for _ in range(60 * 40):
                past.sample(cluster.scheduler, {"active": 0})
                await asyncio.sleep(MINUTE)
        times = [frame.time for frame in past.frames()]
        assert len(times) == FINE + OLD
        assert times == sorted(times)
        steps = {round(later - earlier) for earlier, later in pairwise(times)}
        assert steps <= set(range(60, 601, 60))
        assert times[-1] - times[0] > 20 * 3600
        assert len({id(frame.names) for frame in past.frames()}) == 1, (
            "frames of the same nodes share their names"
        )

    run(story)


def test_the_past_is_for_those_who_may_list_nodes() -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = Remembered(clock, "n0")

        async def pods_only(plural: str, namespace: str) -> bool:
            return plural == "pods"

        async with cluster.scheduler.running(), cluster.inspection.following():
            for path in ("attention", f"moments/{timestamp(clock.now())}", "nodes/n0/object"):
                answer = await cluster.routes.answer(f"/stowplan/v1/{path}", {}, Viewer(pods_only))
                assert answer.code == 403, path

    run(story)
