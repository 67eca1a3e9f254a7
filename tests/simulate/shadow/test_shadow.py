"""Shadow next to another scheduler on one API server."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from aiohttp import ClientSession
from msgspec import to_builtins

from effort import LONG
from stowplan.api.catalogue import NODES, PODS
from stowplan.cli.simulate.shadow import following
from stowplan.config import load
from stowplan.explain.report.page import render as render_page
from stowplan.explain.report.terminal import render
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.simulate.shadow import Tally
from stowplan.simulate.shadow.metrics import MetricsServer, ShadowMetrics
from stowplan.simulate.shadow.report import BUCKETS, Timeline, page_of, written
from stowplan.testing import node, pod

PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def nodes(store: Store, count: int) -> None:
    for number in range(count):
        labels = {"kubernetes.io/hostname": f"n{number}", "topology.kubernetes.io/zone": f"z{number % 3}"}
        shape = node(f"n{number}").capacity(cpu=32, memory="128Gi", pods=110).labels(**labels)
        store.create(NODES, to_builtins(shape.obj()))


async def judge(
    clock: VirtualClock,
    ours: Settings,
    work: Callable[[Store], Awaitable[None]],
    theirs: Settings | None,
    count: int = 30,
) -> Tally:
    """The report of a shadow with `ours` while a scheduler with `theirs` (None: no scheduler) places pods."""
    store = Store(clock, Random(1))
    nodes(store, count)
    report = Tally()
    async with following(InProcessClient(store), ours, clock, report.add) as (_, shadow):
        if theirs is None:
            await work(store)
        else:
            scheduler = Scheduler(InProcessClient(store), theirs, clock=clock, rng=Random(2))
            async with scheduler.running():
                await work(store)
                await asyncio.sleep(1)
        await asyncio.sleep(5)
        shadow.settle(all_of_them=True)
    return report


def text(report: Tally) -> str:
    return "\n".join(render(written(report)))


def mixed(number: int) -> dict[str, object]:
    """Pods of several kinds, so that decisions depend on each other."""
    app = f"a{number % 5}"
    built = pod(f"p{number}").labels(app=app).requests(cpu=f"{100 + number % 7 * 50}m", memory="128Mi")
    if number % 3 == 0:
        built = built.spread("topology.kubernetes.io/zone", {"app": app})
    return to_builtins(built.obj())  # type: ignore[no-any-return]


MANY = 2000 if LONG else 500


async def create_many(store: Store) -> None:
    for number in range(MANY):
        store.create(PODS, mixed(number))
        if number % 20 == 0:
            await asyncio.sleep(0.05)


def test_the_same_configuration_agrees_in_every_binding() -> None:
    async def main(clock: VirtualClock) -> Tally:
        return await judge(clock, Settings.of(), create_many, Settings.of())

    report = run(main)
    assert report.bindings == MANY
    assert report.disagree == 0
    assert report.document()["unjudged"] == 0


def test_another_scoring_disagrees_and_says_by_what() -> None:
    async def some(store: Store) -> None:
        for number in range(60):
            store.create(PODS, mixed(number))
            await asyncio.sleep(0.05)

    async def main(clock: VirtualClock) -> Tally:
        return await judge(clock, Settings.of(load(PACKING)), some, Settings.of())

    report = run(main)
    assert report.bindings == 60
    assert report.disagree > 10
    for judgement in report.disagreements:
        assert judgement.verdict == "lower score"
        assert judgement.behind > 0
        assert judgement.ours
        assert judgement.reason.startswith(f"{judgement.behind} point")
    assert report.plugins == {"NodeResourcesFit": report.disagree}
    assert "NodeResourcesFit +" in text(report)
    assert "Points of both nodes" in render_page(page_of(report))
    found = report.document()["disagreements"][0]["scores"]
    assert found["ours"].keys() == found["theirs"].keys()


def test_a_binding_to_a_node_that_does_not_fit_is_told_with_the_reason() -> None:
    async def bind_anyway(store: Store) -> None:
        large = pod("large").requests(cpu="100").on("n0").obj()
        store.create(PODS, to_builtins(large))
        store.create(PODS, to_builtins(pod("lost").on("nowhere").obj()))

    async def main(clock: VirtualClock) -> Tally:
        return await judge(clock, Settings.of(), bind_anyway, None)

    report = run(main)
    document = report.document()
    assert (document["infeasible"], document["unjudged"]) == (1, 1)
    assert document["disagreements"][0]["reason"] == "NodeResourcesFit: Insufficient cpu"
    assert report.line() == "2 bindings: 0 agree (0.00 %), 1 disagree, 1 not judged"


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_bindings_that_are_seen_in_another_order_than_decided_are_understood(order: tuple[str, str]) -> None:
    """Two pods that avoid each other: the second was decided knowing of the first, seen or not."""
    placed = {"first": "n0", "second": "n1"}

    async def bind(store: Store) -> None:
        for name in order:
            one = pod(name).labels(app="x").requests(cpu="8").on(placed[name]).obj()
            store.create(PODS, to_builtins(one))

    async def main(clock: VirtualClock) -> Tally:
        return await judge(clock, Settings.of(), bind, None)

    assert run(main).disagree == 0


SAMPLING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 10
"""


