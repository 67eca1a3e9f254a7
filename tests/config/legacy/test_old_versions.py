"""KubeSchedulerConfiguration in the versions before v1: their meaning, and refused ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.legacy.documents import GROUP, converted, filters, old, policy, profile_of, scores
from stowplan.config import ConfigError, load
from stowplan.config.legacy import PolicyReference, load_any, load_any_file
from stowplan.config.legacy.versions import VERSIONS
from stowplan.scheduler.framework.interface import ExtensionPoint

NEW = [version for version in VERSIONS if version.startswith(GROUP)]
PROFILES = [version for version in NEW if "profiles" in VERSIONS[version].fields]
VOLUMES_1_18 = ["MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "NodeVolumeLimits", "MaxAzureDiskVolumeCount"]
FILTERS_1_18 = [
    *("NodeUnschedulable", "NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"),
    *("VolumeRestrictions", "TaintToleration", *VOLUMES_1_18, "VolumeBinding", "VolumeZone"),
    *("InterPodAffinity", "PodTopologySpread"),
]
FILTERS_LATER = [
    *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
    *("VolumeRestrictions", *VOLUMES_1_18, "VolumeBinding", "VolumeZone"),
    *("PodTopologySpread", "InterPodAffinity"),
]
SCORES_1_18 = {
    "BalancedResourceAllocation": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "NodeResourcesFit": 1,
    "NodeAffinity": 1,
    "NodePreferAvoidPods": 10000,
    "SelectorSpread": 1,
    "TaintToleration": 1,
    "PodTopologySpread": 1,
}
SCORES_V1BETA1 = {**SCORES_1_18, "PodTopologySpread": 2}
del SCORES_V1BETA1["SelectorSpread"]
SCORES_V1BETA2 = {
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "NodeResourcesFit": 1,
    "NodeAffinity": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 1,
}
SCORES_V1BETA3 = {
    **SCORES_V1BETA2,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "InterPodAffinity": 2,
    "VolumeBinding": 1,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_kube_scheduler_refuses_them_and_so_does_the_loader_of_today(version: str) -> None:
    with pytest.raises(ConfigError, match="no kind"):
        load(old(version))


def test_a_configuration_of_today_is_read_as_ever() -> None:
    assert load_any(old("v1")) == load(old("v1"))
    for text in ("", "{", "[]", "a: b: c", old("v2"), old("v1", unknown=1), '{"kind": "Policy"'):
        with pytest.raises(ConfigError) as today:
            load(text)
        with pytest.raises(ConfigError) as any_version:
            load_any(text)
        assert str(any_version.value) == str(today.value)


@pytest.mark.parametrize(
    ("version", "filtering", "scoring"),
    [
        ("v1alpha1", FILTERS_1_18, SCORES_1_18),
        ("v1alpha2", FILTERS_1_18, SCORES_1_18),
        ("v1beta1", FILTERS_LATER, SCORES_V1BETA1),
        ("v1beta2", FILTERS_LATER, SCORES_V1BETA2),
        ("v1beta3", FILTERS_LATER, SCORES_V1BETA3),
    ],
)
def test_the_plugins_of_a_version_where_nothing_is_said(
    version: str, filtering: list[str], scoring: dict[str, int]
) -> None:
    profile = converted(version)
    assert profile.scheduler_name == "default-scheduler"
    assert filters(profile) == filtering
    assert scores(profile) == scoring
    assert profile.names(ExtensionPoint.POST_FILTER) == ("DefaultPreemption",)
    assert set(profile.names(ExtensionPoint.PRE_ENQUEUE)) == {"SchedulingGates", "DefaultPreemption"}
    assert (
        profile.names(ExtensionPoint.RESERVE) == profile.names(ExtensionPoint.PRE_BIND) == ("VolumeBinding",)
    )
    assert profile.names(ExtensionPoint.BIND) == ("DefaultBinder",)


@pytest.mark.parametrize(
    ("version", "defaulting"),
    [
        ("v1alpha1", "List"),
        ("v1alpha2", "List"),
        ("v1beta1", "System"),
        ("v1beta2", "System"),
        ("v1beta3", "System"),
    ],
)
def test_default_constraints_of_spreading_came_later(version: str, defaulting: str) -> None:
    assert converted(version).args["PodTopologySpread"].defaulting_type == defaulting


def test_in_v1beta1_constraints_of_ones_own_needed_no_type() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
    entry = {"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}
    args = converted("v1beta1", profiles=[{"pluginConfig": [entry]}]).args["PodTopologySpread"]
    assert (args.defaulting_type, len(args.default_constraints)) == ("List", 1)
    with pytest.raises(ConfigError, match="defaultingType"):
        converted("v1beta2", profiles=[{"pluginConfig": [entry]}])


@pytest.mark.parametrize(
    ("version", "lock"),
    [
        ("componentconfig/v1alpha1", "endpoints"),
        (f"{GROUP}/v1alpha1", "endpointsleases"),
        (f"{GROUP}/v1alpha2", "endpointsleases"),
        (f"{GROUP}/v1beta1", "leases"),
        (f"{GROUP}/v1beta3", "leases"),
    ],
)
def test_leaders_are_elected_by_the_lock_of_the_version(version: str, lock: str) -> None:
    assert load_any(old(version)).config.leader_election.resource_lock == lock
    other = load_any(old(version, leaderElection={"resourceLock": "configmaps", "leaderElect": False}))
    assert other.config.leader_election.resource_lock == other.legacy.lock == "configmaps"
    assert not other.config.leader_election.leader_elect


def test_the_lock_has_the_names_of_that_time() -> None:
    election = {"lockObjectName": "a", "lockObjectNamespace": "b", "leaseDuration": "20s"}
    given = load_any(old("v1alpha1", leaderElection=election)).config.leader_election
    assert (given.resource_name, given.resource_namespace, given.lease_duration.seconds) == ("a", "b", 20)
    same = {"lockObjectName": "a", "resourceName": "a"}
    assert load_any(old("v1alpha1", leaderElection=same)).config.leader_election.resource_name == "a"


@pytest.mark.parametrize("version", ["componentconfig/v1alpha1", f"{GROUP}/v1alpha1"])
def test_a_configuration_of_one_profile(version: str) -> None:
    profile = converted(
        version, schedulerName="mine", hardPodAffinitySymmetricWeight=9, disablePreemption=True
    )
    assert profile.scheduler_name == "mine"
    assert profile.args["InterPodAffinity"].hard_pod_affinity_weight == 9
    assert not profile.names(ExtensionPoint.POST_FILTER)
    assert profile.names(ExtensionPoint.PRE_ENQUEUE) == ("SchedulingGates",)


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_the_timeout_of_binding_volumes_and_preemption(version: str) -> None:
    profile = converted(version, bindTimeoutSeconds=33, disablePreemption=True)
    assert profile.args["VolumeBinding"].bind_timeout_seconds == 33
    assert not profile.names(ExtensionPoint.POST_FILTER)
    assert converted(version).args["VolumeBinding"].bind_timeout_seconds == 600


@pytest.mark.parametrize("version", [f"{GROUP}/v1alpha1", f"{GROUP}/v1alpha2", *PROFILES])
def test_what_has_not_changed_is_kept(version: str) -> None:
    given = {
        "percentageOfNodesToScore": 30,
        "podInitialBackoffSeconds": 2,
        "podMaxBackoffSeconds": 20,
        "enableProfiling": False,
        "clientConnection": {"kubeconfig": "/k", "qps": 7, "burst": 8},
    }
    config = load_any(old(version, **given)).config
    assert (config.percentage_of_nodes_to_score, config.enable_profiling) == (30, False)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (2, 20)
    assert (config.client_connection.kubeconfig, config.client_connection.burst) == ("/k", 8)


def test_a_component_configuration_of_1_9_means_the_providers_of_1_9() -> None:
    profile = converted("componentconfig/v1alpha1")
    assert filters(profile)[0] == "NodeCondition"
    assert profile.old_names["NodeResourcesLeastAllocated"] == "LeastRequestedPriority"
    packing = converted("componentconfig/v1alpha1", algorithmSource={"provider": "ClusterAutoscalerProvider"})
    assert scores(packing)["NodeResourcesMostAllocated"] == 1


def test_an_algorithm_by_provider() -> None:
    packing = converted("v1alpha1", algorithmSource={"provider": "ClusterAutoscalerProvider"})
    assert scores(packing)["NodeResourcesMostAllocated"] == 1
    assert packing.old_names["NodeResourcesMostAllocated"] == "MostRequestedPriority"
    old_one = converted("v1alpha1", algorithmSource={"provider": "DefaultProvider@1.9"})
    assert filters(old_one)[0] == "NodeCondition"
    adapted = converted(
        "v1alpha1",
        algorithmSource={"provider": "ClusterAutoscalerProvider"},
        plugins={"score": {"disabled": [{"name": "ImageLocality"}]}},
    )
    assert "ImageLocality" not in scores(adapted)
    assert scores(adapted)["NodeResourcesMostAllocated"] == 1


def test_an_algorithm_by_policy(tmp_path: Path) -> None:
    text = policy(predicates=[], priorities=[{"name": "MostRequestedPriority", "weight": 4}])
    file = tmp_path / "policy.json"
    file.write_text(text)
    given: dict[str, Any] = {"schedulerName": "mine", "disablePreemption": True, "bindTimeoutSeconds": 3}
    by_file = load_any(old("v1alpha1", algorithmSource={"policy": {"file": {"path": str(file)}}}, **given))
    assert scores(profile_of(by_file)) == {"NodeResourcesMostAllocated": 4}
    assert profile_of(by_file).scheduler_name == "mine"
    assert by_file.legacy.policy_file == str(file)
    asked: list[PolicyReference] = []

    def fetch(reference: PolicyReference) -> str:
        asked.append(reference)
        return text

    source = {"policy": {"configMap": {"name": "p"}}}
    by_map = load_any(
        old("v1alpha1", algorithmSource=source, clientConnection={"kubeconfig": "/k"}, **given), fetch=fetch
    )
    assert scores(profile_of(by_map)) == {"NodeResourcesMostAllocated": 4}
    assert asked == [PolicyReference(namespace="kube-system", name="p", connection={"kubeconfig": "/k"})]
    with pytest.raises(ConfigError, match="the Policy is in ConfigMap kube-system/p"):
        load_any(old("v1alpha1", algorithmSource=source))
    file.write_text(policy(predicates=[{"name": "X"}]))
    with pytest.raises(ConfigError, match=rf'{file}: predicates\[0\].name: unknown predicate "X"'):
        load_any(old("v1alpha1", algorithmSource={"policy": {"file": {"path": str(file)}}}))


def test_a_policy_of_1_9_means_what_it_meant_then(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(policy(priorities=[{"name": "LeastRequestedPriority", "weight": 4}]))
    source = {"policy": {"file": {"path": str(file)}}}
    assert scores(converted("componentconfig/v1alpha1", algorithmSource=source)) == {
        "NodeResourcesLeastAllocated": 4
    }
    assert scores(converted("v1alpha1", algorithmSource=source)) == {"NodeResourcesFit": 4}


def test_extension_points_had_other_names() -> None:
    plugins = {
        "postFilter": {"disabled": [{"name": "TaintToleration"}, {"name": "*"}]},
        "score": {"disabled": [{"name": "*"}]},
        "unreserve": {"disabled": [{"name": "x"}]},
    }
    profile = converted("v1alpha1", plugins=plugins)
    assert profile.names(ExtensionPoint.POST_FILTER) == ("DefaultPreemption",)
    assert scores(profile) == {}
    assert profile.names(ExtensionPoint.PRE_SCORE) == ()


def test_plugins_are_enabled_and_disabled_by_the_names_of_that_time() -> None:
    plugins = {
        "filter": {"disabled": [{"name": "EBSLimits"}], "enabled": [{"name": "CinderLimits"}]},
        "score": {
            "disabled": [{"name": "DefaultPodTopologySpread"}, {"name": "NodeResourcesLeastAllocated"}],
            "enabled": [
                {"name": "RequestedToCapacityRatio", "weight": 3},
                {"name": "ImageLocality", "weight": 9},
            ],
        },
    }
    args = [{"name": "RequestedToCapacityRatio", "args": {"shape": [{"utilization": 0, "score": 10}]}}]
    profile = converted("v1alpha2", profiles=[{"plugins": plugins, "pluginConfig": args}])
    assert "MaxEBSVolumeCount" not in filters(profile)
    assert filters(profile)[-1] == "MaxCinderVolumeCount"
    assert "SelectorSpread" not in scores(profile)
    assert "NodeResourcesFit" not in scores(profile)
    assert (scores(profile)["RequestedToCapacityRatio"], scores(profile)["ImageLocality"]) == (3, 9)


def test_scores_of_resources_had_plugins_of_their_own() -> None:
    args = [{"name": "NodeResourcesLeastAllocated", "args": {"resources": [{"name": "cpu", "weight": 3}]}}]
    least = converted("v1beta1", profiles=[{"pluginConfig": args}]).args["NodeResourcesFit"]
    assert least.scoring_strategy.type == "LeastAllocated"
    assert [(one.name, one.weight) for one in least.scoring_strategy.resources] == [("cpu", 3)]
    most = {
        "disabled": [{"name": "NodeResourcesLeastAllocated"}],
        "enabled": [{"name": "NodeResourcesMostAllocated", "weight": 2}],
    }
    scoring = scores(converted("v1beta1", profiles=[{"plugins": {"score": most}}]))
    assert scoring["NodeResourcesMostAllocated"] == 2
    assert "NodeResourcesFit" not in scoring


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
def test_plugins_for_all_points_at_once(version: str) -> None:
    plugins = {
        "multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 5}]},
        "filter": {"disabled": [{"name": "NodeName"}]},
    }
    profile = converted(version, profiles=[{"plugins": plugins}])
    assert "NodeName" not in filters(profile)
    assert scores(profile)["ImageLocality"] == (1 if version == "v1beta2" else 5)


def test_several_profiles() -> None:
    settings = load_any(old("v1beta1", profiles=[{"schedulerName": "a"}, {"schedulerName": "b"}]))
    assert [profile.scheduler_name for profile in settings.config.profiles] == ["a", "b"]
    assert scores(profile_of(settings, 0)) == scores(profile_of(settings, 1)) == SCORES_V1BETA1


@pytest.mark.parametrize(
    ("version", "extender", "seconds"),
    [
        ("v1alpha2", {"enableHttps": True, "httpTimeout": 2_000_000_000}, 2),
        ("v1beta1", {"enableHTTPS": True, "httpTimeout": "2s"}, 2),
        ("v1beta3", {"enableHTTPS": True, "httpTimeout": "1m"}, 60),
    ],
)
def test_extenders(version: str, extender: dict[str, Any], seconds: float) -> None:
    [made] = load_any(old(version, extenders=[{"urlPrefix": "http://x", **extender}])).config.extenders
    assert (made.enable_https, made.http_timeout.seconds) == (True, seconds)


def test_what_is_gone_is_told() -> None:
    notes = load_any(
        old("v1alpha1", healthzBindAddress="0.0.0.0:10251", metricsBindAddress="0", failureDomains="x")
    ).legacy.notes
    assert notes[0].startswith("healthzBindAddress: 0.0.0.0:10251 is not served")
    assert notes[1].startswith("failureDomains: has no effect")
    assert not any(note.startswith("metricsBindAddress") for note in notes)


def profile(**fields: Any) -> dict[str, Any]:
    return {"profiles": [fields]}


def source(**fields: Any) -> dict[str, Any]:
    return {"algorithmSource": fields}


REFUSED = [
    ("componentconfig/v1alpha1", {"plugins": {}}, "plugins: unknown field of this version"),
    (
        "componentconfig/v1alpha1",
        {"bindTimeoutSeconds": 1},
        "bindTimeoutSeconds: unknown field of this version",
    ),
    ("v1alpha1", {"profiles": []}, "profiles: unknown field of this version"),
    ("v1alpha1", {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds: -1 is not between 0 and"),
    ("v1alpha1", {"disablePreemption": "no"}, 'disablePreemption: expected true or false, got "no"'),
    ("v1alpha1", {"hardPodAffinitySymmetricWeight": 101}, "101 is not between 0 and 100"),
    ("v1alpha1", {"schedulerName": 3}, "schedulerName: expected text, got 3"),
    ("v1alpha1", source(provider="Mine"), 'unknown algorithm provider "Mine"'),
    ("v1alpha1", source(providers="Mine"), "algorithmSource.providers: unknown field"),
    ("v1alpha1", source(policy={}), "algorithmSource.policy: expected one of file, configMap"),
    ("v1alpha1", source(policy={"file": {}}), "algorithmSource.policy.file.path: missing"),
    ("v1alpha1", source(policy={"configMap": {}}), "algorithmSource.policy.configMap.name: missing"),
    ("v1alpha1", source(policy={"file": {"path": "/none"}}), "open /none: no such file or directory"),
    (
        "v1alpha1",
        source(policy={"file": {"path": "x"}}, provider="DefaultProvider"),
        "there is a provider, too",
    ),
    (
        "v1alpha1",
        {**source(policy={"file": {"path": "x"}}), "plugins": {}},
        "algorithmSource.policy: a Policy and plugins or pluginConfig cannot be used together",
    ),
    (
        "v1alpha1",
        {**source(provider="DefaultProvider@1.9"), "plugins": {"score": {}}},
        "plugins cannot be used together with DefaultProvider@1.9",
    ),
    ("v1alpha1", {"plugins": {"preScore": {}}}, "plugins.preScore: unknown field"),
    ("v1alpha2", profile(plugins={"postFilter": {}}), "profiles[0].plugins.postFilter: unknown field"),
    ("v1beta1", profile(plugins={"multiPoint": {}}), "profiles[0].plugins.multiPoint: unknown field"),
    ("v1beta1", profile(plugins={"unreserve": {}}), "profiles[0].plugins.unreserve: unknown field"),
    ("v1beta1", {"disablePreemption": True}, "disablePreemption: unknown field of this version"),
    ("v1beta3", {"healthzBindAddress": ""}, "healthzBindAddress: unknown field of this version"),
    ("v1beta1", profile(plugins={"score": {"on": []}}), "profiles[0].plugins.score.on: unknown field"),
    (
        "v1beta1",
        profile(plugins={"score": {"enabled": [{"name": "A"}, {"name": "A"}]}}),
        "score.enabled[1].name: A is there already",
    ),
    ("v1beta1", profile(plugins={"score": {"enabled": [{"weight": 1}]}}), "score.enabled[0].name: missing"),
    ("v1beta1", profile(plugins={"score": {"enabled": [{"name": "A", "weight": -1}]}}), "weight: -1 is not"),
    (
        "v1beta2",
        profile(plugins={"score": {"enabled": [{"name": "NodePreferAvoidPods"}]}}),
        "score.enabled[0].name: NodePreferAvoidPods was removed in this version",
    ),
    (
        "v1beta3",
        profile(plugins={"multiPoint": {"enabled": [{"name": "SelectorSpread"}]}}),
        "multiPoint.enabled[0].name: SelectorSpread was removed in this version",
    ),
    ("v1beta2", profile(pluginConfig=[{"name": "NodeLabel"}]), "NodeLabel was removed in this version"),
    ("v1beta1", profile(pluginConfig=[{"args": {}}]), "pluginConfig[0].name: missing"),
    (
        "v1beta1",
        profile(pluginConfig=[{"name": "VolumeBinding"}, {"name": "VolumeBinding"}]),
        "pluginConfig[1].name: VolumeBinding is there already",
    ),
    (
        "v1beta1",
        profile(pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {}}}]),
        "args.scoringStrategy: unknown field of NodeResourcesFitArgs in v1beta1",
    ),
    (
        "v1beta1",
        profile(pluginConfig=[{"name": "NodeAffinity", "args": {"kind": "NodeLabelArgs"}}]),
        'args.kind: expected NodeAffinityArgs, got "NodeLabelArgs"',
    ),
    (
        "v1beta1",
        profile(pluginConfig=[{"name": "NodeAffinity", "args": {"apiVersion": f"{GROUP}/v1beta2"}}]),
        f'args.apiVersion: expected {GROUP}/v1beta1, got "{GROUP}/v1beta2"',
    ),
    (
        "v1alpha1",
        {
            "hardPodAffinitySymmetricWeight": 3,
            "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 4}}],
        },
        "hardPodAffinitySymmetricWeight: InterPodAffinity has arguments in pluginConfig, too",
    ),
    ("v1beta1", {"profiles": [{}, {"schedulerName": "a"}]}, "profiles[0].schedulerName: missing"),
    ("v1beta1", {"profiles": [{"schedulerName": "a"}] * 2}, "profiles[1].schedulerName: Duplicate value"),
    ("v1beta1", {"leaderElection": {"lockObjectName": "a"}}, "leaderElection.lockObjectName: unknown field"),
    (
        "v1beta1",
        {"leaderElection": {"resourceLock": "tape"}},
        'leaderElection.resourceLock: unknown lock "tape"',
    ),
    (
        "v1alpha1",
        {"leaderElection": {"lockObjectName": "a", "resourceName": "b"}},
        'leaderElection.lockObjectName: "a" contradicts resourceName, "b"',
    ),
    ("v1beta1", {"clientConnection": {"speed": 1}}, 'unknown field "clientConnection.speed"'),
    ("v1beta1", {"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: Invalid value: 0"),
    (
        "v1alpha2",
        {"extenders": [{"urlPrefix": "x", "httpTimeout": "2s"}]},
        "extenders[0].httpTimeout: expected",
    ),
    (
        "v1beta1",
        {"extenders": [{"urlPrefix": "x", "enableHttps": True}]},
        'unknown field "extenders[0].enableHttps"',
    ),
]


@pytest.mark.parametrize(("version", "fields", "told"), REFUSED)
def test_a_mistake_is_named_in_one_line(version: str, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_any(old(version, **fields))
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_repeated_key_is_refused_as_such() -> None:
    text = f"apiVersion: {GROUP}/v1beta1\nkind: KubeSchedulerConfiguration\nparallelism: 1\nparallelism: 2\n"
    with pytest.raises(ConfigError, match='yaml: line 4: key "parallelism" already set in map'):
        load_any(text)
    twice = json.dumps({"apiVersion": f"{GROUP}/v1beta1", "kind": "KubeSchedulerConfiguration"})
    with pytest.raises(ConfigError, match="parallelism: given twice"):
        load_any(twice[:-1] + ', "parallelism": 1, "parallelism": 2}')


def test_a_file_of_any_version(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(old("v1beta3"))
    assert load_any_file(file) == load_any(old("v1beta3"))
    with pytest.raises(ConfigError, match="no such file"):
        load_any_file(tmp_path / "none")
