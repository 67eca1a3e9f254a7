"""Defaulting: missing fields of a configuration are filled in, plugin lists are merged with the default ones.

This determines the lists. The plugins that run at each extension point are computed from the merged lists
when a profile is built (`stowplan.scheduler.framework.profile`).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import DEFAULT, Release
from stowplan.config.types import (
    ATTRIBUTES,
    SECTIONS,
    ClientConnection,
    LeaderElection,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
    Profile,
    SchedulerConfig,
)
from stowplan.gocompat.durations import Duration
from stowplan.scheduler.framework.interface import MULTI_POINT
from stowplan.scheduler.framework.profile import ALL_PLUGINS, PluginUse
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.registry import ARGS_TYPES, default_plugins

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
    plugins = merge_plugins(default_plugins(gates), profile.plugins, gates.release)
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


def merge_plugins(
    defaults: Sequence[PluginUse], custom: Plugins | None, release: Release = DEFAULT
) -> Plugins:
    """The lists of a profile: the default plugins stand in `multiPoint`, the custom lists change that."""
    default_set = PluginSet(enabled=tuple(Plugin(name=use.name, weight=use.weight) for use in defaults))
    custom = Plugins() if custom is None else custom
    merged = {
        ATTRIBUTES[section]: merge_plugin_set(
            default_set if section == MULTI_POINT else PluginSet(), custom.at(section)
        )
        for section in (*release.points, MULTI_POINT)
    }
    return Plugins(**merged)


def merge_plugin_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Default plugins that are not disabled keep their places, with the custom entry where there is one; the
    other custom plugins follow. Enabling wins over disabling."""
    disabled = tuple(Plugin(name=plugin.name) for plugin in (*custom.disabled, *default.disabled))
    off = {plugin.name for plugin in disabled}
    last_mention = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    replaced: set[int] = set()
    enabled: list[Plugin] = []
    for plugin in default.enabled if ALL_PLUGINS not in off else ():
        if plugin.name in off:
            continue
        index = last_mention.get(plugin.name)
        if index is None:
            enabled.append(plugin)
        else:
            enabled.append(custom.enabled[index])
            replaced.add(index)
    enabled += [plugin for index, plugin in enumerate(custom.enabled) if index not in replaced]
    return PluginSet(enabled=tuple(enabled), disabled=disabled)


def enabled_names(plugins: Plugins) -> set[str]:
    """Every plugin that stands in some list of enabled plugins."""
    return {plugin.name for section in SECTIONS for plugin in plugins.at(section).enabled}
