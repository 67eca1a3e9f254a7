"""Plugins of earlier releases in configurations of today."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.plugins.legacy.asking import only
from stowplan.cli.config import config_group
from stowplan.config import ConfigError, build, default_profile, load
from stowplan.scheduler import Settings
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.plugins.registry import IN_TREE, LEGACY, in_tree_points, in_tree_registry
from stowplan.testing import cluster, node, pod


def document(plugin: str, args: dict[str, Any] | None = None) -> str:
    return json.dumps(only(plugin, args))


@pytest.mark.parametrize("name", sorted(LEGACY))
def test_a_scheduler_takes_each_of_them_by_name(name: str) -> None:
    [profile] = Settings.of(load(document(name))).config.profiles
    assert any(name in profile.names(point) for point in profile.plugins)


@pytest.mark.parametrize("name", sorted(LEGACY))
def test_kube_scheduler_knows_none_of_them(name: str) -> None:
    assert name not in IN_TREE
    assert name not in in_tree_points()
    with pytest.raises(ConfigError, match=f'Plugin "{name}" does not exist'):
        build(load(document(name)))


@pytest.mark.parametrize("name", [*sorted(LEGACY), "MaxEBSVolumeCount"])
def test_a_configuration_of_today_that_names_one_gets_a_note(name: str, tmp_path: Path) -> None:
    file = tmp_path / "v1.json"
    file.write_text(document(name))
    told = CliRunner().invoke(config_group, ["validate", str(file)])
    assert told.exit_code == 0
    assert told.stderr.startswith(f"note: {name}: kube-scheduler does not have this plugin")
    file.write_text(document("NodeName"))
    assert CliRunner().invoke(config_group, ["validate", str(file)]).stderr == ""


def test_none_is_part_of_any_profile_that_does_not_name_it() -> None:
    profile = default_profile()
    used = {name for point in profile.plugins for name in profile.names(point)}
    assert not used & LEGACY.keys()
    assert not cluster().frameworks["default-scheduler"].plugins.keys() & LEGACY.keys()


@pytest.mark.parametrize("name", ["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"])
def test_names_that_kube_scheduler_removed_are_refused_as_it_refuses_them(name: str) -> None:
    config = only("NodeName")
    config["profiles"][0]["plugins"]["filter"] = {"enabled": [{"name": name}]}
    with pytest.raises(ConfigError, match=f'Invalid value: "{name}": was invalid in version "v1"'):
        load(json.dumps(config))


def test_somebody_who_brings_a_plugin_of_that_name_gets_his_own() -> None:
    class NodeLabel(Plugin):
        def score_node(self, cycle: Any, pod: Any, node: Any) -> int:
            return 7

    world = cluster([node("a"), node("b")], config=only("NodeLabel"), plugins=[NodeLabel])
    decision = world.decide(pod("p"))
    assert decision.best[0].scores["NodeLabel"] == 7
    registry = in_tree_registry().with_plugins([NodeLabel])
    assert "NodeLabel" not in registry.own
    assert in_tree_registry().own >= LEGACY.keys()


REFUSED = [
    (
        "NodeLabel",
        {"presentLabels": ["a"], "absentLabels": ["b", "a"]},
        'absentLabels[1]: Invalid value: "a"',
    ),
    (
        "NodeLabel",
        {"presentLabel": ["a"]},
        'args: unknown field "presentLabel", expected apiVersion, kind, presentLabels',
    ),
    ("NodeLabel", {"presentLabels": "a"}, "args.presentLabels: expected array, got str"),
    ("NodeLabel", {"kind": "ServiceAffinityArgs"}, "kind: Invalid value: "),
    ("ServiceAffinity", {"maxPriority": 5}, "maxPriority: Invalid value: 5: must be 10 or 100"),
    ("SelectorSpread", {"maxPriority": 0}, "maxPriority: Invalid value: 0"),
    (
        "NodeResourcesLeastAllocated",
        {"resources": [{"name": "cpu", "weight": -1}]},
        "resources[0].weight: Invalid value: -1: must be greater than zero",
    ),
    (
        "NodeResourcesMostAllocated",
        {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
        'resources[1].name: Duplicate value: "cpu"',
    ),
    (
        "RequestedToCapacityRatio",
        {"shape": []},
        "shape: Required value: at least one point must",
    ),
    (
        "MaxCinderVolumeCount",
        {"maxVolumes": -1},
        "maxVolumes: Invalid value: -1: not in valid range",
    ),
]


@pytest.mark.parametrize(("plugin", "args", "told"), REFUSED)
def test_wrong_arguments_are_refused_in_one_line_that_names_them(
    plugin: str, args: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        cluster(config=only(plugin, args))
    where = "initializing profiles: creating profile for scheduler name default-scheduler: "
    assert str(refusal.value).startswith(f'{where}initializing plugin "{plugin}": ')
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_arguments_may_say_what_they_are() -> None:
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeLabelArgs", "presentLabels": ["a"]}
    assert cluster([node("n")], config=only("NodeLabel", args)).decide(pod("p")).node is None


def test_the_command_that_validates_configurations_knows_them(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(document("SelectorSpread", {"maxPriority": 10}))
    bad.write_text(document("SelectorSpread", {"maxPriority": 11}))
    assert CliRunner().invoke(config_group, ["validate", str(good)]).exit_code == 0
    refused = CliRunner().invoke(config_group, ["validate", str(bad)])
    assert refused.exit_code == 1
    assert "maxPriority: Invalid value: 11" in refused.output
