"""The arguments of the plugins that have any, with defaults and validation."""

from stowplan.plugins.args.base import PluginArgs
from stowplan.plugins.args.default_preemption import DefaultPreemptionArgs
from stowplan.plugins.args.dynamic_resources import DynamicResourcesArgs
from stowplan.plugins.args.inter_pod_affinity import InterPodAffinityArgs
from stowplan.plugins.args.legacy import (
    BalancedResourceAllocationArgs,
    EqualPriorityArgs,
    LegacyArgs,
    NodeResourceLimitsArgs,
    PriorityArgs,
)
from stowplan.plugins.args.max_volume_count import (
    MaxAzureDiskVolumeCountArgs,
    MaxCinderVolumeCountArgs,
    MaxEBSVolumeCountArgs,
    MaxGCEPDVolumeCountArgs,
    MaxVolumeCountArgs,
)
from stowplan.plugins.args.node_affinity import NodeAffinityArgs
from stowplan.plugins.args.node_label import NodeLabelArgs
from stowplan.plugins.args.node_resources_balanced_allocation import NodeResourcesBalancedAllocationArgs
from stowplan.plugins.args.node_resources_fit import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ScoringStrategy,
)
from stowplan.plugins.args.old_allocation import (
    NodeResourcesLeastAllocatedArgs,
    NodeResourcesMostAllocatedArgs,
    OldAllocationArgs,
    RequestedToCapacityRatioArgs,
)
from stowplan.plugins.args.pod_topology_spread import PodTopologySpreadArgs
from stowplan.plugins.args.resource_spec import ResourceSpec
from stowplan.plugins.args.selector_spread import SelectorSpreadArgs
from stowplan.plugins.args.service_affinity import ServiceAffinityArgs
from stowplan.plugins.args.shape import UtilizationShapePoint
from stowplan.plugins.args.volume_binding import VolumeBindingArgs

__all__ = [
    "BalancedResourceAllocationArgs",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "EqualPriorityArgs",
    "InterPodAffinityArgs",
    "LegacyArgs",
    "MaxAzureDiskVolumeCountArgs",
    "MaxCinderVolumeCountArgs",
    "MaxEBSVolumeCountArgs",
    "MaxGCEPDVolumeCountArgs",
    "MaxVolumeCountArgs",
    "NodeAffinityArgs",
    "NodeLabelArgs",
    "NodeResourceLimitsArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "NodeResourcesLeastAllocatedArgs",
    "NodeResourcesMostAllocatedArgs",
    "OldAllocationArgs",
    "PluginArgs",
    "PodTopologySpreadArgs",
    "PriorityArgs",
    "RequestedToCapacityRatioArgs",
    "RequestedToCapacityRatioParam",
    "ResourceSpec",
    "ScoringStrategy",
    "SelectorSpreadArgs",
    "ServiceAffinityArgs",
    "UtilizationShapePoint",
    "VolumeBindingArgs",
]
