"""Whatever stands in a file, the answer is a configuration or one clear error."""

import json
from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from stowplan.config import BuiltConfig, ConfigError, build, load
from stowplan.config.dump import dump, dump_yaml


def words(text: str) -> list[str]:
    return text.split()


FIELDS = words(
    "parallelism leaderElection leaseDuration clientConnection qps burst enableProfiling "
    "profiles schedulerName "
    "percentageOfNodesToScore plugins multiPoint score queueSort bind filter enabled disabled name weight "
    "pluginConfig args extenders urlPrefix prioritizeVerb tlsConfig caData httpTimeout managedResources "
    "scoringStrategy shape resources addedAffinity defaultConstraints filterTimeout "
    "bindTimeoutSeconds kind apiVersion"
)
WORDS = words(
    "NodeResourcesFit NodeAffinity VolumeBinding DynamicResources PodTopologySpread PrioritySort "
    "DefaultBinder "
    "EBSLimits Nobody * 5s -1s 15x aGVsbG8= v1 kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration"
)

SCORES = words("NodeResourcesBalancedAllocation ImageLocality TaintToleration NodeAffinity NodeResourcesFit")
TOP_LEVEL = words(
    "parallelism leaderElection clientConnection enableProfiling percentageOfNodesToScore profiles extenders "
    "kind apiVersion"
)

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=3)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
_plugin_sets = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(WORDS)}, optional={"weight": st.integers(-5, 2**31 - 1)}
            ),
            max_size=3,
        ),
        "disabled": st.lists(st.fixed_dictionaries({"name": st.sampled_from(WORDS)}), max_size=2),
    },
)
_profiles = st.fixed_dictionaries(
    {},
    optional={
        "schedulerName": st.sampled_from(["a", "b", ""]),
        "plugins": st.dictionaries(
            st.sampled_from(["multiPoint", "score", "filter", "bind", "queueSort"]), _plugin_sets, max_size=3
        ),
        "pluginConfig": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(WORDS)}, optional={"args": _values}), max_size=2
        ),
    },
)


_scoring_profiles = st.fixed_dictionaries(
    {"schedulerName": st.sampled_from(["a", "on", "010", "1.5", "null", "x: y", "ü"])},
    optional={
        "percentageOfNodesToScore": st.integers(0, 100),
        "plugins": st.fixed_dictionaries(
            {
                "score": st.fixed_dictionaries(
                    {
                        "disabled": st.lists(
                            st.fixed_dictionaries({"name": st.sampled_from(SCORES)}), max_size=2
                        ),
                        "enabled": st.lists(
                            st.fixed_dictionaries(
                                {"name": st.sampled_from(SCORES), "weight": st.integers(1, 100)}
                            ),
                            max_size=3,
                            unique_by=lambda plugin: plugin["name"],
                        ),
                    }
                )
            }
        ),
        "pluginConfig": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.just("NodeResourcesBalancedAllocation"),
                    "args": st.fixed_dictionaries(
                        {
                            "resources": st.just(
                                [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
                            )
                        }
                    ),
                }
            ),
            max_size=1,
        ),
    },
)


STAGES = ("decode", "validation", "build")


def _refusal(document: str | bytes) -> str:
    """Error message for a document, empty if it is accepted; either outcome is checked.

    Any other exception than the one for refused configurations fails the test. An accepted document is
    written out, and has to be accepted again with the same meaning.
    """
    built = _outcome(document)
    if isinstance(built, ConfigError):
        assert built.stage in STAGES
        assert built.message.strip()
        assert str(built) == built.message
        return built.message
    again = build(load(dump_yaml(built.config)))
    assert dump(again.config) == dump(built.config)
    assert again.extenders == built.extenders
    assert [profile.plugins for profile in again.profiles] == [profile.plugins for profile in built.profiles]
    assert [profile.args for profile in again.profiles] == [profile.args for profile in built.profiles]
    return ""


def _outcome(document: str | bytes) -> BuiltConfig | ConfigError:
    try:
        return build(load(document))
    except ConfigError as error:
        return error


def _document(fields: dict[str, Any]) -> str:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps({**fields, **head})


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), _values, max_size=4))
def test_values_of_any_shape_are_refused_for_a_reason_or_read_back(fields: dict[str, Any]) -> None:
    _refusal(_document(fields))


@example([{"pluginConfig": [{"name": "PrioritySort", "args": [6.488937629945215e16, 2**64 + 1, 1.0, -0.0]}]}])
@settings(max_examples=150, deadline=None)
@given(st.lists(_profiles, max_size=3))
def test_profiles_of_any_content_are_refused_for_a_reason_or_read_back(
    profiles: list[dict[str, Any]],
) -> None:
    _refusal(_document({"profiles": profiles}))


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "parallelism": st.integers(1, 2**31 - 1),
            "percentageOfNodesToScore": st.integers(0, 100),
            "podInitialBackoffSeconds": st.integers(1, 10),
            "clientConnection": st.fixed_dictionaries(
                {}, optional={"qps": st.floats(0, 1e6), "burst": st.integers(0, 2**31 - 1)}
            ),
            "profiles": st.lists(_scoring_profiles, max_size=1),
        },
    )
)
def test_values_within_bounds_are_accepted_and_read_back(fields: dict[str, Any]) -> None:
    assert not _refusal(_document(fields))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FIELDS), st.sampled_from(FIELDS))
def test_a_field_in_the_wrong_place_is_named(field: str, inner: str) -> None:
    assume(field not in TOP_LEVEL)
    assert f'unknown field "{field}"' in _refusal(_document({field: {inner: 1}}))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.text("{}[]:,-&*!|>'\"%@`#?~ \n\tab01", max_size=60))
def test_text_of_any_sort_is_no_configuration(text: str) -> None:
    assert _refusal(text)
    assert _refusal("{" + text)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_bytes_of_any_sort_are_no_configuration(data: bytes) -> None:
    assert _refusal(data)
