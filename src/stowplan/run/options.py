"""Everything a command line and a configuration file come to, checked."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan.api.fielderrors import aggregate
from stowplan.config import ConfigError, LoadedConfig
from stowplan.config.types import LeaderElection, SchedulerConfig
from stowplan.logs import LogSettings
from stowplan.metrics.options import MetricsOptions
from stowplan.run.access import ClientSettings, client_settings
from stowplan.run.configuring import configuration
from stowplan.run.emulation import emulation_problems
from stowplan.run.flags.parser import Parsed
from stowplan.run.gates import ProcessGates, useless_gates
from stowplan.run.legacyoptions import ConfigMapRef, legacy_problems, legacy_warnings
from stowplan.run.recordoptions import metrics_options
from stowplan.run.servingoptions import (
    authentication_settings,
    authorization_settings,
    serving_problems,
    serving_settings,
    serving_warnings,
)
from stowplan.run.version import MINOR, VERSION
from stowplan.serving.settings import AuthenticationSettings, AuthorizationSettings, ServingSettings

_FIXED: Final = {
    "clientConnection": "client_connection",
    "leaderElection": "leader_election",
    "enableProfiling": "enable_profiling",
    "delayCacheUntilActive": "delay_cache_until_active",
}
"""Fields of the file that are only looked at when the process starts."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the process needs to know to start.

    `loaded` is the configuration; it alone changes when the file is read again. `started` is what it was at
    the start, which counts for what cannot be changed later: `client`, `election`, `profiling`.
    `longest_wait` is how many seconds a pod waits for an event at most.
    `files` are what the configuration was read from; `config_map` has the Policy if that is in the cluster.
    `flag_values` has every flag by name as text, `warnings` what is not done as asked.
    """

    loaded: LoadedConfig
    gates: ProcessGates
    started: SchedulerConfig
    client: ClientSettings
    longest_wait: float
    serving: ServingSettings
    authentication: AuthenticationSettings
    authorization: AuthorizationSettings
    authentication_kubeconfig: str
    authorization_kubeconfig: str
    logs: LogSettings
    metrics: MetricsOptions
    legacy_metrics: bool
    config_file: str
    files: tuple[str, ...]
    config_map: ConfigMapRef | None
    write_config_to: str
    plugins: tuple[str, ...]
    version: str
    flag_values: Mapping[str, str]
    warnings: tuple[str, ...]
    parsed: Parsed = field(repr=False, compare=False)

    @property
    def election(self) -> LeaderElection:
        return self.started.leader_election

    @property
    def profiling(self) -> bool:
        return self.started.enable_profiling


def options_from(parsed: Parsed, gates: ProcessGates, logs: LogSettings) -> Options:
    """Check flags and file, and put together what they say. Raises ConfigError."""
    metrics = metrics_options(parsed)
    problems = [
        *emulation_problems(parsed.texts("emulated-version"), parsed.texts("min-compatibility-version")),
        *serving_problems(parsed, uid_headers=gates.on("RemoteRequestHeaderUID")),
        *metrics.problems(MINOR[1]),
        *legacy_problems(parsed),
    ]
    if problems:
        raise ConfigError("flags", aggregate(problems))
    configured = configuration(parsed, gates.scheduling)
    config = configured.loaded.config
    version = parsed.text("version")
    return Options(
        loaded=configured.loaded,
        gates=gates,
        started=config,
        client=client_settings(config.client_connection, parsed.text("master")),
        longest_wait=parsed.duration("pod-max-in-unschedulable-pods-duration").seconds,
        serving=serving_settings(parsed),
        authentication=authentication_settings(parsed),
        authorization=authorization_settings(parsed),
        authentication_kubeconfig=parsed.text("authentication-kubeconfig"),
        authorization_kubeconfig=parsed.text("authorization-kubeconfig"),
        logs=logs,
        metrics=metrics,
        legacy_metrics=parsed.on("show-legacy-metrics"),
        config_file=parsed.text("config"),
        files=configured.files,
        config_map=configured.config_map,
        write_config_to=parsed.text("write-config-to"),
        plugins=parsed.texts("plugin"),
        version=version if version.startswith("v") else VERSION,
        flag_values=parsed.shown(),
        warnings=tuple(_warnings(parsed, gates)),
        parsed=parsed,
    )


def with_policy(options: Options, policy: str) -> Options:
    """The options to start with, once the Policy in `config_map` is known. Raises ConfigError."""
    read = reload(options, policy)
    return dataclasses.replace(read, started=read.loaded.config)


def reload(options: Options, policy: str | None = None) -> Options:
    """The options with the configuration as it is now. Raises ConfigError; the old ones stay good.

    If they have a `config_map`, they are only good for being reloaded with the `policy` that is in it.
    """
    if not options.files and options.config_map is None:
        raise ConfigError("read", "there is no file to read again: the process was started without --config")
    found = configuration(options.parsed, options.gates.scheduling, policy)
    return dataclasses.replace(options, loaded=found.loaded, files=found.files, config_map=found.config_map)


def waiting_for_restart(options: Options) -> list[str]:
    """Fields of the file in force that say something else than at the start, which a reload cannot change."""
    now, then = options.loaded.config, options.started
    return [name for name, field in _FIXED.items() if getattr(now, field) != getattr(then, field)]


def _warnings(parsed: Parsed, gates: ProcessGates) -> Iterator[str]:
    """What was asked for but is not done, or done with a doubt."""
    for flag in parsed.ignored:
        yield f"--{flag.name} has no effect: {flag.ignored}"
    if gates.scheduling["CoordinatedLeaderElection"]:
        yield "--feature-gates: CoordinatedLeaderElection has no effect: candidates take the lease themselves"
    for name in useless_gates(parsed.value("feature-gates")):
        yield f"--feature-gates: {name} has no effect: it does not concern scheduling"
    content_type = "kube-api-content-type"
    if parsed.given(content_type) and "json" not in parsed.text(content_type):
        yield f"--{content_type} has no effect: JSON is what is spoken with the API server"
    if parsed.text("config"):
        for name in ("kubeconfig", "kube-api-qps", "kube-api-burst", "profiling"):
            if parsed.given(name):
                yield f"--{name} has no effect: with --config the file counts"
    yield from serving_warnings(parsed)
    yield from legacy_warnings(parsed)
