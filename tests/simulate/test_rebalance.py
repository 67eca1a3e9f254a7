"""`stowplan plan rebalance`: steps come out as planned, budgets hold, and reality is checked."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from simulate.real_clusters import World, done_for_real, parsed
from simulate.test_whatif import budget
from stowplan.api.catalogue import DEPLOYMENTS, NODES, PODS
from stowplan.api.meta import Object
from stowplan.api.requests import DeleteOptions
from stowplan.cli.main import stowplan
from stowplan.simulate import Cluster
from stowplan.simulate.budgets import Budgets
from stowplan.simulate.rebalance import AIMS, Plan, rebalance
from stowplan.testing import live_cluster, node, pod

GPU = "example.com/gpu"


def nodes(count: int = 4, **more: str) -> list[Object]:
    room = {"cpu": "8", "memory": "32Gi", "pods": "50", **({GPU: more["gpu"]} if "gpu" in more else {})}
    return [node(f"n{n}").capacity(room).zone("ab"[n % 2]).obj() for n in range(count)]


def owned(name: str, on: str, cpu: str = "1", app: str = "web", **requests: str) -> Object:
    asked = {"cpu": cpu, **({GPU: requests["gpu"]} if "gpu" in requests else {})}
    return pod(name).labels(app=app).requests(asked).owned_by("ReplicaSet", app).on(on).obj()


def spread_pod(name: str, on: str) -> Object:
    return (
        pod(name)
        .labels(app="web")
        .requests(cpu="1")
        .owned_by("ReplicaSet", "web")
        .spread("topology.kubernetes.io/zone", max_skew=1, selects={"app": "web"})
        .on(on)
        .obj()
    )


CLUSTERS: dict[str, list[Object]] = {
    "free-nodes": [
        *nodes(),
        owned("a", "n0"),
        owned("b", "n1", "2"),
        owned("c", "n2", "6"),
        owned("d", "n3", "5"),
    ],
    "even": [*nodes(), *(owned(f"p{n}", "n0") for n in range(7)), owned("q", "n1")],
    "spread": [*nodes(), *(spread_pod(f"p{n}", "n0") for n in range(4)), spread_pod("q", "n1")],
    "gpus": [*nodes(3, gpu="4"), *(owned(f"p{n}", f"n{n}", "1", gpu="1") for n in range(3))],
}


@pytest.mark.parametrize("aim", AIMS)
def test_a_plan_improves_its_aim_and_leaves_the_cluster_alone(aim: str) -> None:
    cluster = Cluster(CLUSTERS[aim], seed=4)
    before = cluster.placements
    plan = rebalance(cluster, aim)
    assert cluster.placements == before
    better = plan.after - plan.before if aim in ("free-nodes", "gpus") else plan.before - plan.after
    assert better > 0
    assert sum(move.gain for move in plan.evictions) == pytest.approx(better if aim != "gpus" else 2)
    again = Cluster(CLUSTERS[aim], seed=4)
    for step in plan.steps:
        if step.pod:
            assert again.placements[step.pod] == step.node
            assert again.evict(step.pod).placed[step.pod] == step.to
        elif step.action == "cordon":
            again.cordon(step.node)
        else:
            again.uncordon(step.node)


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("limits", [{"max_unavailable": 0}, {"max_unavailable": 1}])
def test_budgets_are_kept_at_every_step(aim: str, limits: dict[str, Any]) -> None:
    objects = [*CLUSTERS[aim], budget(**limits)]
    plan = rebalance(Cluster(objects, seed=4), aim)
    assert bool(plan.evictions) == bool(limits["max_unavailable"])
    again = Cluster(objects, seed=4)
    for step in plan.steps:
        if step.pod:
            assert not Budgets(again).refusing(again.pod(step.pod))
            again.evict(step.pod)
        else:
            again.cordon(step.node)


def test_moves_are_limited_and_pods_without_a_controller_stay() -> None:
    cluster = Cluster(CLUSTERS["even"], seed=4)
    assert len(rebalance(cluster, "even", most=2).evictions) == 2
    bare: Sequence[Object] = [
        replace(one, metadata=replace(one.metadata, owner_references=())) for one in CLUSTERS["even"]
    ]
    plan = rebalance(Cluster(bare), "even")
    assert not plan.steps
    assert "has no controller" in plan.skipped.values()


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: web, resources: {requests: {cpu: "1"}}}]
"""


