"""The arguments of the in-tree plugins that have any: one module per type, with defaults and validation."""

from stowplan.plugins.args.base import PluginArgs
from stowplan.plugins.args.default_preemption import DefaultPreemptionArgs
from stowplan.plugins.args.dynamic_resources import DynamicResourcesArgs
from stowplan.plugins.args.inter_pod_affinity import InterPodAffinityArgs
from stowplan.plugins.args.max_volume_count import (
    MaxAzureDiskVolumeCountArgs,
    MaxEBSVolumeCountArgs,
    MaxGCEPDVolumeCountArgs,
    MaxVolumeCountArgs,
)
from stowplan.plugins.args.node_affinity import NodeAffinityArgs
from stowplan.plugins.args.node_resources_balanced_allocation import NodeResourcesBalancedAllocationArgs
from stowplan.plugins.args.node_resources_fit import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ScoringStrategy,
)
from stowplan.plugins.args.pod_topology_spread import PodTopologySpreadArgs
from stowplan.plugins.args.resource_spec import ResourceSpec
from stowplan.plugins.args.shape import UtilizationShapePoint
from stowplan.plugins.args.volume_binding import VolumeBindingArgs

__all__ = [
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "InterPodAffinityArgs",
    "MaxAzureDiskVolumeCountArgs",
    "MaxEBSVolumeCountArgs",
    "MaxGCEPDVolumeCountArgs",
    "MaxVolumeCountArgs",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "PluginArgs",
    "PodTopologySpreadArgs",
    "RequestedToCapacityRatioParam",
    "ResourceSpec",
    "ScoringStrategy",
    "UtilizationShapePoint",
    "VolumeBindingArgs",
]
