"""PrioritySort: the order of the queue."""

from typing import Protocol

from stowplan.framework import Plugin, PodInfo


class Queued(Protocol):
    """A pod in the queue and since when it stands there."""

    @property
    def pod(self) -> PodInfo: ...

    @property
    def timestamp(self) -> float: ...


class PrioritySort(Plugin):
    """Higher priority first; among equals, who has waited longer."""

    def sort_key(self, queued: Queued) -> tuple[int, float]:
        """Pods with smaller keys are scheduled first."""
        return (-queued.pod.priority, queued.timestamp)
