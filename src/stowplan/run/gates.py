"""What `--feature-gates` comes to: the gates of scheduling, and the others a process knows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan.config.featuregates import GATE_GROUPS, parse_feature_gates, parse_setting
from stowplan.config.load import ConfigError
from stowplan.framework.gates import DEFAULT_GATES, FeatureGates
from stowplan.run.flags.special import Settings
from stowplan.run.othergates import OTHER_GATES

_COMPONENT: Final = "kube"
_IN_USE: Final = frozenset(
    {"LoggingAlphaOptions", "LoggingBetaOptions", "RemoteRequestHeaderUID", "WatchListClient"}
)
"""Gates beside scheduling that change something here, too."""


@dataclass(frozen=True, slots=True)
class ProcessGates:
    """The gates of scheduling, and those of OTHER_GATES that were changed."""

    scheduling: FeatureGates = DEFAULT_GATES
    others: Mapping[str, bool] = field(default_factory=dict)

    def on(self, name: str) -> bool:
        """Whether a gate that does not concern scheduling is on."""
        return self.others.get(name, OTHER_GATES[name].default)


def read_gates(settings: Settings) -> ProcessGates:
    """The gates that are in force. Raises ConfigError."""
    scheduling: list[str] = []
    others: dict[str, bool] = {}
    groups: dict[str, bool] = {}
    for setting in _of_this_component(settings):
        name = setting.partition("=")[0].strip()
        if name in OTHER_GATES:
            others[name] = parse_setting(setting)[1]
            _check_lock(name, others[name])
            continue
        scheduling.append(setting)
        if name in GATE_GROUPS:
            groups[name] = parse_setting(setting)[1]
    gates = parse_feature_gates(scheduling)
    for group, on in groups.items():
        names = (
            name for name, gate in OTHER_GATES.items() if gate.stage is GATE_GROUPS[group] and not gate.locked
        )
        others = dict.fromkeys(names, on) | others
    return ProcessGates(gates, others)


def useless_gates(settings: Settings) -> list[str]:
    """Gates that were named but change nothing here."""
    names = (setting.partition("=")[0].strip() for _, setting in settings)
    return [name for name in dict.fromkeys(names) if name in OTHER_GATES and name not in _IN_USE]


def _of_this_component(settings: Settings) -> Iterator[str]:
    components = {component for component, _ in settings}
    if components >= {"", _COMPONENT}:
        raise ConfigError(
            "flags",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        )
    for component, setting in settings:
        if component not in ("", _COMPONENT):
            raise ConfigError("flags", f"component not registered: {component}")
        yield setting


def _check_lock(name: str, on: bool) -> None:
    gate = OTHER_GATES[name]
    if gate.locked and gate.default != on:
        wanted, locked = str(on).lower(), str(gate.default).lower()
        detail = f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}"
        raise ConfigError("flags", detail)
