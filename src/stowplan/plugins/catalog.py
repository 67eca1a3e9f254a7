"""All in-tree plugins on one page: names, extension points, weights, arguments, place in the defaults.

The order is that of the default profile, which is the order plugins run in at every point.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.framework.interface import Point
from stowplan.framework.profile import PluginUse
from stowplan.plugins.args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    MaxAzureDiskVolumeCountArgs,
    MaxEBSVolumeCountArgs,
    MaxGCEPDVolumeCountArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """What is known of a plugin without its code.

    `weight` is its weight in the default profile, 0 where none is written (which counts as 1 in a score).
    `gate` is the feature gate that puts it into the default profile; None: it is always there, unless it is
    only `on_request`, when a configuration names it.
    """

    name: str
    points: frozenset[Point]
    weight: int = 0
    args_type: type[PluginArgs] | None = None
    gate: str | None = None
    on_request: bool = False


def _entry(
    name: str,
    points: str,
    *,
    weight: int = 0,
    args_type: type[PluginArgs] | None = None,
    gate: str | None = None,
    on_request: bool = False,
) -> PluginEntry:
    at = frozenset(Point(point) for point in points.split())
    return PluginEntry(name, at, weight, args_type, gate, on_request)


_ENTRIES = (
    _entry("SchedulingGates", "preEnqueue"),
    _entry("PrioritySort", "queueSort"),
    _entry("NodeUnschedulable", "filter"),
    _entry("NodeName", "filter"),
    _entry("TaintToleration", "filter preScore score", weight=3),
    _entry("NodeAffinity", "preFilter filter preScore score", weight=2, args_type=NodeAffinityArgs),
    _entry("NodePorts", "preFilter filter"),
    _entry(
        "NodeResourcesFit",
        "preFilter filter preScore score placementScore",
        weight=1,
        args_type=NodeResourcesFitArgs,
    ),
    _entry("VolumeRestrictions", "preFilter filter"),
    _entry("NodeVolumeLimits", "preFilter filter"),
    _entry(
        "VolumeBinding",
        "preFilter filter preScore score reserve preBind",
        args_type=VolumeBindingArgs,
    ),
    _entry("VolumeZone", "preFilter filter"),
    _entry(
        "PodTopologySpread",
        "preFilter filter preScore score",
        weight=2,
        args_type=PodTopologySpreadArgs,
    ),
    _entry(
        "InterPodAffinity",
        "preFilter filter preScore score",
        weight=2,
        args_type=InterPodAffinityArgs,
    ),
    _entry(
        "DynamicResources",
        "preEnqueue preFilter filter postFilter score reserve preBind",
        weight=2,
        args_type=DynamicResourcesArgs,
        gate="DynamicResourceAllocation",
    ),
    _entry("DefaultPreemption", "preEnqueue postFilter", args_type=DefaultPreemptionArgs),
    _entry(
        "NodeResourcesBalancedAllocation",
        "preScore score",
        weight=1,
        args_type=NodeResourcesBalancedAllocationArgs,
    ),
    _entry("ImageLocality", "score", weight=1),
    _entry("DefaultBinder", "bind"),
    _entry("NodeDeclaredFeatures", "preFilter filter", gate="NodeDeclaredFeatures"),
    _entry("GangScheduling", "preEnqueue permit", gate="GangScheduling"),
    _entry("TopologyPlacementGenerator", "placementGenerate", gate="TopologyAwareWorkloadScheduling"),
    _entry("PodGroupPodsCount", "placementScore", weight=1, gate="TopologyAwareWorkloadScheduling"),
    _entry("MaxEBSVolumeCount", "preFilter filter", args_type=MaxEBSVolumeCountArgs, on_request=True),
    _entry("MaxGCEPDVolumeCount", "preFilter filter", args_type=MaxGCEPDVolumeCountArgs, on_request=True),
    _entry(
        "MaxAzureDiskVolumeCount", "preFilter filter", args_type=MaxAzureDiskVolumeCountArgs, on_request=True
    ),
)

CATALOG: Mapping[str, PluginEntry] = {entry.name: entry for entry in _ENTRIES}
"""Every in-tree plugin by name, in default order."""

IN_TREE_POINTS: Mapping[str, frozenset[Point]] = {entry.name: entry.points for entry in _ENTRIES}
"""The extension points of every in-tree plugin."""

ARGS_TYPES: Mapping[str, type[PluginArgs]] = {
    entry.name: entry.args_type for entry in _ENTRIES if entry.args_type is not None
}
"""The type of the arguments of every plugin that has any."""

REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins of earlier releases: a configuration that names one is refused."""


def default_plugins(gates: FeatureGates = DEFAULT_GATES) -> tuple[PluginUse, ...]:
    """The plugins of the default profile, to be used at every point they implement."""
    return tuple(
        PluginUse(entry.name, entry.weight)
        for entry in _ENTRIES
        if not entry.on_request and (entry.gate is None or gates[entry.gate])
    )
