"""PrioritySort: the order of the activeQ."""

from typing import NamedTuple

from stowplan.scheduler.plugins.prioritysort import PrioritySort
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import pod


class Waiting(NamedTuple):
    pod: PodInfo
    timestamp: float

    @property
    def priority(self) -> int:
        return self.pod.priority


def test_more_important_pods_come_first_and_equals_in_order_of_arrival() -> None:
    table = ClusterTable()
    rule = PrioritySort(None, None)  # type: ignore[arg-type]
    queue = [
        Waiting(table.info(pod(name).priority(priority).obj()), since)
        for name, priority, since in [("low", 1, 0.0), ("late", 5, 2.0), ("early", 5, 1.0), ("none", 0, 0.0)]
    ]
    assert [entry.pod.name for entry in sorted(queue, key=rule.sort_key)] == ["early", "late", "low", "none"]
