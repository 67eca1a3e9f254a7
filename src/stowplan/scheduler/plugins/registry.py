"""The in-tree plugins: the class of each name, and its data in a release.

Configurations are read, completed and checked with this registry, and profiles are built from it. Extension
points, order, weights and gates differ between releases and are data of the release; a plugin's arguments are
the `args_type` of its class and are defined next to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.releases import DEFAULT, Release
from stowplan.scheduler.framework import Plugin
from stowplan.scheduler.framework.advanced import ExtensionPoint, FeatureGates
from stowplan.scheduler.framework.profile import PluginUse
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.defaultbinder import DefaultBinder
from stowplan.scheduler.plugins.defaultpreemption import DefaultPreemption
from stowplan.scheduler.plugins.deferredpodscheduling import DeferredPodScheduling
from stowplan.scheduler.plugins.dynamicresources import DynamicResources
from stowplan.scheduler.plugins.imagelocality import ImageLocality
from stowplan.scheduler.plugins.interpodaffinity import InterPodAffinity
from stowplan.scheduler.plugins.legacy.nodelabel import NodeLabel
from stowplan.scheduler.plugins.legacy.predicates import (
    MaxCinderVolumeCount,
    NodeCondition,
    NodeDiskPressure,
    NodeMemoryPressure,
    NodePIDPressure,
    NoExecuteTaints,
)
from stowplan.scheduler.plugins.legacy.priorities import (
    EqualPriority,
    NodePreferAvoidPods,
    NodeResourceLimits,
)
from stowplan.scheduler.plugins.legacy.resource_allocation import (
    BalancedResourceAllocation,
    NodeResourcesLeastAllocated,
    NodeResourcesMostAllocated,
    RequestedToCapacityRatio,
)
from stowplan.scheduler.plugins.legacy.selectorspread import SelectorSpread
from stowplan.scheduler.plugins.legacy.serviceaffinity import ServiceAffinity
from stowplan.scheduler.plugins.nodeaffinity import NodeAffinity
from stowplan.scheduler.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from stowplan.scheduler.plugins.nodename import NodeName
from stowplan.scheduler.plugins.nodeports import NodePorts
from stowplan.scheduler.plugins.noderesources import NodeResourcesBalancedAllocation, NodeResourcesFit
from stowplan.scheduler.plugins.nodeunschedulable import NodeUnschedulable
from stowplan.scheduler.plugins.nodevolumelimits import (
    MaxAzureDiskVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
    NodeVolumeLimits,
)
from stowplan.scheduler.plugins.pod_groups.coscheduling import Coscheduling
from stowplan.scheduler.plugins.pod_groups.gangscheduling import GangScheduling
from stowplan.scheduler.plugins.pod_groups.podgrouppodscount import PodGroupPodsCount
from stowplan.scheduler.plugins.pod_groups.topologyaware import TopologyPlacementGenerator
from stowplan.scheduler.plugins.podtopologyspread import PodTopologySpread
from stowplan.scheduler.plugins.prioritysort import PrioritySort
from stowplan.scheduler.plugins.schedulinggates import SchedulingGates
from stowplan.scheduler.plugins.tainttoleration import TaintToleration
from stowplan.scheduler.plugins.volumebinding import VolumeBinding
from stowplan.scheduler.plugins.volumerestrictions import VolumeRestrictions
from stowplan.scheduler.plugins.volumezone import VolumeZone


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """A plugin of the tree in one release: what the release says of it, and its class.

    `points` are those of kube-scheduler's plugin of that name in the release; a class may have methods for
    others, which are not called then. `weight`, `gate` and `on_request`: see `ReleasePlugin`. `plugin` is
    None for one that a configuration can name but that is not built yet.
    """

    name: str
    points: frozenset[ExtensionPoint]
    weight: int = 0
    plugin: type[Plugin] | None = None
    gate: str | None = None
    on_request: bool = False

    @property
    def args_type(self) -> type[PluginArgs] | None:
        return None if self.plugin is None else self.plugin.args_type


IN_TREE: dict[str, type[Plugin]] = {
    cls.name: cls
    for cls in (
        SchedulingGates,
        PrioritySort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        DeferredPodScheduling,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        DefaultBinder,
        NodeDeclaredFeatures,
        GangScheduling,
        TopologyPlacementGenerator,
        PodGroupPodsCount,
        MaxEBSVolumeCount,
        MaxGCEPDVolumeCount,
        MaxAzureDiskVolumeCount,
    )
}
"""The class of every in-tree plugin that is built, in any release."""

ARGS_TYPES: Mapping[str, type[PluginArgs]] = {
    name: cls.args_type for name, cls in IN_TREE.items() if cls.args_type is not None
}
"""The type of the arguments of every in-tree plugin that has any."""


@cache
def catalog(release: Release = DEFAULT) -> Mapping[str, PluginEntry]:
    """The in-tree plugins of a release by name, in the order of the default profile: the one they run in."""
    return {
        one.name: PluginEntry(
            one.name,
            frozenset(ExtensionPoint(point) for point in one.points),
            one.weight,
            IN_TREE.get(one.name),
            one.gate,
            one.on_request,
        )
        for one in release.plugins
    }


@cache
def in_tree_points(release: Release = DEFAULT) -> Mapping[str, frozenset[ExtensionPoint]]:
    """The extension points of every in-tree plugin of a release."""
    return {name: entry.points for name, entry in catalog(release).items()}


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


SCHEDULER_PLUGINS: dict[str, type[Plugin]] = {Coscheduling.name: Coscheduling}
"""Plugins of kubernetes-sigs/scheduler-plugins, for configurations that name them."""


def default_plugins(gates: FeatureGates = DEFAULT_GATES) -> tuple[PluginUse, ...]:
    """The plugins of the default profile, to be used at every point they implement."""
    return tuple(
        PluginUse(entry.name, entry.weight)
        for entry in catalog(gates.release).values()
        if not entry.on_request and (entry.gate is None or gates[entry.gate])
    )


def in_tree_registry() -> Registry:
    """A registry of the in-tree plugins, those of earlier releases and of scheduler-plugins.

    Others can be added to it.
    """
    return Registry(IN_TREE, {**LEGACY, **SCHEDULER_PLUGINS})
