"""Number of group members that fit on each row, computed without placing one after the other.

Where members are identical and every filter depends on the row alone, each row can take a number of them that
does not depend on their order. So the number of placed members is known beforehand for every placement: those
that are not chosen need not be computed, and a large group that does not fit is detected at once.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from stowplan.scheduler.framework.evaluation import rejectors_of
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.nominations import Nominations, rows_with_nominated_pods
from stowplan.scheduler.framework.pod_groups.placement import Placement, PlacementCycle
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.table.columns import IntColumn
from stowplan.scheduler.table.podinfo import PodInfo


class Estimates:
    """The estimates of one profile."""

    def __init__(self, framework: Framework, lifecycle: Lifecycle) -> None:
        self._framework = framework
        self._table = framework.table
        self._lifecycle = lifecycle

    def copies(
        self, cycle: PlacementCycle, pods: Sequence[PodInfo], nominations: Nominations
    ) -> IntColumn | None:
        """By row, how many of these members it can take; None if that cannot be told."""
        if self.common_class(pods, nominations) is None:
            return None
        try:
            return self._framework.copies(self._framework.run_filters(pods[0], placement=cycle))
        except PluginError:
            return None

    def rejectors(self, cycle: PlacementCycle, pod: PodInfo) -> frozenset[str]:
        """The plugins that reject a member on some row, now or once other members are there."""
        evaluation = self._framework.run_filters(pod, placement=cycle)
        limiting = {column.plugin.name for column in evaluation.filters() if column.traits.watches}
        return rejectors_of(evaluation).unschedulable | limiting

    def common_class(self, pods: Sequence[PodInfo], nominations: Nominations) -> Hashable:
        """The class of members that are identical, need nothing but room on a node, and need not leave room
        for nominated pods; None if they are not."""
        if not pods:
            return None
        framework, first = self._framework, pods[0]
        template = first.template
        devices = self._table.devices.classes.resources
        if (
            framework.profile.percentage_of_nodes_to_score is not None
            or framework.assuming
            or any(pod.template.volumes or pod.pod.spec.resource_claims for pod in pods)
            or not self._lifecycle.reserves_nothing(devices.isdisjoint(template.requests.scalars))
            or any(pod.pod.status.nominated_node_name for pod in pods)
            or (nominations and rows_with_nominated_pods(nominations, first))
        ):
            return None
        return framework.common_class(pods)

    def by_placement(
        self, copies: IntColumn, placements: Sequence[Placement], most: int
    ) -> npt.NDArray[np.int64]:
        """Number of members each placement can take, at most `most`."""
        limited = np.minimum(copies, most)
        rows = [placement.rows_of(self._table) for placement in placements]
        sizes = np.array([len(some) for some in rows])
        ends = np.cumsum(sizes)
        sums = np.concatenate(([0], np.cumsum(limited[np.concatenate(rows)])))
        counts: npt.NDArray[np.int64] = np.minimum(sums[ends] - sums[ends - sizes], most)
        return counts
