"""Which plugins are registered for which events, compared with the map kube-scheduler builds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from releases import EACH, GATES_1_36, GATES_1_37
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.config import default_profile
from stowplan.scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintMap,
    Resource,
    build_hint_map,
)
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import cluster

RECORDED: dict[str, dict[str, Any]] = {
    one.name: json.loads((Path(__file__).parent / f"hint-map-{one.name}.json").read_text(encoding="utf-8"))
    for one in EACH
}


def default_map(*plugins: type[Plugin], **options: Any) -> HintMap:
    [framework] = cluster(plugins=plugins).frameworks.values()
    return build_hint_map(framework.plugins.values(), **options)


def map_of(release: Release) -> HintMap:
    gates = FeatureGates(release=release)
    framework = Framework(default_profile(gates), ClusterTable(release), in_tree_registry(), gates)
    return build_hint_map(framework.plugins.values(), gates)


def actions(names: Sequence[str]) -> Action:
    found = Action(0)
    for name in names:
        found |= Action.named(name)
    return found


def test_action_bits_are_those_of_kube_scheduler() -> None:
    """Of the newest release; earlier ones have fewer, in the same order."""
    bits = RECORDED["1.37"]["actionBits"]
    assert {name: int(Action.named(name)) for name in bits} == bits
    earlier = RECORDED["1.36"]["actionBits"]
    single = [name for name, value in earlier.items() if value.bit_count() == 1]
    assert sorted(single, key=lambda name: Action.named(name)) == sorted(single, key=earlier.__getitem__)


def test_every_plugin_registers_for_what_it_registers_for_in_kube_scheduler(each_release: Release) -> None:
    expected = {
        (entry["resource"], actions(entry["actions"]), plugin)
        for entry in RECORDED[each_release.name]["registrations"]
        for plugin in entry["plugins"]
    }
    actual = {
        (str(event.resource), event.action, plugin)
        for event, plugins in map_of(each_release).by_event().items()
        for plugin in plugins
    }
    assert actual == expected


def test_every_event_reaches_the_plugins_it_reaches_in_kube_scheduler(each_release: Release) -> None:
    hints = map_of(each_release)
    for resource, incoming in RECORDED[each_release.name]["incoming"].items():
        for action, plugins in incoming.items():
            event = ClusterEvent(resource, Action.named(action))
            assert hints.matching(event).keys() == {*plugins}, event.label


def test_what_is_watched_is_all_that_anybody_registered_for(each_release: Release) -> None:
    watched = map_of(each_release).watched()
    recorded = RECORDED[each_release.name]["watchedResources"]
    assert watched["Node"] == actions(recorded["Node"])


class Silent(Plugin):
    """A filter that does not say what may help."""

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None


class Scorer(Plugin):
    """Rejects no pod."""

    def score_node(self, cycle: Any, pod: Any, node: Any) -> int:
        return 0


class Resigned(Silent):
    """Says that nothing helps."""

    def events(self) -> Sequence[EventRegistration]:
        return ()


def everything(hints: HintMap, plugin: str) -> set[str]:
    return {
        str(event.resource)
        for event, plugins in hints.by_event().items()
        if plugin in plugins and event.action == Action.ALL
    }


DEFAULTS = {
    "Pod",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSIStorageCapacity",
    "storage.k8s.io/StorageClass",
    "resource.k8s.io/ResourceClaim",
    "resource.k8s.io/DeviceClass",
}


def test_a_plugin_that_does_not_say_what_helps_hears_of_everything_and_always_tries_again() -> None:
    hints = default_map(Silent, Scorer, Resigned)
    assert everything(hints, "Silent") == DEFAULTS
    [entry] = hints.matching(ClusterEvent(Resource.CSI_NODE, Action.ADD))["Silent"]
    assert entry.ask(None, None, None).hint is Hint.QUEUE  # type: ignore[arg-type]
    assert not any({"Scorer", "Resigned"} & {*plugins} for plugins in hints.by_event().values())


def test_extenders_hear_of_everything_as_one_plugin() -> None:
    assert everything(default_map(extenders=True), "Extender") == DEFAULTS
    assert everything(default_map(), "Extender") == set()


def test_with_pod_groups_everything_is_one_more() -> None:
    hints = default_map(Silent, gates=FeatureGates({"GenericWorkload": True}))
    assert everything(hints, "Silent") == {*DEFAULTS, "scheduling.k8s.io/PodGroup"}


class Newcomers(Silent):
    """Hears of new nodes, and has an opinion about them."""

    def events(self) -> Sequence[EventRegistration]:
        return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), lambda pod, old, new: Hint.SKIP),)


def test_until_1_37_who_registers_for_new_nodes_hears_of_taints_too_and_then_always_tries_again() -> None:
    taints = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
    assert "Newcomers" not in default_map(Newcomers, gates=GATES_1_37).matching(taints)
    hints = default_map(Newcomers, gates=GATES_1_36)
    [added] = hints.matching(ClusterEvent(Resource.NODE, Action.ADD))["Newcomers"]
    [tainted] = hints.matching(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT))["Newcomers"]
    answers = [entry.ask(None, None, None).hint for entry in (added, tainted)]  # type: ignore[arg-type]
    assert answers == [Hint.SKIP, Hint.QUEUE]


def test_a_hint_that_fails_says_try_again_and_why() -> None:
    class Broken(Silent):
        def events(self) -> Sequence[EventRegistration]:
            def hint(pod: Any, old: Any, new: Any) -> Hint:
                raise KeyError

            return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), hint),)

    [entry] = default_map(Broken).matching(ClusterEvent(Resource.NODE, Action.ADD))["Broken"]
    answer = entry.ask(None, None, None)  # type: ignore[arg-type]
    assert (answer.hint, answer.error, answer.label) == (Hint.QUEUE, "KeyError", "Error")
