"""Plugin lists and plugin arguments of versions before v1, as those of v1."""

from collections.abc import Mapping
from typing import Any, Final

from stowplan.config.defaults import merge_plugin_set
from stowplan.config.legacy.fields import LegacyFields, refuse
from stowplan.config.legacy.profiles import COMMON_PLUGINS, ProfileBuilder, name_notes, plugin_notes
from stowplan.config.legacy.versions import VERSIONS, LegacyVersion, Lists
from stowplan.config.types import GROUP, Plugin, PluginSet
from stowplan.gocompat.jsontext import ObjectNode, Tree, to_python
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework.interface import MULTI_POINT, ExtensionPoint, points_of
from stowplan.scheduler.plugins.legacy.names import PREDICATES, PRIORITIES, Use
from stowplan.scheduler.plugins.registry import LEGACY, in_tree_points

LEAST_ALLOCATED: Final = "NodeResourcesLeastAllocated"
_COMPANIONS: Final = {
    ExtensionPoint.FILTER: ExtensionPoint.PRE_FILTER,
    ExtensionPoint.SCORE: ExtensionPoint.PRE_SCORE,
    ExtensionPoint.POST_FILTER: ExtensionPoint.PRE_ENQUEUE,
}
"""The point where a plugin has to run too if it runs at a point; its own version may not have required it."""

_BALANCE_NOTE: Final = (
    "NodeResourcesBalancedAllocation: differs: scores how the pod changes the balance, not the balance "
    "there would be"
)

Sections = Mapping[str, PluginSet]
"""Enabled and disabled plugins: sections by their v1 names, plugins by the names of their version."""


def read_sections(fields: LegacyFields | None, version: LegacyVersion) -> Sections:
    """The lists that a profile gives. Raises ConfigError."""
    if fields is None:
        return {}
    found: dict[str, PluginSet] = {}
    for name, section in version.sections.items():
        given = fields.object(name)
        if given is None:
            continue
        plugin_set = PluginSet(enabled=_plugins(given, "enabled"), disabled=_plugins(given, "disabled"))
        given.done("a list of plugins")
        for index, plugin in enumerate(plugin_set.enabled):
            if plugin.name in version.removed:
                refuse(f"{given.path}.enabled[{index}].name", f"{plugin.name} was removed in this version")
        found[section] = _join(found.get(section, PluginSet()), plugin_set)
    fields.done("the plugins of this version")
    return found


def _plugins(fields: LegacyFields, name: str) -> tuple[Plugin, ...]:
    plugins: list[Plugin] = []
    for one in fields.objects(name) or ():
        plugin = Plugin(name=one.text("name"), weight=one.number("weight", 0, 2**31 - 1) or 0)
        one.done("a plugin")
        if not plugin.name:
            refuse(one.at("name"), "missing, expected the name of a plugin")
        if any(plugin.name == other.name for other in plugins):
            refuse(one.at("name"), f"{plugin.name} is there already")
        plugins.append(plugin)
    return tuple(plugins)


def _join(first: PluginSet, second: PluginSet) -> PluginSet:
    """Two sections that are one in v1 (reserve and unreserve)."""
    known = {plugin.name for plugin in first.enabled}
    new = tuple(plugin for plugin in second.enabled if plugin.name not in known)
    return PluginSet(enabled=(*first.enabled, *new), disabled=(*first.disabled, *second.disabled))


def add_plugins(
    builder: ProfileBuilder, given: Sections, defaults: Lists, version: LegacyVersion
) -> list[str]:
    """Add the plugins of a profile, merged with the defaults of its version; gives notes on what differs."""
    builder.enable_all(COMMON_PLUGINS[:1])
    notes: dict[str, None] = {}
    for section in dict.fromkeys((*defaults, *given)):
        default = PluginSet(enabled=tuple(Plugin(*one) for one in defaults.get(section, ())))
        custom = given.get(section, PluginSet())
        for plugin in merge_plugin_set(default, custom).enabled:
            name = version.renamed.get(plugin.name, plugin.name)
            if section == MULTI_POINT:
                builder.enable_everywhere(name, plugin.weight)
            elif plugin.name == LEAST_ALLOCATED:
                name = "NodeResourcesFit"
                builder.enable(
                    Use(name, (ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)), plugin.weight or 1
                )
            else:
                builder.enable(Use(name, _points(name, ExtensionPoint(section))), plugin.weight)
            notes.update(dict.fromkeys(_notes(plugin.name, name, section, version)))
        if section != MULTI_POINT:
            for plugin in custom.disabled:
                builder.disable(version.renamed.get(plugin.name, plugin.name), ExtensionPoint(section))
    return list(notes)


