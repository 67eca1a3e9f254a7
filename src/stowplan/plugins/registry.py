"""All plugins on one page: names, classes, arguments, extension points, weights, place in the defaults.

Configurations are read, completed and checked by what stands here, and profiles are built from it. A plugin's
arguments are the `args_type` of its class and stand beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stowplan.api.feature_gates import DEFAULT_GATES
from stowplan.framework import FeatureGates, Plugin, Point
from stowplan.framework.profile import PluginUse
from stowplan.framework.registry import Registry
from stowplan.plugins.args import PluginArgs
from stowplan.plugins.defaultbinder import DefaultBinder
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.plugins.dynamicresources import DynamicResources
from stowplan.plugins.imagelocality import ImageLocality
from stowplan.plugins.interpodaffinity import InterPodAffinity
from stowplan.plugins.legacy.nodelabel import NodeLabel
from stowplan.plugins.legacy.predicates import (
    MaxCinderVolumeCount,
    NodeCondition,
    NodeDiskPressure,
    NodeMemoryPressure,
    NodePIDPressure,
    NoExecuteTaints,
)
from stowplan.plugins.legacy.priorities import EqualPriority, NodePreferAvoidPods, NodeResourceLimits
from stowplan.plugins.legacy.resource_allocation import (
    BalancedResourceAllocation,
    NodeResourcesLeastAllocated,
    NodeResourcesMostAllocated,
    RequestedToCapacityRatio,
)
from stowplan.plugins.legacy.selectorspread import SelectorSpread
from stowplan.plugins.legacy.serviceaffinity import ServiceAffinity
from stowplan.plugins.nodeaffinity import NodeAffinity
from stowplan.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from stowplan.plugins.nodename import NodeName
from stowplan.plugins.nodeports import NodePorts
from stowplan.plugins.noderesources import NodeResourcesBalancedAllocation, NodeResourcesFit
from stowplan.plugins.nodeunschedulable import NodeUnschedulable
from stowplan.plugins.nodevolumelimits import (
    MaxAzureDiskVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
    NodeVolumeLimits,
)
from stowplan.plugins.podtopologyspread import PodTopologySpread
from stowplan.plugins.prioritysort import PrioritySort
from stowplan.plugins.schedulinggates import SchedulingGates
from stowplan.plugins.tainttoleration import TaintToleration
from stowplan.plugins.volumebinding import VolumeBinding
from stowplan.plugins.volumerestrictions import VolumeRestrictions
from stowplan.plugins.volumezone import VolumeZone


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """A plugin of the tree.

    `points` are those of kube-scheduler's plugin of that name. `weight` is its weight in the default profile,
    0 where none is written (which counts as 1 in a score). `plugin` is None for one that a configuration can
    name but that is not built yet. `gate` is the feature gate that puts it into the default profile; None: it
    is always there, unless it is only `on_request`, when a configuration names it.
    """

    name: str
    points: frozenset[Point]
    weight: int = 0
    plugin: type[Plugin] | None = None
    gate: str | None = None
    on_request: bool = False

    @property
    def args_type(self) -> type[PluginArgs] | None:
        return None if self.plugin is None else self.plugin.args_type


def _entry(
    plugin: type[Plugin] | str,
    points: str,
    *,
    weight: int = 0,
    gate: str | None = None,
    on_request: bool = False,
) -> PluginEntry:
    at = frozenset(Point(point) for point in points.split())
    if isinstance(plugin, str):
        return PluginEntry(plugin, at, weight, None, gate, on_request)
    return PluginEntry(plugin.name, at, weight, plugin, gate, on_request)


_ENTRIES = (
    _entry(SchedulingGates, "preEnqueue"),
    _entry(PrioritySort, "queueSort"),
    _entry(NodeUnschedulable, "filter"),
    _entry(NodeName, "filter"),
    _entry(TaintToleration, "filter preScore score", weight=3),
    _entry(NodeAffinity, "preFilter filter preScore score", weight=2),
    _entry(NodePorts, "preFilter filter"),
    _entry(NodeResourcesFit, "preFilter filter preScore score placementScore", weight=1),
    _entry(VolumeRestrictions, "preFilter filter"),
    _entry(NodeVolumeLimits, "preFilter filter"),
    _entry(VolumeBinding, "preFilter filter preScore score reserve preBind"),
    _entry(VolumeZone, "preFilter filter"),
    _entry(PodTopologySpread, "preFilter filter preScore score", weight=2),
    _entry(InterPodAffinity, "preFilter filter preScore score", weight=2),
    _entry(
        DynamicResources,
        "preEnqueue preFilter filter postFilter score reserve preBind",
        weight=2,
        gate="DynamicResourceAllocation",
    ),
    _entry(DefaultPreemption, "preEnqueue postFilter"),
    _entry(NodeResourcesBalancedAllocation, "preScore score", weight=1),
    _entry(ImageLocality, "score", weight=1),
    _entry(DefaultBinder, "bind"),
    _entry(NodeDeclaredFeatures, "preFilter filter", gate="NodeDeclaredFeatures"),
    _entry("GangScheduling", "preEnqueue permit", gate="GangScheduling"),
    _entry("TopologyPlacementGenerator", "placementGenerate", gate="TopologyAwareWorkloadScheduling"),
    _entry("PodGroupPodsCount", "placementScore", weight=1, gate="TopologyAwareWorkloadScheduling"),
    _entry(MaxEBSVolumeCount, "preFilter filter", on_request=True),
    _entry(MaxGCEPDVolumeCount, "preFilter filter", on_request=True),
    _entry(MaxAzureDiskVolumeCount, "preFilter filter", on_request=True),
)

CATALOG: Mapping[str, PluginEntry] = {entry.name: entry for entry in _ENTRIES}
"""Every in-tree plugin by name, in the order of the default profile, which is the order plugins run in."""

IN_TREE: dict[str, type[Plugin]] = {
    entry.name: entry.plugin for entry in _ENTRIES if entry.plugin is not None
}
"""The class of every in-tree plugin that is built."""

IN_TREE_POINTS: Mapping[str, frozenset[Point]] = {entry.name: entry.points for entry in _ENTRIES}
"""The extension points of every in-tree plugin."""

ARGS_TYPES: Mapping[str, type[PluginArgs]] = {
    entry.name: args_type for entry in _ENTRIES if (args_type := entry.args_type) is not None
}
"""The type of the arguments of every in-tree plugin that has any."""

REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins of earlier releases: a configuration that names one is refused."""

LEGACY: dict[str, type[Plugin]] = {
    cls.name: cls
    for cls in (
        NodeCondition,
        NodeMemoryPressure,
        NodeDiskPressure,
        NodePIDPressure,
        NoExecuteTaints,
        NodeLabel,
        ServiceAffinity,
        MaxCinderVolumeCount,
        SelectorSpread,
        NodePreferAvoidPods,
        NodeResourceLimits,
        NodeResourcesLeastAllocated,
        NodeResourcesMostAllocated,
        BalancedResourceAllocation,
        RequestedToCapacityRatio,
        EqualPriority,
    )
}
"""Plugins that kube-scheduler no longer has, for configurations that name them."""


def default_plugins(gates: FeatureGates = DEFAULT_GATES) -> tuple[PluginUse, ...]:
    """The plugins of the default profile, to be used at every point they implement."""
    return tuple(
        PluginUse(entry.name, entry.weight)
        for entry in _ENTRIES
        if not entry.on_request and (entry.gate is None or gates[entry.gate])
    )


def in_tree_registry() -> Registry:
    """A registry of the in-tree plugins and those of earlier releases, to which others can be added."""
    return Registry(IN_TREE, LEGACY)