def test_a_scheduler_that_samples_nodes_agrees_within_what_it_looked_at() -> None:
    async def some(store: Store) -> None:
        for number in range(60):
            one = pod(f"p{number}").requests(cpu="100m")
            one = one.node_affinity("kubernetes.io/hostname", "In", "n7", weight=100)
            store.create(PODS, to_builtins(one.obj()))
            await asyncio.sleep(0.05)

    async def main(clock: VirtualClock) -> Tally:
        return await judge(clock, Settings.of(load(SAMPLING)), some, Settings.of(load(SAMPLING)), count=160)

    report = run(main)
    assert (report.bindings, report.disagree) == (60, 0)
    assert report.sampled > 10
    assert "not among the best of all nodes, best of those looked at" in text(report)
    document = report.document()
    assert document["bindings"] == document["agree"] + document["disagree"] + document["unjudged"]


def test_of_a_few_nodes_a_scheduler_that_samples_looks_at_all() -> None:
    """Choosing a node that is not the best of fewer than a hundred is a disagreement, at any percentage."""

    async def bind(store: Store) -> None:
        store.create(PODS, to_builtins(pod("a").requests(cpu="8").on("n0").obj()))
        await asyncio.sleep(10)
        store.create(PODS, to_builtins(pod("b").requests(cpu="8").on("n0").obj()))

    async def main(clock: VirtualClock) -> Tally:
        return await judge(clock, Settings.of(load(SAMPLING)), bind, None)

    report = run(main)
    assert (report.agree, report.disagree, report.sampled) == (1, 1, 0)


def test_static_pods_are_nobodys_decision() -> None:
    async def bind(store: Store) -> None:
        one = to_builtins(pod("static").requests(cpu="100").on("n0").obj())
        one["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        store.create(PODS, one)

    async def main(clock: VirtualClock) -> Tally:
        return await judge(clock, Settings.of(), bind, None)

    assert run(main).bindings == 0


def test_metrics_are_served_while_it_runs() -> None:
    async def main() -> tuple[str, int]:
        tally = Tally(raced=2, lag=1.5)
        tally.verdicts.update({"agree": 5, "lower score": 2, "infeasible": 1, "unjudged": 4})
        tally.plugins.update({"NodeResourcesFit": 3})
        async with MetricsServer(ShadowMetrics(tally, lambda: 7), 0) as server, ClientSession() as session:
            async with session.get(server.url) as response:
                found = await response.text()
            async with session.get(server.url.replace("metrics", "other")) as response:
                return found, response.status

    text, other = asyncio.run(main())
    assert other == 404
    for line in (
        'stowplan_shadow_bindings_total{verdict="agree"} 5',
        'stowplan_shadow_bindings_total{verdict="lower_score"} 2',
        'stowplan_shadow_bindings_total{verdict="infeasible"} 1',
        'stowplan_shadow_bindings_total{verdict="unjudged"} 4',
        'stowplan_shadow_disagreements_total{plugin="NodeResourcesFit"} 3',
        "stowplan_shadow_raced_total 2",
        "stowplan_shadow_open 7",
        "stowplan_shadow_lag_seconds 1.5",
    ):
        assert line in text.splitlines()


def test_agreement_over_time_is_bounded_and_loses_nothing() -> None:
    line = Timeline()
    for second in range(BUCKETS * 5):
        line.add(1000.0 + second, second % 3 > 0)
    steps = line.document()
    assert len(steps) <= BUCKETS
    assert sum(step["agree"] for step in steps) == BUCKETS * 5 * 2 // 3
    assert sum(step["disagree"] for step in steps) == BUCKETS * 5 // 3
