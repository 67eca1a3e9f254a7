"""Opportunistic batching: when there is a hint, when it was used, and why a batch was dropped."""

from typing import Any

import pytest

from releases import V1_36, V1_37
from scheduler.live_scheduler import World, configured, live, plugin
from scheduler.metrics.reading import scraped
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.scheduler.instruments.batching import BatchInstrument

NO_DEFAULTS = {
    "schedulerName": "default-scheduler",
    "pluginConfig": [
        {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": []}}
    ],
}
"""A profile whose pods can be in a batch."""


def batching(story: Any, release: Release, *profiles: Any, **options: Any) -> World:
    gates = FeatureGates(release=release)
    return live(story, config=configured(*(profiles or (NO_DEFAULTS,)), gates=gates), **options)


def attempts(world: World) -> dict[str, float]:
    return _by_last_label(world, "batch_attempts_total")


def flushes(world: World) -> dict[str, float]:
    return _by_last_label(world, "batch_cache_flushed_total")


def _by_last_label(world: World, name: str) -> dict[str, float]:
    found = scraped(world.scheduler.context.metrics, name)
    return {labels[-1]: value for labels, value in found.items()}


async def three_nodes(world: World, cpu: str = "1") -> None:
    for name in ("a", "b", "c"):
        world.add_node(name, cpu=cpu)
    await world.settle()


async def all_at_once(world: World, *names: str, **about: Any) -> None:
    """Pods in consecutive scheduling cycles."""
    for name in names:
        world.put_pod(name, **about)
    await world.settle()


def test_pods_that_fill_a_node_each_use_hints(each_release: Release) -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        await all_at_once(world, "p", "q", "r")
        assert {world.node_of(name) for name in ("p", "q", "r")} == {"a", "b", "c"}
        assert attempts(world) == {"no_hint": 1, "hint_used": 2}
        assert flushes(world) == {}
        await all_at_once(world, "s")
        assert attempts(world) == {"no_hint": 2, "hint_used": 2}, "none are left, which drops nothing"
        assert flushes(world) == {}
        asked = scraped(world.scheduler.context.metrics, "get_node_hint_duration_seconds_count")
        assert sum(asked.values()) == 4
        stored = scraped(world.scheduler.context.metrics, "store_schedule_results_duration_seconds_count")
        assert sum(stored.values()) == 3, "not for a pod that got no node"

    batching(story, each_release)


@pytest.mark.parametrize(
    ("release", "counted", "dropped", "rescored"),
    [
        (V1_36, {"no_hint": 3}, {"node_not_full": 2}, {}),
        (V1_37, {"no_hint": 1, "hint_used": 2}, {}, {("default-scheduler",): 2}),
    ],
)
def test_a_node_with_room_left_ends_a_batch_or_takes_part_again(
    release: Release, counted: Any, dropped: Any, rescored: Any
) -> None:
    async def story(world: World) -> None:
        await three_nodes(world, cpu="4")
        await all_at_once(world, "p", "q", "r")
        assert attempts(world) == counted
        assert flushes(world) == dropped
        assert scraped(world.scheduler.context.metrics, "batch_rescore_attempts_total") == rescored

    batching(story, release)


@pytest.mark.parametrize("release", [V1_36, V1_37])
@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"cpu": "900m"}, "pod_incompatible"),
        ({"metadata": {"labels": {"app": "x"}}}, "pod_incompatible"),
        ({"tolerations": [{"key": "k"}]}, "pod_incompatible"),
        ({"affinity": {"podAntiAffinity": {}}}, "pod_incompatible"),
    ],
)
def test_only_pods_with_the_same_signature_are_in_a_batch(release: Release, second: Any, reason: str) -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        world.put_pod("p")
        world.put_pod("q", **second)
        await world.settle()
        assert attempts(world) == {"no_hint": 2}
        assert flushes(world)[reason] == 1

    batching(story, release)


def test_a_batch_lasts_half_a_second(each_release: Release) -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        await all_at_once(world, "p")
        await world.settle(0.4)
        await all_at_once(world, "q")
        assert attempts(world) == {"no_hint": 1, "hint_used": 1}
        await world.settle(0.2)
        await all_at_once(world, "r")
        assert (attempts(world)["no_hint"], flushes(world)) == (2, {"expired": 1, "empty_list": 1})

    batching(story, each_release)


def test_a_pod_of_another_profile_or_one_without_a_node_in_between_ends_a_batch(
    each_release: Release,
) -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        world.put_pod("p")
        world.put_pod("large", cpu="8")
        world.put_pod("q")
        await world.settle()
        assert flushes(world) == {"pod_incompatible": 1, "pod_skipped": 1}
        assert attempts(world) == {"no_hint": 3}

    batching(story, each_release)


def test_a_node_that_is_gone_ends_a_batch(each_release: Release) -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        await all_at_once(world, "p")
        world.remove_node(world.node_of("p"))
        await all_at_once(world, "q")
        assert flushes(world) == {"node_missing": 1}

    batching(story, each_release)


def test_a_node_that_came_later_and_is_chosen_was_no_hint(each_release: Release) -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        await all_at_once(world, "p")
        world.add_node("large", cpu="100")
        await all_at_once(world, "q")
        assert world.node_of("q") == "large"
        assert attempts(world) == {"no_hint": 1, "hint_not_used": 1}

    batching(story, each_release)


@pytest.mark.parametrize(("release", "dropped"), [(V1_36, {}), (V1_37, {"pod_nominated": 1})])
def test_a_nominated_pod_gets_no_hint_since_1_37(release: Release, dropped: dict[str, float]) -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        world.put_pod("p")
        world.put_pod("q", schedulingGates=[{"name": "later"}])
        world.patch_pod("q", {"status": {"nominatedNodeName": "c"}}, "status")
        await world.settle()
        world.patch_pod("q", {"spec": {"schedulingGates": None}})
        await world.settle()
        found = {reason: count for reason, count in flushes(world).items() if reason == "pod_nominated"}
        assert found == dropped
        assert attempts(world)["no_hint"] == 1 + len(dropped)

    batching(story, release)


def test_with_default_constraints_no_pod_is_ever_in_a_batch(each_release: Release) -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        await all_at_once(world, "p", "q", "r", "s")
        assert attempts(world) == {"no_hint": 4}
        assert flushes(world) == {"pod_not_batchable": 2, "empty_list": 1}, "of four, one got no node"

    batching(story, each_release, {"schedulerName": "default-scheduler"})


def test_a_plugin_that_does_not_sign_ends_batching() -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        await all_at_once(world, "p", "q")
        assert attempts(world) == {"no_hint": 2}

    unsigned = plugin("Unsigned", filter_node=lambda self, cycle, pod, node: None)
    enabled = {**NO_DEFAULTS, "plugins": {"multiPoint": {"enabled": [{"name": "Unsigned"}]}}}
    batching(story, V1_37, enabled, plugins=[unsigned])


def test_without_the_gate_nothing_is_counted() -> None:
    async def story(world: World) -> None:
        await three_nodes(world)
        await all_at_once(world, "p", "q")
        assert attempts(world) == {}
        assert not any(isinstance(one, BatchInstrument) for one in world.scheduler.hooks.installed)

    live(story, config=configured(NO_DEFAULTS, gates={"OpportunisticBatching": False}))
