"""How often plugins are asked about pods and nodes, counted by the bundle.

A pod is judged by some twenty plugins at four extension points, nearly always the same ones. So whoever asks
them gets a tally for such a bundle once, and counts with it from then on: one addition instead of twenty.
"""

from collections.abc import Iterable

from stowplan.metrics.accumulators import Labels, Values


class Tally:
    """How often a bundle of plugins was asked. `times` may be added to directly."""

    __slots__ = ("series", "times")

    def __init__(self, series: tuple[Labels, ...]) -> None:
        self.series = series
        self.times = 0

    def add(self, times: int = 1) -> None:
        self.times += times


class Evaluations:
    """Tallies by profile and bundle; `values` takes the figures once somebody wants to see them."""

    __slots__ = ("_tallies", "_values")

    def __init__(self, values: Values) -> None:
        self._values = values
        self._tallies: dict[tuple[str, tuple[tuple[str, str], ...]], Tally] = {}

    def tally(self, profile: str, pairs: Iterable[tuple[str, str]]) -> Tally:
        """The tally of a bundle of (plugin, extension point); its series are shown from now on."""
        bundle = tuple(pairs)
        known = self._tallies.get((profile, bundle))
        if known is None:
            known = Tally(tuple((plugin, point, profile) for plugin, point in bundle))
            self._tallies[profile, bundle] = known
        return known

    def settle(self) -> None:
        """Move what was tallied to the series."""
        for tally in self._tallies.values():
            times, tally.times = tally.times, 0
            for labels in tally.series:
                self._values[labels] += times
