"""The last quarter of an hour of a scheduler: rates of lanes, latencies, plugins' share of time."""

import asyncio
import random
from typing import Any

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.requests import Json
from stowplan.explain.document.queue import DecisionsDocument
from stowplan.explain.web import Inspection
from stowplan.explain.web.history import KEPT
from stowplan.explain.web.nodes import MOST_TEMPLATES, TURNED_AWAY
from stowplan.lab.bench.engine.loop import document, running_scheduler
from stowplan.lab.bench.engine.workloads import NAMESPACE, WORKLOADS, node
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from waiting import eventually

BOUND = 40


def pod(number: int, **spec: Any) -> Json:
    made = document(WORKLOADS["basic"].pod(number))
    made["spec"] |= spec
    return made


def too_big(number: int, cpu: int = 1000) -> Json:
    requests = {"requests": {"cpu": str(cpu)}}
    return pod(number, containers=[{"name": "main", "image": "app", "resources": requests}])


def test_what_came_and_went_between_samples_is_told() -> None:
    asyncio.run(came_and_went())


async def came_and_went() -> None:
    store = Store(RealClock(), random.Random(0))
    store.create(NODES, document(node(0)))
    async with running_scheduler(store, 0) as scheduler:
        inspection = Inspection(lambda: scheduler, cluster="test", release="test")
        everything = {NAMESPACE}
        assert inspection.queue(everything).lanes[0].incoming is None, "nothing is known before two samples"
        inspection.history.sample()
        for number in range(BOUND):
            store.create(PODS, pod(number))
        store.create(PODS, too_big(BOUND))
        store.create(PODS, pod(BOUND + 1, schedulingGates=[{"name": "example.com/quota"}]))
        await eventually(
            lambda: (
                inspection.lanes()
                == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1, "permit": 0, "binding": 0}
                and len(scheduler.context.cache.table.pods) == BOUND
            )
        )
        await eventually(
            lambda: all(item.outcome != "binding" for item in inspection.decisions(everything).items)
        )
        inspection.history.sample()
        [interval] = inspection.history.intervals
        assert (interval.bound, interval.unschedulable, interval.errors) == (BOUND, 1, 0)
        assert interval.incoming == {"active": BOUND + 1, "unschedulable": 1, "gated": 1, "binding": BOUND}
        assert interval.outgoing == {"active": BOUND + 1, "binding": BOUND}

        shown = inspection.decisions(everything)
        history = shown.history
        assert history is not None
        assert history.bound == (round(BOUND / interval.seconds, 2),)
        assert history.p50[0] is not None
        assert history.p99[0] is not None
        assert 0 < history.p50[0] <= history.p99[0]
        assert not shown.plugins or abs(sum(one.share for one in shown.plugins) - 1) < 0.01
        lanes = {lane.name: lane for lane in inspection.queue(everything).lanes}
        rate = round((BOUND + 1) / interval.seconds, 3)
        assert lanes["active"].incoming == lanes["active"].outgoing == rate
        assert (lanes["gated"].outgoing, lanes["permit"].incoming) == (0, 0)

        scheduler.context.metrics.reset()
        inspection.history.sample()
        assert inspection.history.intervals[-1].bound == 0, "counters that were reset have not gone backwards"
        for _ in range(2 * KEPT):
            inspection.history.sample()
        assert len(inspection.history.intervals) == KEPT


def test_who_may_not_see_nodes_is_told_no_totals() -> None:
    async def ask() -> None:
        store = Store(RealClock(), random.Random(0))
        async with running_scheduler(store, 0) as scheduler:
            inspection = Inspection(lambda: scheduler, cluster="test", release="test")
            store.create(NODES, document(node(0)))
            store.create(PODS, too_big(0))
            await eventually(lambda: inspection.lanes()["unschedulable"] == 1)
            for _ in range(2):
                inspection.history.sample()
            shown = inspection.decisions(set(), whole=False)
            assert shown == DecisionsDocument(rate=None)
            for lane in inspection.queue(set(), whole=False).lanes:
                assert (lane.total, lane.incoming, lane.outgoing, lane.pods) == (0, None, None, ())

    asyncio.run(ask())


def test_a_node_evaluates_a_template_once_however_many_pods_it_has() -> None:
    async def ask() -> None:
        store = Store(RealClock(), random.Random(0))
        store.create(NODES, document(node(0)))
        templates, pods = 3, 120
        async with running_scheduler(store, 0) as scheduler:
            inspection = Inspection(lambda: scheduler, cluster="test", release="test")
            for number in range(pods):
                store.create(PODS, too_big(number, 1000 + number % templates))
            await eventually(lambda: inspection.lanes()["unschedulable"] == pods)
            evaluated = 0
            original = inspection._evaluated

            def counted(*arguments: Any) -> Any:
                nonlocal evaluated
                evaluated += 1
                return original(*arguments)

            inspection._evaluated = counted  # type: ignore[method-assign, assignment]
            found = await inspection.node(node(0).name, {NAMESPACE})
            assert found is not None
            assert len(found.turned_away) == TURNED_AWAY
            assert {one.reason for one in found.turned_away} == {"Insufficient cpu"}
            assert evaluated == templates <= MOST_TEMPLATES

    asyncio.run(ask())


def test_pods_that_are_placed_while_causes_are_found_are_no_error() -> None:
    async def ask() -> None:
        store = Store(RealClock(), random.Random(0))
        store.create(NODES, document(node(0)))
        async with running_scheduler(store, 0) as scheduler:
            inspection = Inspection(lambda: scheduler, cluster="test", release="test")
            pods = [too_big(number, 1000 + number) for number in range(4)]
            for made in pods:
                store.create(PODS, made)
            await eventually(lambda: inspection.lanes()["unschedulable"] == len(pods))
            explain = inspection.explain

            async def after_they_were_placed(*arguments: Any, **about: Any) -> Any:
                await eventually(lambda: len(scheduler.context.cache.table.pods) == len(pods))
                await eventually(lambda: not scheduler.context.cache.assumed)
                return await explain(*arguments, **about)

            inspection.explain = after_they_were_placed  # type: ignore[method-assign]
            asking = asyncio.ensure_future(inspection.pending({NAMESPACE}))
            await asyncio.sleep(0)
            large = document(node(1))
            large["status"]["allocatable"]["cpu"] = large["status"]["capacity"]["cpu"] = "10000"
            store.create(NODES, large)
            found = await asking
            assert found.pods == sum(cause.count for cause in found.causes) == len(pods)
            assert (await inspection.pending({NAMESPACE})).pods == 0

    asyncio.run(ask())
