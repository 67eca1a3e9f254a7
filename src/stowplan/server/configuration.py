"""The scheduler configuration of a command line: a file and flags, or a Policy of earlier releases.

`watch_files` reads the files again when they change.
"""

import asyncio
import dataclasses
import ipaddress
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from stowplan.api.catalogue import CONFIG_MAPS
from stowplan.api.fielderrors import invalid, required
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.client.election import LOCK_KINDS
from stowplan.client.http import AccessError, HttpClient, Server
from stowplan.client.http.certfiles import FileStamps
from stowplan.config import LoadedConfig, default_config
from stowplan.config.legacy import LegacyOptions, load_any_file
from stowplan.config.legacy.configuration import PolicyReference
from stowplan.config.legacy.load import (
    policy_config,
    policy_file_config,
    policy_in_configmap,
    provider_config,
)
from stowplan.config.load import ConfigError, check
from stowplan.config.types import LeaderElection, PluginConfig, Profile, SchedulerConfig
from stowplan.gocompat.durations import Duration
from stowplan.runtime.clock import Clock
from stowplan.scheduler.plugins.interpodaffinity.plugin import InterPodAffinityArgs
from stowplan.server.clients import user_agent
from stowplan.server.flags.parser import Parsed

DEFAULT_NAMESPACE: Final = "kube-system"
_HIGHEST_PORT: Final = 65535
_WITHOUT_CONFIG: Final = (
    "policy-config-file",
    "policy-configmap",
    "policy-configmap-namespace",
    "use-legacy-policy-config",
    "algorithm-provider",
    "scheduler-name",
    "hard-pod-affinity-symmetric-weight",
    "lock-object-name",
    "lock-object-namespace",
)
"""Flags that have no effect with --config."""

_DEFAULT_LOCK: Final = LeaderElection().resource_lock
_LOCK_FLAG: Final = "leader-elect-resource-lock"
_PLACEHOLDER_POLICY: Final = '{"kind": "Policy", "apiVersion": "v1"}'

POLICY_READ_TIMEOUT: Final = Duration.of_seconds(10)
"""Timeout of the request for the ConfigMap."""


# Flags of earlier releases


