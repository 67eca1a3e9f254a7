"""Checking the values of a completed configuration; every problem is reported, with its field."""

from collections.abc import Iterator, Sequence
from typing import Any

from stowplan.api.fielderrors import EnumText, Path, duplicate, invalid, required
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.names import is_extended_resource, label_key_problems
from stowplan.config.schema import PLUGIN_ARGS
from stowplan.config.types import (
    API_VERSION,
    ClientConnection,
    Extender,
    LeaderElection,
    Plugins,
    PluginSet,
    Profile,
    SchedulerConfig,
)
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.registry import REMOVED

_CHECKED_WHEN_BUILT = "NodeResourcesFit"
"""Its arguments are looked at only when the plugin is built, so their errors have no path to the profile."""

_MISTAKEN_NAME = "NodeResourcesFitArgs"
"""A plugin of this name cannot be configured: upstream looks for those arguments under it by mistake."""

_UNCHECKED_POINTS = frozenset({ExtensionPoint.PLACEMENT_GENERATE, ExtensionPoint.PLACEMENT_SCORE})
"""Removed plugins go unnoticed here until the profile is built."""

_REMOVED_DETAIL = f'was invalid in version "v1" (KubeSchedulerConfiguration is version {quote(API_VERSION)})'


def validate(config: SchedulerConfig, gates: FeatureGates) -> list[str]:
    """Everything wrong with a configuration, in the order in which it is reported."""
    errors = [*_client_connection(config.client_connection), *_leader_election(config.leader_election)]
    if config.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        errors.append(invalid("parallelism", config.parallelism, detail))
    errors += _profiles(config.profiles, gates)
    errors += _percentage(Path(), config.percentage_of_nodes_to_score)
    initial, maximum = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        errors.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if maximum < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid("podMaxBackoffSeconds", maximum, detail))
    errors += _extenders(config.extenders)
    return errors


def _client_connection(connection: ClientConnection) -> Iterator[str]:
    if connection.burst < 0:
        yield invalid("clientConnection.burst", connection.burst, "must be non-negative")


def _leader_election(election: LeaderElection) -> Iterator[str]:
    if not election.leader_elect:
        return
    path = Path("leaderElection")
    spans = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, span in spans.items():
        if span <= Duration():
            yield invalid(path.child(name), str(span), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        shown = str(election.renew_deadline)
        yield invalid(path.child("leaseDuration"), shown, "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid(path.child("resourceLock"), election.resource_lock, detail)


def _percentage(path: Path, percentage: int | None) -> Iterator[str]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path.child("percentageOfNodesToScore"), percentage, "not in valid range [0-100]")


def _profiles(profiles: Sequence[Profile], gates: FeatureGates) -> Iterator[str]:
    names: set[str | None] = set()
    for index, profile in enumerate(profiles):
        path = Path("profiles").at(index)
        if not profile.scheduler_name:
            yield required(path.child("schedulerName"))
        yield from _percentage(path, profile.percentage_of_nodes_to_score)
        yield from _removed_plugins(path.child("plugins"), profile.plugins or Plugins())
        yield from _plugin_config(path.child("pluginConfig"), profile, gates)
        if profile.scheduler_name in names:
            # Upstream shows the path of the other profile here, which prints as an empty object.
            yield duplicate(path.child("schedulerName"), {})
        names.add(profile.scheduler_name)
    yield from _common_queue_sort(profiles)


def _removed_plugins(path: Path, plugins: Plugins) -> Iterator[str]:
    for point in ExtensionPoint:
        if point in _UNCHECKED_POINTS:
            continue
        for index, plugin in enumerate(plugins.at(point).enabled):
            if plugin.name in REMOVED:
                yield invalid(path.child(point, "enabled").at(index), plugin.name, _REMOVED_DETAIL)


def _plugin_config(path: Path, profile: Profile, gates: FeatureGates) -> Iterator[str]:
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        where = path.at(index)
        if entry.name in seen:
            yield duplicate(where, entry.name)
        seen.add(entry.name)
        if entry.name in REMOVED:
            yield invalid(where, entry.name, _REMOVED_DETAIL)
        elif entry.name == _MISTAKEN_NAME:
            yield invalid(where.child("args"), _shown_args(entry.args), "has to match plugin args")
        elif isinstance(entry.args, PluginArgs) and entry.name != _CHECKED_WHEN_BUILT:
            yield from entry.args.validate(where.child("args"), gates)


def _common_queue_sort(profiles: Sequence[Profile]) -> Iterator[str]:
    """All pods wait in one queue, so every profile has to sort it the same way."""
    path = Path("profiles")
    first = _queue_sort(profiles[0])
    if len(first.enabled) > 1:
        where = path.at(0).child("plugins", "queueSort", "Enabled")
        yield invalid(where, len(first.enabled), "only one queue sort plugin can be enabled")
    sorter = first.enabled[0].name if first.enabled else ""
    given = _args_of(profiles[0], sorter) if sorter else []
    wanted = given[-1] if given else None
    for index, profile in enumerate(profiles[1:], start=1):
        queue_sort = _queue_sort(profile)
        if queue_sort != first:
            where = path.at(index).child("plugins", "queueSort")
            yield invalid(where, _go_plugin_set(queue_sort), "must be the same for all profiles")
        for args in _args_of(profile, sorter):
            if args != wanted:
                where = path.at(index).child("pluginConfig", "args")
                yield invalid(where, _shown_args(args), "queueSort must be the same for all profiles")


def _queue_sort(profile: Profile) -> PluginSet:
    return profile.plugins.queue_sort if profile.plugins else PluginSet()


def _args_of(profile: Profile, plugin: str) -> list[Any]:
    return [entry.args for entry in profile.plugin_config if entry.name == plugin]


def _shown_args(args: Any) -> Any:
    """Arguments as messages show them: as written, or, if typed, with the names Go fields have."""
    if isinstance(args, PluginArgs):
        encoded = PLUGIN_ARGS[type(args).__name__].encode(args)
        return {name[0].upper() + name[1:]: value for name, value in encoded.items()}
    return EnumText(args) if isinstance(args, str) else args


def _go_plugin_set(plugin_set: PluginSet) -> dict[str, Any]:
    return {
        "Enabled": [{"Name": plugin.name, "Weight": plugin.weight} for plugin in plugin_set.enabled] or None,
        "Disabled": [{"Name": plugin.name, "Weight": plugin.weight} for plugin in plugin_set.disabled]
        or None,
    }


def _extenders(extenders: Sequence[Extender]) -> Iterator[str]:
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = Path("extenders").at(index)
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(path.child("weight"), extender.weight, "must have a positive weight applied to it")
        for number, resource in enumerate(extender.managed_resources):
            where = path.child("managedResources").at(number).child("name")
            yield from _resource_name(where, resource.name)
            if resource.name in managed:
                yield invalid(where, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid("extenders", found, "only one extender can implement bind")


def _resource_name(path: Path, name: str) -> Iterator[str]:
    problems = label_key_problems(name)
    for problem in problems:
        yield invalid(path, EnumText(name), problem)
    if not problems and not is_extended_resource(name):
        yield invalid(path, name, "is an invalid extended resource name")
