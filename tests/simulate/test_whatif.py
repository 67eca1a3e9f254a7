"""`stowplan whatif`: what it says is what happens when it is done, with budgets, steps and rollouts."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import to_builtins

from simulate.real_clusters import World, done_for_real, parsed
from simulate.test_fit import DEPLOYMENT, SPREAD, STATEFUL, nodes
from stowplan.api.catalogue import DEPLOYMENTS, NODES, PODS
from stowplan.api.meta import LabelSelector, Object, ObjectMeta
from stowplan.api.node import Node
from stowplan.api.requests import DeleteOptions
from stowplan.api.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from stowplan.cli.main import stowplan
from stowplan.simulate import Cluster
from stowplan.simulate.changes import Change, Labelling, Tainting
from stowplan.simulate.measure import skews_of
from stowplan.simulate.rollout import restarted, strategy_for
from stowplan.simulate.snapshot.places import Place
from stowplan.simulate.snapshot.shapes import nodes_of
from stowplan.simulate.whatif import rolling_drain, what_if
from stowplan.testing import node, pod

SEED = 3


def compared(text: str, change: Change, act: Any, seed: int = SEED) -> tuple[dict[str, int], dict[str, int]]:
    """Pods by node: as `whatif` says, and as it is after `act` with a scheduler of the same seed."""
    said: dict[str, int] = {}

    async def story(world: World) -> None:
        async with world.scheduler(1):
            world.create(*parsed(text))
            await world.settle()
        cluster = Cluster(world.dump(), seed=seed)
        with cluster.fork():
            found = what_if(cluster, [change])
            placed = {**cluster.placements}
            for one in found.drained.outcome.evictions:
                placed.pop(one.pod, None)
            placed.update(found.drained.outcome.placed)
            placed.update(found.now_placed)
        if change.scale is not None and not found.drained.outcome.placed:
            with cluster.fork():
                cluster.scale("deployment/web", change.scale["deployment/web"])
                placed = cluster.placements
        said.update(Counter(placed.values()))
        async with world.scheduler(seed):
            act(world)
            await world.settle()

    return said, done_for_real(nodes(), story, None).by_node()


def drain_for_real(world: World) -> None:
    for name in ("n0", "n1"):
        world.store.patch(NODES, "", name, {"spec": {"unschedulable": True}})
    for key, where in sorted(world.placements().items()):
        if where in ("n0", "n1"):
            namespace, name = key.split("/")
            world.store.delete(PODS, namespace, name, DeleteOptions(0))


def scale_for_real(replicas: int) -> Any:
    return lambda world: world.store.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": replicas}})


MANY = DEPLOYMENT.replace("replicas: 9", "replicas: 40")
SPARE = {"name": "spare", "count": 1, "cpu": 4, "memory": "16Gi"}


def add_spare_node(world: World) -> None:
    found = nodes_of({"nodes": [SPARE]}, Place("", ""))
    world.store.create(NODES, to_builtins(next(one for one in found if isinstance(one, Node))))


def cordon_for_real(world: World, name: str) -> None:
    world.store.patch(NODES, "", name, {"spec": {"unschedulable": True}})


def remove_for_real(world: World) -> None:
    """The node goes, and its pods with it; their controller creates others."""
    world.store.delete(NODES, "", "n0")
    for key, where in sorted(world.placements().items()):
        if where == "n0":
            namespace, name = key.split("/")
            world.store.delete(PODS, namespace, name, DeleteOptions(0))


@pytest.mark.parametrize(
    ("text", "change", "act"),
    [
        (DEPLOYMENT, Change(drain=["n0", "n1"]), drain_for_real),
        (SPREAD, Change(drain=["n0", "n1"]), drain_for_real),
        (
            SPREAD.replace("replicas: 9", "replicas: 4"),
            Change(scale={"deployment/web": 11}),
            scale_for_real(11),
        ),
        (STATEFUL, Change(apply="APP"), lambda world: world.create(*parsed(DEPLOYMENT))),
        (MANY, Change(add_nodes=[SPARE]), add_spare_node),
        (MANY, Change(remove=["n0"]), remove_for_real),
        (DEPLOYMENT, Change(cordon=["n0"]), lambda world: cordon_for_real(world, "n0")),
    ],
    ids=["drain", "drain with spread", "scale", "apply", "add nodes", "remove", "cordon"],
)
def test_it_happens_as_it_was_said(text: str, change: Change, act: Any, tmp_path: Path) -> None:
    if change.apply:
        app = tmp_path / "app.yaml"
        app.write_text(DEPLOYMENT)
        change = Change(apply=str(app))
    said, really = compared(text, change, act)
    assert said == really


def replicas(count: int, name: str = "web", **about: Any) -> list[Object]:
    return [
        pod(f"{name}-{number}")
        .labels(app=name)
        .requests(cpu="1")
        .owned_by("ReplicaSet", name)
        .on(f"n{number % 3}")
        .obj()
        for number in range(count)
    ]


def three(cpu: str = "4") -> list[Object]:
    return [
        node(f"n{n}").capacity(cpu=cpu, memory="8Gi", pods="20").labels(pool="a").zone("abc"[n]).obj()
        for n in range(3)
    ]


def budget(name: str = "web", **limits: Any) -> PodDisruptionBudget:
    selector = LabelSelector(match_labels={"app": name})
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=selector, **limits),
    )


@pytest.mark.parametrize(
    ("limits", "refused", "blocked"),
    [
        ({"max_unavailable": 1}, 1, 0),
        ({"min_available": 6}, 2, 2),
        ({"min_available": "50%"}, 0, 0),
        ({"max_unavailable": "0%"}, 2, 2),
    ],
)
def test_budgets_delay_or_block_evictions(limits: dict[str, Any], refused: int, blocked: int) -> None:
    cluster = Cluster([*three(), *replicas(6), budget(**limits)])
    found = what_if(cluster, [Change(drain="n0")]).document()
    assert len(found["blocked"]) == blocked
    assert found["budgets"].get("default/web", {}).get("refused", 0) == refused
    assert len(found["moved"]) == 2 - blocked
    assert len(cluster.pods_on("n0")) == 2


def test_a_budget_holds_a_drain_up_whose_pods_find_no_node() -> None:
    cluster = Cluster([*three("2"), *replicas(6), budget(max_unavailable=1)])
    found = what_if(cluster, [Change(drain="n0")]).document()
    assert (len(found["pending"]), len(found["blocked"])) == (1, 1)
    assert "Insufficient cpu" in next(iter(found["pending"].values()))


def test_a_rolling_upgrade_goes_step_by_step_and_nodes_come_back() -> None:
    cluster = Cluster([*three("3"), *replicas(6)])
    found = rolling_drain(cluster, ["n0", "n1", "n2"], 1)
    assert [step["nodes"] for step in found.steps] == [["n0"], ["n1"], ["n2"]]
    assert found.steps[0]["moved"] == 2
    assert found.after.schedulable == 3
    full = rolling_drain(Cluster([*three("2"), *replicas(6)]), ["n0", "n1", "n2"], 1)
    assert full.steps[0]["pendingDuring"] == 2
    assert full.steps[0]["placedAfter"] == 2
    assert not full.drained.outcome.pending


@pytest.mark.parametrize(
    ("change", "moved", "pending", "lost"),
    [
        (Change(remove="n0"), 2, 0, 0),
        (Change(taint=Tainting("n0", "x=y:NoExecute")), 2, 0, 0),
        (Change(taint=Tainting("n0", ["x=y:NoSchedule"])), 0, 0, 0),
        (Change(cordon="pool=a"), 0, 0, 0),
        (Change(label=Labelling("n0", {"pool": None})), 0, 0, 0),
        (Change(delete="rs/web"), 0, 0, 0),
        (Change(delete="pod/web-0"), 1, 0, 0),
        (Change(drain="pool in (a)"), 0, 6, 0),
        (Change(add_nodes={"n0": 2}), 0, 0, 0),
        (Change(add_nodes=[{"name": "n0", "cpu": 64}]), 0, 0, 0),
        (Change(priority={"rs/web": 7}), 0, 0, 0),
    ],
)
def test_every_change_is_made_and_taken_back(change: Change, moved: int, pending: int, lost: int) -> None:
    cluster = Cluster([*three(), *replicas(6)])
    before = cluster.placements
    found = what_if(cluster, [change]).document()
    assert (len(found["moved"]), len(found["pending"]), len(found["lost"])) == (moved, pending, lost)
    assert cluster.placements == before
    assert len(cluster.nodes) == 3
    if change.add_nodes:
        assert found["after"]["nodes"] == 3 + (2 if isinstance(change.add_nodes, dict) else 1)


def test_room_that_a_change_makes_is_given_to_pods_that_wait() -> None:
    waiting = pod("big").requests(cpu="4").obj()
    found = what_if(Cluster([*three("2"), *replicas(2), waiting]), [Change(add_nodes=[{"cpu": 8}])])
    assert found.now_placed == {"default/big": "node-0"}


def test_new_nodes_run_the_pods_of_daemon_sets() -> None:
    """Their controller makes them for every node that they tolerate, whichever node the known one is for."""
    agent = pod("agent-n0").requests(cpu="500m").owned_by("DaemonSet", "agent").on("n0").obj()
    cluster = Cluster([node("n0").capacity(cpu="2", memory="8Gi", pods="9").obj(), agent])
    tainted = {"key": "x", "effect": "NoSchedule"}
    spare = [{"name": "a", "cpu": 8}, {"name": "b", "cpu": 8, "taints": [tainted]}]
    found = what_if(cluster, [Change(add_nodes=spare)]).document()
    assert found["placed"] == {"default/agent-n0-a": "a"}
    assert found["after"]["pods"] == 2


def test_a_rollout_shows_the_skew_that_is_left_when_old_pods_have_gone() -> None:
    spread = [
        pod(f"web-{n}")
        .labels({"app": "web", "pod-template-hash": "1"})
        .requests(cpu="500m")
        .owned_by("ReplicaSet", "web-1")
        .spread("topology.kubernetes.io/zone", selects={"app": "web"})
        .on(f"n{n % 3}")
        .obj()
        for n in range(6)
    ]
    cluster = Cluster([*three("8"), *spread])
    with cluster.fork():
        found = restarted(cluster, "deployment/web", "default", strategy_for(6, "25%", "25%"))
        assert found.complete
        assert sorted(key.split("/")[1] for key in cluster.placements) == [f"web-new-{n}" for n in range(6)]
        assert found.steps[-1].skew_after_termination == skews_of(cluster, cluster.pods)
    assert all(step.old + step.new >= 5 for step in found.steps)
    assert all(step.old + step.new + len(step.removed) <= 8 for step in found.steps)
    assert found.before[0].skew == 0


def test_a_rollout_without_room_gets_stuck() -> None:
    cluster = Cluster([*three("2"), *replicas(6)])
    with cluster.fork():
        found = restarted(cluster, "rs/web", "default", strategy_for(6, "1", "0"))
    assert not found.complete
    assert len(found.outcome.pending) == 1


DUMP = """
nodes:
- {name: n, count: 3, cpu: 2, labels: {pool: a}}
"""


def run(tmp_path: Path, *arguments: object) -> Result:
    dump = tmp_path / "shapes.yaml"
    dump.write_text(DUMP)
    return CliRunner().invoke(stowplan, ["whatif", *map(str, arguments), "--from", str(dump)])


def test_the_command_takes_options_and_files(tmp_path: Path) -> None:
    app, changes, page = tmp_path / "app.yaml", tmp_path / "changes.yaml", tmp_path / "page.html"
    app.write_text(DEPLOYMENT)
    changes.write_text("changes:\n- apply: app.yaml\n- scale: {deployment/web: 13}\n- drain: n-0\n")
    told = run(tmp_path, "-f", changes, "--json", "--report", page)
    assert told.exit_code == 0, told.output
    document = json.loads(told.stdout)
    assert document["before"]["pods"] == 0
    assert document["after"]["pods"] == 8
    assert len(document["pending"]) == 5
    assert "svg" in page.read_text()
    text = run(tmp_path, "--apply", app, "--taint", "pool=a", "x=y:NoSchedule")
    assert "9 stay pending" in text.stdout
    assert run(tmp_path, "drain", "--selector", "pool=a", "--max-unavailable", "2").exit_code == 0
    anew = run(tmp_path, "--new-config", _config(tmp_path))
    assert anew.exit_code == 0, anew.output


def _config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drain", "n9"], "no node n9"),
        (["--drain", "pool=b"], "nodes pool=b: no node has these labels"),
        (["--scale", "deployment/x", "3"], "deployment/x: no pods found in namespace default"),
        (["--scale", "web", "3"], "scale: expected a workload such as deployment/web, got 'web'"),
        (["--taint", "n-0", "x"], "taint: expected key=value:Effect"),
        (["--taint", "n-0"], "--taint: expected NODES KEY=VALUE:EFFECT, got '--from'"),
        (["--scale", "deployment/web=3"], "--scale: expected TYPE/NAME N, got '--from'"),
        (["drain", "--selector", "pool in"], "--selector pool in: unable to parse requirement"),
        (["drain", "--selector", "nobody"], "--selector nobody: no node has these labels"),
        (["rollout", "deployment/web"], "deployment/web: no pods found in namespace default"),
        (["rollout", "deployment/web", "--max-surge", "x"], "--max-surge: expected a number or a percentage"),
        (["-f", "CHANGES"], "changes.yaml:3: changes[1].drains: unknown field"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    changes = tmp_path / "changes.yaml"
    changes.write_text("changes:\n- cordon: n-0\n- drains: n-1\n")
    told = run(tmp_path, *(str(changes) if one == "CHANGES" else one for one in arguments))
    assert told.exit_code == 1
    assert message in told.stderr
    assert told.stderr.count("\n") == 1
