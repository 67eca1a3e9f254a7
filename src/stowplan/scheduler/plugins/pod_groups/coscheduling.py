"""Coscheduling: the pod groups of scheduler-plugins, as gangs of the engine.

Groups are custom resources (`scheduling.x-k8s.io/v1alpha1` PodGroup), and pods belong to them by a label; see
`stowplan.api.coscheduling`. The plugin has the name and the arguments of the one in scheduler-plugins, and
with it in a profile groups are scheduled as a whole, with or without built-in groups in the API server.
Members do not wait for each other on nodes that they hold: a group is placed in one go, or holds nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from stowplan.api.coscheduling import CoschedulingPodGroup
from stowplan.api.fielderrors import Path, aggregate, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.pod import ResourceList
from stowplan.api.pod_groups import PodGroup
from stowplan.api.quantity import QuantityError, quantity_of
from stowplan.api.rules.amounts import shown_amount
from stowplan.scheduler.framework import Handle, Status, unschedulable
from stowplan.scheduler.framework.advanced import (
    FeatureGates,
    PlacementCycle,
    PodGroupInfo,
    ProfileError,
    Progress,
)
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.pod_groups.gangscheduling import GangScheduling
from stowplan.scheduler.plugins.prioritysort import Queued

_CPU: Final = "cpu"
_PODS: Final = "pods"


class CoschedulingArgs(PluginArgs, frozen=True, forbid_unknown_fields=True):
    """How long members wait at Permit for the others, unless their group says how long; and how long a group
    that was rejected waits at least.

    `podGroupRejectPercentage` says in scheduler-plugins when waiting members give up their nodes. There are
    none here, so it makes no difference.
    """

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    pod_group_reject_percentage: int = 10

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        for field, value in (
            ("permitWaitingTimeSeconds", self.permit_waiting_time_seconds),
            ("podGroupBackoffSeconds", self.pod_group_backoff_seconds),
        ):
            if value < 0:
                errors.append(invalid(path.child(field), value, "must be greater than 0"))
        percentage = self.pod_group_reject_percentage
        if not 0 <= percentage <= 100:
            field = path.child("podGroupRejectPercentage")
            errors.append(invalid(field, percentage, "must be between 0 and 100"))
        return errors


class Coscheduling(GangScheduling):
    """Schedules pod groups of scheduler-plugins as gangs."""

    args_type = CoschedulingArgs
    contract = replace(GangScheduling.contract, sorts_by_priority=True)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._args: CoschedulingArgs = args or CoschedulingArgs()
        problems = self._args.validate(Path("args"))
        if problems:
            raise ProfileError(aggregate(problems))
        handle.table.groups.coscheduling_backoff = float(self._args.pod_group_backoff_seconds)

    def sort_key(self, queued: Queued) -> tuple[int, float]:
        """Higher priority first; among equals, who has waited longer."""
        return (-queued.priority, queued.timestamp)

    def permit_timeout(self, group: PodGroup) -> float:
        own = group.spec.schedule_timeout_seconds if isinstance(group, CoschedulingPodGroup) else None
        return float(own or self._args.permit_waiting_time_seconds)

    def placement_feasible(
        self, cycle: PlacementCycle, group: PodGroupInfo, progress: Progress
    ) -> Status | None:
        """Besides the number of members: before the first one is tried `minResources` must be free."""
        obj = group.object
        if not isinstance(obj, CoschedulingPodGroup):
            return None
        if obj.spec.min_resources and progress.remaining == len(group.pods):
            lacking = self._lacking(cycle, group, obj.spec.min_resources)
            if lacking:
                return unschedulable(f"minResources of the group are not free: {lacking}")
        return super().placement_feasible(cycle, group, progress)

    def _lacking(self, cycle: PlacementCycle, group: PodGroupInfo, wanted: ResourceList) -> str:
        """Amounts missing on the nodes of a placement; running members have theirs."""
        table = cycle.table
        rows = cycle.placement.rows_of(table)
        held: dict[str, int] = {}
        for pod in group.running:
            for name, amount in (*pod.requests.amounts().items(), (_PODS, 1)):
                held[name] = held.get(name, 0) + amount
        parts = []
        amounts: Mapping[str, Any] = {_PODS: group.object.minimum, **wanted}
        for name, raw in amounts.items():
            needed = _amount(name, raw)
            if name == _PODS:
                free = table.allowed_pods[rows] - table.pod_count[rows]
            else:
                free = table.allocatable_of(name)[rows] - table.requested_of(name)[rows]
            there = int(free.clip(min=0).sum()) + held.get(name, 0)
            if needed > there:
                parts.append(f"{name} {shown_amount(name, needed)} ({shown_amount(name, there)} free)")
        return ", ".join(parts)


def _amount(name: str, raw: Any) -> int:
    """A quantity as the table counts it; one that cannot be read asks for nothing."""
    try:
        quantity = quantity_of(raw)
    except QuantityError:
        return 0
    return quantity.milli_value() if name == _CPU else quantity.value()
