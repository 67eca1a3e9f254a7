"""Where a profile's work can be watched: how long each extension point takes and what comes of it."""

from collections.abc import Callable, Mapping
from typing import Protocol


class Tally(Protocol):
    """Counts how often a bundle of plugins was asked; `times` is to be added to."""

    times: int


class Probe(Protocol):
    """What watches a profile. Everything here is on the way of every pod, so it has to be cheap."""

    timer: Callable[[], float]
    """Seconds that pass."""

    @property
    def took(self) -> Mapping[tuple[str, str], Callable[[float], None]]:
        """Who takes the seconds that an extension point took, by point and status, as metrics name them:
        `PreFilter`, `Success`. Whatever is asked for is there."""
        ...

    def begins(self) -> bool:
        """An attempt to place a pod begins. Returns whether every single plugin is to be timed in it."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin was asked at a point, in an attempt that is a sample."""
        ...

    def tally(self, point: str, plugins: tuple[str, ...]) -> Tally:
        """Where to count how often these plugins are asked at a point, once per node where they are asked
        about nodes."""
        ...
