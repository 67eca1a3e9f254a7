"""Profiles that between them use every way of filtering and scoring."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from stowplan.api.pod import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
)
from stowplan.scheduler.framework.contract import Contract, Reads
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import Codes, Plugin, PreFilterResult, ScoreRange, Scores
from stowplan.scheduler.framework.profile import PluginUse, ProfileSpec, resolve_plugins
from stowplan.scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from stowplan.scheduler.plugins.interpodaffinity.plugin import InterPodAffinityArgs
from stowplan.scheduler.plugins.nodeaffinity import NodeAffinityArgs
from stowplan.scheduler.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocationArgs
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFitArgs
from stowplan.scheduler.plugins.noderesources.resource_allocation import (
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from stowplan.scheduler.plugins.podtopologyspread.plugin import PodTopologySpreadArgs
from stowplan.scheduler.plugins.registry import LEGACY, default_plugins, in_tree_points, in_tree_registry
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.view import NodeRow, NodeRows
from stowplan.testing.builders import HOSTNAME, ZONE
from stowplan.testing.cluster_strategies import GPU, RACK


class SameRack(Plugin):
    """By node, signed, row-local: racks by letter, and not too many pods."""

    contract = Contract(reads=Reads.ANYTHING)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.labels.get("app")

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        if pod.labels.get("app") == "b" and node.labels.get(RACK) == "r1":
            return unresolvable("b is not for r1")
        if len(node.pods) > 3:
            return unschedulable(f"{len(node.pods)} pods")
        return None

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return 10 * len(node.pods) + len(node.labels)


class ByName(Plugin):
    """By node, unsigned: reads the pod's name and the node's."""

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        odd = (len(pod.name) + int(node.name[1:])) % 7 == 0
        return unschedulable(f"{pod.name} not on {node.name}") if odd else None

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return (len(pod.uid) * 31 + int(node.name[1:]) * 7 + len(node.pods)) % 50

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return scores * 100 // max(extremes.high, 1)


class Crowded(Plugin):
    """By column, signed, row-local: reads nothing but usage, and normalizes by both extremes."""

    contract = Contract(reads=Reads.USAGE)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.priority

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes:
        crowd = nodes.pod_count > (4 if pod.priority else 2)
        starved = nodes.requested("cpu") > 2000
        return crowd * 1 + starved * 2

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unschedulable(*(word for bit, word in ((1, "crowded"), (2, "starved")) if code & bit))

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        return nodes.requested("cpu") - nodes.allocatable(GPU) * 100

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return (scores - extremes.low) * 100 // max(extremes.high - extremes.low, 1)


class Favourites(Plugin):
    """Narrows the choice to annotated nodes while there are any; which they are changes as nodes change."""

    contract = Contract(reads=Reads.NODE)

    def sign(self, pod: PodInfo) -> Hashable:
        return "version" in pod.labels

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | PreFilterResult | None:
        if "version" not in pod.labels:
            return SKIP
        picked = frozenset(
            node.metadata.name
            for node in cycle.table.nodes
            if node is not None and node.metadata.annotations.get("pick")
        )
        return PreFilterResult(picked) if picked else None


class Scarce(Plugin):
    """By column and not row-local, without saying which rows change: how rare a node's rack is."""

    contract = Contract(reads_others=Reads.ANYTHING)

    def sign(self, pod: PodInfo) -> Hashable:
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        table = cycle.table
        racks = table.label_column(RACK).ids
        sizes = np.bincount(racks[: table.rows_in_use][table.valid[: table.rows_in_use]], minlength=64)
        return np.minimum(sizes[racks[nodes.rows]], 100)


BY_NODE = (SameRack, ByName)
BY_COLUMN = (Crowded, Favourites, Scarce)


REGISTRY = in_tree_registry().with_plugins((*BY_NODE, *BY_COLUMN))


def profile(
    name: str, *, uses: tuple[PluginUse, ...] = (), args: dict[str, Any] | None = None
) -> ProfileSpec:
    """The default plugins, some with other weights, and others after them."""
    changed = {use.name: use for use in uses}
    stock = [changed.pop(use.name, use) for use in default_plugins()]
    implements = {**in_tree_points(), **REGISTRY.offered}
    plugins = resolve_plugins(name, {}, [*stock, *changed.values()], implements)
    return ProfileSpec(name, plugins=plugins, args=args or {})


def _expression(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=(NodeSelectorRequirement(key=key, operator=operator, values=values),)
    )


