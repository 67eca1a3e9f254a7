"""Values that are refused, with the field and what was expected."""

import pytest

from config.documents import HEADER, with_args, with_profile
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.config import ConfigError, load


def refusal(document: str, gates: FeatureGates | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        load(document, gates or FeatureGates())
    assert error.value.stage == "validation"
    return error.value.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "leaderElection: {leaseDuration: -1s}",
            '[leaderElection.leaseDuration: Invalid value: "-1s": must be '
            'greater than zero, leaderElection.leaseDuration: Invalid value: "10s": must be '
            "greater than `RenewDeadline`]",
        ),
        (
            "leaderElection: {retryPeriod: -1ns}",
            'leaderElection.retryPeriod: Invalid value: "-1ns": must be greater than zero',
        ),
        (
            "percentageOfNodesToScore: -1",
            "percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        ),
        (
            "extenders: [{managedResources: [{name: cpu}]}]",
            "extenders[0].managedResources[0].name: Invalid value: "
            '"cpu": is an invalid extended resource name',
        ),
        (
            "extenders: [{managedResources: [{name: requests.a/b}]}]",
            "extenders[0].managedResources[0].name: "
            'Invalid value: "requests.a/b": is an invalid extended resource name',
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFitArgs, args: {a: 1}}]}]",
            'profiles[0].pluginConfig[0].args: Invalid value: {"a":1}: has to match plugin args',
        ),
    ],
)
def test_refused_values(fields: str, message: str) -> None:
    assert refusal(HEADER + fields) == message


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu, weight: 2}, {name: cpu}]}",
            "[{p}.resources[0].weight: Invalid value: 2: must be 1, {p}.resources[1].name: "
            'Duplicate value: "cpu"]',
        ),
        (
            "PodTopologySpread",
            "{defaultingType: <x>}",
            '{p}.defaultingType: Unsupported value: "\\u003cx\\u003e": supported values: "System", "List"',
        ),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: k, "
            "whenUnsatisfiable: DoNotSchedule}, {maxSkew: 0, topologyKey: k, whenUnsatisfiable: "
            "DoNotSchedule, "
            "labelSelector: {}}]}",
            "[{p}.defaultConstraints[1].maxSkew: Invalid value: 0: not in valid range (0, inf), "
            "{p}.defaultConstraints[1].labelSelector: Forbidden: constraint must not define a "
            "selector, as they deduced "
            'for each pod, {p}.defaultConstraints[1]: Duplicate value: "{{k, DoNotSchedule}}"]',
        ),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: k, "
            "whenUnsatisfiable: Never}]}",
            '{p}.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: '
            '"DoNotSchedule", "ScheduleAnyway"',
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
            "[{}, {matchExpressions: [{key: a, operator: In}]}]}}}",
            "{p}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[0]"
            ".values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
            "[{matchExpressions: [{key: a, operator: NotIn, values: []}]}]}}}",
            "{p}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
            ".values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: "
            "{matchFields: [{operator: X}]}}, {weight: 1, preference: {matchFields: [{key: a, "
            "operator: Gt}]}}]}}",
            "{p}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].matchFields[0].operator: "
            'Unsupported value: "Gt": supported values: "In", "NotIn"',
        ),
        (
            "DynamicResources",
            "{bindingTimeout: 999ms}",
            '{p}.bindingTimeout: Invalid value: "999ms": must be at least 1 second',
        ),
    ],
)
def test_refused_plugin_arguments(plugin: str, args: str, message: str) -> None:
    path = "profiles[0].pluginConfig[0].args"
    assert refusal(with_args(plugin, args)) == message.format(p=path)


def test_each_message_is_given_once() -> None:
    message = refusal(with_args("NodeResourcesBalancedAllocation", "{resources: [{name: a, weight: 3}]}"))
    assert not message.startswith("[")


