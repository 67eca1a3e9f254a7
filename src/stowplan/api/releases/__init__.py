"""Releases of Kubernetes that this installation can emulate, each as data.

A release reaches the engine with the feature gates (`FeatureGates.release`), because gates go wherever
something is built: configuration, plugins (through their handle), queue, event handlers, metrics. The cluster
table is given the release itself. docs/versions.md describes how a release is added.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from stowplan.api.gates.history import (
    Gate,
    GateHistory,
    Stage,
    histories,
    value_without_gate,
    why_without_effect,
)
from stowplan.api.releases import v1_36, v1_37
from stowplan.api.releases.behaviour import (
    Behaviour,
    BehaviourChoice,
    BehaviourDifference,
    choices,
    differences,
)
from stowplan.api.releases.plugins import ReleasePlugin
from stowplan.api.releases.release import Release
from stowplan.api.releases.versions import Version

RELEASES: Final[Mapping[str, Release]] = MappingProxyType(
    {one.name: one for one in (v1_36.RELEASE, v1_37.RELEASE)}
)
"""Every release by name, the oldest first."""

DEFAULT: Final[Release] = RELEASES["1.37"]
"""Emulated release by default."""

NEWEST: Final[Release] = list(RELEASES.values())[-1]

OLDEST_EMULATED: Final = Version(NEWEST.minor.major, NEWEST.minor.minor - 3)
"""The oldest version that can be emulated: three before the newest, as with kube-scheduler."""


class UnknownReleaseError(LookupError):
    """A version that no release here stands for; the message is one line."""


def release(version: str) -> Release:
    """The release of a version: `1.36`, `1.36.4`, `v1.37.0-rc.1`. Raises UnknownReleaseError."""
    try:
        found = RELEASES.get(str(Version.parse(version)))
    except ValueError as error:
        raise UnknownReleaseError(str(error)) from None
    if found is None:
        raise UnknownReleaseError(f"Kubernetes {version} is not one of {', '.join(RELEASES)}")
    return found


__all__ = [
    "DEFAULT",
    "NEWEST",
    "OLDEST_EMULATED",
    "RELEASES",
    "Behaviour",
    "BehaviourChoice",
    "BehaviourDifference",
    "Gate",
    "GateHistory",
    "Release",
    "ReleasePlugin",
    "Stage",
    "UnknownReleaseError",
    "Version",
    "choices",
    "differences",
    "histories",
    "release",
    "value_without_gate",
    "why_without_effect",
]
