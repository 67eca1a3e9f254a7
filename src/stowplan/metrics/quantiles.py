"""Quantiles of what was observed in the last hours."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import ceil, exp, floor, log, nan
from typing import Final

SHARES: Final = (0.5, 0.9, 0.99)
"""The quantiles that are shown."""

MAX_AGE: Final = 5 * 3600.0
"""Seconds after which a value does not count for them any more."""

_SECTIONS: Final = 5
_STEP: Final = log(1.02)
"""Values are kept in classes this wide, so a quantile is off by a hundredth at most."""


class Quantiles:
    """How many values there were and their sum, for ever; and quantiles of those that are not too old.

    Old values are forgotten an hour's worth at a time. `timer` gives seconds.
    """

    def __init__(self, timer: Callable[[], float]) -> None:
        self.count = 0
        self.total = 0.0
        self._timer = timer
        self._sections: list[Counter[int]] = [Counter() for _ in range(_SECTIONS)]
        self._section_began = timer()

    def take(self, values: Sequence[float]) -> None:
        """Count many values, as if they had all been observed now."""
        self._age()
        self.count += len(values)
        self.total += sum(values)
        self._sections[-1].update(map(_class, values))

    def shown(self) -> Iterator[tuple[float, float]]:
        """Each quantile with its value; there is none without values."""
        self._age()
        classes = sum(self._sections, Counter())
        for share in SHARES:
            yield share, _at(classes, share)

    def reset(self) -> None:
        """Start anew."""
        self.count, self.total = 0, 0.0
        self._sections = [Counter() for _ in range(_SECTIONS)]

    def _age(self) -> None:
        width = MAX_AGE / _SECTIONS
        passed = floor((self._timer() - self._section_began) / width)
        if passed > 0:
            fresh: list[Counter[int]] = [Counter() for _ in range(min(passed, _SECTIONS))]
            self._sections = [*self._sections, *fresh][-_SECTIONS:]
            self._section_began += passed * width


def _class(value: float) -> int:
    """The class of a value; what takes less than a nanosecond takes no time."""
    return round(log(max(value, 1e-9)) / _STEP)


def _at(classes: Counter[int], share: float) -> float:
    wanted = ceil(classes.total() * share)
    for place in sorted(classes):
        wanted -= classes[place]
        if wanted <= 0:
            return exp(place * _STEP)
    return nan
