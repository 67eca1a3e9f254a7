"""The names of earlier releases on one page: predicates, priorities, plugins, providers."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from stowplan.plugins.legacy.oldname import RELEASES, Kind, Meaning, OldName, Use
from stowplan.plugins.legacy.predicates import PREDICATES
from stowplan.plugins.legacy.priorities import PRIORITIES

__all__ = [
    "MANDATORY",
    "OLD_PLUGINS",
    "ORDER",
    "PREDICATES",
    "PRIORITIES",
    "PROVIDERS",
    "RELEASES",
    "Kind",
    "Meaning",
    "OldName",
    "Provider",
    "Use",
    "old_points",
]

OLD_PLUGINS: Final[Mapping[str, str]] = {
    "DefaultPodTopologySpread": "SelectorSpread",
    "EBSLimits": "MaxEBSVolumeCount",
    "GCEPDLimits": "MaxGCEPDVolumeCount",
    "AzureDiskLimits": "MaxAzureDiskVolumeCount",
    "CinderLimits": "MaxCinderVolumeCount",
}
"""Plugins whose names in configurations of earlier versions differ from those here."""

MANDATORY: Final[Mapping[str, tuple[str, ...]]] = {
    "1.9": ("CheckNodeCondition",),
    "1.18": ("CheckNodeUnschedulable", "PodToleratesNodeTaints"),
}
"""By release: predicates that are in use whatever a Policy says."""

ORDER: Final = tuple(PREDICATES)
"""Predicates in the order in which they were asked; the first that rejects a node gives the reason."""


class Provider(NamedTuple):
    """An algorithm provider: its predicates, and its priorities with their weights."""

    predicates: tuple[str, ...]
    priorities: Mapping[str, int]


_PREDICATES_1_9: Final = (
    "CheckNodeCondition",
    "GeneralPredicates",
    "NoDiskConflict",
    "PodToleratesNodeTaints",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxAzureDiskVolumeCount",
    "CheckVolumeBinding",
    "NoVolumeZoneConflict",
    "CheckNodeMemoryPressure",
    "CheckNodeDiskPressure",
    "MatchInterPodAffinity",
)
_PRIORITIES_1_9: Final = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1,
    "NodePreferAvoidPodsPriority": 10000,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
}
_PREDICATES_1_18: Final = (
    "CheckNodeUnschedulable",
    "GeneralPredicates",
    "NoDiskConflict",
    "PodToleratesNodeTaints",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxCSIVolumeCountPred",
    "MaxAzureDiskVolumeCount",
    "CheckVolumeBinding",
    "NoVolumeZoneConflict",
    "EvenPodsSpread",
    "MatchInterPodAffinity",
)
_PRIORITIES_1_18: Final = {**_PRIORITIES_1_9, "ImageLocalityPriority": 1, "EvenPodsSpreadPriority": 1}


def _packing(priorities: Mapping[str, int]) -> Mapping[str, int]:
    """The same priorities, but full nodes are preferred to empty ones."""
    swapped = {"LeastRequestedPriority": "MostRequestedPriority"}
    return {swapped.get(name, name): weight for name, weight in priorities.items()}


PROVIDERS: Final[Mapping[str, Mapping[str, Provider]]] = {
    "DefaultProvider": {
        "1.9": Provider(_PREDICATES_1_9, _PRIORITIES_1_9),
        "1.18": Provider(_PREDICATES_1_18, _PRIORITIES_1_18),
    },
    "ClusterAutoscalerProvider": {
        "1.9": Provider(_PREDICATES_1_9, _packing(_PRIORITIES_1_9)),
        "1.18": Provider(_PREDICATES_1_18, _packing(_PRIORITIES_1_18)),
    },
}
"""Algorithm providers by name and release. A Policy without a list of predicates or of priorities gets those
of DefaultProvider."""


def old_points(score: int) -> float:
    """A score from 0 to 100 on the old scale from 0 to 10."""
    return score / 10
