"""NodeResourceLimits: one point for nodes that could hold what a pod is limited to, as the priority
ResourceLimitsPriority gave. It breaks ties between nodes that are otherwise equally good."""

from collections.abc import Hashable

import numpy as np

from stowplan.api.pod import Pod
from stowplan.api.quantity import milli_value_of, value_of
from stowplan.cluster.columns import CPU, MEMORY, IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.interface import Reads, Scores
from stowplan.plugins.args import NodeResourceLimitsArgs
from stowplan.plugins.legacy.base import LegacyPlugin

Limits = tuple[tuple[int, int], ...]
"""What a pod is limited to: lines of the resource columns, and amounts above zero."""


class NodeResourceLimits(LegacyPlugin):
    """One limit that the node as a whole can meet is enough; what other pods take does not count."""

    args_type = NodeResourceLimitsArgs
    args: NodeResourceLimitsArgs
    reads = Reads.USAGE
    signs_template = True

    def sign(self, pod: PodInfo) -> Hashable:
        return self._limits(pod)

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> None:
        """Takes part in every cycle: a node that meets no limit gets no point, which is a score, too."""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        limits = self._limits(pod)
        if not limits:
            return None
        allocatable = nodes.table.allocatable
        met = np.zeros(nodes.count, dtype=np.bool_)
        for line, amount in limits:
            offered: IntArray = allocatable[line, nodes.rows]
            met |= amount <= offered
        return met * np.int64(self.args.unit)

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        allocatable = cycle.table.allocatable
        return self.args.unit * any(
            amount <= allocatable.item(line, row) for line, amount in self._limits(pod)
        )

    def _limits(self, pod: PodInfo) -> Limits:
        kept = pod.template.facts.get(self.name)
        if not isinstance(kept, tuple):
            kept = limits_of(pod.pod)
            pod.template.note(self.name, kept)
        return kept


def limits_of(pod: Pod) -> Limits:
    """The sum of the containers' limits, or those of an init container if they are higher."""
    cpu = memory = 0
    for container in pod.spec.containers:
        cpu += milli_value_of(container.resources.limits.get("cpu", 0))
        memory += value_of(container.resources.limits.get("memory", 0))
    for container in pod.spec.init_containers:
        cpu = max(cpu, milli_value_of(container.resources.limits.get("cpu", 0)))
        memory = max(memory, value_of(container.resources.limits.get("memory", 0)))
    return tuple((line, amount) for line, amount in ((CPU, cpu), (MEMORY, memory)) if amount)