def test_moves_happen_as_planned_when_they_are_done() -> None:
    plans: list[Plan] = []

    async def story(world: World) -> None:
        for name in ("n1", "n2", "n3"):
            world.store.patch(NODES, "", name, {"spec": {"unschedulable": True}})
        async with world.scheduler(1):
            world.create(*parsed(DEPLOYMENT))
            await world.settle(3)
        for name in ("n1", "n2", "n3"):
            world.store.patch(NODES, "", name, {"spec": {"unschedulable": False}})
        await world.settle(3)
        plan = rebalance(Cluster(world.dump(), seed=9), "even")
        plans.append(plan)
        async with world.scheduler(9):
            for step in plan.steps:
                known = set(world.placements())
                world.store.delete(PODS, "default", step.pod.split("/")[1], DeleteOptions(0))
                await world.settle(2)
                [new] = set(world.placements()) - known
                assert world.placements()[new] == step.to

    done_for_real(nodes(), story, None)
    assert len(plans[0].evictions) >= 3


def run(*arguments: object) -> Any:
    return CliRunner().invoke(stowplan, ["plan", "rebalance", *map(str, arguments)])


def test_the_command_carries_a_plan_out_and_stops_when_reality_differs(tmp_path: Path) -> None:
    shapes = [{"name": "a", "cpu": 8}, {"name": "b", "cpu": 8}]
    with live_cluster(nodes=shapes) as running:
        store = running._cluster.store

        async def change(name: str, value: bool) -> None:
            store.patch(NODES, "", name, {"spec": {"unschedulable": value}})

        def cordon(name: str, value: bool) -> None:
            asyncio.run_coroutine_threadsafe(change(name, value), running._loop).result()

        async def create() -> None:
            store.create(
                DEPLOYMENTS, {**parsed(DEPLOYMENT)[0], "metadata": {"name": "web", "namespace": "default"}}
            )

        cordon("b", True)
        asyncio.run_coroutine_threadsafe(create(), running._loop).result()
        running.wait_until_ready(60)
        cordon("b", False)
        told = run("--kubeconfig", running.kubeconfig, "--moves", 1, "-o", "yaml")
        assert told.exit_code == 0, told.output
        document = yaml.safe_load(told.stdout)
        [step] = document["steps"]
        assert (step["from"], step["to"]) == ("a", "b")
        done = run("--kubeconfig", running.kubeconfig, "--moves", 1, "--execute")
        assert done.exit_code == 0, done.output
        assert "1 of 1 steps done" in done.stderr
        freed = run("--kubeconfig", running.kubeconfig, "--aim", "free-nodes", "--json")
        assert json.loads(freed.stdout)["after"] == 1
        stuck = run("--from", tmp_path, "--execute")
        assert stuck.exit_code == 2
        assert "--execute changes a cluster" in stuck.stderr


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("nodes:\n- {count: 2}\n")
    for arguments, message in (
        (["--aim", "better"], "--aim: expected one of free-nodes, even, spread, gpus, got 'better'"),
        (["--aim", "gpus"], "aim gpus: expected nodes with a resource whose name ends in gpu"),
        (["--resource", "x.y/z"], "resource: no node offers x.y/z"),
    ):
        told = run("--from", shapes, *arguments)
        assert (told.exit_code, told.stderr) == (1, told.stderr)
        assert message in told.stderr
        assert told.stderr.count("\n") == 1
