"""Name → class of every in-tree plugin that is built."""

from stowplan.framework.plugin import Plugin
from stowplan.framework.registry import Registry
from stowplan.plugins.defaultbinder import DefaultBinder
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.plugins.dynamicresources import DynamicResources
from stowplan.plugins.imagelocality import ImageLocality
from stowplan.plugins.interpodaffinity import InterPodAffinity
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


def in_tree_registry() -> Registry:
    """A registry of the in-tree plugins, to which others can be added."""
    return Registry(IN_TREE)
