"""The last step before a scheduler can start: extenders in calling order, profiles with resolved plugins.

Some errors show only here, such as a plugin that does not exist or a profile without a bind plugin.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from stowplan.api.fielderrors import Path, aggregate
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.config.defaults import enabled_names
from stowplan.config.extendertls import TlsError, check_extender_tls
from stowplan.config.load import ConfigError, LoadedConfig, default_config
from stowplan.config.types import Extender, PluginConfig, Plugins, PluginSet, Profile, SchedulerConfig
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.plugin_args import decode_args
from stowplan.scheduler.framework.profile import PluginSelection, PluginUse, ProfileSpec, resolve_plugins
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.framework.status import ProfileError
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFitArgs
from stowplan.scheduler.plugins.registry import in_tree_points

_EXTENDER_TIMEOUT = Duration.of_seconds(5)
_NOTHING: Mapping[str, frozenset[ExtensionPoint]] = {}


@dataclass(frozen=True, slots=True)
class BuiltConfig:
    """A configuration ready for use.

    `config` is the completed configuration as a scheduler would print it: plugin arguments only of plugins
    in use, sorted by name. `extenders` are in calling order: the ignorable ones come last.
    """

    config: SchedulerConfig
    profiles: tuple[ProfileSpec, ...]
    extenders: tuple[Extender, ...]


def build(loaded: LoadedConfig, registry: Registry | None = None) -> BuiltConfig:
    """Resolve a configuration. `registry` has the out-of-tree plugins it may name.

    Raises ConfigError.
    """
    config = loaded.config
    registry = registry or Registry({})
    implements = {**in_tree_points(loaded.gates.release), **registry.offered}
    try:
        extenders, profiles = _build_extenders(config.extenders, config.profiles)
    except (TlsError, ProfileError) as error:
        raise ConfigError("build", f"couldn't build extenders: {error}") from None
    specs: list[ProfileSpec] = []
    completed: list[Profile] = []
    for profile in profiles:
        profile = _with_args_in_use(profile, implements)
        name = profile.scheduler_name or ""
        try:
            profile = _with_typed_args(profile, implements, registry, loaded.gates)
            spec = _build_profile(profile, config.percentage_of_nodes_to_score, implements, loaded)
        except ProfileError as error:
            where = f"initializing profiles: creating profile for scheduler name {name}"
            raise ConfigError("build", f"{where}: {error}", error.hint) from None
        _check_queue_sort(spec, specs)
        specs.append(spec)
        completed.append(profile)
    config = replace(config, extenders=extenders, profiles=tuple(completed))
    calling_order = tuple(sorted(extenders, key=lambda extender: extender.ignorable))
    return BuiltConfig(config, tuple(specs), calling_order)


def without_unknown_plugins(
    loaded: LoadedConfig, offered: Mapping[str, frozenset[ExtensionPoint]] = _NOTHING
) -> tuple[LoadedConfig, dict[str, tuple[str, ...]]]:
    """The configuration without plugins that are not installed here, and their names by profile.

    For explanations: what the others decide is worth knowing, if it is said what is missing.
    """
    known = in_tree_points(loaded.gates.release).keys() | offered.keys()
    missing: dict[str, tuple[str, ...]] = {}
    profiles = []
    for profile in loaded.config.profiles:
        plugins = profile.plugins or Plugins()
        unknown = tuple(sorted(enabled_names(plugins) - known))
        if unknown:
            missing[profile.scheduler_name or ""] = unknown
            sets = {
                name: replace(found, enabled=tuple(one for one in found.enabled if one.name in known))
                for name in plugins.__struct_fields__
                if (found := getattr(plugins, name)) is not None
            }
            profile = replace(profile, plugins=replace(plugins, **sets))
        profiles.append(profile)
    if not missing:
        return loaded, {}
    return dataclasses.replace(loaded, config=replace(loaded.config, profiles=tuple(profiles))), missing


def default_profile(gates: FeatureGates = DEFAULT_GATES) -> ProfileSpec:
    """The profile of a scheduler without a configuration file."""
    return build(default_config(gates)).profiles[0]


def _build_extenders(
    extenders: Sequence[Extender], profiles: Sequence[Profile]
) -> tuple[tuple[Extender, ...], tuple[Profile, ...]]:
    """The extenders with timeouts, and the profiles, whose resource fit ignores what extenders manage."""
    built: list[Extender] = []
    ignored: list[str] = []
    for extender in extenders:
        check_extender_tls(extender)
        has_timeout = extender.http_timeout != Duration()
        built.append(extender if has_timeout else replace(extender, http_timeout=_EXTENDER_TIMEOUT))
        ignored += [resource.name for resource in extender.managed_resources if resource.ignored_by_scheduler]
    if ignored:
        profiles = [_ignoring(profile, tuple(ignored)) for profile in profiles]
    return tuple(built), tuple(profiles)


def _ignoring(profile: Profile, resources: tuple[str, ...]) -> Profile:
    entries = list(profile.plugin_config)
    for index, entry in enumerate(entries):
        if isinstance(entry.args, NodeResourcesFitArgs):
            entries[index] = replace(entry, args=replace(entry.args, ignored_resources=resources))
            return replace(profile, plugin_config=tuple(entries))
    raise ProfileError("can't find NodeResourcesFitArgs in plugin config")


def _with_args_in_use(profile: Profile, implements: Mapping[str, frozenset[ExtensionPoint]]) -> Profile:
    """The profile with the arguments of the plugins it uses, sorted by name."""
    in_use = enabled_names(profile.plugins or Plugins()) & implements.keys()
    entries: list[PluginConfig] = [
        entry for entry in profile.plugin_config if entry.name in in_use and entry.args is not None
    ]
    return replace(profile, plugin_config=tuple(sorted(entries, key=lambda entry: entry.name)))


def _with_typed_args(
    profile: Profile,
    implements: Mapping[str, frozenset[ExtensionPoint]],
    registry: Registry,
    gates: FeatureGates,
) -> Profile:
    """The profile with the arguments of out-of-tree plugins as the types they want, defaults included.

    Those of in-tree plugins have been read and completed with the configuration.
    """
    given = {entry.name: entry.args for entry in profile.plugin_config}
    for name in enabled_names(profile.plugins or Plugins()) & implements.keys() - registry.in_tree:
        cls = registry.get(name)
        if cls is not None and cls.args_type is not None:
            args = decode_args(name, cls.args_type, given.get(name))
            given[name] = args.completed(gates) if isinstance(args, PluginArgs) else args
    entries = tuple(PluginConfig(name=name, args=args) for name, args in sorted(given.items()))
    return replace(profile, plugin_config=entries)


def _build_profile(
    profile: Profile,
    percentage: int | None,
    implements: Mapping[str, frozenset[ExtensionPoint]],
    loaded: LoadedConfig,
) -> ProfileSpec:
    for entry in profile.plugin_config:
        errors = entry.args.validate(Path(), loaded.gates) if isinstance(entry.args, PluginArgs) else []
        if errors:
            raise ProfileError(f"initializing plugin {quote(entry.name)}: {aggregate(errors)}")
    name = profile.scheduler_name or ""
    plugins = profile.plugins or Plugins()
    points = {point: _selection(plugins.at(point)) for point in ExtensionPoint}
    own_percentage = profile.percentage_of_nodes_to_score
    return ProfileSpec(
        scheduler_name=name,
        percentage_of_nodes_to_score=percentage if own_percentage is None else own_percentage,
        plugins=resolve_plugins(name, points, _uses(plugins.multi_point), implements),
        args={entry.name: entry.args for entry in profile.plugin_config},
        old_names=loaded.legacy.old_names,
        all_reasons=loaded.legacy.all_reasons,
    )


def _selection(plugin_set: PluginSet) -> PluginSelection:
    disabled = frozenset(plugin.name for plugin in plugin_set.disabled)
    return PluginSelection(_uses(plugin_set), disabled)


def _uses(plugin_set: PluginSet) -> tuple[PluginUse, ...]:
    return tuple(PluginUse(plugin.name, plugin.weight) for plugin in plugin_set.enabled)


def _check_queue_sort(spec: ProfileSpec, earlier: Sequence[ProfileSpec]) -> None:
    """All profiles share one queue, so they have to sort it the same way."""
    if not earlier:
        return
    sorter, first = spec.names(ExtensionPoint.QUEUE_SORT)[0], earlier[0].names(ExtensionPoint.QUEUE_SORT)[0]
    profile = quote(spec.scheduler_name)
    if sorter != first:
        detail = f"different queue sort plugins for profile {profile}: {quote(sorter)}, first: {quote(first)}"
        raise ConfigError("build", f"initializing profiles: {detail}")
    if spec.args.get(sorter) != earlier[0].args.get(sorter):
        detail = f"different queue sort plugin args for profile {profile}"
        raise ConfigError("build", f"initializing profiles: {detail}")
