"""Documents that are refused while they are read, and the texts they are refused with."""

import pytest

from config.documents import HEADER, with_args, with_profile
from stowplan.config import ConfigError, load

JSON_HEADER = '{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"'
NO_KIND = "couldn't get version/kind; json parse error: "


def refusal(document: str | bytes) -> str:
    with pytest.raises(ConfigError) as error:
        load(document)
    assert error.value.stage == "decode"
    return error.value.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "podMaxBackoffSeconds: x",
            "string into Go struct field KubeSchedulerConfiguration.podMaxBackoffSeconds of type int64",
        ),
        (
            "parallelism: 2147483648",
            "number 2147483648 into Go struct field KubeSchedulerConfiguration.parallelism of type int32",
        ),
        (
            "parallelism: 1e20",
            "number 100000000000000000000 into Go struct field "
            "KubeSchedulerConfiguration.parallelism of type int32",
        ),
        (
            "parallelism: 1e21",
            "number 1e+21 into Go struct field KubeSchedulerConfiguration.parallelism of type int32",
        ),
        (
            "parallelism: 18446744073709551616",
            "number 18446744073709552000 into Go struct field "
            "KubeSchedulerConfiguration.parallelism of type int32",
        ),
        (
            "parallelism: []",
            "array into Go struct field KubeSchedulerConfiguration.parallelism of type int32",
        ),
        (
            "enableProfiling: 1",
            "number into Go struct field "
            "KubeSchedulerConfiguration.DebuggingConfiguration.enableProfiling of type bool",
        ),
        (
            "clientConnection: [1]",
            "array into Go struct field KubeSchedulerConfiguration.clientConnection of type "
            "v1alpha1.ClientConnectionConfiguration",
        ),
        (
            "clientConnection: {qps: 1e39}",
            "number 1e+39 into Go struct field "
            "ClientConnectionConfiguration.clientConnection.qps of type float32",
        ),
        (
            "clientConnection: {burst: 1.5}",
            "number 1.5 into Go struct field "
            "ClientConnectionConfiguration.clientConnection.burst of type int32",
        ),
        (
            "extenders: [1]",
            "number into Go struct field KubeSchedulerConfiguration.extenders of type v1.Extender",
        ),
        (
            "extenders: [{tlsConfig: {caData: 1}}]",
            "number into Go struct field ExtenderTLSConfig.extenders.tlsConfig.caData of type []uint8",
        ),
        (
            "extenders: [{tlsConfig: {caData: [300]}}]",
            "number 300 into Go struct field ExtenderTLSConfig.extenders.tlsConfig.caData of type uint8",
        ),
        (
            "extenders: [{httpTimeout: [5s]}]",
            "array into Go struct field Extender.extenders.httpTimeout of type string",
        ),
        (
            "profiles: [{schedulerName: on}]",
            "bool into Go struct field KubeSchedulerProfile.profiles.schedulerName of type string",
        ),
    ],
)
def test_a_value_of_the_wrong_type_names_field_and_type(fields: str, message: str) -> None:
    assert refusal(HEADER + fields) == f"json: cannot unmarshal {message}"


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        (
            "PodTopologySpread",
            "{defaultConstraints: [{labelSelector: {matchLabels: {a: 1}}}]}",
            "number into Go struct field "
            "LabelSelector.defaultConstraints.labelSelector.matchLabels of type string",
        ),
        (
            "PodTopologySpread",
            "{defaultConstraints: [{whenUnsatisfiable: 1}]}",
            "number into Go struct field TopologySpreadConstraint.defaultConstraints.whenUnsatisfiable "
            "of type v1.UnsatisfiableConstraintAction",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: [x]}}",
            "array into Go struct field ScoringStrategy.scoringStrategy.type of type v1.ScoringStrategyType",
        ),
        (
            "DynamicResources",
            "{bindingTimeout: true}",
            "bool into Go struct field DynamicResourcesArgs.bindingTimeout of type string",
        ),
    ],
)
def test_a_wrong_type_in_plugin_arguments_names_the_plugin(plugin: str, args: str, message: str) -> None:
    where = f"decoding .profiles[0].pluginConfig[0]: decoding args for plugin {plugin}: "
    assert refusal(with_args(plugin, args)) == f"{where}json: cannot unmarshal {message}"


def test_of_several_wrong_types_the_first_by_name_is_reported() -> None:
    message = refusal(HEADER + "podMaxBackoffSeconds: b\nparallelism: a")
    assert message == (
        "json: cannot unmarshal string into Go struct field "
        "KubeSchedulerConfiguration.parallelism of type int32"
    )


def test_in_a_json_document_the_first_wrong_type_in_the_text_is_reported() -> None:
    message = refusal(JSON_HEADER + ',"podMaxBackoffSeconds":"x","parallelism":"y"}')
    assert "KubeSchedulerConfiguration.podMaxBackoffSeconds" in message


def test_a_bad_duration_is_reported_before_earlier_wrong_types() -> None:
    message = refusal(HEADER + "enableProfiling: 3\nleaderElection: {retryPeriod: 5 s}")
    assert message == 'time: unknown unit " s" in duration "5 s"'


def test_a_duration_that_is_null_is_an_empty_one() -> None:
    assert refusal(HEADER + "leaderElection: {retryPeriod: null}") == 'time: invalid duration ""'


