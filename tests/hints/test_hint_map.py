"""Which plugins are registered for which events, compared with the map kube-scheduler builds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.feature_gates import FeatureGates
from stowplan.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintMap,
    Resource,
    build_hint_map,
)
from stowplan.framework.interface import Plugin
from stowplan.testing import cluster

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "hint-map.json").read_text(encoding="utf-8"))


def default_map(*plugins: type[Plugin], **options: Any) -> HintMap:
    [framework] = cluster(plugins=plugins).frameworks.values()
    return build_hint_map(framework.plugins.values(), **options)


def built(plugins: list[str]) -> set[str]:
    known = cluster().frameworks["default-scheduler"].plugins.keys()
    return {plugin for plugin in plugins if plugin in known}


def test_action_bits_are_those_of_kube_scheduler() -> None:
    assert {name: int(Action.named(name)) for name in RECORDED["actionBits"]} == RECORDED["actionBits"]


def test_every_plugin_that_is_built_registers_for_what_it_registers_for_in_kube_scheduler() -> None:
    expected = {
        (entry["resource"], entry["actionBits"], plugin)
        for entry in RECORDED["registrations"]
        for plugin in built(entry["plugins"])
    }
    actual = {
        (str(event.resource), int(event.action), plugin)
        for event, plugins in default_map().by_event().items()
        for plugin in plugins
    }
    assert actual == expected
    assert len(actual) > 20


@pytest.mark.parametrize("resource", RECORDED["incoming"])
def test_every_event_reaches_the_plugins_it_reaches_in_kube_scheduler(resource: str) -> None:
    hints = default_map()
    for action, plugins in RECORDED["incoming"][resource].items():
        event = ClusterEvent(resource, Action.named(action))
        assert hints.matching(event).keys() == built(plugins), event.label


def test_what_is_watched_is_all_that_anybody_registered_for() -> None:
    watched = default_map().watched()
    for resource in ("Node", "Pod"):
        recorded = Action(0)
        for name in RECORDED["watchedResources"][resource]:
            recorded |= Action.named(name)
        assert watched[resource] == recorded


class Silent(Plugin):
    """A filter that does not say what may help."""

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None


class Scorer(Plugin):
    """Rejects nobody."""

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


def test_who_registers_for_new_nodes_hears_of_taints_too_and_then_always_tries_again() -> None:
    hints = default_map(Newcomers)
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
