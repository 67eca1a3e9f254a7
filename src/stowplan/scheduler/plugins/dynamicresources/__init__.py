"""DynamicResources: devices through resource claims."""

from stowplan.scheduler.plugins.dynamicresources.args import DynamicResourcesArgs
from stowplan.scheduler.plugins.dynamicresources.plugin import DynamicResources

__all__ = ["DynamicResources", "DynamicResourcesArgs"]
