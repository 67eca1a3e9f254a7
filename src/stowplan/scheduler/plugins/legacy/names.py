"""The names of earlier releases on one page: predicates, priorities, plugins, providers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from stowplan.scheduler.framework.advanced import ExtensionPoint

RELEASES: Final = ("1.9", "1.18")
"""The releases whose meaning of a name is known: the last with predicates as such in full use, and the last
with Policy files for everything."""


class Kind(StrEnum):
    """Predicates say which nodes can take a pod, priorities which of them is best."""

    PREDICATE = "predicate"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True)
class Use:
    """A plugin, the extension points at which it has to be enabled, and its arguments."""

    plugin: str
    points: tuple[ExtensionPoint, ...]
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Meaning:
    """Plugins that run for a name.

    `exact`: these plugins decide or score by the very rule the name stood for. `note` has other facts; if it
    is not exact, the difference.
    """

    uses: tuple[Use, ...]
    exact: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class OldName:
    """A predicate or priority by its name.

    `first` and `last` are the releases it was known in, 1.9 and 1.18 being the ends that are looked at.
    `meaning` is what it meant in its last release, `in_1_9` what it meant in 1.9 if that was something else.
    `argument` is the field of a Policy's `argument` that it is defined by. `today` is what comes nearest to
    it in kube-scheduler as it is, in words, where that is not what runs here.
    """

    name: str
    kind: Kind
    meaning: Meaning
    in_1_9: Meaning | None = None
    first: str = "1.9"
    last: str = "1.18"
    argument: str = ""
    today: str = ""

    def as_of(self, release: str) -> Meaning:
        """Meaning of the name in a release; if that release did not know it, its meaning at any time."""
        return self.in_1_9 if release == "1.9" and self.in_1_9 is not None else self.meaning

    def is_known_in(self, release: str) -> bool:
        return minor(self.first) <= minor(release) <= minor(self.last)


def minor(release: str) -> int:
    """The number of a release that counts: 18 for 1.18."""
    return int(release.partition(".")[2])


def filters(plugin: str, *more: ExtensionPoint, **args: Any) -> Use:
    """A plugin as a filter, asked before filtering too, and at other points."""
    return Use(plugin, (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, *more), args)


def only_filters(plugin: str, **args: Any) -> Use:
    """A plugin as a filter that needs no PreFilter."""
    return Use(plugin, (ExtensionPoint.FILTER,), args)


def scores(plugin: str, **args: Any) -> Use:
    """A plugin as a score, asked before scoring too."""
    return Use(plugin, (ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE), args)


def only_scores(plugin: str, **args: Any) -> Use:
    """A plugin as a score that needs no PreScore."""
    return Use(plugin, (ExtensionPoint.SCORE,), args)


_VOLUME_BINDING: Final = filters("VolumeBinding", ExtensionPoint.RESERVE, ExtensionPoint.PRE_BIND)


# Predicates

_REQUESTS_OF_PODS: Final = (
    "What pods take is reckoned as today: init containers, sidecars, overhead, resizes."
)
_TEXT: Final = "The reason is worded as today."
_BY_TAINT: Final = "TaintToleration: a controller taints such nodes"
_BY_DRIVER: Final = "NodeVolumeLimits: these disks belong to a CSI driver"
_VOLUMES: Final = (
    "A claim that does not exist turns the pod away. Nodes that have a CSINode leave these disks to the CSI "
    "driver, whose limit NodeVolumeLimits keeps. KUBE_MAX_PD_VOLS is the argument maxVolumes."
)
_VOLUMES_IN_1_9: Final = (
    f"{_VOLUMES} The limit also goes by what the node says and by its type; unbound claims count only for "
    "the kind their storage class is of."
)


def _predicate(
    name: str,
    *uses: Use,
    exact: bool = True,
    note: str = "",
    in_1_9: Meaning | None = None,
    first: str = "1.9",
    last: str = "1.18",
    argument: str = "",
    today: str = "",
) -> OldName:
    meaning = Meaning(uses, exact, note)
    return OldName(name, Kind.PREDICATE, meaning, in_1_9, first, last, argument, today)


def _limit(kind: str, *, first: str = "1.9") -> OldName:
    name = f"Max{kind}VolumeCount"
    use = filters(name)
    in_1_9 = Meaning((use,), False, _VOLUMES_IN_1_9) if first == "1.9" else None
    return _predicate(name, use, exact=False, note=_VOLUMES, in_1_9=in_1_9, first=first, today=_BY_DRIVER)


_PREDICATES: Final = (
    _predicate("CheckNodeCondition", only_filters("NodeCondition"), last="1.16", today=_BY_TAINT),
    _predicate("CheckNodeUnschedulable", only_filters("NodeUnschedulable"), first="1.10"),
    _predicate(
        "GeneralPredicates",
        filters("NodeResourcesFit"),
        only_filters("NodeName"),
        filters("NodePorts"),
        filters("NodeAffinity"),
        note=f"{_REQUESTS_OF_PODS} {_TEXT}",
    ),
    _predicate("HostName", only_filters("NodeName"), note=_TEXT),
    _predicate("PodFitsHost", only_filters("NodeName"), note="Another name of HostName."),
    _predicate("PodFitsHostPorts", filters("NodePorts")),
    _predicate("PodFitsPorts", filters("NodePorts"), note="The older name of PodFitsHostPorts."),
    _predicate("MatchNodeSelector", filters("NodeAffinity"), note=_TEXT),
    _predicate("PodFitsResources", filters("NodeResourcesFit"), note=_REQUESTS_OF_PODS),
    _predicate(
        "NoDiskConflict",
        filters("VolumeRestrictions"),
        note="Claims that only one pod may use (ReadWriteOncePod) are minded, too.",
    ),
    _predicate("PodToleratesNodeTaints", only_filters("TaintToleration"), note=_TEXT),
    _predicate(
        "PodToleratesNodeNoExecuteTaints",
        only_filters("NoExecuteTaints"),
        last="1.17",
        note="Had a place in the order of predicates, but only the DaemonSet controller used it.",
        today="TaintToleration, which minds NoSchedule too",
    ),
    _predicate(
        "CheckNodeLabelPresence",
        only_filters("NodeLabel"),
        argument="labelsPresence",
        today="NodeAffinity with addedAffinity: Exists and DoesNotExist",
    ),
    _predicate(
        "CheckServiceAffinity",
        filters("ServiceAffinity"),
        argument="serviceAffinity",
        note="Of several nodes with pods of the service, the first by name decides; it was any of them.",
        today="pod affinity, with the label as topology key",
    ),
    _limit("EBS"),
    _limit("GCEPD"),
    _predicate(
        "MaxCSIVolumeCountPred",
        filters("NodeVolumeLimits"),
        first="1.12",
        note="Limits are read from CSINode objects only; disks of built-in kinds count for their CSI driver.",
    ),
    _limit("AzureDisk"),
    _limit("Cinder", first="1.14"),
    _predicate("CheckVolumeBinding", _VOLUME_BINDING),
    _predicate("NoVolumeZoneConflict", filters("VolumeZone")),
    _predicate("CheckNodeMemoryPressure", only_filters("NodeMemoryPressure"), last="1.16", today=_BY_TAINT),
    _predicate(
        "CheckNodePIDPressure",
        only_filters("NodePIDPressure"),
        first="1.11",
        last="1.16",
        today=_BY_TAINT,
    ),
    _predicate("CheckNodeDiskPressure", only_filters("NodeDiskPressure"), last="1.16", today=_BY_TAINT),
    _predicate(
        "EvenPodsSpread",
        filters("PodTopologySpread", defaultingType="List"),
        first="1.16",
        note="Without default constraints, which came later.",
    ),
    _predicate("MatchInterPodAffinity", filters("InterPodAffinity"), note=_TEXT),
)

PREDICATES: Final = {entry.name: entry for entry in _PREDICATES}
"""Predicates by name, in the order in which they were asked; a Policy's order never mattered."""