def test_queue_sort_arguments_have_to_be_the_same_in_all_profiles() -> None:
    sort = "plugins: {queueSort: {enabled: [{name: S}]}}"
    document = (
        f"{HEADER}profiles:\n"
        f"- {{schedulerName: a, {sort}, pluginConfig: [{{name: S, args: {{x: 1}}}}]}}\n"
        f"- {{schedulerName: b, {sort}, pluginConfig: [{{name: S, args: {{x: 2}}}}]}}\n"
    )
    assert refusal(document) == (
        'profiles[1].pluginConfig.args: Invalid value: {"x":2}: queueSort must be the same for all profiles'
    )


def test_a_plugin_with_typed_arguments_cannot_stand_for_different_queue_orders() -> None:
    sort = "plugins: {queueSort: {enabled: [{name: InterPodAffinity}]}}"
    args = "pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}]"
    document = f"{HEADER}profiles:\n- {{schedulerName: a, {sort}}}\n- {{schedulerName: b, {sort}, {args}}}\n"
    assert refusal(document) == (
        'profiles[1].pluginConfig.args: Invalid value: {"HardPodAffinityWeight":5,'
        '"IgnorePreferredTermsOfExistingPods":false}: queueSort must be the same for all profiles'
    )


@pytest.mark.parametrize(
    ("gates", "plugin", "args", "message"),
    [
        (
            {"DRASchedulerFilterTimeout": False},
            "DynamicResources",
            "{filterTimeout: 1s}",
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
        ),
        (
            {"DRADeviceBindingConditions": False},
            "DynamicResources",
            "{bindingTimeout: 5s}",
            "bindingTimeout: Forbidden: DRADeviceBindingConditions or "
            "DRAResourceClaimDeviceStatus feature gate is disabled",
        ),
        (
            {"StorageCapacityScoring": True},
            "VolumeBinding",
            "{shape: [{utilization: 0, score: 11}]}",
            "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
        ),
        (
            {"StorageCapacityScoring": True},
            "VolumeBinding",
            "{shape: [{utilization: 50, score: 1}, {utilization: 50, score: 1}]}",
            "shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",
        ),
    ],
)
def test_what_feature_gates_change_in_plugin_arguments(
    gates: dict[str, bool], plugin: str, args: str, message: str
) -> None:
    document = with_args(plugin, args)
    assert refusal(document, FeatureGates(gates)) == f"profiles[0].pluginConfig[0].args.{message}"


def test_with_gates_off_nothing_is_filled_in_for_them() -> None:
    gates = FeatureGates({"DRASchedulerFilterTimeout": False, "DRADeviceBindingConditions": False})
    profile = load(HEADER, gates).config.profiles[0]
    args = next(entry.args for entry in profile.plugin_config if entry.name == "DynamicResources")
    assert (args.filter_timeout, args.binding_timeout) == (None, None)


def test_with_storage_capacity_scoring_an_empty_shape_is_the_default_one() -> None:
    loaded = load(with_args("VolumeBinding", "{shape: []}"), FeatureGates({"StorageCapacityScoring": True}))
    shape = loaded.config.profiles[0].plugin_config[0].args.shape
    assert [(point.utilization, point.score) for point in shape] == [(0, 10), (100, 0)]


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ("clientConnection: {qps: 0, burst: 0, contentType: ''}", "client_connection", None),
        ("leaderElection: {leaseDuration: 0s, resourceName: '', resourceLock: ''}", "leader_election", None),
        ("enableProfiling: false", "enable_contention_profiling", False),
        ("enableProfiling: true", "enable_contention_profiling", True),
        ("{}", "percentage_of_nodes_to_score", None),
        ("percentageOfNodesToScore: 0", "percentage_of_nodes_to_score", 0),
    ],
)
def test_what_empty_values_become(given: str, field: str, expected: object) -> None:
    config = load(HEADER + ("" if given == "{}" else given)).config
    default = load(HEADER).config
    assert getattr(config, field) == (getattr(default, field) if expected is None else expected)


def test_a_single_profile_gets_the_default_name_but_several_do_not() -> None:
    assert load(with_profile("{}")).config.profiles[0].scheduler_name == "default-scheduler"
    assert (
        refusal(HEADER + "profiles: [{schedulerName: a}, {}]") == "profiles[1].schedulerName: Required value"
    )
