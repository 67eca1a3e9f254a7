"""Feature gates of the process, checked as kube-scheduler checks them."""

from collections.abc import Iterator

from stowplan.api.releases import DEFAULT, Release, Stage, why_without_effect
from stowplan.api.releases.feature_gates import EVERY_GATE, GATE_GROUPS, FeatureGates
from stowplan.api.releases.gates import UNUSED
from stowplan.config.emulation import KUBE
from stowplan.config.featuregates import parse_feature_gates
from stowplan.config.load import ConfigError
from stowplan.server.flags.values import Settings


def read_gates(settings: Settings, release: Release = DEFAULT) -> FeatureGates:
    """The feature gates of `--feature-gates` in a release. Raises ConfigError."""
    return parse_feature_gates(_own_settings(settings), release)


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


def _own_settings(settings: Settings) -> Iterator[str]:
    components = {component for component, _ in settings}
    if components >= {"", KUBE}:
        raise ConfigError(
            "flags",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        )
    for component, setting in settings:
        if component not in ("", KUBE):
            raise ConfigError("flags", f"component not registered: {component}")
        yield setting
