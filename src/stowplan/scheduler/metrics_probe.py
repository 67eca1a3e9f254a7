"""The metrics of one profile's extension points."""

from collections.abc import Callable

from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.metrics import CallCounter, SchedulerMetrics
from stowplan.scheduler.metrics.buffers import BUFFER_SIZE

_COUNTED = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)


class ProfileProbe:
    """Passes on to the metrics what a profile does."""

    def __init__(self, metrics: SchedulerMetrics, profile: str, timer: Callable[[], float]) -> None:
        self.timer = timer
        self.plugin = metrics.plugin
        self.took = _Takers(metrics, profile)
        self._metrics = metrics
        self._sampled = metrics.sampled
        self._profile = profile
        self._uncounted = 0

    def show_all(self, framework: Framework) -> None:
        """Show every plugin that will be counted, if only as 0."""
        for point in _COUNTED:
            label = f"{point.value[0].upper()}{point.value[1:]}"
            self._metrics.evaluations(self._profile, [(plugin.name, label) for plugin in framework.at(point)])

    def begins(self) -> bool:
        self._uncounted += 1
        if self._uncounted >= BUFFER_SIZE:
            self._uncounted = 0
            self._metrics.flush()
        return self._sampled()

    def call_counter(self, point: str, plugins: tuple[str, ...]) -> CallCounter:
        return self._metrics.evaluations(self._profile, [(plugin, point) for plugin in plugins])


class _Takers(dict[tuple[str, str], Callable[[float], None]]):
    """Who takes the seconds of a profile's extension points, by point and status."""

    def __init__(self, metrics: SchedulerMetrics, profile: str) -> None:
        super().__init__()
        self._metrics = metrics
        self._profile = profile

    def __missing__(self, ended: tuple[str, str]) -> Callable[[float], None]:
        made = self[ended] = self._metrics.taker(*ended, self._profile)
        return made
