"""`--feature-gates`: `Gate=true,Other=false`, checked as kube-scheduler checks it."""

from collections.abc import Iterable, Iterator
from typing import Final

from stowplan.api.fielderrors import ConfigError, aggregate
from stowplan.api.gates.feature_gates import EVERY_GATE, GATE_GROUPS, FeatureGates
from stowplan.api.gates.history import UNUSED
from stowplan.api.releases import DEFAULT, NEWEST, Release, Stage, histories, why_without_effect
from stowplan.gocompat.quoting import quote

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})

KUBE: Final = "kube"
"""The only component that versions and gates can be set for."""

Settings = Iterable[tuple[str, str]]
"""Settings such as `GangScheduling=true`, each after the component it was given for: "" or `kube`."""


def read_gates(settings: Settings, release: Release = DEFAULT) -> FeatureGates:
    """The feature gates of `--feature-gates` in a release. Raises ConfigError."""
    return parse_feature_gates(_own_settings(settings), release)


def _own_settings(settings: Settings) -> Iterator[str]:
    given = list(settings)
    if {component for component, _ in given} >= {"", KUBE}:
        raise ConfigError(
            "flags",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        )
    for component, setting in given:
        if component not in ("", KUBE):
            raise ConfigError("flags", f"component not registered: {component}")
        yield setting


def parse_feature_gates(values: Iterable[str], release: Release = DEFAULT) -> FeatureGates:
    """The gates of a release after applying settings such as `GangScheduling=true,kube:AllBeta=false`.

    Later settings win over earlier ones, single gates over `AllAlpha` and `AllBeta`. Raises ConfigError.
    """
    settings: dict[str, bool] = {}
    for value in values:
        for setting in filter(None, (part.strip() for part in value.split(","))):
            name, on = parse_setting(setting)
            settings[name] = on
    groups = [name for name in GATE_GROUPS if settings.get(name)]
    gates = FeatureGates(_changes(settings, release), release, groups)
    if errors := list(_missing_dependencies(gates)):
        raise ConfigError("flags", aggregate(errors))
    return gates


def parse_setting(setting: str) -> tuple[str, bool]:
    name, equals, text = setting.removeprefix(f"{KUBE}:").partition("=")
    name, text = name.strip(), text.strip()
    if not equals:
        raise ConfigError("flags", f"missing bool value for {name}")
    if text not in _TRUE | _FALSE:
        reason = f"strconv.ParseBool: parsing {quote(text)}: invalid syntax"
        raise ConfigError("flags", f"invalid value of {name}={text}, err: {reason}")
    return name, text in _TRUE


def _changes(settings: dict[str, bool], release: Release) -> dict[str, bool]:
    """Changes of the settings, gate by gate."""
    changes: dict[str, bool] = {}
    for group, stage in GATE_GROUPS.items():
        if group in settings:
            gates = release.gates.items()
            names = (name for name, gate in gates if gate.stage is stage and not gate.locked)
            changes |= dict.fromkeys(names, settings[group])
    for name, on in settings.items():
        if name in GATE_GROUPS:
            continue
        gate = release.gates.get(name)
        if gate is None:
            raise ConfigError("flags", _unknown(name, on, release))
        if gate.locked and gate.default != on:
            raise ConfigError("flags", f"{_setting(name, on)}, feature is locked to {_text(gate.default)}")
        changes[name] = on
    return changes


def _unknown(name: str, on: bool, release: Release) -> str:
    """Why a gate cannot be set that the release does not have: it is too new, gone, or not known at all."""
    history = histories().get(name)
    if history is None or not history.exists_in(NEWEST.minor):
        return f"unrecognized feature gate: {name}"
    versions = f"emulated version {release.emulated}, min compatibility version {release.compatible}"
    return f"{_setting(name, on)}, feature is PreAlpha at {versions}"


def _setting(name: str, on: bool) -> str:
    return f"cannot set feature gate {name} to {_text(on)}"


def _text(on: bool) -> str:
    return str(on).lower()


def _missing_dependencies(gates: FeatureGates) -> Iterator[str]:
    for name, gate in gates.release.gates.items():
        missing = [needed for needed in gate.needs if not gates[needed]]
        if missing and gates[name]:
            yield f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"


# Warnings about the gates of a run


def gates_without_effect(settings: Settings, gates: FeatureGates) -> Iterator[tuple[str, str]]:
    """Gates that have no effect here, and why: those that were named, and of the scheduler's own also those
    that a group (AllAlpha) changes."""
    named = (setting.partition("=")[0].strip() for _, setting in settings)
    for name in dict.fromkeys((*named, *(name for name in gates.changed() if name in UNUSED))):
        if name in EVERY_GATE and (why := why_without_effect(name)):
            yield name, why


def enabled_alpha_gates(gates: FeatureGates) -> list[str]:
    """Gates of features that are alpha in the release and on."""
    stages = gates.release.gates
    names = [name for name, on in gates.items() if on and stages[name].stage is Stage.ALPHA]
    return [*names, *(name for name in gates.groups if GATE_GROUPS[name] is Stage.ALPHA)]