@dataclass(frozen=True, slots=True)
class ConfigMapRef:
    """A ConfigMap with a Policy."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AlgorithmSource:
    """Where the algorithm is configured; at most one of these, none for the default plugins."""

    file: str = ""
    config_map: ConfigMapRef | None = None
    provider: str = ""


def algorithm_source(parsed: Parsed) -> AlgorithmSource:
    """The source the flags name: a ConfigMap (unless --use-legacy-policy-config), a file, a provider."""
    if parsed.text("config"):
        return AlgorithmSource()
    file, name = parsed.text("policy-config-file"), parsed.text("policy-configmap")
    if file and (not name or parsed.on("use-legacy-policy-config")):
        return AlgorithmSource(file=file)
    if name:
        namespace = parsed.text("policy-configmap-namespace") or DEFAULT_NAMESPACE
        return AlgorithmSource(config_map=ConfigMapRef(namespace, name))
    return AlgorithmSource(provider=parsed.text("algorithm-provider"))


def legacy_problems(parsed: Parsed) -> Iterator[str]:
    """Validation errors of these flags."""
    if parsed.on("use-legacy-policy-config") and not parsed.text("policy-config-file"):
        yield required("policyConfigFile", "required when --use-legacy-policy-config is true")
    weight = parsed.number("hard-pod-affinity-symmetric-weight")
    if not 0 <= weight <= 100:
        yield invalid("hardPodAffinitySymmetricWeight", weight, "not in valid range [0-100]")
    port = parsed.number("port")
    if not -1 <= port <= _HIGHEST_PORT:
        yield (
            f"--port {port} must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port"
        )
    address = parsed.text("address")
    if address and not _is_address(address):
        yield f"--address {address} is an invalid IP address"


def legacy_warnings(parsed: Parsed) -> Iterator[str]:
    """Flags that have no effect."""
    if parsed.given("port") and parsed.number("port") > 0:
        yield "--port has no effect: pages are served over TLS only, on --secure-port"
    if parsed.given("address") and parsed.number("port") > 0:
        yield "--address has no effect: pages are served over TLS only, on --bind-address"
    if parsed.text("config"):
        for name in _WITHOUT_CONFIG:
            if parsed.given(name):
                yield f"--{name} has no effect: --config is set"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# The configuration


@dataclass(frozen=True, slots=True)
class Configured:
    """A configuration, the `files` it was read from, and the ConfigMap of its Policy."""

    loaded: LoadedConfig
    files: tuple[str, ...] = ()
    config_map: ConfigMapRef | None = None


def configuration(parsed: Parsed, gates: FeatureGates, policy: str | None = None) -> Configured:
    """The configuration of a command line. Raises ConfigError.

    Only flags about leader election override a file; without a file more flags count. `policy` is the text
    of the Policy in a ConfigMap. Which ConfigMap may only be known once the file has been read, so a
    placeholder is used until then.
    """
    text = _PLACEHOLDER_POLICY if policy is None else policy
    found = _from_file(parsed, gates, text) if parsed.text("config") else _from_flags(parsed, gates, text)
    return dataclasses.replace(found, loaded=_with_old_lock(found.loaded, parsed))


def _from_file(parsed: Parsed, gates: FeatureGates, policy: str) -> Configured:
    """The configuration of a file of any version."""
    file = parsed.text("config")
    requested: list[ConfigMapRef] = []

    def fetch(reference: PolicyReference) -> str:
        requested.append(ConfigMapRef(reference.namespace, reference.name))
        return policy

    loaded = load_any_file(file, gates, lambda config: _with_election(config, parsed), fetch=fetch)
    files = filter(None, (file, loaded.legacy.policy_file))
    return Configured(loaded, tuple(files), requested[0] if requested else None)


def _from_flags(parsed: Parsed, gates: FeatureGates, policy: str) -> Configured:
    """The configuration without a file: a Policy or provider of earlier releases, or the defaults."""
    source, around = algorithm_source(parsed), _around(parsed)
    if source.file:
        loaded = policy_file_config(source.file, gates, options=around)
    elif source.config_map is not None:
        loaded = policy_config(policy, gates, where=f"ConfigMap {source.config_map}", options=around)
    elif source.provider:
        loaded = provider_config(source.provider, gates, options=around)
    else:
        loaded = _from_defaults(around, gates)
    config = _with_election(_with_deprecated(loaded.config, parsed), parsed)
    files = (source.file,) if source.file else ()
    return Configured(dataclasses.replace(loaded, config=config), files, source.config_map)


def _from_defaults(around: LegacyOptions, gates: FeatureGates) -> LoadedConfig:
    """The default plugins, with --scheduler-name and --hard-pod-affinity-symmetric-weight."""
    if around == LegacyOptions():
        return default_config(gates)
    weight = around.hard_pod_affinity_weight
    args = () if weight is None else (PluginConfig("InterPodAffinity", InterPodAffinityArgs(weight)),)
    profile = Profile(scheduler_name=around.scheduler_name, plugin_config=args)
    return check(SchedulerConfig(profiles=(profile,)), gates)


def _around(parsed: Parsed) -> LegacyOptions:
    """Flags that apply in addition to a Policy or a provider."""
    name, weight = "scheduler-name", "hard-pod-affinity-symmetric-weight"
    return LegacyOptions(
        scheduler_name=parsed.text(name) or LegacyOptions().scheduler_name,
        hard_pod_affinity_weight=parsed.number(weight) if parsed.given(weight) else None,
    )


def _with_election(config: SchedulerConfig, parsed: Parsed) -> SchedulerConfig:
    """Flags about leader election override the file where they are given."""
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
    if _wants_old_lock(parsed):
        changes["resource_lock"] = _DEFAULT_LOCK
    election: LeaderElection = replace(given, **changes)
    return replace(config, leader_election=election)


def _election_flag(field: str) -> str:
    return "leader-elect" if field == "leader_elect" else f"leader-elect-{field.replace('_', '-')}"


def _wants_old_lock(parsed: Parsed) -> bool:
    return parsed.given(_LOCK_FLAG) and parsed.text(_LOCK_FLAG) in LOCK_KINDS


def _with_old_lock(loaded: LoadedConfig, parsed: Parsed) -> LoadedConfig:
    """A lock of an earlier release: v1 does not allow it, so it is set after validation."""
    lock = "" if parsed.given(_LOCK_FLAG) else loaded.legacy.lock
    if _wants_old_lock(parsed):
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


# A Policy in a ConfigMap


def policy_at_start(server: Server, ref: ConfigMapRef, clock: Clock, environ: Mapping[str, str]) -> str:
    """The text of a Policy, read before the process starts. Raises ConfigError."""

    async def read() -> str:
        rng = random.Random(random.SystemRandom().getrandbits(64))
        async with HttpClient(
            server,
            clock=clock,
            rng=rng,
            user_agent=user_agent(),
            timeout=POLICY_READ_TIMEOUT,
            environ=environ,
        ) as client:
            return await read_policy(client, ref)

    try:
        return asyncio.run(read())
    except AccessError as error:
        raise ConfigError("client", str(error)) from None


async def read_policy(client: Client, ref: ConfigMapRef) -> str:
    """The text of a Policy. Raises ConfigError."""
    try:
        found = await client.get(CONFIG_MAPS, ref.namespace, ref.name)
    except ApiError as error:
        raise ConfigError("read", f"couldn't get policy config map {ref}: {error.message}") from None
    data = found.get("data")
    return policy_in_configmap(data if isinstance(data, dict) else {}, str(ref))


# Configuration files that change


LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the files."""


async def watch_files(
    files: Callable[[], Sequence[str]], asked: asyncio.Event, read_again: Callable[[], Awaitable[None]]
) -> None:
    """Have files read again for ever: when one of them has changed, and when `asked` is set.

    Which files there are may be different after every reading. Without files nothing wakes up to look.
    """
    followed = files()
    stamps = FileStamps(followed)
    while True:
        try:
            async with asyncio.timeout(LOOK_EVERY if followed else None):
                await asked.wait()
        except TimeoutError:
            if not stamps.changed():
                continue
            await _wait_until_unchanged(stamps)
        asked.clear()
        stamps.changed()
        await read_again()
        if files() != followed:
            followed = files()
            stamps = FileStamps(followed)


async def _wait_until_unchanged(stamps: FileStamps) -> None:
    """The program writing the file may not have finished."""
    await asyncio.sleep(LOOK_EVERY / 10)
    while stamps.changed():
        await asyncio.sleep(LOOK_EVERY / 10)
