"""PrioritySort: the order of the queue."""

from typing import Protocol

from stowplan.scheduler.framework import Contract, Plugin


class Queued(Protocol):
    """A pod or a group of pods in the queue: its priority, and since when it stands there."""

    @property
    def priority(self) -> int: ...

    @property
    def timestamp(self) -> float: ...


class PrioritySort(Plugin):
    """Higher priority first; among equals, who has waited longer."""

    contract = Contract(sorts_by_priority=True)

    def sort_key(self, queued: Queued) -> tuple[int, float]:
        """Sort key: the smallest is scheduled first."""
        return (-queued.priority, queued.timestamp)
