"""Every predicate by its name, and what runs for it."""

from typing import Final

from stowplan.framework.interface import Point
from stowplan.plugins.legacy.oldname import Kind, Meaning, OldName, Use, filters, only_filters

_REQUESTS: Final = "What pods take is reckoned as today: init containers, sidecars, overhead, resizes."
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
_VOLUME_BINDING: Final = filters("VolumeBinding", Point.RESERVE, Point.PRE_BIND)


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
        note=f"{_REQUESTS} {_TEXT}",
    ),
    _predicate("HostName", only_filters("NodeName"), note=_TEXT),
    _predicate("PodFitsHost", only_filters("NodeName"), note="Another name of HostName."),
    _predicate("PodFitsHostPorts", filters("NodePorts")),
    _predicate("PodFitsPorts", filters("NodePorts"), note="The older name of PodFitsHostPorts."),
    _predicate("MatchNodeSelector", filters("NodeAffinity"), note=_TEXT),
    _predicate("PodFitsResources", filters("NodeResourcesFit"), note=_REQUESTS),
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
