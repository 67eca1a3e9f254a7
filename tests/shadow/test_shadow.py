"""Shadow beside another scheduler on one API server."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from msgspec import to_builtins

from stowplan.api.catalogue import NODES, PODS
from stowplan.cli.shadow import following
from stowplan.clock import VirtualClock, run
from stowplan.config import load
from stowplan.embedded.client import InProcessClient
from stowplan.embedded.store import Store
from stowplan.scheduler import Scheduler, Settings
from stowplan.shadow import Report
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
    clock: VirtualClock, ours: Settings, work: Callable[[Store], Awaitable[None]], theirs: Settings | None
) -> Report:
    """The report of a shadow with `ours` while a scheduler with `theirs` (None: nobody) places pods."""
    store = Store(clock, Random(1))
    nodes(store, 30)
    report = Report()
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


def mixed(number: int) -> dict[str, object]:
    """Pods of several kinds, so that decisions depend on each other."""
    app = f"a{number % 5}"
    built = pod(f"p{number}").labels(app=app).requests(cpu=f"{100 + number % 7 * 50}m", memory="128Mi")
    if number % 3 == 0:
        built = built.spread("topology.kubernetes.io/zone", {"app": app})
    return to_builtins(built.obj())  # type: ignore[no-any-return]


async def create_many(store: Store) -> None:
    for number in range(2000):
        store.create(PODS, mixed(number))
        if number % 20 == 0:
            await asyncio.sleep(0.05)


def test_the_same_configuration_agrees_in_every_binding() -> None:
    async def main(clock: VirtualClock) -> Report:
        return await judge(clock, Settings.of(), create_many, Settings.of())

    report = run(main)
    assert report.bindings == 2000
    assert report.disagree == 0
    assert report.document()["unjudged"] == 0


def test_another_scoring_disagrees_and_says_by_what() -> None:
    async def some(store: Store) -> None:
        for number in range(60):
            store.create(PODS, mixed(number))
            await asyncio.sleep(0.05)

    async def main(clock: VirtualClock) -> Report:
        return await judge(clock, Settings.of(load(PACKING)), some, Settings.of())

    report = run(main)
    assert report.bindings == 60
    assert report.disagree > 10
    for judgement in report.disagreements:
        assert judgement.verdict == "lower score"
        assert judgement.behind > 0
        assert judgement.ours
        assert "points behind" in judgement.reason
    assert "NodeResourcesFit +" in report.text()
    found = report.document()["disagreements"][0]["scores"]
    assert found["ours"].keys() == found["theirs"].keys()


def test_a_binding_to_a_node_that_does_not_fit_is_told_with_the_reason() -> None:
    async def bind_anyway(store: Store) -> None:
        large = pod("large").requests(cpu="100").on("n0").obj()
        store.create(PODS, to_builtins(large))
        store.create(PODS, to_builtins(pod("lost").on("nowhere").obj()))

    async def main(clock: VirtualClock) -> Report:
        return await judge(clock, Settings.of(), bind_anyway, None)

    report = run(main)
    document = report.document()
    assert (document["infeasible"], document["unjudged"]) == (1, 1)
    assert document["disagreements"][0]["reason"] == "NodeResourcesFit: Insufficient cpu"
    assert report.text().splitlines()[0] == "2 bindings: 0 agree (0.00 %), 1 disagree, 1 not judged"


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_bindings_that_are_seen_in_another_order_than_decided_are_understood(order: tuple[str, str]) -> None:
    """Two pods that avoid each other: the second was decided knowing of the first, seen or not."""
    placed = {"first": "n0", "second": "n1"}

    async def bind(store: Store) -> None:
        for name in order:
            one = pod(name).labels(app="x").requests(cpu="8").on(placed[name]).obj()
            store.create(PODS, to_builtins(one))

    async def main(clock: VirtualClock) -> Report:
        return await judge(clock, Settings.of(), bind, None)

    assert run(main).disagree == 0
