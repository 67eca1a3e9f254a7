"""Name → class of every plugin that is built: those of the tree, and those of earlier releases."""

from stowplan.framework.interface import Plugin
from stowplan.framework.registry import Registry
from stowplan.plugins.defaultbinder import DefaultBinder
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.plugins.dynamicresources import DynamicResources
from stowplan.plugins.imagelocality import ImageLocality
from stowplan.plugins.interpodaffinity import InterPodAffinity
from stowplan.plugins.legacy.balancedresourceallocation import BalancedResourceAllocation
from stowplan.plugins.legacy.cinderlimits import MaxCinderVolumeCount
from stowplan.plugins.legacy.equalpriority import EqualPriority
from stowplan.plugins.legacy.leastandmost import NodeResourcesLeastAllocated, NodeResourcesMostAllocated
from stowplan.plugins.legacy.nodecondition import NodeCondition
from stowplan.plugins.legacy.nodelabel import NodeLabel
from stowplan.plugins.legacy.nodepreferavoidpods import NodePreferAvoidPods
from stowplan.plugins.legacy.nodepressure import NodeDiskPressure, NodeMemoryPressure, NodePIDPressure
from stowplan.plugins.legacy.noderesourcelimits import NodeResourceLimits
from stowplan.plugins.legacy.noexecutetaints import NoExecuteTaints
from stowplan.plugins.legacy.requestedtocapacityratio import RequestedToCapacityRatio
from stowplan.plugins.legacy.selectorspread import SelectorSpread
from stowplan.plugins.legacy.serviceaffinity import ServiceAffinity
from stowplan.plugins.nodeaffinity import NodeAffinity
from stowplan.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from stowplan.plugins.nodename import NodeName
from stowplan.plugins.nodeports import NodePorts
from stowplan.plugins.noderesourcesbalancedallocation import NodeResourcesBalancedAllocation
from stowplan.plugins.noderesourcesfit import NodeResourcesFit
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
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        DefaultBinder,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        NodeDeclaredFeatures,
        MaxEBSVolumeCount,
        MaxGCEPDVolumeCount,
        MaxAzureDiskVolumeCount,
    )
}

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


def in_tree_registry() -> Registry:
    """A registry of the in-tree plugins and those of earlier releases, to which others can be added."""
    return Registry(IN_TREE, LEGACY)
