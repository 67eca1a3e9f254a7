"""Feature gates from a command line."""

import pytest

from stowplan.api.feature_gates import DEFAULT_GATES, GATES, FeatureGates, Stage
from stowplan.config import ConfigError
from stowplan.config.featuregates import parse_feature_gates


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        ([], {}),
        ([""], {}),
        (["VolumeLimitScaling=true"], {"VolumeLimitScaling": True}),
        (["kube:VolumeLimitScaling=1"], {"VolumeLimitScaling": True}),
        (
            ["OpportunisticBatching=false, PodLevelResources=F"],
            {"OpportunisticBatching": False, "PodLevelResources": False},
        ),
        (["VolumeLimitScaling=true", "VolumeLimitScaling=false"], {}),
        (["SchedulerQueueingHints=true"], {}),
        (["GangScheduling=true,GenericWorkload=t"], {"GangScheduling": True, "GenericWorkload": True}),
    ],
)
def test_settings_change_the_defaults(values: list[str], changed: dict[str, bool]) -> None:
    assert parse_feature_gates(values) == {**DEFAULT_GATES, **changed}


def test_all_alpha_switches_every_alpha_gate_except_those_set_on_their_own() -> None:
    gates = parse_feature_gates(["VolumeLimitScaling=false,AllAlpha=true"])
    on = {name for name, gate in GATES.items() if gate.stage is Stage.ALPHA} - {"VolumeLimitScaling"}
    assert {name for name, enabled in gates.items() if enabled and not DEFAULT_GATES[name]} == on


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("NoSuch=true", "unrecognized feature gate: NoSuch"),
        (
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        ),
        ("VolumeLimitScaling", "missing bool value for VolumeLimitScaling"),
        (
            "VolumeLimitScaling=maybe",
            'invalid value of VolumeLimitScaling=maybe, err: strconv.ParseBool: parsing "maybe": '
            "invalid syntax",
        ),
        (
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
    ],
)
def test_settings_that_are_refused(value: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_feature_gates([value])
    assert error.value.message == message


def test_reading_a_gate_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        DEFAULT_GATES["NoSuch"]
    with pytest.raises(KeyError):
        FeatureGates({"NoSuch": True})


def test_gates_show_what_was_changed() -> None:
    assert repr(FeatureGates({"VolumeLimitScaling": True})) == "FeatureGates({'VolumeLimitScaling': True})"
    assert len({FeatureGates(), DEFAULT_GATES, FeatureGates({"VolumeLimitScaling": True})}) == 2
