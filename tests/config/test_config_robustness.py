"""Whatever stands in a file, the answer is a configuration or one clear error."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.config import ConfigError, build, load


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


def _try(document: str | bytes) -> None:
    """Any other exception than the one for refused configurations fails the test."""
    with suppress(ConfigError):
        build(load(document))


def _document(fields: dict[str, Any]) -> str:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps({**fields, **head})


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), _values, max_size=4))
def test_values_of_any_shape(fields: dict[str, Any]) -> None:
    _try(_document(fields))


@settings(max_examples=150, deadline=None)
@given(st.lists(_profiles, max_size=3))
def test_profiles_of_any_content(profiles: list[dict[str, Any]]) -> None:
    _try(_document({"profiles": profiles}))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.text("{}[]:,-&*!|>'\"%@`#?~ \n\tab01", max_size=60))
def test_text_of_any_sort(text: str) -> None:
    _try(text)
    _try("{" + text)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_bytes_of_any_sort(data: bytes) -> None:
    _try(data)
