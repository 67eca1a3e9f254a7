"""The plugin Coscheduling: pod groups of scheduler-plugins, on a cluster without built-in groups."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.controllers.small_clusters import NAMESPACE, World
from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, PODS, PRIORITY_CLASSES, Catalogue, Resource
from stowplan.api.coscheduling import (
    POD_GROUP_LABEL,
    CoschedulingPodGroup,
    as_member,
    as_member_by_label,
)
from stowplan.api.decode import convert
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.config import ConfigError
from stowplan.config.legacy import load_any_file
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings

DEPLOY = Path(__file__).parents[3] / "deploy" / "coscheduling"


def settings(tmp_path: Path, **args: Any) -> Settings:
    document = yaml.safe_load((DEPLOY / "config.yaml").read_text("utf-8"))
    document["profiles"][0]["pluginConfig"][0]["args"] = args
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document), "utf-8")
    return Settings.of(load_any_file(tmp_path / "config.yaml", DEFAULT_GATES))


class Gangs(World):
    """A world with the custom resource."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        definition = yaml.safe_load((DEPLOY / "crd.yaml").read_text("utf-8"))
        self.store.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    @property
    def groups(self) -> Resource:
        catalogue: Catalogue = self.store.catalogue
        found = catalogue.named("podgroups.v1alpha1.scheduling.x-k8s.io")
        assert found is not None
        return found

    def group(self, name: str = "g", **spec: Any) -> Json:
        return self.put(self.groups, {"metadata": {"name": name}, "spec": spec})

    def members(self, count: int, cpu: str = "2", group: str = "g", priority: str = "") -> None:
        for number in range(count):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
            spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
            if priority:
                spec["priorityClassName"] = priority
            metadata = {"name": f"{group}-{number}", "labels": {POD_GROUP_LABEL: group}}
            self.put(PODS, {"metadata": metadata, "spec": spec})

    @property
    def bound(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.pods() if pod["spec"].get("nodeName"))

    def said(self, name: str) -> str:
        conditions = self.get(PODS, name)["status"].get("conditions") or ()
        return "; ".join(one.get("message", "") for one in conditions if one["type"] == "PodScheduled")


def play(story: Callable[[Gangs], Awaitable[None]], chosen: Settings) -> None:
    async def begin(clock: VirtualClock) -> None:
        world = Gangs(clock)
        world.add_node("a", cpu="4")
        world.add_node("b", cpu="4")
        scheduler = Scheduler(world.client, chosen, clock=clock, rng=random.Random(3))
        async with scheduler.running():
            await story(world)

    run(begin)


def test_a_group_gets_all_its_nodes_or_none(tmp_path: Path) -> None:
    async def story(world: Gangs) -> None:
        world.group(minMember=5)
        world.members(5)
        await world.settle(3)
        assert world.bound == []
        assert "minCount (5) cannot be satisfied" in world.said("g-0")
        world.add_node("c", cpu="4")
        await world.until(lambda: len(world.bound) == 5)

    play(story, settings(tmp_path))


def test_pods_wait_for_their_group_and_for_each_other(tmp_path: Path) -> None:
    async def story(world: Gangs) -> None:
        world.members(1)
        await world.settle(3)
        assert world.bound == []
        world.group(minMember=2)
        await world.settle(3)
        assert world.bound == []
        world.members(1, group="g-more")
        world.put(
            PODS,
            {
                "metadata": {"name": "late", "labels": {POD_GROUP_LABEL: "g"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        )
        await world.until(lambda: world.bound == ["g-0", "late"])

    play(story, settings(tmp_path))


def test_two_groups_that_do_not_both_fit_do_not_hold_each_other_up(tmp_path: Path) -> None:
    async def story(world: Gangs) -> None:
        for name in ("g", "h"):
            world.group(name, minMember=3)
        for number in range(3):
            for name in ("g", "h"):
                spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}
                metadata = {"name": f"{name}-{number}", "labels": {POD_GROUP_LABEL: name}}
                world.put(PODS, {"metadata": metadata, "spec": spec})
        await world.settle(60)
        assert len(world.bound) == 3
        assert len({name[0] for name in world.bound}) == 1

    play(story, settings(tmp_path))


def test_resources_that_are_not_free_are_named(tmp_path: Path) -> None:
    async def story(world: Gangs) -> None:
        world.group(minMember=1, minResources={"cpu": "10", "memory": "1Gi"})
        world.members(1)
        await world.settle(3)
        assert world.bound == []
        assert "minResources of the group are not free: cpu 10 (8 free)" in world.said("g-0")
        world.add_node("c", cpu="4")
        await world.until(lambda: world.bound == ["g-0"])

    play(story, settings(tmp_path))


def test_a_group_has_the_priority_of_its_pods_and_may_preempt(tmp_path: Path) -> None:
    async def story(world: Gangs) -> None:
        world.put(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 10})
        world.group("low", minMember=4)
        world.members(4, group="low")
        await world.until(lambda: len(world.bound) == 4)
        world.group(minMember=3)
        world.members(3, priority="high")
        await world.until(lambda: {"g-0", "g-1", "g-2"} <= set(world.bound))
        assert len(world.bound) == 4

    play(story, settings(tmp_path))


def test_a_rejected_group_backs_off_as_long_as_the_plugin_says(tmp_path: Path) -> None:
    async def story(world: Gangs) -> None:
        world.group(minMember=5)
        world.members(5)
        await world.settle(2)
        world.add_node("c", cpu="4")
        began = world.now
        await world.until(lambda: len(world.bound) == 5, 300)
        assert 100 < world.now - began < 130

    play(story, settings(tmp_path, podGroupBackoffSeconds=120))


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"permitWaitingTimeSeconds": -1}, "permitWaitingTimeSeconds: Invalid value: -1"),
        ({"podGroupBackoffSeconds": -1}, "podGroupBackoffSeconds: Invalid value: -1"),
        ({"podGroupRejectPercentage": 101}, "podGroupRejectPercentage: Invalid value: 101"),
        ({"minMember": 2}, 'args: unknown field "minMember", expected permitWaiting'),
    ],
)
def test_arguments_that_cannot_be_are_refused(tmp_path: Path, args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=f'initializing plugin "Coscheduling": {problem}'):
        settings(tmp_path, **args)


def test_pods_are_members_by_their_label() -> None:
    own = {"podGroupName": "own"}
    metadata = {"name": "p", "namespace": NAMESPACE, "labels": {POD_GROUP_LABEL: "g"}}
    labelled = convert({"metadata": metadata}, Pod)
    native = convert({"metadata": {"name": "p"}, "spec": {"schedulingGroup": own}}, Pod)
    both = convert({"metadata": metadata, "spec": {"schedulingGroup": own}}, Pod)
    found = [pod.spec.scheduling_group for pod in map(as_member, (labelled, native, both))]
    assert [one and one.pod_group_name for one in found] == ["g", "own", "own"]
    found = [pod.spec.scheduling_group for pod in map(as_member_by_label, (labelled, native, both))]
    assert [one and one.pod_group_name for one in found] == ["g", None, "g"]


def test_a_group_of_scheduler_plugins_is_a_gang() -> None:
    group = convert({"metadata": {"name": "g"}, "spec": {"minMember": 3}}, CoschedulingPodGroup)
    assert (group.is_gang, group.minimum, group.priority) == (True, 3, 0)
    pod = convert({"metadata": {"name": "p"}, "spec": {"priority": 7}}, Pod)
    assert group.with_priority_of(pod).priority == 7