# Priorities

_OLD_SCALE: Final[dict[str, Any]] = {"maxPriority": 10}
_REQUESTS_OF_CONTAINERS: Final = (
    "What pods take is reckoned as today, with init containers; it was the containers' sum."
)
_STEPS: Final = "Scores have 101 steps; they had 11."
_NO_DEFAULTS: Final[dict[str, Any]] = {"defaultingType": "List"}


def _priority(
    name: str,
    use: Use,
    *,
    exact: bool = True,
    note: str = "",
    in_1_9: Meaning | None = None,
    first: str = "1.9",
    last: str = "1.18",
    argument: str = "",
    today: str = "",
) -> OldName:
    meaning = Meaning((use,), exact, note)
    return OldName(name, Kind.PRIORITY, meaning, in_1_9, first, last, argument, today)


def _one(use: Use, note: str = "", *, exact: bool = True) -> Meaning:
    return Meaning((use,), exact, note)


_PRIORITIES: Final = (
    _priority(
        "SelectorSpreadPriority",
        scores("SelectorSpread"),
        in_1_9=_one(
            scores("SelectorSpread", anySelector=True, **_OLD_SCALE),
            "Zones go by today's labels as well as the beta ones.",
        ),
        today="PodTopologySpread, by its default constraints",
    ),
    _priority(
        "ServiceSpreadingPriority",
        scores("SelectorSpread"),
        note="In 1.18 another name of SelectorSpreadPriority; before that it went by services only.",
        in_1_9=_one(scores("SelectorSpread", servicesOnly=True, anySelector=True, **_OLD_SCALE)),
        today="PodTopologySpread, by its default constraints",
    ),
    _priority(
        "InterPodAffinityPriority",
        scores("InterPodAffinity"),
        exact=False,
        note="Scores are stretched from the lowest to the highest; if all were above zero, from zero.",
        in_1_9=_one(scores("InterPodAffinity"), f"As in 1.18. {_STEPS}", exact=False),
    ),
    _priority(
        "LeastRequestedPriority",
        scores("NodeResourcesFit", scoringStrategy={"type": "LeastAllocated"}),
        note=f"{_REQUESTS_OF_CONTAINERS} A node without cpu or memory is judged by the other alone.",
        in_1_9=_one(only_scores("NodeResourcesLeastAllocated", **_OLD_SCALE), _REQUESTS_OF_CONTAINERS),
        today="NodeResourcesFit with the strategy LeastAllocated",
    ),
    _priority(
        "MostRequestedPriority",
        only_scores("NodeResourcesMostAllocated"),
        note=_REQUESTS_OF_CONTAINERS,
        in_1_9=_one(only_scores("NodeResourcesMostAllocated", **_OLD_SCALE), _REQUESTS_OF_CONTAINERS),
        today="NodeResourcesFit with the strategy MostAllocated, which likes overdrawn nodes best, not least",
    ),
    _priority(
        "BalancedResourceAllocation",
        only_scores("BalancedResourceAllocation"),
        note=f"{_REQUESTS_OF_CONTAINERS} Volumes (gate BalanceAttachedNodeVolumes) do not count.",
        in_1_9=_one(only_scores("BalancedResourceAllocation", **_OLD_SCALE), _REQUESTS_OF_CONTAINERS),
        today="NodeResourcesBalancedAllocation, which scores how the pod changes the balance",
    ),
    _priority(
        "NodePreferAvoidPodsPriority",
        only_scores("NodePreferAvoidPods"),
        today="taints with the effect PreferNoSchedule",
    ),
    _priority(
        "NodeAffinityPriority",
        scores("NodeAffinity"),
        in_1_9=_one(scores("NodeAffinity"), _STEPS, exact=False),
    ),
    _priority(
        "TaintTolerationPriority",
        scores("TaintToleration"),
        in_1_9=_one(scores("TaintToleration"), _STEPS, exact=False),
    ),
    _priority(
        "ImageLocalityPriority",
        only_scores("ImageLocality"),
        exact=False,
        note="Full marks take 1000 MiB per container, not in all; images of init containers and image "
        "volumes count.",
        in_1_9=_one(
            only_scores("ImageLocality"),
            "As in 1.18. Besides, an image counts the less the fewer nodes have it, and names without a tag "
            f"match. {_STEPS}",
            exact=False,
        ),
    ),
    _priority(
        "ResourceLimitsPriority",
        scores("NodeResourceLimits"),
        in_1_9=_one(scores("NodeResourceLimits", **_OLD_SCALE)),
        today="nothing",
    ),
    _priority(
        "RequestedToCapacityRatioPriority",
        only_scores("RequestedToCapacityRatio"),
        first="1.11",
        argument="requestedToCapacityRatioArguments",
        note=f"{_REQUESTS_OF_CONTAINERS} Until 1.16 the scale was 0 to 10 (maxPriority), until 1.15 the "
        "mean of cpu and memory was rounded down.",
        today="NodeResourcesFit with the strategy RequestedToCapacityRatio, which rounds use down, not up",
    ),
    _priority(
        "EqualPriority",
        only_scores("EqualPriority"),
        last="1.17",
        in_1_9=_one(only_scores("EqualPriority", **_OLD_SCALE)),
        today="nothing: a profile can do without scores",
    ),
    _priority(
        "EvenPodsSpreadPriority",
        scores("PodTopologySpread", **_NO_DEFAULTS),
        exact=False,
        note="Constraints over many domains weigh less than those over few, and the lowest score is compared "
        "with the highest, not with the sum. Without default constraints, which came later.",
        first="1.16",
    ),
    _priority(
        "NodeLabelPriority",
        only_scores("NodeLabel"),
        argument="labelPreference",
        note="Several preferences are one plugin: the share of those that are met, with the sum of their "
        "weights, which must be equal. The share is rounded down.",
        today="NodeAffinity with addedAffinity, preferred terms",
    ),
    _priority(
        "ServiceAntiAffinityPriority",
        only_scores("ServiceAffinity"),
        argument="serviceAntiAffinity",
        note="Several labels are one plugin: the mean of their scores, with the sum of their weights, which "
        "must be equal.",
        in_1_9=_one(
            only_scores("ServiceAffinity", **_OLD_SCALE),
            "Pods that are being deleted, and pods on nodes that cannot take the new one, do not count.",
            exact=False,
        ),
        today="PodTopologySpread or preferred pod anti-affinity, with the label as topology key",
    ),
)

PRIORITIES: Final = {entry.name: entry for entry in _PRIORITIES}
"""Priorities by name."""

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

# Plugins and providers

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
"""By release: predicates that are in use regardless of the Policy."""

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
