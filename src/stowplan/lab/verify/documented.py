"""Allowed differences of two releases: the subjects of recorded facts that each change concerns.

docs/versions.md has this table. Consequences of other results are not listed: a node that a filter rejects
has no score, and the message differs (`FOLLOWS`).
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

PLUGINS: Final = "order and extension points of plugins"
"""The name of the change of the table of plugins, with the points that configurations can name."""

_EXPRESSION: Final = ("actualCost", "estimatedMaxCost", "newExpressionCompileError", "outputType", "result")
_ALLOCATIONS: Final = ("allocations by node", "claim status")

DIFFERENCES: Final[Mapping[str, tuple[str, ...]]] = {
    PLUGINS: (
        "config",
        "filter (nodes not asked for)",
        "filter NodeName",
        "filter NodeUnschedulable",
        "hint GangScheduling",
        "plugins",
        "preFilter",
        "requeue",
        "verdict",
    ),
    "gate DRADeviceTaintRules": ("filter DynamicResources",),
    "gate StorageCapacityScoring": (
        "configuration refused",
        "preScore skipped",
        "score VolumeBinding",
        "verdict",
    ),
    "gate VolumeLimitScaling": ("filter NodeVolumeLimits",),
    "queueing.target_pod_events": (
        "hint DynamicResources",
        "hint InterPodAffinity",
        "hint NodeDeclaredFeatures",
        "hint NodeResourcesFit",
        "hint NodeUnschedulable",
        "hint PodTopologySpread",
        "hint SchedulingGates",
        "hint TaintToleration",
        "pod-events",
        "requeue",
    ),
    "queueing.pod_scale_up_events": ("pod-events",),
    "queueing.node_preemption_policy_events": ("node-events",),
    "queueing.taint_hint_for_new_nodes": (
        "hint DynamicResources",
        "hint InterPodAffinity",
        "hint NodeAffinity",
        "hint NodeDeclaredFeatures",
        "hint NodeName",
        "hint NodePorts",
        "hint NodeResourcesFit",
        "hint VolumeBinding",
        "hint VolumeRestrictions",
        "hint VolumeZone",
        "requeue",
    ),
    "queueing.anti_affinity_hint_terms": ("hint InterPodAffinity",),
    "queueing.new_pods_wake_with": ("handler",),
    "rules.resize_accounting": (
        "filter NodeResourcesFit",
        "score NodeResourcesBalancedAllocation",
        "score NodeResourcesFit",
    ),
    "rules.image_locality_counts_image_volumes": ("score ImageLocality",),
    "rules.namespace_selector": ("filter InterPodAffinity", "score InterPodAffinity"),
    "preempting.success_text": ("fitError", "preemption"),
    "preempting.pdb_grouping": ("preemption candidates", "preemption ties"),
    "devices.config_requests": _ALLOCATIONS,
    "devices.selector_errors_name_device": ("error",),
    "devices.counter_slices": ("error",),
    "devices.all_mode_capacity": ("filter DynamicResources",),
    "devices.capacity_errors": ("error", "filter DynamicResources"),
    "devices.distinct_attribute": ("filter DynamicResources",),
    "devices.rounded_capacity_format": _ALLOCATIONS,
    "devices.attribute_type": _EXPRESSION,
    "devices.cel_costs": ("actualCost", "estimatedMaxCost"),
    "devices.post_filter_text": ("fitError", "preemption"),
}

FOLLOWS: Final[Mapping[str, tuple[str, ...]]] = {
    "filter *": (
        "allocations by node",
        "assigned",
        "best",
        "claim*",
        "error",
        "extended resource *",
        "feasible",
        "filter *",
        "fitError",
        "preScore skipped",
        "preemption*",
        "score *",
        "total",
        "viaNominatedNode",
    ),
    "error": ("*",),
    "score *": ("assigned", "best", "total"),
    "verdict": ("config", "extenders", "plugins"),
    "preemption candidates": ("preemption",),
}
"""Subjects that follow from others."""


def is_documented(change: str, subject: str) -> bool:
    """True if a change may concern a subject, itself or as a consequence."""
    named = DIFFERENCES.get(change, ())
    return subject in named or _matches(subject, following(named))


def following(named: Iterable[str]) -> list[str]:
    """Patterns of the subjects that follow from some."""
    return [
        pattern
        for cause, patterns in FOLLOWS.items()
        if any(fnmatchcase(subject, cause) for subject in named)
        for pattern in patterns
    ]


def _matches(subject: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(subject, pattern) for pattern in patterns)
