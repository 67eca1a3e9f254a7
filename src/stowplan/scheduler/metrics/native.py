"""Native histograms: buckets that grow by a factor, next to the classic ones (gate NativeHistograms).

Only scrapes in the protobuf format have them. Buckets are those of Prometheus' own libraries: a *schema* of 3
divides every power of two into 8 buckets. Where there would be too many, the schema is lowered, which joins
neighbours.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from math import isnan
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

FIRST_SCHEMA: Final = 3
"""The coarsest schema whose buckets grow by at most 10 %."""
MOST_BUCKETS: Final = 160
COARSEST_SCHEMA: Final = -4
ZERO_THRESHOLD: Final = 2.0**-128
"""Values of at most this are counted as zero."""

_MOST_WAITING: Final = 8192
_LARGEST_GAP: Final = 2
"""Up to this number of empty buckets are listed rather than skipped by a new span."""


class Span(NamedTuple):
    """Neighbouring buckets: the distance to the span before, and how many there are."""

    offset: int
    length: int


class NativeBuckets:
    """The native buckets of one series, with separate ones for negative values.

    Values are kept until there are thousands of them or they are read: sorting few costs as much as many.
    """

    __slots__ = ("_negative", "_positive", "_schema", "_waiting", "_zeros")

    def __init__(self) -> None:
        self._schema = FIRST_SCHEMA
        self._zeros = 0
        self._positive: Counter[int] = Counter()
        self._negative: Counter[int] = Counter()
        self._waiting = array("d")

    def take(self, values: Sequence[float]) -> None:
        """Observe values."""
        self._waiting.extend(values)
        if len(self._waiting) >= _MOST_WAITING:
            self._sort()

    def repeat(self, value: float, count: int) -> None:
        """Observe a value `count` times."""
        self._sort()
        if abs(value) <= ZERO_THRESHOLD:
            self._zeros += count
        elif not isnan(value):
            place = int(_places(np.array([abs(value)]), self._schema)[0])
            (self._positive if value > 0 else self._negative)[place] += count
            self._limit_buckets()

    @property
    def schema(self) -> int:
        self._sort()
        return self._schema

    @property
    def zeros(self) -> int:
        self._sort()
        return self._zeros

    @property
    def positive(self) -> Counter[int]:
        self._sort()
        return self._positive

    @property
    def negative(self) -> Counter[int]:
        self._sort()
        return self._negative

    def _sort(self) -> None:
        """Sort values into buckets. NaN is in none."""
        if not self._waiting:
            return
        given = np.array(self._waiting)
        self._waiting = array("d")
        sizes = np.abs(given)
        self._zeros += int(np.count_nonzero(sizes <= ZERO_THRESHOLD))
        for found, chosen in ((self._positive, given > 0), (self._negative, given < 0)):
            places = _places(sizes[chosen & (sizes > ZERO_THRESHOLD)], self._schema)
            if len(places):
                numbers, counts = np.unique(places, return_counts=True)
                found.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        self._limit_buckets()

    def _limit_buckets(self) -> None:
        while len(self._positive) + len(self._negative) > MOST_BUCKETS and self._schema > COARSEST_SCHEMA:
            self._schema -= 1
            self._positive = _joined(self._positive)
            self._negative = _joined(self._negative)


def _places(sizes: npt.NDArray[np.float64], schema: int) -> npt.NDArray[np.int64]:
    """The numbers of the buckets of some sizes; the upper bound belongs to a bucket, infinity is beyond."""
    infinite = np.isinf(sizes)
    fractions, exponents = np.frexp(np.where(infinite, np.finfo(np.float64).max, sizes))
    places = exponents.astype(np.int64)
    if schema > 0:
        bounds = 2.0 ** (np.arange(2**schema) / 2**schema - 1)
        places = np.searchsorted(bounds, fractions) + (places - 1) * len(bounds)
    else:
        places -= fractions == 0.5
        places = (places + (1 << -schema) - 1) >> -schema
    return places + infinite


def _joined(found: Counter[int]) -> Counter[int]:
    """Pairs of neighbours joined: the buckets of the next schema."""
    joined: Counter[int] = Counter()
    for number, count in found.items():
        joined[(number + 1) >> 1] += count
    return joined


def spans_and_deltas(found: Counter[int]) -> tuple[list[Span], list[int]]:
    """Buckets as they are written: spans of neighbours, and counts as differences."""
    spans: list[Span] = []
    counts = list(_listed(found, spans))
    return spans, [count - before for before, count in zip([0, *counts], counts, strict=False)]


def _listed(found: Counter[int], spans: list[Span]) -> Iterator[int]:
    """The counts of buckets in order, small gaps as zeros; `spans` gets the spans."""
    following: int | None = None
    for number, count in sorted(found.items()):
        gap = number if following is None else number - following
        if following is None or gap > _LARGEST_GAP:
            spans.append(Span(gap, 0))
            gap = 0
        spans[-1] = Span(spans[-1].offset, spans[-1].length + gap + 1)
        yield from [0] * gap
        yield count
        following = number + 1
