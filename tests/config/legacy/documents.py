"""Policies and configurations for tests, and what becomes of them."""

import json
from pathlib import Path
from typing import Any

from stowplan.config import LoadedConfig
from stowplan.config.legacy import load_any, policy_config
from stowplan.scheduler import Settings
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.profile import ProfileSpec

SAMPLES = Path(__file__).parent / "samples"
GROUP = "kubescheduler.config.k8s.io"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def policy(**fields: Any) -> str:
    return json.dumps({"kind": "Policy", "apiVersion": "v1", **fields})


def old(version: str, **fields: Any) -> str:
    api_version = version if "/" in version else f"{GROUP}/{version}"
    return json.dumps({"apiVersion": api_version, "kind": "KubeSchedulerConfiguration", **fields})


def profile_of(loaded: LoadedConfig, index: int = 0) -> ProfileSpec:
    """A profile as a scheduler has it, with plugins of earlier releases to be had."""
    return Settings.of(loaded).config.profiles[index]


def running(text: str, release: str = "1.18") -> ProfileSpec:
    """The profile that a Policy comes to."""
    return profile_of(policy_config(text, release=release))


def converted(version: str, **fields: Any) -> ProfileSpec:
    """The (first) profile that a configuration of an earlier version comes to."""
    return profile_of(load_any(old(version, **fields)))


def filters(profile: ProfileSpec) -> list[str]:
    return list(profile.names(ExtensionPoint.FILTER))


def scores(profile: ProfileSpec) -> dict[str, int]:
    return {use.name: use.weight for use in profile.plugins[ExtensionPoint.SCORE]}
