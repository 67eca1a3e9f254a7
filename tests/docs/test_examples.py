"""The plugins and scripts in examples/. test_scheduler_page compares their output with examples/README.md."""

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT, commands
from scheduler.live_scheduler import World, live
from stowplan.config import load
from stowplan.scheduler.framework.registry import load_plugin
from stowplan.testing import cluster, node, pod

EXAMPLES = ROOT / "examples"
GPU = "nvidia.com/gpu"
SPOT = "example.com/spot"


def plugin(file: str, name: str) -> Any:
    return load_plugin(f"{EXAMPLES / file}:{name}")


def test_every_example_is_run_by_the_readme() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in EXAMPLES.glob("*.py")}
    assert {f"python {file}" for file in files} <= set(commands(EXAMPLES / "README.md"))


def test_a_pod_that_is_not_interruptible_stays_off_spot_nodes() -> None:
    c = cluster(nodes=[node("spot").labels({SPOT: "true"})], plugins=[plugin("spot.py", "Spot")])
    assert c.decide(pod("p")).message == "0/1 nodes are available: 1 node(s) were spot instances."
    assert c.decide(pod("p").annotations({"example.com/interruptible": "true"})).node == "spot"


@pytest.mark.parametrize("reuse", [True, False])
def test_gpu_pods_fill_nodes_up(reuse: bool) -> None:
    nodes = [node(f"n{n}").capacity({"cpu": "64", GPU: "8"}) for n in range(4)]
    c = cluster(nodes=nodes, plugins=[plugin("gpu_packing.py", "GpuPacking")], reuse=reuse)
    used = [c.schedule(pod(f"p{n}").requests({GPU: "2"})).node for n in range(8)]
    assert [used.count(name) for name in dict.fromkeys(used)] == [4, 4]


def test_without_the_plugin_gpu_pods_are_spread() -> None:
    c = cluster(nodes=[node(f"n{n}").capacity({"cpu": "64", GPU: "8"}) for n in range(4)])
    used = {c.schedule(pod(f"p{n}").requests({"cpu": "1", GPU: "2"})).node for n in range(4)}
    assert len(used) == 4


def gang_config() -> Any:
    return load(
        """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - plugins: {multiPoint: {enabled: [{name: Gang}]}}
        """
    )


def test_two_gangs_that_arrive_mixed_are_bound_each_when_it_is_complete() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        for name, gang in (("a0", "a"), ("b0", "b"), ("a1", "a")):
            labels = {"example.com/gang": gang, "example.com/gang-size": "2"}
            await world.add_pod(name, metadata={"labels": labels})
        assert [world.node_of(name) for name in ("a0", "b0", "a1")] == ["n", "", "n"]
        await world.add_pod("alone")
        assert world.node_of("alone") == "n"

    live(story, config=gang_config(), plugins=[plugin("gang.py", "Gang")])


def test_the_examples_import_no_private_module() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert "stowplan.scheduler." not in path.read_text(), Path(path).name


def test_the_environment_is_one_of_gymnasium_and_repeats_with_its_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    environment = importlib.import_module("environment")
    check_env = importlib.import_module("gymnasium.utils.env_checker").check_env
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(environment.as_gymnasium(nodes=4, pods=10), skip_render_check=True)
    runs = []
    for _ in range(2):
        one = environment.SchedulingEnvironment(nodes=4, pods=30)
        observation, _ = one.reset(seed=3)
        rewards = []
        over = False
        while not over:
            action = environment.best_fit(observation, None)
            assert observation["accepted"][action]
            observation, reward, terminated, truncated, _ = one.step(action)
            rewards.append(reward)
            over = terminated or truncated
        assert sum(rewards) == pytest.approx(one.allocated())
        runs.append(rewards)
    assert runs[0] == runs[1]


def test_episodes_after_a_seed_repeat_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    environment = importlib.import_module("environment")

    def episodes() -> list[Any]:
        one = environment.SchedulingEnvironment(nodes=3, pods=5)
        begun = [one.reset(seed=0), one.reset(), one.reset()]
        return [[column.tolist() for column in observation.values()] for observation, _ in begun]

    first = episodes()
    assert first == episodes()
    assert first[0] != first[1] != first[2]


def test_a_pod_that_is_sent_to_a_node_that_rejects_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    environment = importlib.import_module("environment")
    one = environment.SchedulingEnvironment(nodes=1, pods=30)
    observation, _ = one.reset(seed=3)
    truncated = False
    while observation["accepted"][0] and not truncated:
        observation, _, _, truncated, _ = one.step(0)
    assert truncated
    _, reward, _, _, info = one.step(0)
    assert (reward, info["accepted"]) == (0.0, False)