DEFAULT = profile("default")
PACKING = profile(
    "packing",
    uses=(
        PluginUse("NodeResourcesFit", 5),
        PluginUse("TaintToleration", 1),
        PluginUse("InterPodAffinity", 7),
        PluginUse("ImageLocality", 4),
    ),
    args={
        "NodeResourcesFit": NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(
                type="MostAllocated",
                resources=(
                    ResourceSpec(name="cpu", weight=3),
                    ResourceSpec(name="memory", weight=1),
                    ResourceSpec(name=GPU, weight=2),
                ),
            )
        ),
        "NodeAffinity": NodeAffinityArgs(
            added_affinity=NodeAffinity(
                required_during_scheduling_ignored_during_execution=NodeSelector(
                    node_selector_terms=(_expression("disk", "NotIn", "hdd"), _expression("gen", "Gt", "5"))
                ),
                preferred_during_scheduling_ignored_during_execution=(
                    PreferredSchedulingTerm(weight=20, preference=_expression(ZONE, "In", "za")),
                ),
            )
        ),
        "InterPodAffinity": InterPodAffinityArgs(hard_pod_affinity_weight=30),
    },
)
SPREADING = profile(
    "spreading",
    uses=(PluginUse("PodTopologySpread", 9),),
    args={
        "PodTopologySpread": PodTopologySpreadArgs(
            defaulting_type="List",
            default_constraints=(
                TopologySpreadConstraint(topology_key=ZONE, max_skew=1, when_unsatisfiable="ScheduleAnyway"),
                TopologySpreadConstraint(topology_key=RACK, max_skew=2, when_unsatisfiable="DoNotSchedule"),
                TopologySpreadConstraint(
                    topology_key=HOSTNAME, max_skew=2, when_unsatisfiable="ScheduleAnyway"
                ),
            ),
        ),
        "InterPodAffinity": InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True),
    },
)
CURVED = profile(
    "curved",
    args={
        "NodeResourcesFit": NodeResourcesFitArgs(
            ignored_resource_groups=("example.com",),
            scoring_strategy=ScoringStrategy(
                type="RequestedToCapacityRatio",
                resources=(
                    ResourceSpec(name="cpu", weight=1),
                    ResourceSpec(name="memory", weight=2),
                    ResourceSpec(name=GPU, weight=3),
                ),
                requested_to_capacity_ratio=RequestedToCapacityRatioParam(
                    shape=(
                        UtilizationShapePoint(utilization=0, score=2),
                        UtilizationShapePoint(utilization=40, score=10),
                        UtilizationShapePoint(utilization=90, score=0),
                    )
                ),
            ),
        ),
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs(
            resources=tuple(ResourceSpec(name=name, weight=1) for name in ("cpu", "memory", GPU))
        ),
        "InterPodAffinity": InterPodAffinityArgs(hard_pod_affinity_weight=0),
    },
)
OWN_BY_NODE = profile("own-by-node", uses=tuple(PluginUse(cls.name, 2) for cls in BY_NODE))
OWN_BY_COLUMN = profile("own-by-column", uses=tuple(PluginUse(cls.name, 2) for cls in BY_COLUMN))
AS_OF_1_18 = profile(
    "as-of-1.18",
    uses=tuple(PluginUse(name, 2) for name in LEGACY),
    args={
        "NodeLabel": {
            "absentLabels": ["retired"],
            "presentLabelsPreference": [RACK, "disk"],
            "absentLabelsPreference": ["gen"],
        },
        "ServiceAffinity": {"affinityLabels": ["disk", "gen"], "antiAffinityLabelsPreference": [RACK, ZONE]},
        "RequestedToCapacityRatio": {
            "shape": [{"utilization": 0, "score": 0}, {"utilization": 70, "score": 10}],
            "resources": [{"name": "cpu", "weight": 2}, {"name": "memory"}, {"name": GPU, "weight": 3}],
        },
    },
)
AS_OF_1_9 = profile(
    "as-of-1.9",
    uses=tuple(PluginUse(name, 1) for name in LEGACY if name not in ("NodeCondition", "NodeDiskPressure")),
    args={
        "NodeLabel": {"presentLabels": [HOSTNAME], "presentLabelsPreference": ["disk"]},
        "ServiceAffinity": {"antiAffinityLabelsPreference": [ZONE], "maxPriority": 10},
        "SelectorSpread": {"anySelector": True, "maxPriority": 10},
        **{
            name: {"maxPriority": 10}
            for name in (
                "NodeResourcesLeastAllocated",
                "NodeResourcesMostAllocated",
                "BalancedResourceAllocation",
                "RequestedToCapacityRatio",
                "NodeResourceLimits",
                "EqualPriority",
            )
        },
    },
)


def _apart(name: str, **args: Any) -> ProfileSpec:
    """Nothing but what keeps pods of a service or controller apart, so that nothing hides it."""
    uses = [
        PluginUse(plugin, 1)
        for plugin in (
            "PrioritySort",
            "NodeResourcesFit",
            "SelectorSpread",
            "ServiceAffinity",
            "DefaultBinder",
        )
    ]
    implements = {**in_tree_points(), **REGISTRY.offered}
    return ProfileSpec(name, plugins=resolve_plugins(name, {}, uses, implements), args=args)


APART = _apart("apart", ServiceAffinity={"antiAffinityLabelsPreference": [RACK, ZONE]})
TOGETHER = _apart(
    "together",
    SelectorSpread={"anySelector": True, "maxPriority": 10},
    ServiceAffinity={
        "affinityLabels": ["disk", "gen"],
        "antiAffinityLabelsPreference": [RACK],
        "maxPriority": 10,
    },
)

GENERAL = {
    spec.scheduler_name: spec
    for spec in (
        DEFAULT,
        PACKING,
        SPREADING,
        CURVED,
        OWN_BY_NODE,
        OWN_BY_COLUMN,
        AS_OF_1_18,
        AS_OF_1_9,
    )
}
PROFILES = {**GENERAL, APART.scheduler_name: APART, TOGETHER.scheduler_name: TOGETHER}
