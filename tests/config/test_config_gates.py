"""Feature gates from a command line."""

import pytest

from releases import GATES_1_36, V1_36, V1_37
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.gates.flag import parse_feature_gates
from stowplan.api.releases import Stage
from stowplan.config import ConfigError
from stowplan.config.emulation import read_emulation


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        ([], {}),
        ([""], {}),
        (["VolumeLimitScaling=true"], {"VolumeLimitScaling": True}),
        (["kube:VolumeLimitScaling=1"], {"VolumeLimitScaling": True}),
        (
            ["OpportunisticBatching=false, ContextualLogging=F"],
            {"OpportunisticBatching": False, "ContextualLogging": False},
        ),
        (["VolumeLimitScaling=true", "VolumeLimitScaling=false"], {}),
        (["SchedulerQueueingHints=true"], {}),
        (["GangScheduling=true,GenericWorkload=t"], {"GangScheduling": True, "GenericWorkload": True}),
    ],
)
def test_settings_change_the_defaults(values: list[str], changed: dict[str, bool]) -> None:
    assert parse_feature_gates(values, V1_36) == {**GATES_1_36, **changed}


def test_all_alpha_switches_every_alpha_gate_except_those_set_on_their_own() -> None:
    gates = parse_feature_gates(["VolumeLimitScaling=false,AllAlpha=true"], V1_36)
    on = {name for name, gate in V1_36.gates.items() if gate.stage is Stage.ALPHA} - {"VolumeLimitScaling"}
    assert {name for name, enabled in gates.items() if enabled and not GATES_1_36[name]} == on


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
        parse_feature_gates([value], V1_36)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("value", "versions", "message"),
    [
        ("GangScheduling=true", ("1.37",), "unrecognized feature gate: GangScheduling"),
        ("SchedulerQueueingHints=true", ("1.37",), "unrecognized feature gate: SchedulerQueueingHints"),
        (
            "DRAExtendedResource=false",
            ("1.37",),
            "cannot set feature gate DRAExtendedResource to false, feature is locked to true",
        ),
        (
            "CompositePodGroup=true",
            ("1.37",),
            "CompositePodGroup is enabled, but depends on features that are disabled: "
            "[GenericWorkload TopologyAwareWorkloadScheduling]",
        ),
        (
            "CompositePodGroup=true",
            ("1.36",),
            "cannot set feature gate CompositePodGroup to true, feature is PreAlpha at emulated version 1.36"
            ", min compatibility version 1.35",
        ),
        (
            "DRAListTypeAttributes=false",
            ("1.35", "1.34"),
            "cannot set feature gate DRAListTypeAttributes to false, feature is PreAlpha at emulated version "
            "1.35, min compatibility version 1.34",
        ),
    ],
)
def test_gates_are_refused_in_the_words_of_the_release(
    value: str, versions: tuple[str, ...], message: str
) -> None:
    emulation = read_emulation(versions[:1], versions[1:])
    with pytest.raises(ConfigError) as error:
        parse_feature_gates([value], emulation.release)
    assert error.value.message == message


def test_a_version_without_rules_of_its_own_has_its_own_gates() -> None:
    older = read_emulation(["1.35"]).release
    assert (older.name, str(older.emulated), str(older.compatible)) == ("1.36", "1.35", "1.34")
    gates = parse_feature_gates([], older)
    assert not gates["DRAConsumableCapacity"]
    assert V1_36.gates["DRAConsumableCapacity"].default


def test_a_gate_may_depend_on_the_oldest_version_around() -> None:
    assert not parse_feature_gates([], V1_37)["DRAFractionalCapacityRange"]
    alone = read_emulation(["1.37"], ["1.37"]).release
    assert parse_feature_gates([], alone)["DRAFractionalCapacityRange"]


def test_features_without_a_gate_are_as_their_release_left_them() -> None:
    newer, older = FeatureGates(release=V1_37), FeatureGates(release=V1_36)
    assert newer["SidecarContainers"]
    assert "SidecarContainers" not in newer
    assert not newer["GangScheduling"]
    assert not older["SchedulerPreQueueingHints"]


def test_reading_a_gate_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        DEFAULT_GATES["NoSuch"]
    with pytest.raises(KeyError):
        FeatureGates({"NoSuch": True})


def test_gates_show_what_was_changed() -> None:
    gates = FeatureGates({"VolumeLimitScaling": True}, V1_36)
    assert repr(gates) == "FeatureGates({'VolumeLimitScaling': True}, Release('1.36.4'))"
    assert len({FeatureGates(), DEFAULT_GATES, FeatureGates({"PodLevelResources": False})}) == 2
