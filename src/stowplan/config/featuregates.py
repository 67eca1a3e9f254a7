"""Feature gates from the command line: `Gate=true,Other=false`."""

from collections.abc import Iterable, Iterator
from typing import Final

from stowplan.api.fielderrors import aggregate
from stowplan.api.releases import DEFAULT, NEWEST, Release, histories
from stowplan.api.releases.feature_gates import GATE_GROUPS, FeatureGates
from stowplan.config.load import ConfigError
from stowplan.gocompat.quoting import quote

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_COMPONENT: Final = "kube:"


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
    name, equals, text = setting.removeprefix(_COMPONENT).partition("=")
    name, text = name.strip(), text.strip()
    if not equals:
        raise ConfigError("flags", f"missing bool value for {name}")
    if text not in _TRUE | _FALSE:
        reason = f"strconv.ParseBool: parsing {quote(text)}: invalid syntax"
        raise ConfigError("flags", f"invalid value of {name}={text}, err: {reason}")
    return name, text in _TRUE


def _changes(settings: dict[str, bool], release: Release) -> dict[str, bool]:
    """What the settings change, gate by gate."""
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
