"""The versions of KubeSchedulerConfiguration before v1: their fields, plugins and plugin arguments.

Several releases read the same version. Here a version means the last release that had it as its newest,
except for v1beta1, where it is the last that still scored resources by plugins of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan.config.types import GROUP
from stowplan.scheduler.framework.interface import MULTI_POINT
from stowplan.scheduler.plugins.legacy.names import OLD_PLUGINS

Lists = Mapping[str, tuple[tuple[str, int], ...]]
"""By section: plugins by the names of their version, and weights."""


LEGACY_LOCKS: Final = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")
"""Objects for leader election, other than Leases."""


@dataclass(frozen=True, slots=True)
class LegacyVersion:
    """A version.

    `fields` are those of the document in addition to the common ones. `sections` are the plugin lists by
    name, each with its v1 name. `defaults` are the plugins of a profile without lists. `args` has the fields
    of plugin arguments. `lock` is the default object for leader election. `removed` names plugins that
    earlier versions had and this one refuses.
    """

    release: str
    fields: frozenset[str]
    sections: Mapping[str, str] = field(default_factory=dict)
    defaults: Lists = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    args: Mapping[str, frozenset[str]] = field(default_factory=dict)
    lock: str = "leases"
    removed: frozenset[str] = frozenset()


def _lists(**sections: str) -> Lists:
    """Lists from text such as `NodeName ImageLocality=1`."""
    return {
        section: tuple((name, int(weight or 0)) for name, _, weight in map(_parts, text.split()))
        for section, text in sections.items()
    }


def _parts(text: str) -> tuple[str, str, str]:
    return text.partition("=")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _unchanged(text: str) -> dict[str, str]:
    return {name: name for name in text.split()}


_LISTS_1_18: Final = _lists(
    queueSort="PrioritySort",
    preFilter="NodeResourcesFit NodePorts InterPodAffinity PodTopologySpread",
    filter="NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions "
    "TaintToleration EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone "
    "InterPodAffinity PodTopologySpread",
    preScore="InterPodAffinity DefaultPodTopologySpread TaintToleration PodTopologySpread",
    score="NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 "
    "NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 DefaultPodTopologySpread=1 "
    "TaintToleration=1 PodTopologySpread=1",
    reserve="VolumeBinding",
    preBind="VolumeBinding",
    bind="DefaultBinder",
)
_FILTERS: Final = _lists(
    queueSort="PrioritySort",
    preFilter="NodeResourcesFit NodePorts VolumeRestrictions PodTopologySpread InterPodAffinity "
    "VolumeBinding NodeAffinity",
    filter="NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit "
    "VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone "
    "PodTopologySpread InterPodAffinity",
    postFilter="DefaultPreemption",
    preScore="InterPodAffinity PodTopologySpread TaintToleration NodeAffinity",
    reserve="VolumeBinding",
    preBind="VolumeBinding",
    bind="DefaultBinder",
)
_LISTS_V1BETA1: Final = {
    **_FILTERS,
    **_lists(
        score="NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 "
        "NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 "
        "TaintToleration=1"
    ),
}
_LISTS_V1BETA2: Final = {
    **_FILTERS,
    **_lists(
        score="NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 "
        "NodeAffinity=1 PodTopologySpread=2 TaintToleration=1"
    ),
}
_LISTS_V1BETA3: Final = _lists(
    multiPoint="SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration=3 NodeAffinity=2 "
    "NodePorts NodeResourcesFit=1 VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits "
    "VolumeBinding VolumeZone PodTopologySpread=2 InterPodAffinity=2 DefaultPreemption "
    "NodeResourcesBalancedAllocation=1 ImageLocality=1 DefaultBinder"
)

_RESOURCES: Final = _names("resources")
_ARGS_1_18: Final = {
    "InterPodAffinity": _names("hardPodAffinityWeight"),
    "NodeLabel": _names("presentLabels absentLabels presentLabelsPreference absentLabelsPreference"),
    "NodeResourcesFit": _names("ignoredResources"),
    "PodTopologySpread": _names("defaultConstraints"),
    "RequestedToCapacityRatio": _names("shape resources"),
    "ServiceAffinity": _names("affinityLabels antiAffinityLabelsPreference"),
}
_ARGS_V1BETA1: Final = {
    **_ARGS_1_18,
    "DefaultPreemption": _names("minCandidateNodesPercentage minCandidateNodesAbsolute"),
    "NodeAffinity": _names("addedAffinity"),
    "NodeResourcesFit": _names("ignoredResources ignoredResourceGroups"),
    "NodeResourcesLeastAllocated": _RESOURCES,
    "NodeResourcesMostAllocated": _RESOURCES,
    "PodTopologySpread": _names("defaultConstraints defaultingType"),
    "VolumeBinding": _names("bindTimeoutSeconds"),
}
_REMOVED_IN_V1BETA2: Final = _names(
    "NodeLabel ServiceAffinity NodePreferAvoidPods NodeResourcesLeastAllocated NodeResourcesMostAllocated "
    "RequestedToCapacityRatio"
)
_ARGS_V1BETA2: Final = {
    **{name: fields for name, fields in _ARGS_V1BETA1.items() if name not in _REMOVED_IN_V1BETA2},
    "NodeResourcesBalancedAllocation": _RESOURCES,
    "NodeResourcesFit": _names("ignoredResources ignoredResourceGroups scoringStrategy"),
    "VolumeBinding": _names("bindTimeoutSeconds shape"),
}
_ARGS_V1BETA3: Final = {
    **_ARGS_V1BETA2,
    "InterPodAffinity": _names("hardPodAffinityWeight ignorePreferredTermsOfExistingPods"),
}

_RENAMED_1_18: Final = {**OLD_PLUGINS, "NodeResourcesBalancedAllocation": "BalancedResourceAllocation"}
_POINTS: Final = "queueSort preFilter filter preScore score reserve permit preBind bind postBind"
_SINGLE_PROFILE_FIELDS: Final = _names(
    "schedulerName algorithmSource hardPodAffinitySymmetricWeight healthzBindAddress metricsBindAddress "
    "failureDomains disablePreemption"
)
_QUEUE_FIELDS: Final = _names("percentageOfNodesToScore podInitialBackoffSeconds podMaxBackoffSeconds")
_PROFILES_FIELDS: Final = _QUEUE_FIELDS | _names("parallelism profiles extenders")

VERSIONS: Final[Mapping[str, LegacyVersion]] = {
    "componentconfig/v1alpha1": LegacyVersion("1.9", _SINGLE_PROFILE_FIELDS, lock="endpoints"),
    f"{GROUP}/v1alpha1": LegacyVersion(
        "1.18",
        _SINGLE_PROFILE_FIELDS | _QUEUE_FIELDS | _names("bindTimeoutSeconds plugins pluginConfig"),
        {
            **_unchanged(_POINTS.replace("preScore ", "")),
            "postFilter": "preScore",
            "unreserve": "reserve",
        },
        _LISTS_1_18,
        _RENAMED_1_18,
        _ARGS_1_18,
        lock="endpointsleases",
    ),
    f"{GROUP}/v1alpha2": LegacyVersion(
        "1.18",
        _QUEUE_FIELDS
        | _names("healthzBindAddress metricsBindAddress disablePreemption bindTimeoutSeconds")
        | _names("profiles extenders"),
        {**_unchanged(_POINTS), "unreserve": "reserve"},
        _LISTS_1_18,
        _RENAMED_1_18,
        _ARGS_1_18,
        lock="endpointsleases",
    ),
    f"{GROUP}/v1beta1": LegacyVersion(
        "1.21",
        _PROFILES_FIELDS | _names("healthzBindAddress metricsBindAddress"),
        _unchanged(f"{_POINTS} postFilter"),
        _LISTS_V1BETA1,
        _RENAMED_1_18,
        _ARGS_V1BETA1,
    ),
    f"{GROUP}/v1beta2": LegacyVersion(
        "1.24",
        _PROFILES_FIELDS | _names("healthzBindAddress metricsBindAddress"),
        _unchanged(f"{_POINTS} postFilter preEnqueue {MULTI_POINT}"),
        _LISTS_V1BETA2,
        OLD_PLUGINS,
        _ARGS_V1BETA2,
        removed=_REMOVED_IN_V1BETA2,
    ),
    f"{GROUP}/v1beta3": LegacyVersion(
        "1.28",
        _PROFILES_FIELDS,
        _unchanged(f"{_POINTS} postFilter preEnqueue {MULTI_POINT}"),
        _LISTS_V1BETA3,
        OLD_PLUGINS,
        _ARGS_V1BETA3,
        removed=_REMOVED_IN_V1BETA2 | {"SelectorSpread"},
    ),
}
"""By apiVersion, oldest first."""
