"""Objects that decide which changes can be made: priority classes, limit ranges, disruption budgets.

A change is offered only if the API server would accept it and the controllers would not undo it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from stowplan.api.admission import LimitRange, LimitRangeItem
from stowplan.api.pod import Container, Pod, RawQuantity
from stowplan.api.quantity import ZERO, milli_value_of, quantity_of
from stowplan.api.rules.resources import pod_requests
from stowplan.api.workloads import PriorityClass

if TYPE_CHECKING:
    # Commands that only ask a server load this module, but not the engine.
    from stowplan.scheduler.framework.explanation import Remedy
    from stowplan.scheduler.table.podinfo import PodInfo
    from stowplan.scheduler.table.table import ClusterTable

_SYSTEM: Final = "system-"
"""Begin of the names of priority classes that are for the cluster's own pods."""


class Wider(msgspec.Struct, frozen=True):
    """Objects of a cluster that no scheduler watches, as far as they are known."""

    priority_classes: Sequence[PriorityClass] = ()
    limit_ranges: Sequence[LimitRange] = ()
    unread: str = ""
    """Why limit ranges could not be read; "" if they were."""
    pod: Pod | None = None
    """The pod that is to be placed."""

    @property
    def classes(self) -> list[PriorityClass]:
        """The priority classes that pods of users may have."""
        return [one for one in self.priority_classes if not one.name.startswith(_SYSTEM)]

    def admits(self, pod: Pod) -> bool:
        """True if no limit range of its namespace forbids a pod."""
        ranges = [one for one in self.limit_ranges if one.namespace == pod.namespace]
        return all(_within(item, pod) for one in ranges for item in one.spec.limits)

    def allows(self, remedy: "Remedy", table: "ClusterTable") -> bool:
        """True if a remedy that ends a pod ends it for good."""
        key = (remedy.action or {}).get("delete")
        if key is None:
            return True
        uid = next((uid for uid, info in table.pods.items() if info.key == key), None)
        info = None if uid is None else table.pods.get(uid)
        return info is not None and self.may_end(info, table)

    def may_end(self, info: "PodInfo", table: "ClusterTable") -> bool:
        """True if a pod can be deleted for good: no controller makes it again, and no budget protects it."""
        pod = info.pod
        if _controller(pod) is not None or pod.is_terminating:
            return False
        return all(budget.allowed > 0 for budget in table.budgets.of(info))

    def is_sibling(self, pod: Pod) -> bool:
        """True for a pod of the same controller."""
        mine = None if self.pod is None else _controller(self.pod)
        return mine is not None and _controller(pod) == mine


NOTHING_KNOWN: Final = Wider()


def _within(item: LimitRangeItem, pod: Pod) -> bool:
    """True if a pod keeps the lower bounds of a limit range: changes only ever make pods smaller."""
    spec = pod.spec
    if item.type == "Pod":
        found = pod_requests(pod, use_status=False)
        return all(found.get(name, ZERO) >= quantity_of(least) for name, least in item.min.items())
    if item.type != "Container":
        return True
    return all(_contains(item, one) for one in (*spec.containers, *spec.init_containers))


def _contains(item: LimitRangeItem, container: Container) -> bool:
    requests, limits = container.resources.requests, container.resources.limits
    least = {name: amount for name, amount in item.min.items() if name in requests}
    if any(quantity_of(requests[name]) < quantity_of(amount) for name, amount in least.items()):
        return False
    return not any(
        name in requests
        and name in limits
        and _number(limits[name]) > _number(ratio) * _number(requests[name])
        for name, ratio in item.max_limit_request_ratio.items()
    )


def _number(amount: RawQuantity) -> float:
    return milli_value_of(amount) / 1000


def _controller(pod: Pod) -> str | None:
    """The uid of the controller of a pod; that of a mirror pod is its node."""
    return next((one.uid for one in pod.metadata.owner_references if one.controller), None)
