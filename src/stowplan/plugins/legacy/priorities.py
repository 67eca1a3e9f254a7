"""Every priority by its name, and what runs for it."""

from typing import Any, Final

from stowplan.plugins.legacy.oldname import Kind, Meaning, OldName, Use, only_scores, scores

_OLD_SCALE: Final[dict[str, Any]] = {"maxPriority": 10}
_REQUESTS: Final = "What pods take is reckoned as today, with init containers; it was the containers' sum."
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
        note=f"{_REQUESTS} A node without cpu or memory is judged by the other alone.",
        in_1_9=_one(only_scores("NodeResourcesLeastAllocated", **_OLD_SCALE), _REQUESTS),
        today="NodeResourcesFit with the strategy LeastAllocated",
    ),
    _priority(
        "MostRequestedPriority",
        only_scores("NodeResourcesMostAllocated"),
        note=_REQUESTS,
        in_1_9=_one(only_scores("NodeResourcesMostAllocated", **_OLD_SCALE), _REQUESTS),
        today="NodeResourcesFit with the strategy MostAllocated, which likes overdrawn nodes best, not least",
    ),
    _priority(
        "BalancedResourceAllocation",
        only_scores("BalancedResourceAllocation"),
        note=f"{_REQUESTS} Volumes (gate BalanceAttachedNodeVolumes) do not count.",
        in_1_9=_one(only_scores("BalancedResourceAllocation", **_OLD_SCALE), _REQUESTS),
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
        note=f"{_REQUESTS} Until 1.16 the scale was 0 to 10 (maxPriority), until 1.15 the mean of cpu and "
        "memory was rounded down.",
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