def _points(plugin: str, point: ExtensionPoint) -> tuple[ExtensionPoint, ...]:
    companion = _COMPANIONS.get(point)
    if companion is None:
        return (point,)
    implemented = points_of(LEGACY[plugin]) if plugin in LEGACY else in_tree_points().get(plugin, ())
    return (companion, point) if companion in implemented else (point,)


def _notes(name: str, runs_as: str, section: str, version: LegacyVersion) -> list[str]:
    notes = plugin_notes(name, runs_as)
    if version.release == "1.18" and not notes:
        kind = {"filter": PREDICATES, "score": PRIORITIES}.get(section, {})
        for entry in kind.values():
            if not entry.meaning.exact and any(use.plugin == runs_as for use in entry.meaning.uses):
                notes += name_notes(entry, entry.meaning)
    if runs_as == "NodeResourcesBalancedAllocation":
        notes.append(_BALANCE_NOTE)
    return notes


PluginArguments = Mapping[str, dict[str, Any]]
"""By the v1 name of a plugin."""


def read_arguments(
    entries: list[LegacyFields] | None, plugins: frozenset[str], version: LegacyVersion
) -> PluginArguments:
    """The arguments that a profile gives, and those that its plugins had then if it gave none.

    Raises ConfigError.
    """
    found: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for entry in entries or ():
        name = entry.text("name")
        if not name:
            refuse(entry.at("name"), "missing, expected the name of a plugin")
        if name in seen:
            refuse(entry.at("name"), f"{name} is there already")
        if name in version.removed:
            refuse(entry.at("name"), f"{name} was removed in this version")
        seen.add(name)
        tree = entry.take("args")
        entry.done("a plugin's arguments")
        if name in version.args:
            args = _in_tree_args(
                LegacyFields(ObjectNode() if tree is None else tree, entry.at("args")), name, version
            )
        else:
            args = _out_of_tree_args(tree, entry.at("args"))
        plugin, args = _as_v1(name, args, version)
        found.setdefault(plugin, {}).update(args)
    if version.release == "1.18" and "PodTopologySpread" in plugins:
        found.setdefault("PodTopologySpread", {"defaultingType": "List"})
    return found


def _out_of_tree_args(tree: Tree, path: str) -> dict[str, Any]:
    """Arguments of an out-of-tree plugin, which only the plugin can check."""
    if tree is not None and not isinstance(tree, ObjectNode):
        refuse(path, "expected an object")
    return to_python(tree) or {}


def _in_tree_args(fields: LegacyFields, plugin: str, version: LegacyVersion) -> dict[str, Any]:
    kind, api_version = fields.text("kind"), fields.text("apiVersion")
    expected = next(name for name, one in VERSIONS.items() if one is version)
    if kind not in ("", f"{plugin}Args"):
        refuse(fields.at("kind"), f"expected {plugin}Args, got {quote(kind)}")
    if api_version not in ("", expected):
        refuse(fields.at("apiVersion"), f"expected {expected}, got {quote(api_version)}")
    args = {name: fields.data(name) for name in sorted(version.args[plugin]) if fields.has(name)}
    fields.done(f"{plugin}Args in {expected.removeprefix(f'{GROUP}/')}")
    return args


def _as_v1(name: str, args: dict[str, Any], version: LegacyVersion) -> tuple[str, dict[str, Any]]:
    """The plugin that the arguments are for, and what they are called there."""
    if name == LEAST_ALLOCATED:
        return "NodeResourcesFit", {"scoringStrategy": {"type": "LeastAllocated", **args}}
    if name == "PodTopologySpread" and not args.get("defaultingType"):
        args = {**args, "defaultingType": _defaulting_type(args, version)}
    return version.renamed.get(name, name), args


def _defaulting_type(args: Mapping[str, Any], version: LegacyVersion) -> str:
    """Built-in constraints came with v1beta1, and only from v1beta2 on they were not a matter of the list."""
    if version.release == "1.18" or (version.release == "1.21" and args.get("defaultConstraints")):
        return "List"
    return "System"
