"""The simulated cluster: a fork leaves no trace, and a real scheduler of the same seed decides the same."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import Object
from stowplan.api.node import Node, Taint
from stowplan.api.pod import Pod
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.simulate import Cluster, NoSuchObjectError
from stowplan.testing import node, pod
from stowplan.testing.cluster_strategies import any_node, pods

RESOURCES = ("cpu", "memory", "example.com/gpu", "example.com/fpga")


def nodes(count: int, cpu: str = "4") -> list[Node]:
    return [node(f"n{i}").capacity(cpu=cpu, memory="8Gi", pods="20").obj() for i in range(count)]


def replicas(name: str, count: int, cpu: str = "500m", **more: Any) -> list[Pod]:
    made = []
    for number in range(count):
        builder = pod(f"{name}-{number}").requests(cpu=cpu).owned_by("ReplicaSet", name)
        made.append(builder.priority(more.get("priority", 0)).obj())
    return made


def scheduled_for_real(objects: Sequence[Node], waiting: Sequence[Pod], seed: int) -> dict[str, str]:
    """Placement by a whole scheduler with an API server."""

    async def main(clock: VirtualClock) -> dict[str, str]:
        store = Store(clock, Random(0))
        for one in objects:
            store.create(NODES, to_builtins(one))
        scheduler = Scheduler(InProcessClient(store), Settings.of(), clock=clock, rng=Random(seed))
        async with scheduler.running():
            for pending in waiting:
                store.create(PODS, to_builtins(pending))
                await asyncio.sleep(0.01)
            await asyncio.sleep(1)
        bound = {
            f"{one['metadata']['namespace']}/{one['metadata']['name']}": one["spec"].get("nodeName", "")
            for one in store.list(PODS).items
        }
        return {key: where for key, where in bound.items() if where}

    return run(main)


def state(cluster: Cluster) -> Any:
    """Everything one can see of a cluster, and what it would do next."""
    table = cluster.table
    rows = range(table.rows_in_use)
    seen = (
        dict(cluster.pending),
        dict(cluster.messages),
        [(table.names[row], to_builtins(table.nodes[row])) for row in rows if table.nodes[row]],
        [list(table.pods_on[row]) for row in rows if table.nodes[row]],
        [[int(table.requested_of(one)[row]) for row in rows if table.nodes[row]] for one in RESOURCES],
        cluster.placements,
    )
    with cluster.fork():
        outcome = cluster.schedule(replicas("probe", 5, "100m"))
    return seen, outcome.document()


@pytest.mark.parametrize("seed", [1, 2])
def test_placements_are_those_of_a_scheduler_of_the_same_seed(seed: int) -> None:
    objects, waiting = nodes(12), replicas("web", 40)
    cluster = Cluster(objects, seed=seed)
    outcome = cluster.schedule(waiting)
    assert outcome.fits
    assert outcome.placed == scheduled_for_real(objects, waiting, seed)
    assert cluster.placements == outcome.placed


def test_a_drain_moves_pods_with_a_controller_loses_others_and_leaves_daemons() -> None:
    cluster = Cluster(
        [
            *nodes(3),
            pod("web").requests(cpu="1").owned_by("ReplicaSet", "web").on("n0").obj(),
            pod("bare").requests(cpu="1").on("n0").obj(),
            pod("agent").owned_by("DaemonSet", "agent").on("n0").obj(),
        ]
    )
    outcome = cluster.drain("n0")
    assert outcome.moved["default/web"][0] == "n0"
    assert outcome.placed["default/web"] in ("n1", "n2")
    assert outcome.lost == ["default/bare"]
    assert [one.metadata.name for one in cluster.pods_on("n0")] == ["agent"]
    assert cluster.node("n0").spec.unschedulable


def test_a_pod_of_higher_priority_evicts_and_the_victims_are_scheduled_again() -> None:
    cluster = Cluster([*nodes(1), *(replace(one, spec=replace(one.spec, node_name="n0")) for one in low())])
    outcome = cluster.schedule(replicas("high", 1, "4", priority=100))
    assert outcome.placed == {"default/high-0": "n0"}
    assert {(one.pod, one.by) for one in outcome.evictions} == {
        (f"default/low-{number}", "default/high-0") for number in range(4)
    }
    assert all("Insufficient cpu" in outcome.pending[f"default/low-{number}"] for number in range(4))
    assert cluster.messages == outcome.pending


def test_a_pod_that_has_a_node_is_refused() -> None:
    cluster = Cluster(nodes(1))
    cluster.schedule(replicas("web", 1))
    with pytest.raises(ValueError, match="default/web-0 has a node already"):
        cluster.schedule(replicas("web", 1))


def low() -> list[Pod]:
    return replicas("low", 4, "1")


def test_without_preemption_nobody_has_to_go() -> None:
    cluster = Cluster([*nodes(1), *(replace(one, spec=replace(one.spec, node_name="n0")) for one in low())])
    outcome = cluster.schedule(replicas("high", 1, "4", priority=100), preempt=False)
    assert list(outcome.pending) == ["default/high-0"]
    assert not outcome.evictions


def test_a_gated_pod_stays_pending() -> None:
    cluster = Cluster(nodes(1))
    outcome = cluster.schedule(pod("later").gates("wait").obj())
    assert "gates" in outcome.pending["default/later"]


def test_a_committed_fork_is_kept() -> None:
    cluster = Cluster(nodes(2))
    with cluster.fork():
        cluster.schedule(replicas("web", 2))
        cluster.commit()
        cluster.cordon("n0")
    assert len(cluster.placements) == 2
    assert not cluster.node("n0").spec.unschedulable


def test_who_is_not_there_is_named() -> None:
    cluster = Cluster(nodes(1))
    for ask in (
        lambda: cluster.drain("n9"),
        lambda: cluster.remove_pod("default/x"),
        lambda: cluster.pod("a/b"),
    ):
        with pytest.raises(NoSuchObjectError, match=r"no (node n9|pod default/x|pod a/b)"):
            ask()


CHANGES: Sequence[Callable[[Cluster, str, Any], object]] = (
    lambda cluster, name, other: cluster.drain(name),
    lambda cluster, name, other: cluster.cordon(name),
    lambda cluster, name, other: cluster.taint(name, Taint(key="gpu", effect="NoSchedule")),
    lambda cluster, name, other: cluster.label(name, {"disk": "ssd", "rack": None}),
    lambda cluster, name, other: cluster.remove_node(name),
    lambda cluster, name, other: cluster.add(other),
    lambda cluster, name, other: cluster.schedule(),
    lambda cluster, name, other: cluster.schedule(
        replicas(f"more-{len(cluster.placements)}", 6, "700m", priority=5)
    ),
)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_fork_leaves_no_trace(data: st.DataObject) -> None:
    objects: list[Object] = data.draw(st.lists(any_node, min_size=1, max_size=6, unique_by=lambda n: n.name))
    waiting = data.draw(st.lists(pods(), max_size=8, unique_by=(lambda p: p.key, lambda p: p.metadata.uid)))
    cluster = Cluster([*objects, *(replace(one, spec=replace(one.spec, node_name="")) for one in waiting)])
    cluster.schedule()
    before = state(cluster)
    with cluster.fork():
        for _ in range(data.draw(st.integers(1, 5))):
            names = [one.name for one in cluster.nodes]
            if not names:
                break
            change = data.draw(st.sampled_from(CHANGES))
            change(cluster, data.draw(st.sampled_from(names)), data.draw(any_node))
    assert state(cluster) == before


def test_ties_can_go_to_the_first_node_by_name_or_in_a_random_order_that_stays() -> None:
    def filled(ties: Any, seed: int) -> list[str]:
        cluster = Cluster(nodes(4), seed=seed, ties=ties)
        lonely = [pod(f"p{n}").requests(cpu="4").obj() for n in range(4)]
        return list(cluster.schedule(lonely).placed.values())

    assert filled("first", 1) == filled("first", 2) == ["n0", "n1", "n2", "n3"]
    assert filled("fixed", 1) == filled("fixed", 1) != filled("fixed", 2)
