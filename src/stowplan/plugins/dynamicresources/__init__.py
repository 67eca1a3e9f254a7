"""DynamicResources: devices through resource claims."""

from stowplan.plugins.dynamicresources.args import DynamicResourcesArgs
from stowplan.plugins.dynamicresources.plugin import DynamicResources

__all__ = ["DynamicResources", "DynamicResourcesArgs"]
