"""Meaning of the names in a Policy: plugins, their order, weights and arguments."""

from typing import Any

import pytest

from config.legacy.documents import filters, policy, profile_of, running, scores
from stowplan.config.legacy import LegacyOptions, policy_config
from stowplan.config.types import ExtenderTLS
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.plugins.legacy.names import (
    MANDATORY,
    ORDER,
    PREDICATES,
    PRIORITIES,
    PROVIDERS,
    RELEASES,
)
from stowplan.scheduler.plugins.legacy.nodelabel import NodeLabelArgs
from stowplan.scheduler.plugins.legacy.serviceaffinity import ServiceAffinityArgs

ALWAYS_1_18 = ["NodeUnschedulable", "TaintToleration"]
ARGUMENTS: dict[str, Any] = {
    "serviceAffinity": {"labels": ["region"]},
    "labelsPresence": {"labels": ["retiring"], "presence": False},
    "serviceAntiAffinity": {"label": "rack"},
    "labelPreference": {"label": "ssd", "presence": True},
    "requestedToCapacityRatioArguments": {"shape": [{"utilization": 0, "score": 10}]},
}


def named(name: str, argument: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more, **({"argument": {argument: ARGUMENTS[argument]}} if argument else {})}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("entry", PREDICATES.values(), ids=lambda entry: entry.name)
def test_a_predicate_is_the_filters_it_became(entry: Any, release: str) -> None:
    text = policy(predicates=[named(entry.name, entry.argument)], priorities=[])
    expected = {
        use.plugin
        for one in (entry, *(PREDICATES[name] for name in MANDATORY[release]))
        for use in one.as_of(release).uses
    }
    profile = running(text, release)
    assert set(filters(profile)) == expected
    for use in entry.as_of(release).uses:
        assert all(use.plugin in profile.names(point) for point in use.points)
    assert scores(profile) == {}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("entry", PRIORITIES.values(), ids=lambda entry: entry.name)
def test_a_priority_is_the_score_it_became(entry: Any, release: str) -> None:
    text = policy(predicates=[], priorities=[named(entry.name, entry.argument, weight=7)])
    profile = running(text, release)
    [use] = entry.as_of(release).uses
    assert scores(profile) == {use.plugin: 7}
    assert all(use.plugin in profile.names(point) for point in use.points)
    assert profile.old_names == {use.plugin: entry.name}


def test_predicates_are_asked_in_the_order_of_that_time_whatever_the_policy_says() -> None:
    names = ["MatchInterPodAffinity", "NoDiskConflict", "PodFitsResources", "HostName", "CheckNodeCondition"]
    told = filters(running(policy(predicates=[{"name": name} for name in names], priorities=[])))
    assert told == [
        "NodeCondition",
        "NodeUnschedulable",
        "NodeName",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "TaintToleration",
        "InterPodAffinity",
    ]
    assert ORDER.index("HostName") < ORDER.index("PodFitsResources")


def test_names_that_share_a_plugin_have_it_once() -> None:
    names = ["GeneralPredicates", "PodFitsResources", "PodFitsPorts", "PodFitsHostPorts", "PodFitsHost"]
    told = filters(running(policy(predicates=[{"name": name} for name in names], priorities=[])))
    assert sorted(told) == sorted([*ALWAYS_1_18, "NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"])


def test_lists_that_are_absent_are_those_of_the_default_provider() -> None:
    profile = running(policy())
    provider = PROVIDERS["DefaultProvider"]["1.18"]
    expected = [
        use.plugin for name in ORDER if name in provider.predicates for use in PREDICATES[name].meaning.uses
    ]
    assert filters(profile) == list(dict.fromkeys(expected))
    assert scores(profile) == {
        PRIORITIES[name].meaning.uses[0].plugin: weight for name, weight in provider.priorities.items()
    }
    assert filters(running(policy(predicates=None))) == filters(profile)


def test_lists_that_are_empty_leave_what_is_mandatory() -> None:
    assert filters(running(policy(predicates=[], priorities=[]))) == ALWAYS_1_18
    assert scores(running(policy(predicates=[], priorities=[]))) == {}
    assert filters(running(policy(predicates=[], priorities=[]), "1.9")) == ["NodeCondition"]


def test_in_1_9_an_absent_list_was_an_empty_one() -> None:
    assert filters(running(policy(), "1.9")) == ["NodeCondition"]
    assert scores(running(policy(), "1.9")) == {}


def test_what_was_neither_predicate_nor_priority_is_there() -> None:
    profile = running(policy(predicates=[], priorities=[]))
    assert {point: profile.names(point) for point in ExtensionPoint if profile.names(point)} == {
        ExtensionPoint.PRE_ENQUEUE: ("SchedulingGates", "DefaultPreemption"),
        ExtensionPoint.QUEUE_SORT: ("PrioritySort",),
        ExtensionPoint.FILTER: tuple(ALWAYS_1_18),
        ExtensionPoint.POST_FILTER: ("DefaultPreemption",),
        ExtensionPoint.BIND: ("DefaultBinder",),
    }


def test_several_label_predicates_are_one_plugin() -> None:
    profile = running(
        policy(
            predicates=[
                {"name": "a", "argument": {"labelsPresence": {"labels": ["x", "y"], "presence": True}}},
                {"name": "b", "argument": {"labelsPresence": {"labels": ["z"]}}},
                {"name": "c", "argument": {"labelsPresence": {"labels": ["w"], "presence": True}}},
                {"name": "d", "argument": {"serviceAffinity": {"labels": ["r"]}}},
                {"name": "e", "argument": {"serviceAffinity": {"labels": ["s"]}}},
            ],
            priorities=[],
        )
    )
    assert profile.args["NodeLabel"] == NodeLabelArgs(present_labels=("x", "y", "w"), absent_labels=("z",))
    assert profile.args["ServiceAffinity"] == ServiceAffinityArgs(affinity_labels=("r", "s"))


