"""The configuration a command line comes to: the file it names, or the defaults, and flags over them."""

import dataclasses
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from stowplan.config import LoadedConfig, default_config
from stowplan.config.legacy import (
    LegacyOptions,
    PolicyReference,
    load_any_file,
    policy_config,
    policy_file_config,
    provider_config,
)
from stowplan.config.load import check
from stowplan.config.types import LeaderElection, PluginConfig, Profile, SchedulerConfig
from stowplan.election import LOCK_KINDS
from stowplan.framework.gates import FeatureGates
from stowplan.plugins.args import InterPodAffinityArgs
from stowplan.run.flags.parser import Parsed
from stowplan.run.legacyoptions import ConfigMapRef, algorithm_source

_TODAYS_LOCK: Final = LeaderElection().resource_lock
_LOCK_FLAG: Final = "leader-elect-resource-lock"
_UNKNOWN_POLICY: Final = '{"kind": "Policy", "apiVersion": "v1"}'


@dataclass(frozen=True, slots=True)
class Configured:
    """A configuration and where it comes from: from `files`, and from a ConfigMap if its Policy is there."""

    loaded: LoadedConfig
    files: tuple[str, ...] = ()
    config_map: ConfigMapRef | None = None


def configuration(parsed: Parsed, gates: FeatureGates, policy: str | None = None) -> Configured:
    """The configuration in force. Raises ConfigError.

    A file is only overruled by flags about leader election; without one there are more flags that count.
    `policy` is the text of the Policy in a ConfigMap. Which ConfigMap that is may only be known when the file
    has been read, so the first time another one stands in for it.
    """
    text = _UNKNOWN_POLICY if policy is None else policy
    found = _of_file(parsed, gates, text) if parsed.text("config") else _of_flags(parsed, gates, text)
    return dataclasses.replace(found, loaded=_with_old_lock(found.loaded, parsed))


def _of_file(parsed: Parsed, gates: FeatureGates, policy: str) -> Configured:
    """What a file of any version comes to."""
    file = parsed.text("config")
    asked: list[ConfigMapRef] = []

    def fetch(reference: PolicyReference) -> str:
        asked.append(ConfigMapRef(reference.namespace, reference.name))
        return policy

    loaded = load_any_file(file, gates, lambda config: _with_election(config, parsed), fetch=fetch)
    files = filter(None, (file, loaded.legacy.policy_file))
    return Configured(loaded, tuple(files), asked[0] if asked else None)


def _of_flags(parsed: Parsed, gates: FeatureGates, policy: str) -> Configured:
    """What there is without a file: what flags of earlier releases name, or the defaults."""
    source, around = algorithm_source(parsed), _around(parsed)
    if source.file:
        loaded = policy_file_config(source.file, gates, options=around)
    elif source.config_map is not None:
        loaded = policy_config(policy, gates, where=f"ConfigMap {source.config_map}", options=around)
    elif source.provider:
        loaded = provider_config(source.provider, gates, options=around)
    else:
        loaded = _of_today(around, gates)
    config = _with_election(_with_deprecated(loaded.config, parsed), parsed)
    files = (source.file,) if source.file else ()
    return Configured(dataclasses.replace(loaded, config=config), files, source.config_map)


def _of_today(around: LegacyOptions, gates: FeatureGates) -> LoadedConfig:
    """The plugins of today under another name, or with another weight."""
    if around == LegacyOptions():
        return default_config(gates)
    weight = around.hard_pod_affinity_weight
    args = () if weight is None else (PluginConfig("InterPodAffinity", InterPodAffinityArgs(weight)),)
    profile = Profile(scheduler_name=around.scheduler_name, plugin_config=args)
    return check(SchedulerConfig(profiles=(profile,)), gates)


def _around(parsed: Parsed) -> LegacyOptions:
    """What flags say about scheduling beside a Policy or a provider."""
    name, weight = "scheduler-name", "hard-pod-affinity-symmetric-weight"
    return LegacyOptions(
        scheduler_name=parsed.text(name) or LegacyOptions().scheduler_name,
        hard_pod_affinity_weight=parsed.number(weight) if parsed.given(weight) else None,
    )


def _with_election(config: SchedulerConfig, parsed: Parsed) -> SchedulerConfig:
    """What flags say about leader election wins over the file, but only where they say something."""
    given = config.leader_election
    flags = {
        "leader_elect": parsed.on,
        "lease_duration": parsed.duration,
        "renew_deadline": parsed.duration,
        "retry_period": parsed.duration,
        "resource_lock": parsed.text,
        "resource_name": parsed.text,
        "resource_namespace": parsed.text,
    }
    changes = {
        field: read(name) for field, read in flags.items() if parsed.given(name := _election_flag(field))
    }
    if _names_old_lock(parsed):
        changes["resource_lock"] = _TODAYS_LOCK
    election: LeaderElection = replace(given, **changes)
    return replace(config, leader_election=election)


def _election_flag(field: str) -> str:
    return "leader-elect" if field == "leader_elect" else f"leader-elect-{field.replace('_', '-')}"


def _names_old_lock(parsed: Parsed) -> bool:
    return parsed.given(_LOCK_FLAG) and parsed.text(_LOCK_FLAG) in LOCK_KINDS


def _with_old_lock(loaded: LoadedConfig, parsed: Parsed) -> LoadedConfig:
    """A lock of an earlier release: a file of today may not ask for it, so it comes after all checks."""
    lock = "" if parsed.given(_LOCK_FLAG) else loaded.legacy.lock
    if _names_old_lock(parsed):
        lock = parsed.text(_LOCK_FLAG)
    if not lock:
        return loaded
    election = replace(loaded.config.leader_election, resource_lock=lock)
    return dataclasses.replace(loaded, config=replace(loaded.config, leader_election=election))


def _with_deprecated(config: SchedulerConfig, parsed: Parsed) -> SchedulerConfig:
    connection = {
        "kubeconfig": ("kubeconfig", parsed.text),
        "content_type": ("kube-api-content-type", parsed.text),
        "qps": ("kube-api-qps", parsed.decimal),
        "burst": ("kube-api-burst", parsed.number),
    }
    lock = {"resource_name": "lock-object-name", "resource_namespace": "lock-object-namespace"}
    profiling = {
        "enable_profiling": "profiling",
        "enable_contention_profiling": "contention-profiling",
    }
    changes = {field: read(name) for field, (name, read) in connection.items() if parsed.given(name)}
    election = {field: parsed.text(name) for field, name in lock.items() if parsed.given(name)}
    return replace(
        config,
        client_connection=replace(config.client_connection, **changes),
        leader_election=replace(config.leader_election, **election),
        **{field: parsed.on(name) for field, name in profiling.items() if parsed.given(name)},
    )