def test_an_optional_duration_can_be_null() -> None:
    loaded = load(with_args("DynamicResources", "{filterTimeout: null}"))
    entry = next(e for e in loaded.config.profiles[0].plugin_config if e.name == "DynamicResources")
    assert str(entry.args.filter_timeout) == "10s"


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        (HEADER + "leaderElection: {x: 1}", 'unknown field "leaderElection.x"'),
        (
            with_profile("{plugins: {score: {enabled: [{name: A}, {nam: B}]}}}"),
            'unknown field "profiles[0].plugins.score.enabled[1].nam"',
        ),
        (JSON_HEADER + ',"kind":"KubeSchedulerConfiguration"}', 'duplicate field "kind"'),
        (JSON_HEADER + ',"extenders":[{"weight":1,"weight":2}]}', 'duplicate field "extenders[0].weight"'),
        (JSON_HEADER + ',"x":1,"x":2}', 'unknown field "x"'),
        (
            HEADER + "b: 1\nextenders: [{c: 1}]\na: 1",
            'unknown field "a", unknown field "b", unknown field "extenders[0].c"',
        ),
        (
            HEADER + "parallelism: 1\nparallelism: 2\nz: 1",
            'yaml: unmarshal errors:\n  line 4: key "parallelism" already set in map, unknown field "z"',
        ),
        (
            HEADER + "zz: 1\n" + with_args("NodeAffinity", "{x: 1}").removeprefix(HEADER),
            'unknown field "zz", decoding .profiles[0].pluginConfig[0]: strict decoding error: '
            'decoding args for plugin NodeAffinity: strict decoding error: unknown field "x"',
        ),
        (
            with_args(
                "PodTopologySpread", "{defaultConstraints: [{labelSelector: {matchLabels: {a: b}, x: 1}}]}"
            ),
            "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for "
            "plugin PodTopologySpread: "
            'strict decoding error: unknown field "defaultConstraints[0].labelSelector.x"',
        ),
    ],
)
def test_unknown_and_repeated_fields_are_listed(document: str, problems: str) -> None:
    assert refusal(document) == f"strict decoding error: {problems}"


def test_a_wrong_type_hides_unknown_fields() -> None:
    assert "cannot unmarshal" in refusal(HEADER + "a: 1\nparallelism: x")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b'{"a":1,}', NO_KIND + "invalid character '}' looking for beginning of object key string"),
        (b"{a: 1}", NO_KIND + "invalid character 'a' looking for beginning of object key string"),
        (b'{"a"', NO_KIND + "unexpected end of JSON input"),
        (b'{"a":nul}', NO_KIND + "invalid character '}' in literal null (expecting 'l')"),
        (b'{"a":01}', NO_KIND + "invalid character '1' after object key:value pair"),
        (b'{"a":"\x01"}', NO_KIND + r"invalid character '\x01' in string literal"),
        (b"{'a':1}", NO_KIND + r"invalid character '\'' looking for beginning of object key string"),
        (
            b"42",
            NO_KIND + "json: cannot unmarshal number into Go value of type struct { APIVersion string "
            r'"json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }',
        ),
        (b"kind: 3", NO_KIND + "json: cannot unmarshal number into Go struct field .kind of type string"),
        (b"apiVersion: a/b/c\nkind: X", "unexpected GroupVersion string: a/b/c"),
        (
            b"apiVersion: kubescheduler.config.k8s.io/\nkind: X",
            "Object 'apiVersion' is missing in 'apiVersion: kubescheduler.config.k8s.io/\nkind: X'",
        ),
        (
            b"Kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1",
            'strict decoding error: unknown field "Kind"',
        ),
    ],
)
def test_documents_that_do_not_get_as_far_as_fields(document: bytes, message: str) -> None:
    assert refusal(document) == message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            "{apiVersion: v1}",
            'no kind "NodeAffinityArgs" is registered for version "v1" in scheme '
            '"pkg/scheduler/apis/config/scheme/scheme.go:29"',
        ),
        (
            "{kind: Foo}",
            'no kind "Foo" is registered for version "kubescheduler.config.k8s.io/v1" in scheme '
            '"pkg/scheduler/apis/config/scheme/scheme.go:29"',
        ),
        (
            "7",
            NO_KIND + "json: cannot unmarshal number into Go value of type struct { APIVersion string "
            r'"json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }',
        ),
    ],
)
def test_plugin_arguments_of_the_wrong_kind(args: str, message: str) -> None:
    where = "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: "
    assert refusal(with_args("NodeAffinity", args)) == where + message


def test_arguments_of_plugins_outside_the_tree_are_kept_as_written() -> None:
    loaded = load(with_args("Mine", "{b: [1, 2.5, x], a: null}"))
    assert loaded.config.profiles[0].plugin_config[0].args == {"a": None, "b": [1, 2.5, "x"]}


@pytest.mark.parametrize(
    ("text", "position"),
    [("***", 0), ("YWI", 0), ("YWJj*", 4), ("YQ=", 3), ("YQ=x", 2), ("YWJjZA==x", 8), ("=", 0), ("YW=J", 2)],
)
def test_bad_base64_is_refused_at_its_position(text: str, position: int) -> None:
    document = HEADER + f"extenders: [{{tlsConfig: {{caData: '{text}'}}}}]"
    assert refusal(document) == f"illegal base64 data at input byte {position}"


def test_base64_can_be_broken_into_lines() -> None:
    loaded = load(HEADER + 'extenders: [{tlsConfig: {serverName: x, keyData: "YWJj\\nZA=="}}]')
    tls = loaded.config.extenders[0].tls_config
    assert tls is not None
    assert tls.key_data == b"abcd"