def test_several_label_priorities_weigh_as_much_as_all_of_them() -> None:
    def preference(name: str, presence: bool) -> dict[str, Any]:
        argument = {"labelPreference": {"label": name, "presence": presence}}
        return {"name": name, "weight": 3, "argument": argument}

    spread = [
        {"name": name, "weight": 2, "argument": {"serviceAntiAffinity": {"label": name}}} for name in "mn"
    ]
    priorities = [preference("x", True), *spread, preference("y", False), preference("z", True)]
    profile = running(policy(predicates=[], priorities=priorities))
    assert scores(profile) == {"NodeLabel": 9, "ServiceAffinity": 4}
    assert profile.args["NodeLabel"] == NodeLabelArgs(
        present_labels_preference=("x", "z"), absent_labels_preference=("y",)
    )
    assert profile.args["ServiceAffinity"] == ServiceAffinityArgs(anti_affinity_labels_preference=("m", "n"))


def test_the_curve_of_a_ratio_is_passed_on() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    argument = {"requestedToCapacityRatioArguments": {"shape": shape, "resources": [{"name": "gpu"}]}}
    one = {"name": "bins", "weight": 5, "argument": argument}
    profile = running(policy(predicates=[], priorities=[one]))
    assert scores(profile) == {"RequestedToCapacityRatio": 5}
    found = profile.args["RequestedToCapacityRatio"]
    assert [(point.utilization, point.score) for point in found.shape] == [(0, 0), (100, 10)]
    assert [(resource.name, resource.weight) for resource in found.resources] == [("gpu", 1)]


@pytest.mark.parametrize(
    ("in_policy", "options", "weight"), [(0, None, 1), (0, 7, 7), (5, 7, 5), (5, None, 5)]
)
def test_the_weight_of_hard_pod_affinity(in_policy: int, options: int | None, weight: int) -> None:
    text = policy(
        priorities=[{"name": "InterPodAffinityPriority", "weight": 1}],
        hardPodAffinitySymmetricWeight=in_policy,
    )
    loaded = policy_config(text, options=LegacyOptions(hard_pod_affinity_weight=options))
    assert profile_of(loaded).args["InterPodAffinity"].hard_pod_affinity_weight == weight


def test_what_is_said_around_a_policy() -> None:
    options = LegacyOptions(scheduler_name="mine", bind_timeout_seconds=5, preemption=False)
    profile = profile_of(policy_config(policy(), options=options))
    assert profile.scheduler_name == "mine"
    assert profile.args["VolumeBinding"].bind_timeout_seconds == 5
    assert not profile.names(ExtensionPoint.POST_FILTER)
    assert profile.names(ExtensionPoint.PRE_ENQUEUE) == ("SchedulingGates",)


def test_extenders_have_the_fields_of_that_time() -> None:
    extender = {
        "urlPrefix": "https://127.0.0.1/x",
        "FilterVerb": "f",
        "prioritizeVerb": "p",
        "BindVerb": "b",
        "preemptVerb": "v",
        "weight": 4,
        "enableHttps": True,
        "tlsConfig": {"Insecure": True, "serverName": "s"},
        "httpTimeout": 1_500_000_000,
        "nodeCacheCapable": True,
        "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}],
        "ignorable": True,
    }
    loaded = policy_config(policy(extenders=[extender]))
    [made] = loaded.config.extenders
    assert (made.url_prefix, made.filter_verb, made.prioritize_verb) == ("https://127.0.0.1/x", "f", "p")
    assert (made.bind_verb, made.preempt_verb, made.weight) == ("b", "v", 4)
    assert (made.enable_https, made.node_cache_capable, made.ignorable) == (True, True, True)
    assert made.tls_config == ExtenderTLS(insecure=True, server_name="s")
    assert made.http_timeout.seconds == 1.5
    assert profile_of(loaded).args["NodeResourcesFit"].ignored_resources == ("example.com/foo",)


def test_an_extender_may_look_after_resources_that_no_predicate_checks() -> None:
    managed = [{"name": "example.com/foo", "ignoredByScheduler": True}]
    text = policy(
        predicates=[], priorities=[], extenders=[{"urlPrefix": "http://x", "managedResources": managed}]
    )
    assert filters(running(text)) == ALWAYS_1_18


def test_exact_names_that_kube_scheduler_still_has_need_no_note() -> None:
    names = [
        name
        for name, entry in PREDICATES.items()
        if entry.meaning.exact and entry.name in ("GeneralPredicates", "NoDiskConflict", "CheckVolumeBinding")
    ]
    text = policy(
        predicates=[{"name": name} for name in names],
        priorities=[
            {"name": "NodeAffinityPriority", "weight": 1},
            {"name": "LeastRequestedPriority", "weight": 2},
        ],
    )
    assert policy_config(text).legacy.notes == ()


def test_notes_tell_of_plugins_that_only_we_have_and_of_rules_that_differ() -> None:
    text = policy(
        predicates=[{"name": "CheckNodeCondition"}],
        priorities=[{"name": "ImageLocalityPriority", "weight": 1}],
    )
    condition, locality = policy_config(text).legacy.notes
    assert condition.startswith(
        "CheckNodeCondition: runs as NodeCondition, which kube-scheduler does not have"
    )
    assert locality.startswith("ImageLocalityPriority: runs as ImageLocality; it differs: ")
