"""The metrics of one profile's extension points."""

from collections.abc import Callable

from stowplan.framework.framework import Framework
from stowplan.framework.points import Point
from stowplan.metrics import SchedulerMetrics, Tally

_COUNTED = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)


class ProfileProbe:
    """Passes on to the metrics what a profile does."""

    def __init__(self, metrics: SchedulerMetrics, profile: str, timer: Callable[[], float]) -> None:
        self.timer = timer
        self._metrics = metrics
        self._profile = profile
        self._points = metrics.points
        self._tallies: dict[tuple[str, tuple[str, ...]], Tally] = {}
        self._last: dict[str, tuple[tuple[str, ...], Tally]] = {}

    def show_all(self, framework: Framework) -> None:
        """Show every plugin that will be counted, if only as 0."""
        for point in _COUNTED:
            label = f"{point.value[0].upper()}{point.value[1:]}"
            self._metrics.evaluations(self._profile, [(plugin.name, label) for plugin in framework.at(point)])

    def point(self, point: str, status: str, seconds: float) -> None:
        self._points[point, status, self._profile].observe(seconds)

    def sampled(self) -> bool:
        return self._metrics.sampled()

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._metrics.plugin(plugin, point, status, seconds)

    def evaluated(self, point: str, plugins: tuple[str, ...], times: int) -> None:
        last = self._last.get(point)
        if last is None or last[0] is not plugins:
            last = self._last[point] = (plugins, self._tally(point, plugins))
        last[1].times += times

    def _tally(self, point: str, plugins: tuple[str, ...]) -> Tally:
        key = (point, plugins)
        tally = self._tallies.get(key)
        if tally is None:
            pairs = [(plugin, point) for plugin in plugins]
            tally = self._tallies[key] = self._metrics.evaluations(self._profile, pairs)
        return tally
