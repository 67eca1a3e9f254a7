"""Merging the plugin lists of a profile with the default ones, as configuration defaulting does it.

This decides what stands in the lists. What runs at each extension point in the end is worked out from the
merged lists when a profile is built (`stowplan.framework.profile`).
"""

from collections.abc import Sequence

from stowplan.config.types import ATTRIBUTES, Plugin, Plugins, PluginSet
from stowplan.framework.points import MULTI_POINT
from stowplan.framework.profile import ALL_PLUGINS, PluginUse


def merge_plugins(defaults: Sequence[PluginUse], custom: Plugins | None) -> Plugins:
    """The lists of a profile: the default plugins stand in `multiPoint`, the custom lists change that."""
    default_set = PluginSet(enabled=tuple(Plugin(name=use.name, weight=use.weight) for use in defaults))
    if custom is None:
        return Plugins(multi_point=default_set)
    merged = {
        attribute: merge_plugin_set(
            default_set if section == MULTI_POINT else PluginSet(), custom.at(section)
        )
        for section, attribute in ATTRIBUTES.items()
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
