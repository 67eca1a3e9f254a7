"""Filling in what a configuration leaves out."""

from msgspec.structs import replace

from stowplan.config.merge import merge_plugins
from stowplan.config.types import (
    SECTIONS,
    ClientConnection,
    LeaderElection,
    PluginConfig,
    Plugins,
    Profile,
    SchedulerConfig,
)
from stowplan.framework.gates import FeatureGates
from stowplan.gocompat.durations import Duration
from stowplan.plugins.args import PluginArgs
from stowplan.plugins.catalog import ARGS_TYPES, default_plugins

DEFAULT_SCHEDULER_NAME = "default-scheduler"


def complete(config: SchedulerConfig, gates: FeatureGates) -> SchedulerConfig:
    """The configuration with every default filled in."""
    profiles = config.profiles or (Profile(),)
    only_one = len(profiles) == 1
    contention = config.enable_contention_profiling
    return replace(
        config,
        leader_election=_complete_leader_election(config.leader_election),
        client_connection=_complete_client_connection(config.client_connection),
        enable_contention_profiling=config.enable_profiling if contention is None else contention,
        profiles=tuple(_complete_profile(profile, only_one, gates) for profile in profiles),
    )


def _complete_leader_election(given: LeaderElection) -> LeaderElection:
    """Empty names and zero durations count as absent."""
    default = LeaderElection()
    nothing = Duration()
    return replace(
        given,
        lease_duration=default.lease_duration if given.lease_duration == nothing else given.lease_duration,
        renew_deadline=default.renew_deadline if given.renew_deadline == nothing else given.renew_deadline,
        retry_period=default.retry_period if given.retry_period == nothing else given.retry_period,
        resource_lock=given.resource_lock or default.resource_lock,
        resource_name=given.resource_name or default.resource_name,
        resource_namespace=given.resource_namespace or default.resource_namespace,
    )


def _complete_client_connection(given: ClientConnection) -> ClientConnection:
    default = ClientConnection()
    return replace(
        given,
        content_type=given.content_type or default.content_type,
        qps=given.qps or default.qps,
        burst=given.burst or default.burst,
    )


def _complete_profile(profile: Profile, only_one: bool, gates: FeatureGates) -> Profile:
    """A profile with its name, its merged plugin lists, and arguments for every plugin that takes some.

    Only a profile that stands alone gets a name; with several, each has to say its own.
    """
    name = profile.scheduler_name
    if name is None:
        name = DEFAULT_SCHEDULER_NAME if only_one else ""
    plugins = merge_plugins(default_plugins(gates), profile.plugins)
    given = tuple(_complete_args(entry, gates) for entry in profile.plugin_config)
    configured = {entry.name for entry in given}
    added = tuple(
        PluginConfig(name=plugin, args=ARGS_TYPES[plugin]().completed(gates))
        for plugin in sorted(enabled_names(plugins))
        if plugin in ARGS_TYPES and plugin not in configured
    )
    return replace(profile, scheduler_name=name, plugins=plugins, plugin_config=given + added)


def _complete_args(entry: PluginConfig, gates: FeatureGates) -> PluginConfig:
    if not isinstance(entry.args, PluginArgs):
        return entry
    return replace(entry, args=entry.args.completed(gates))


def enabled_names(plugins: Plugins) -> set[str]:
    """Every plugin that stands in some list of enabled plugins."""
    return {plugin.name for section in SECTIONS for plugin in plugins.at(section).enabled}
