"""The table of old names: complete, and everything it points to exists."""

from typing import Any

import pytest

from scheduler.plugins.legacy.asking import only
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.plugins.legacy.names import (
    MANDATORY,
    OLD_PLUGINS,
    PREDICATES,
    PRIORITIES,
    PROVIDERS,
    RELEASES,
    OldName,
)
from stowplan.scheduler.plugins.registry import IN_TREE, LEGACY, in_tree_points, in_tree_registry
from stowplan.testing import cluster, node, pod

WANTED_PREDICATES = """
    NoVolumeZoneConflict MaxEBSVolumeCount MaxGCEPDVolumeCount MaxAzureDiskVolumeCount MaxCinderVolumeCount
    MaxCSIVolumeCountPred MatchInterPodAffinity NoDiskConflict GeneralPredicates PodFitsResources PodFitsHost
    HostName PodFitsHostPorts PodFitsPorts MatchNodeSelector CheckNodeMemoryPressure CheckNodeDiskPressure
    CheckNodePIDPressure CheckNodeCondition CheckNodeUnschedulable PodToleratesNodeTaints
    PodToleratesNodeNoExecuteTaints CheckVolumeBinding EvenPodsSpread CheckNodeLabelPresence
    CheckServiceAffinity
"""
WANTED_PRIORITIES = """
    SelectorSpreadPriority ServiceSpreadingPriority InterPodAffinityPriority LeastRequestedPriority
    MostRequestedPriority BalancedResourceAllocation NodePreferAvoidPodsPriority NodeAffinityPriority
    TaintTolerationPriority ImageLocalityPriority ResourceLimitsPriority RequestedToCapacityRatioPriority
    EqualPriority EvenPodsSpreadPriority NodeLabelPriority ServiceAntiAffinityPriority
"""
NAMES = [*PREDICATES.values(), *PRIORITIES.values()]
POINTS = {**in_tree_points(), **in_tree_registry().offered}


def test_every_name_of_that_time_is_known() -> None:
    assert sorted(PREDICATES) == sorted(WANTED_PREDICATES.split())
    assert sorted(PRIORITIES) == sorted(WANTED_PRIORITIES.split())


@pytest.mark.parametrize("entry", NAMES, ids=lambda entry: entry.name)
@pytest.mark.parametrize("release", RELEASES)
def test_what_runs_for_a_name_exists_and_takes_its_arguments(entry: OldName, release: str) -> None:
    for use in entry.as_of(release).uses:
        assert set(use.points) <= POINTS[use.plugin], use
        assert ExtensionPoint.FILTER in use.points or ExtensionPoint.SCORE in use.points
        cluster(config=only(use.plugin, dict(use.args)))


@pytest.mark.parametrize("entry", NAMES, ids=lambda entry: entry.name)
def test_what_is_not_exact_is_explained(entry: OldName) -> None:
    for release in RELEASES:
        meaning = entry.as_of(release)
        assert meaning.exact or meaning.note
    if any(use.plugin in LEGACY for use in entry.meaning.uses):
        assert entry.today


def test_every_plugin_of_ours_is_what_some_name_became() -> None:
    used = {use.plugin for entry in NAMES for release in RELEASES for use in entry.as_of(release).uses}
    assert used >= LEGACY.keys()
    assert set(OLD_PLUGINS.values()) <= {*IN_TREE, *LEGACY}


def test_names_are_known_in_the_releases_that_had_them() -> None:
    def known(release: str) -> set[str]:
        return {entry.name for entry in NAMES if entry.is_known_in(release)}

    gone = {
        "CheckNodeCondition",
        "CheckNodeMemoryPressure",
        "CheckNodeDiskPressure",
        "PodToleratesNodeNoExecuteTaints",
        "EqualPriority",
    }
    late = {
        "CheckNodeUnschedulable",
        "MaxCSIVolumeCountPred",
        "MaxCinderVolumeCount",
        "EvenPodsSpread",
        "RequestedToCapacityRatioPriority",
        "EvenPodsSpreadPriority",
    }
    assert known("1.9") - known("1.18") == gone
    assert known("1.18") - known("1.9") == late
    assert "CheckNodePIDPressure" not in known("1.9") | known("1.18")


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@pytest.mark.parametrize("release", RELEASES)
def test_providers_are_made_of_names_of_their_release(provider: str, release: str) -> None:
    made = PROVIDERS[provider][release]
    assert all(PREDICATES[name].is_known_in(release) for name in made.predicates)
    assert all(PRIORITIES[name].is_known_in(release) for name in made.priorities)
    assert set(MANDATORY[release]) <= set(made.predicates)
    packs = provider == "ClusterAutoscalerProvider"
    assert ("MostRequestedPriority" in made.priorities) is packs
    assert ("LeastRequestedPriority" in made.priorities) is not packs
    assert made.priorities["NodePreferAvoidPodsPriority"] == 10000


def assembled(provider: str, release: str) -> dict[str, Any]:
    """A configuration of today with what runs for the names of a provider, at the points it is needed at."""
    made = PROVIDERS[provider][release]
    chosen = [(PREDICATES[name], 0) for name in made.predicates]
    chosen += [(PRIORITIES[name], weight) for name, weight in made.priorities.items()]
    config = only("NodeName")
    plugins = config["profiles"][0]["plugins"]
    plugins["multiPoint"]["enabled"] = [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]
    wanted: dict[str, Any] = {}
    for entry, weight in chosen:
        for use in entry.as_of(release).uses:
            if use.args:
                assert wanted.setdefault(use.plugin, use.args) == use.args, "two names, two sets of arguments"
            for point in use.points:
                listed = plugins.setdefault(point.value, {"enabled": []})["enabled"]
                if use.plugin not in [one["name"] for one in listed]:
                    listed.append(
                        {"name": use.plugin, **({"weight": weight} if point is ExtensionPoint.SCORE else {})}
                    )
    config["profiles"][0]["pluginConfig"] = [{"name": name, "args": args} for name, args in wanted.items()]
    return config


@pytest.mark.parametrize(
    ("provider", "expected"), [("DefaultProvider", "empty"), ("ClusterAutoscalerProvider", "used")]
)
@pytest.mark.parametrize("release", RELEASES)
def test_a_provider_put_together_from_the_table_places_pods(
    provider: str, expected: str, release: str
) -> None:
    world = cluster(
        [node("empty"), node("used"), node("cordoned").unschedulable()],
        [pod("x").requests(cpu="1", memory="4Gi").on("used")],
        config=assembled(provider, release),
    )
    decision = world.decide(pod("p").requests(cpu="500m", memory="2Gi"))
    assert decision.node == expected
    [rejection] = decision.funnel
    assert rejection.reasons == ("node(s) were unschedulable",)
