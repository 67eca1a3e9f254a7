"""Feature gates from the command line: `Gate=true,Other=false`."""

from collections.abc import Iterable

from stowplan.api.feature_gates import GATES, FeatureGates, Stage
from stowplan.api.fielderrors import aggregate
from stowplan.config.load import ConfigError
from stowplan.gocompat.quoting import quote

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_COMPONENT = "kube:"
GATE_GROUPS = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_DEPENDENCIES: dict[str, tuple[str, ...]] = {
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "GangScheduling": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}
"""Gates that make no sense without others."""


def parse_feature_gates(values: Iterable[str]) -> FeatureGates:
    """The gates after applying settings such as `GangScheduling=true,kube:AllBeta=false`.

    Later settings win over earlier ones, single gates over `AllAlpha` and `AllBeta`. Raises ConfigError.
    """
    settings: dict[str, bool] = {}
    for value in values:
        for setting in filter(None, (part.strip() for part in value.split(","))):
            name, on = parse_setting(setting)
            settings[name] = on
    gates = FeatureGates(_changes(settings))
    errors = [error for name in _DEPENDENCIES if (error := _missing_dependencies(name, gates))]
    if errors:
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


def _changes(settings: dict[str, bool]) -> dict[str, bool]:
    """What the settings change, gate by gate."""
    changes: dict[str, bool] = {}
    for group, stage in GATE_GROUPS.items():
        if group in settings:
            names = (name for name, gate in GATES.items() if gate.stage is stage and not gate.locked)
            changes |= dict.fromkeys(names, settings[group])
    for name, on in settings.items():
        if name in GATE_GROUPS:
            continue
        if name not in GATES:
            raise ConfigError("flags", f"unrecognized feature gate: {name}")
        gate = GATES[name]
        if gate.locked and gate.default != on:
            wanted, locked = str(on).lower(), str(gate.default).lower()
            detail = f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}"
            raise ConfigError("flags", detail)
        changes[name] = on
    return changes


def _missing_dependencies(name: str, gates: FeatureGates) -> str:
    missing = [needed for needed in _DEPENDENCIES[name] if not gates[needed]]
    if not gates[name] or not missing:
        return ""
    return f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
