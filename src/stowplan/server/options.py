"""The checked result of all flags and the configuration file."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan.api.fielderrors import aggregate
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.gates.flag import enabled_alpha_gates, gates_without_effect
from stowplan.api.quantity import value_of
from stowplan.api.releases import NEWEST
from stowplan.config import ConfigError, LoadedConfig
from stowplan.config.emulation import Emulation, read_emulation
from stowplan.config.types import LeaderElection, SchedulerConfig
from stowplan.gocompat.quoting import quote
from stowplan.runtime.logs import LogSettings, Routing
from stowplan.runtime.logs.settings import JSON
from stowplan.scheduler.framework.registry import plugin_files
from stowplan.scheduler.metrics.options import MetricsOptions
from stowplan.server.clients import ClientSettings, client_settings
from stowplan.server.configuration import ConfigMapRef, configuration, legacy_problems, legacy_warnings
from stowplan.server.flags.parser import Parsed
from stowplan.server.flags.values import ModuleLevel, NamedPair
from stowplan.server.serving.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    RequestHeaderSettings,
    ServingSettings,
    SniCertificate,
)
from stowplan.server.version import version_of

_READ_AT_START: Final = {
    "clientConnection": "client_connection",
    "leaderElection": "leader_election",
    "enableProfiling": "enable_profiling",
    "delayCacheUntilActive": "delay_cache_until_active",
}
"""Fields of the file that are only read when the process starts."""

_HIGHEST_PORT: Final = 65535
_STANDARD_HEADERS: Final = {
    "requestheader-username-headers": ("X-Remote-User", "header"),
    "requestheader-group-headers": ("X-Remote-Group", "header"),
    "requestheader-extra-headers-prefix": ("X-Remote-Extra-", "header prefix"),
}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """All options of the process.

    `loaded` is the configuration; only it changes on a reload. `started` is the configuration at the start,
    for what cannot change later: `client`, `election`, `profiling`. `longest_wait` is
    --pod-max-in-unschedulable-pods-duration in seconds. The configuration was read from `files`, its Policy
    from `config_map` if that is set. `flag_values` has every flag as text, `warnings` those without effect.
    """

    loaded: LoadedConfig
    gates: FeatureGates
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
    page: bool
    annotate_results: bool
    record: str
    record_max_size: int
    wake_failed_groups: bool
    version: str
    flag_values: Mapping[str, str]
    warnings: tuple[str, ...]
    parsed: Parsed = field(repr=False, compare=False)

    @property
    def election(self) -> LeaderElection:
        return self.started.leader_election

    @property
    def watched_files(self) -> tuple[str, ...]:
        """Files that are reloaded when they change: those of the configuration, and of plugins."""
        return (*self.files, *plugin_files(self.plugins))

    @property
    def profiling(self) -> bool:
        return self.started.enable_profiling


def emulation(parsed: Parsed) -> Emulation:
    """The versions of --emulated-version and --min-compatibility-version. Raises ConfigError."""
    return read_emulation(parsed.texts("emulated-version"), parsed.texts("min-compatibility-version"))


def options_from(parsed: Parsed, gates: FeatureGates, logs: LogSettings) -> RunOptions:
    """Validate flags and file. Raises ConfigError."""
    metrics = metrics_options(parsed)
    problems = [
        *emulation(parsed).problems(),
        *serving_problems(parsed, uid_headers=gates["RemoteRequestHeaderUID"]),
        *metrics.problems(gates.release.minor.minor),
        *legacy_problems(parsed),
    ]
    if problems:
        raise ConfigError("flags", aggregate(problems))
    configured = configuration(parsed, gates)
    config = configured.loaded.config
    version = parsed.text("version")
    return RunOptions(
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
        page=parsed.on("page"),
        annotate_results=parsed.on("annotate-results"),
        record=parsed.text("record"),
        record_max_size=value_of(parsed.text("record-max-size")),
        wake_failed_groups=parsed.on("wake-failed-groups"),
        version=version if version.startswith("v") else version_of(gates.release),
        flag_values=parsed.shown(),
        warnings=tuple(_warnings(parsed, gates)),
        parsed=parsed,
    )


def with_policy(options: RunOptions, policy: str) -> RunOptions:
    """The options with the text of the Policy in `config_map`. Raises ConfigError."""
    read = reload(options, policy)
    return dataclasses.replace(read, started=read.loaded.config)


def reload(options: RunOptions, policy: str | None = None) -> RunOptions:
    """The options with the configuration read again. Raises ConfigError.

    If the result has a `config_map`, it has to be reloaded with the `policy` in it.
    """
    if not options.watched_files and options.config_map is None:
        raise ConfigError("read", "there is no file to read again: the process was started without --config")
    found = configuration(options.parsed, options.gates, policy)
    return dataclasses.replace(options, loaded=found.loaded, files=found.files, config_map=found.config_map)


def waiting_for_restart(options: RunOptions) -> list[str]:
    """Fields of the file that changed since the start and need a restart to take effect."""
    now, then = options.loaded.config, options.started
    return [name for name, field in _READ_AT_START.items() if getattr(now, field) != getattr(then, field)]


def _warnings(parsed: Parsed, gates: FeatureGates) -> Iterator[str]:
    """Flags and gates without effect, and unusual values."""
    for flag in parsed.ignored:
        yield f"--{flag.name} has no effect: {flag.ignored}"
    if gates.release.emulated < NEWEST.minor and (alpha := enabled_alpha_gates(gates)):
        what = "component has alpha features enabled in emulated version, this is unsupported"
        yield f"{what}: features=[{' '.join(alpha)}]"
    for name, why in gates_without_effect(parsed.value("feature-gates"), gates):
        yield f"--feature-gates: {name} has no effect: {why}"
    content_type = "kube-api-content-type"
    if parsed.given(content_type) and "json" not in parsed.text(content_type):
        yield f"--{content_type} has no effect: the client sends JSON"
    if parsed.text("config"):
        for name in ("kubeconfig", "kube-api-qps", "kube-api-burst", "profiling"):
            if parsed.given(name):
                yield f"--{name} has no effect: --config is set"
    yield from serving_warnings(parsed)
    yield from legacy_warnings(parsed)


# Flags of the secure port


def serving_settings(parsed: Parsed) -> ServingSettings:
    pairs: tuple[NamedPair, ...] = parsed.value("tls-sni-cert-key")
    return ServingSettings(
        bind_address=parsed.text("bind-address"),
        port=parsed.number("secure-port"),
        certificate_folder=parsed.text("cert-dir"),
        certificate_file=parsed.text("tls-cert-file"),
        key_file=parsed.text("tls-private-key-file"),
        cipher_suites=parsed.texts("tls-cipher-suites"),
        min_version=parsed.text("tls-min-version"),
        curve_preferences=parsed.value("tls-curve-preferences"),
        sni_certificates=tuple(SniCertificate(pair.certificate, pair.key, pair.names) for pair in pairs),
        http2_max_streams=parsed.number("http2-max-streams-per-connection"),
        disable_http2=parsed.on("disable-http2-serving"),
        permit_port_sharing=parsed.on("permit-port-sharing"),
        permit_address_sharing=parsed.on("permit-address-sharing"),
    )


def authentication_settings(parsed: Parsed) -> AuthenticationSettings:
    return AuthenticationSettings(
        skip_lookup=parsed.on("authentication-skip-lookup"),
        tolerate_lookup_failure=parsed.on("authentication-tolerate-lookup-failure"),
        token_cache_ttl=parsed.duration("authentication-token-webhook-cache-ttl").seconds,
        client_ca_file=parsed.text("client-ca-file"),
        request_header=RequestHeaderSettings(
            client_ca_file=parsed.text("requestheader-client-ca-file"),
            allowed_names=parsed.texts("requestheader-allowed-names"),
            username_headers=parsed.texts("requestheader-username-headers"),
            uid_headers=parsed.texts("requestheader-uid-headers"),
            group_headers=parsed.texts("requestheader-group-headers"),
            extra_headers_prefix=parsed.texts("requestheader-extra-headers-prefix"),
        ),
    )


def authorization_settings(parsed: Parsed) -> AuthorizationSettings:
    return AuthorizationSettings(
        always_allow_paths=parsed.texts("authorization-always-allow-paths"),
        allowed_cache_ttl=parsed.duration("authorization-webhook-cache-authorized-ttl").seconds,
        denied_cache_ttl=parsed.duration("authorization-webhook-cache-unauthorized-ttl").seconds,
    )


def serving_problems(parsed: Parsed, *, uid_headers: bool) -> Iterator[str]:
    """Validation errors of these flags. `uid_headers` is the feature gate RemoteRequestHeaderUID."""
    port = parsed.number("secure-port")
    if port > _HIGHEST_PORT:
        yield f"--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
    elif port < 0:
        yield f"--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    for name in (*_STANDARD_HEADERS, "requestheader-allowed-names"):
        yield from _empty_values(name, parsed)
    given = parsed.texts("requestheader-uid-headers")
    if not uid_headers:
        if given:
            yield '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled'
        return
    yield from _empty_values("requestheader-uid-headers", parsed)
    if given and not _has_header(given, "X-Remote-Uid"):
        yield (
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header"
            " - API aggregation will not work"
        )


def serving_warnings(parsed: Parsed) -> Iterator[str]:
    """Warnings about these flags."""
    for name, (standard, what) in _STANDARD_HEADERS.items():
        if parsed.texts(name) and not _has_header(parsed.texts(name), standard):
            yield (
                f"--{name} is set without specifying the standard {standard} {what}"
                " - API aggregation will not work"
            )


def _empty_values(name: str, parsed: Parsed) -> Iterator[str]:
    if not all(value.strip() for value in parsed.texts(name)):
        yield f"empty value in {quote(name)}"


def _has_header(headers: tuple[str, ...], wanted: str) -> bool:
    return any(header.lower() == wanted.lower() for header in headers)


# Flags of logs and metrics


def log_settings(parsed: Parsed) -> LogSettings:
    levels: tuple[ModuleLevel, ...] = parsed.value("vmodule")
    return LogSettings(
        format=parsed.text("logging-format"),
        verbosity=parsed.number("v"),
        vmodule=tuple((level.pattern, level.level) for level in levels),
        flush_frequency=parsed.duration("log-flush-frequency").seconds,
        text=_log_routing(parsed, "text"),
        json=_log_routing(parsed, "json"),
    )


def log_problems(settings: LogSettings, gates: FeatureGates) -> Iterator[str]:
    """Validation errors of the log flags."""
    yield from settings.problems(alpha=gates["LoggingAlphaOptions"])
    if settings.format == JSON and not gates["LoggingBetaOptions"]:
        yield "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"


def metrics_options(parsed: Parsed) -> MetricsOptions:
    given = parsed.given("allow-metric-labels")
    return MetricsOptions(
        show_hidden_for_version=parsed.text("show-hidden-metrics-for-version"),
        disabled=parsed.texts("disabled-metrics"),
        allowed_labels=parsed.value("allow-metric-labels") if given else None,
        allowed_labels_manifest=parsed.text("allow-metric-labels-manifest"),
    )


def _log_routing(parsed: Parsed, format: str) -> Routing:
    return Routing(
        split_stream=parsed.on(f"log-{format}-split-stream"),
        info_buffer_size=value_of(parsed.text(f"log-{format}-info-buffer-size")),
    )
