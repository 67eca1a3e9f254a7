"""`stowplan plan rebalance`: steps come out as planned, budgets hold, and reality is checked."""

import asyncio
import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from simulate.embedded import Embedded, embedded
from simulate.real_clusters import World, done_for_real, parsed
from simulate.test_whatif import budget
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import Object
from stowplan.api.requests import DeleteOptions
from stowplan.cli.main import stowplan
from stowplan.cli.simulate.execution import Execution, carried_out
from stowplan.localcluster.kubelets import NodeShape
from stowplan.simulate import Cluster
from stowplan.simulate.budgets import Budgets
from stowplan.simulate.rebalance import AIMS, Move, Plan, rebalance
from stowplan.simulate.snapshot import read_cluster
from stowplan.testing import node, pod

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


def unschedulable(world: Embedded) -> set[str]:
    return {
        one["metadata"]["name"]
        for one in world.cluster.store.list(NODES).items
        if one["spec"].get("unschedulable")
    }


def emptying(cluster: Cluster, *_: Any, **__: Any) -> Plan:
    """A plan to move all pods from node a to node b."""
    pods = [pod.key for pod in cluster.pods_on("a")]
    moves = [Move("evict", "a", key, "b") for key in pods]
    return Plan("free-nodes", "empty nodes", 0, 1, [Move("cordon", "a"), *moves])


def cordon(world: Embedded, *names: str, value: bool | None = True) -> None:
    for name in names:
        world.run(world.client.patch(NODES, "", name, {"spec": {"unschedulable": value}}))


def shapes(**cpus: str) -> list[NodeShape]:
    return [NodeShape(name=name, cpu=cpu) for name, cpu in cpus.items()]


@contextmanager
def crowded(*others: str, start_delay: float = 0.0) -> Iterator[Embedded]:
    """A cluster with all six pods on node a, and other nodes."""
    with embedded(*shapes(a="8", **dict.fromkeys(others, "8")), start_delay=start_delay) as world:
        cordon(world, *others)
        world.create(*parsed(DEPLOYMENT))
        world.pass_time(30)
        cordon(world, *others, value=None)
        yield world


def test_the_command_carries_a_plan_out(tmp_path: Path) -> None:
    with crowded("b") as world:
        told = world.command("plan", "rebalance", "--moves", 1, "-o", "yaml")
        [step] = yaml.safe_load(told.stdout)["steps"]
        assert (step["from"], step["to"]) == ("a", "b")
        done = world.command("plan", "rebalance", "--moves", 1, "--execute")
        assert done.exit_code == 0, done.output
        assert "1 move done" in done.stderr
        freed = world.command("plan", "rebalance", "--aim", "free-nodes", "--json")
        assert json.loads(freed.stdout)["after"] == 1
    stuck = run("--from", tmp_path, "--execute")
    assert stuck.exit_code == 2
    assert "--execute changes a cluster" in stuck.stderr


def test_free_nodes_leaves_nodes_alone_that_are_empty_already() -> None:
    """Big nodes that no pod would go to are not cordoned, and one that a pod would go to is uncordoned."""
    tainted = node("gpu").capacity(cpu="64", memory="64Gi", pods="50").taint("gpu", "true").obj()
    few = [owned("a", "n0"), owned("b", "n1", "2"), owned("c", "n2", "2")]
    plan = rebalance(Cluster([*nodes(), tainted, *few], seed=4), "free-nodes")
    assert plan.after > plan.before
    assert [step.action for step in plan.steps if step.node == "gpu"] == []
    assert [step.action for step in plan.steps if step.node == "n3"] == ["cordon", "uncordon"]
    assert plan.steps[0].node != "n3"


def test_a_replacement_that_goes_elsewhere_makes_it_plan_again() -> None:
    """The scheduler chooses between equal nodes by chance."""

    def wrong(cluster: Cluster, aim: str, **options: Any) -> Plan:
        plan = rebalance(cluster, aim, **options)
        if not again:
            first = plan.evictions[0]
            other = {"b": "c", "c": "b"}[first.to]
            plan.steps[plan.steps.index(first)] = dataclasses.replace(first, to=other)
        again.append(plan)
        return plan

    again: list[Plan] = []
    with crowded("b", "c") as world, patch("stowplan.simulate.rebalance.rebalance", wrong):
        done = world.command("plan", "rebalance", "--execute")
        assert done.exit_code == 0, done.output
        assert "planning again, 49 moves left" in done.stderr
        assert "4 moves done" in done.stderr
        assert len(again) >= 2
        found = json.loads(world.command("plan", "rebalance", "--json").stdout)
        assert found["moves"] == 0


def test_nodes_are_uncordoned_again_when_it_stops() -> None:
    """A budget refuses the first pod."""
    with crowded("b") as world:
        world.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "web"},
                "spec": {"minAvailable": 6, "selector": {"matchLabels": {"app": "web"}}},
            }
        )
        with patch("stowplan.simulate.rebalance.rebalance", emptying):
            done = world.command("plan", "rebalance", "--aim", "free-nodes", "--execute")
        assert done.exit_code == 1
        assert "stopped: evict default/web-" in done.stderr
        assert "a is uncordoned again" in done.stderr
        assert "0 moves done" in done.stderr
        assert not unschedulable(world)


def test_a_node_that_was_emptied_stays_cordoned_and_is_named() -> None:
    with crowded("b") as world, patch("stowplan.simulate.rebalance.rebalance", emptying):
        done = world.command("plan", "rebalance", "--aim", "free-nodes", "--execute")
        assert done.exit_code == 0, done.output
        assert "6 moves done; a stays cordoned" in done.stderr
        assert unschedulable(world) == {"a"}


def test_an_interrupted_execution_uncordons_what_is_not_empty() -> None:
    """Containers start after ten minutes, so no move is done. A node that others have cordoned stays so."""
    with crowded("b", "c", start_delay=600.0) as world:
        world.pass_time(700)
        cordon(world, "c")

        async def interrupted() -> str:
            lines: list[str] = []
            cluster = Cluster.load(await read_cluster(world.client, "now"))
            plan = emptying(cluster)
            plan.steps.insert(0, Move("cordon", "c"))
            execution = Execution(world.client, 120.0, lines.append)
            task = asyncio.create_task(
                carried_out(execution, plan, {pod.key: pod.metadata.uid for pod in cluster.pods})
            )
            await asyncio.sleep(10)
            assert unschedulable(world) == {"a", "c"}
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return "\n".join([*lines, execution.summary])

        assert world.run(interrupted()) == "a is uncordoned again\n0 moves done"
        assert unschedulable(world) == {"c"}


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
