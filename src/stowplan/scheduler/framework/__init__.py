"""The scheduling framework. This is the one import most plugins need.

    from stowplan.framework import Plugin, unschedulable

    class Price(Plugin):
        def filter_node(self, cycle, pod, node):
            if float(node.labels.get("price", 0)) > self.args["highest"]:
                return unschedulable("node(s) cost too much")

A plugin takes part in an extension point by having its method; the protocols (`FilterPlugin`, `PermitPlugin`,
...) give the signatures and how stable each is. What few plugins need (groups of pods, preemption,
reuse in detail, explanations) is in `stowplan.framework.advanced`. docs/plugins.md is the guide;
`stowplan.testing.check_plugin` checks a plugin as we check our own.
"""

from stowplan.api.meta import AnyObject
from stowplan.scheduler.framework.contract import Contract, Reads, Signs
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
    queue_if,
)
from stowplan.scheduler.framework.interface import (
    MAX_NODE_SCORE,
    Codes,
    Handle,
    Plugin,
    PostFilterResult,
    PreFilterResult,
    ScoreRange,
    Scores,
    Services,
    Wait,
)
from stowplan.scheduler.framework.protocols import (
    BindPlugin,
    EventsToRegister,
    FilterNodePlugin,
    FilterPlugin,
    NormalizeScore,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScoreNodePlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.view import NodeRow, NodeRows

__all__ = [
    "MAX_NODE_SCORE",
    "SKIP",
    "SUCCESS",
    "Action",
    "AnyObject",
    "BindPlugin",
    "ClusterEvent",
    "Code",
    "Codes",
    "Contract",
    "Cycle",
    "EventRegistration",
    "EventsToRegister",
    "FilterNodePlugin",
    "FilterPlugin",
    "Handle",
    "Hint",
    "NodeRow",
    "NodeRows",
    "NormalizeScore",
    "PermitPlugin",
    "Plugin",
    "PodInfo",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "Reads",
    "ReservePlugin",
    "Resource",
    "ScoreNodePlugin",
    "ScorePlugin",
    "ScoreRange",
    "Scores",
    "Services",
    "Signs",
    "Status",
    "Wait",
    "error",
    "queue_if",
    "unresolvable",
    "unschedulable",
]
