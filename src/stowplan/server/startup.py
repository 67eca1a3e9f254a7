"""From a parsed command line to a startup plan: settings, log, API server, profiles."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stowplan.api.fielderrors import aggregate
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.gates.flag import read_gates
from stowplan.client.http import Server
from stowplan.config import BuiltConfig, ConfigError, build
from stowplan.config.dump import dump_yaml
from stowplan.gocompat.quoting import path_error, quote
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger, LogSettings, ProcessLogger
from stowplan.scheduler.framework.registry import Registry, installed_plugins, load_plugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import ProfileError
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.server.clients import find_server
from stowplan.server.configuration import policy_at_start
from stowplan.server.flags.parser import Parsed
from stowplan.server.options import (
    RunOptions,
    emulation,
    log_problems,
    log_settings,
    options_from,
    with_policy,
)
from stowplan.server.version import version_answer

# Profiles


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The plugins there are, and the configuration resolved with them."""

    registry: Registry
    built: BuiltConfig

    @property
    def text(self) -> str:
        """The complete configuration as YAML."""
        return dump_yaml(self.built.config)


def resolve_config(options: RunOptions) -> ResolvedConfig:
    """Resolve the profiles, with every plugin made once to see that it can be. Raises ConfigError."""
    gates = options.loaded.gates
    try:
        registry = in_tree_registry().with_plugins([*installed_plugins(), *map(load_plugin, options.plugins)])
    except ProfileError as error:
        raise ConfigError("build", str(error)) from None
    built = build(options.loaded, registry)
    for profile in built.profiles:
        try:
            Framework(profile, ClusterTable(gates.release), registry, gates)
        except ProfileError as error:
            where = f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}"
            raise ConfigError("build", f"{where}: {error}") from None
    return ResolvedConfig(registry, built)


def write_config(resolved: ResolvedConfig, path: str, logger: Logger) -> None:
    """Write the complete configuration to a file. Raises ConfigError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(resolved.text)
    except OSError as error:
        raise ConfigError("write", path_error(error, path)) from None
    logger.info(0, "Wrote configuration", file=path)


# The startup plan

OpenLogger = Callable[[LogSettings], ProcessLogger]
"""Opens the log."""


@dataclass(frozen=True, slots=True)
class StartupPlan:
    """Everything that is known before the scheduler starts."""

    options: RunOptions
    server: Server
    resolved: ResolvedConfig
    logger: ProcessLogger
    clock: Clock


Run = Callable[[StartupPlan], int]
"""Runs a scheduler to its end and gives the exit code. A ConfigError that it raises is logged in one line."""


def start(
    parsed: Parsed,
    run: Run,
    clock: Clock,
    *,
    open_logger: OpenLogger,
    environ: Mapping[str, str],
    write_out: Callable[[str], None],
    write_error: Callable[[str], None],
) -> int:
    """Check everything, then run (or only write the configuration). Gives the exit code."""
    try:
        gates = read_gates(parsed.value("feature-gates"), emulation(parsed).release)
    except ConfigError as error:
        with open_logger(LogSettings()) as logger:
            return log_failure(logger, error)
    if answer := version_answer(parsed.text("version")):
        write_out(answer)
        return 0
    logs = log_settings(parsed)
    problems = list(log_problems(logs, gates))
    if problems:
        write_error(aggregate(problems))
        return 1
    with open_logger(logs) as logger:
        try:
            plan = _startup_plan(_logged_options(parsed, gates, logs, logger), logger, clock, environ)
            return 0 if plan is None else run(plan)
        except ConfigError as error:
            return log_failure(logger, error)


def log_failure(logger: Logger, error: ConfigError) -> int:
    """Log why the scheduler does not start; the exit code."""
    hint = {"hint": error.hint} if error.hint else {}
    logger.error("command failed", err=str(error), **hint)
    return 1


def _logged_options(parsed: Parsed, gates: FeatureGates, logs: LogSettings, logger: Logger) -> RunOptions:
    """The options. Flags are logged at level 1, warnings always."""
    if logger.enabled(1):
        for name, value in parsed.shown().items():
            logger.plain(1, f"FLAG: --{name}={quote(value)}")
    options = options_from(parsed, gates, logs)
    for warning in options.warnings:
        logger.warning(warning)
    return options


def _startup_plan(
    options: RunOptions, logger: ProcessLogger, clock: Clock, environ: Mapping[str, str]
) -> StartupPlan | None:
    """The startup plan; None if the configuration was only to be written."""
    server = find_server(options.client.kubeconfig, options.client.master, logger, environ)
    if options.config_map is not None:
        options = with_policy(options, policy_at_start(server, options.config_map, clock, environ))
    for note in options.loaded.legacy.notes:
        logger.warning(note)
    resolved = resolve_config(options)
    if logger.enabled(2):
        logger.info(2, "Using component config", config=resolved.text)
    if options.write_config_to:
        write_config(resolved, options.write_config_to, logger)
        return None
    return StartupPlan(options, server, resolved, logger, clock)
