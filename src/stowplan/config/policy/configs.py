"""Policies and providers as loaded configurations."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from stowplan.config.errors import ConfigError
from stowplan.config.heritage import Heritage
from stowplan.config.load import Change, LoadedConfig, as_it_is, load
from stowplan.config.policy.choice import LATEST, Around, Choice, choose, choose_provider
from stowplan.config.policy.document import configuration
from stowplan.config.policy.reading import Policy, read_policy
from stowplan.config.types import SchedulerConfig
from stowplan.framework.gates import DEFAULT_GATES, FeatureGates
from stowplan.gocompat.quoting import path_error, quote
from stowplan.plugins.legacy.names import PROVIDERS, RELEASES

POLICY_KEY: Final = "policy.cfg"
"""The key under which a ConfigMap has the text of a Policy."""

OLD_LOCKS: Final = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")
"""Objects for leader election, beside Leases."""


def policy_config(
    text: str | bytes,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    where: str = "",
    around: Around | None = None,
    release: str = LATEST,
    change: Change = as_it_is,
) -> LoadedConfig:
    """The configuration that a Policy comes to. Raises ConfigError.

    `where` is put before every complaint. `release` is the one whose meaning of names counts (1.9 or 1.18).
    """
    try:
        document, heritage = policy_document(text, around or Around(), release)
        return loaded_from(document, heritage, gates, change)
    except ConfigError as error:
        raise at_place(where, error) from None


def policy_file_config(
    path: str | Path,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    around: Around | None = None,
    release: str = LATEST,
    change: Change = as_it_is,
) -> LoadedConfig:
    """The configuration that a Policy file comes to. Raises ConfigError."""
    text = read_bytes(path)
    return policy_config(text, gates, where=str(path), around=around, release=release, change=change)


def policy_in_configmap(data: Mapping[str, str], where: str) -> str:
    """The text of a Policy in the data of a ConfigMap; `where` is its namespace and name."""
    if POLICY_KEY not in data:
        raise ConfigError("read", f"ConfigMap {where}: there is no Policy under the key {quote(POLICY_KEY)}")
    return data[POLICY_KEY]


def provider_config(
    name: str,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    around: Around | None = None,
    change: Change = as_it_is,
) -> LoadedConfig:
    """The configuration of an algorithm provider, such as `DefaultProvider` or `DefaultProvider@1.9`.

    Without a release it is that of 1.18. Raises ConfigError.
    """
    document, heritage = provider_document(name, around or Around())
    return loaded_from(document, heritage, gates, change)


def policy_document(text: str | bytes, around: Around, release: str) -> tuple[dict[str, Any], Heritage]:
    """A Policy as a document of today."""
    policy = read_policy(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
    return _document(choose(policy, around, release), policy)


def provider_document(name: str, around: Around, release: str = LATEST) -> tuple[dict[str, Any], Heritage]:
    """An algorithm provider as a document of today; `release` counts if the name does not say one."""
    provider, _, wanted = name.partition("@")
    wanted = wanted or release
    if provider not in PROVIDERS or wanted not in RELEASES:
        known = ", ".join(sorted(PROVIDERS))
        releases = " or ".join(f"@{one}" for one in RELEASES)
        detail = f"unknown algorithm provider {quote(name)}: there are {known}, each also with {releases}"
        raise ConfigError("flags", detail)
    return _document(choose_provider(provider, around, wanted), Policy())


def _document(choice: Choice, policy: Policy) -> tuple[dict[str, Any], Heritage]:
    extenders = {"extenders": list(policy.extenders)} if policy.extenders else {}
    heritage = Heritage(choice.notes, choice.old_names, policy.check_all)
    return configuration([choice.profile], **extenders), heritage


def loaded_from(
    document: Mapping[str, Any], heritage: Heritage, gates: FeatureGates, change: Change = as_it_is
) -> LoadedConfig:
    """Have a document of today read as any other, except that the locks of that time are there to choose."""
    wanted = ""

    def with_modern_lock(config: SchedulerConfig) -> SchedulerConfig:
        nonlocal wanted
        changed = change(_with_lock(config, heritage.lock))
        wanted = changed.leader_election.resource_lock
        return _with_lock(changed, "leases") if wanted in OLD_LOCKS else changed

    loaded = load(json.dumps(document), gates, with_modern_lock)
    return LoadedConfig(_with_lock(loaded.config, wanted), gates, heritage)


def _with_lock(config: SchedulerConfig, lock: str) -> SchedulerConfig:
    if not lock:
        return config
    return replace(config, leader_election=replace(config.leader_election, resource_lock=lock))


def read_bytes(path: str | Path) -> bytes:
    """The content of a file. Raises ConfigError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError("read", path_error(error, str(path))) from None


def at_place(where: str, error: ConfigError) -> ConfigError:
    """The same complaint, with where it belongs put before it."""
    return ConfigError(error.stage, f"{where}: {error.message}" if where else error.message)
