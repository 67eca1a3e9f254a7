"""The plugin lists of a profile of an earlier version, completed and turned into those of today."""

from collections.abc import Mapping
from typing import Final

from stowplan.config.fields import Fields, refuse
from stowplan.config.merge import merge_plugin_set
from stowplan.config.old.versions import Lists, Version
from stowplan.config.policy.document import ALWAYS, ProfileDocument
from stowplan.config.policy.notes import about, about_plugin
from stowplan.config.types import Plugin, PluginSet
from stowplan.framework.plugin import points_of
from stowplan.framework.points import MULTI_POINT, Point
from stowplan.plugins.catalog import IN_TREE_POINTS
from stowplan.plugins.legacy.names import PREDICATES, PRIORITIES, Use
from stowplan.plugins.registry import LEGACY

LEAST_ALLOCATED: Final = "NodeResourcesLeastAllocated"
_COMPANIONS: Final = {
    Point.FILTER: Point.PRE_FILTER,
    Point.SCORE: Point.PRE_SCORE,
    Point.POST_FILTER: Point.PRE_ENQUEUE,
}
"""Where a plugin of today has to take part too if it takes part at a point: it may not have had to then."""

_BALANCE: Final = (
    "NodeResourcesBalancedAllocation: differs: scores how the pod changes the balance, not the balance "
    "there would be"
)

Sections = Mapping[str, PluginSet]
"""What is enabled and disabled, by today's names of sections and that time's names of plugins."""


def read_sections(fields: Fields | None, version: Version) -> Sections:
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
        found[section] = _joined(found.get(section, PluginSet()), plugin_set)
    fields.done("the plugins of this version")
    return found


def _plugins(fields: Fields, name: str) -> tuple[Plugin, ...]:
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


def _joined(first: PluginSet, second: PluginSet) -> PluginSet:
    """Two sections that are one today (reserve and unreserve)."""
    known = {plugin.name for plugin in first.enabled}
    new = tuple(plugin for plugin in second.enabled if plugin.name not in known)
    return PluginSet(enabled=(*first.enabled, *new), disabled=(*first.disabled, *second.disabled))


def fill(made: ProfileDocument, given: Sections, defaults: Lists, version: Version) -> list[str]:
    """Put the plugins that a profile comes to into a profile of today; gives lines about what differs."""
    made.enable_all(ALWAYS[:1])
    notes: dict[str, None] = {}
    for section in dict.fromkeys((*defaults, *given)):
        default = PluginSet(enabled=tuple(Plugin(*one) for one in defaults.get(section, ())))
        custom = given.get(section, PluginSet())
        for plugin in merge_plugin_set(default, custom).enabled:
            name = version.renamed.get(plugin.name, plugin.name)
            if section == MULTI_POINT:
                made.enable_everywhere(name, plugin.weight)
            elif plugin.name == LEAST_ALLOCATED:
                name = "NodeResourcesFit"
                made.enable(Use(name, (Point.PRE_SCORE, Point.SCORE)), plugin.weight or 1)
            else:
                made.enable(Use(name, _points(name, Point(section))), plugin.weight)
            notes.update(dict.fromkeys(_notes(plugin.name, name, section, version)))
        if section != MULTI_POINT:
            for plugin in custom.disabled:
                made.disable(version.renamed.get(plugin.name, plugin.name), Point(section))
    return list(notes)


def _points(plugin: str, point: Point) -> tuple[Point, ...]:
    companion = _COMPANIONS.get(point)
    if companion is None:
        return (point,)
    implemented = points_of(LEGACY[plugin]) if plugin in LEGACY else IN_TREE_POINTS.get(plugin, ())
    return (companion, point) if companion in implemented else (point,)


def _notes(name: str, runs_as: str, section: str, version: Version) -> list[str]:
    notes = about_plugin(name, runs_as)
    if version.release == "1.18" and not notes:
        kind = {"filter": PREDICATES, "score": PRIORITIES}.get(section, {})
        for entry in kind.values():
            if not entry.meaning.exact and any(use.plugin == runs_as for use in entry.meaning.uses):
                notes += about(entry, entry.meaning)
    if runs_as == "NodeResourcesBalancedAllocation":
        notes.append(_BALANCE)
    return notes
