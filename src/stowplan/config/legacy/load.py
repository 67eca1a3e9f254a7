"""Loading configurations of any version and kind: KubeSchedulerConfiguration, Policy, algorithm provider.

Other versions are converted to a v1 document first, which is then loaded as any other.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.config.defaults import enabled_names
from stowplan.config.legacy.configuration import LegacyConfiguration, PolicyReference
from stowplan.config.legacy.fields import LegacyFields, parse_document, top_level_members
from stowplan.config.legacy.profiles import (
    LATEST_POLICY_RELEASE,
    LegacyOptions,
    plugin_notes,
    policy_document,
    provider_document,
)
from stowplan.config.legacy.versions import LEGACY_LOCKS, VERSIONS
from stowplan.config.load import Change, ConfigError, LegacySettings, LoadedConfig, load, no_change, read_file
from stowplan.config.types import KIND, Profile, SchedulerConfig
from stowplan.gocompat.quoting import quote

POLICY_KEY: Final = "policy.cfg"
"""The key under which a ConfigMap has the text of a Policy."""

PolicyFetch = Callable[[PolicyReference], str]
"""Gets the text of a Policy that is in a ConfigMap."""


def load_any(
    text: str | bytes,
    gates: FeatureGates = DEFAULT_GATES,
    change: Change = no_change,
    *,
    fetch: PolicyFetch | None = None,
    release: str = LATEST_POLICY_RELEASE,
) -> LoadedConfig:
    """Load a KubeSchedulerConfiguration of any version, or a Policy, from text.

    `fetch` gets Policies from ConfigMaps; without it they are refused. `release` is the one whose meaning of
    names counts in a Policy. Raises ConfigError.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    found = to_v1_document(data, fetch=fetch, release=release)
    if found is None:
        return _with_notes(load(data, gates, change))
    document, legacy = found
    return load_document(document, legacy, gates, change)


def _with_notes(loaded: LoadedConfig) -> LoadedConfig:
    """A v1 configuration with a note for every plugin it enables that kube-scheduler would refuse."""
    names = sorted({name for profile in loaded.config.profiles for name in _enabled(profile)})
    notes = tuple(note for name in names for note in plugin_notes(name, name))
    return LoadedConfig(loaded.config, loaded.gates, LegacySettings(notes)) if notes else loaded


def _enabled(profile: Profile) -> set[str]:
    return set() if profile.plugins is None else enabled_names(profile.plugins)


def load_any_file(
    path: str | Path,
    gates: FeatureGates = DEFAULT_GATES,
    change: Change = no_change,
    *,
    fetch: PolicyFetch | None = None,
    release: str = LATEST_POLICY_RELEASE,
) -> LoadedConfig:
    """Load a KubeSchedulerConfiguration of any version, or a Policy, from a file. Raises ConfigError."""
    return load_any(read_file(path), gates, change, fetch=fetch, release=release)


def policy_config(
    text: str | bytes,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    where: str = "",
    options: LegacyOptions | None = None,
    release: str = LATEST_POLICY_RELEASE,
    change: Change = no_change,
) -> LoadedConfig:
    """Load a Policy from text. Raises ConfigError.

    `where` is put before every complaint. `release` is the one whose meaning of names counts (1.9 or 1.18).
    """
    try:
        document, legacy = policy_document(text, options or LegacyOptions(), release)
        return load_document(document, legacy, gates, change)
    except ConfigError as error:
        raise error.located(where) from None


def policy_file_config(
    path: str | Path,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    options: LegacyOptions | None = None,
    release: str = LATEST_POLICY_RELEASE,
    change: Change = no_change,
) -> LoadedConfig:
    """Load a Policy from a file. Raises ConfigError."""
    text = read_file(path)
    return policy_config(text, gates, where=str(path), options=options, release=release, change=change)


def policy_in_configmap(data: Mapping[str, str], where: str) -> str:
    """The text of a Policy in the data of a ConfigMap; `where` is its namespace and name."""
    if POLICY_KEY not in data:
        raise ConfigError("read", f"ConfigMap {where}: there is no Policy under the key {quote(POLICY_KEY)}")
    return data[POLICY_KEY]


def provider_config(
    name: str,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    options: LegacyOptions | None = None,
    change: Change = no_change,
) -> LoadedConfig:
    """The configuration of an algorithm provider, such as `DefaultProvider` or `DefaultProvider@1.9`.

    Without a release it is that of 1.18. Raises ConfigError.
    """
    document, legacy = provider_document(name, options or LegacyOptions())
    return load_document(document, legacy, gates, change)


def to_v1_document(
    data: bytes, *, fetch: PolicyFetch | None = None, release: str = LATEST_POLICY_RELEASE
) -> tuple[dict[str, Any], LegacySettings] | None:
    """A text of an earlier version or a Policy as a v1 document; None if it is neither.

    Text that cannot even be parsed is left to the v1 loader and its messages.
    """
    members = top_level_members(data)
    kind, version = members.get("kind"), members.get("apiVersion")
    if kind == "Policy":
        return policy_document(data, LegacyOptions(), release)
    if kind != KIND or not isinstance(version, str) or version not in VERSIONS:
        return None
    fields = LegacyFields(parse_document(data))
    for name in ("kind", "apiVersion"):
        fields.take(name)

    def policy_text(reference: PolicyReference) -> bytes:
        if reference.path:
            return read_file(reference.path)
        if fetch is None:
            raise ConfigError("read", f"the Policy is in {reference}: it can be read only in a cluster")
        return fetch(reference).encode("utf-8", "surrogateescape")

    return LegacyConfiguration(fields, version, policy_text).convert()


def load_document(
    document: Mapping[str, Any], legacy: LegacySettings, gates: FeatureGates, change: Change = no_change
) -> LoadedConfig:
    """Load a v1 document as any other, except that the locks of earlier releases can be chosen."""
    wanted = ""

    def with_modern_lock(config: SchedulerConfig) -> SchedulerConfig:
        nonlocal wanted
        changed = change(_with_lock(config, legacy.lock))
        wanted = changed.leader_election.resource_lock
        return _with_lock(changed, "leases") if wanted in LEGACY_LOCKS else changed

    loaded = load(json.dumps(document), gates, with_modern_lock)
    return LoadedConfig(_with_lock(loaded.config, wanted), gates, legacy)


def _with_lock(config: SchedulerConfig, lock: str) -> SchedulerConfig:
    if not lock:
        return config
    return replace(config, leader_election=replace(config.leader_election, resource_lock=lock))
