"""Where a profile's work can be watched: how long each extension point takes and what comes of it."""

from collections.abc import Callable
from typing import Protocol


class Probe(Protocol):
    """What watches a profile. Everything here is on the way of every pod, so it has to be cheap."""

    timer: Callable[[], float]
    """Seconds that pass."""

    def point(self, point: str, status: str, seconds: float) -> None:
        """An extension point was gone through, as metrics name it: `PreFilter`, `Success`."""
        ...

    def sampled(self) -> bool:
        """Whether every single plugin is to be timed while the pod at hand is placed."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin was asked at a point, in an attempt that is a sample."""
        ...

    def evaluated(self, point: str, plugins: tuple[str, ...], times: int) -> None:
        """These plugins were asked at a point, about so many nodes where they are asked about nodes."""
        ...
