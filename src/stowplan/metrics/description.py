"""What is said of a family of metrics: its name, its labels, its buckets, and whether to rely on it."""

from enum import StrEnum
from itertools import accumulate, repeat
from operator import mul
from typing import Final, NamedTuple

PREFIX: Final = "scheduler_"


class Stability(StrEnum):
    """What may be relied on: stable ones keep their name and labels."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    STABLE = "STABLE"


class Description(NamedTuple):
    """One family. With a gate it exists only if that is on. Only histograms have bounds.

    Names that many processes share have no prefix.
    """

    name: str
    labels: tuple[str, ...]
    stability: Stability
    help: str
    gate: str | None = None
    bounds: tuple[float, ...] = ()
    prefix: str = PREFIX

    @property
    def full_name(self) -> str:
        return self.prefix + self.name

    @property
    def text(self) -> str:
        """The help text; it begins with the stability."""
        return f"[{self.stability}] {self.help}"


class Catalogue(NamedTuple):
    """Families that belong together."""

    counters: tuple[Description, ...] = ()
    gauges: tuple[Description, ...] = ()
    histograms: tuple[Description, ...] = ()

    @property
    def all(self) -> tuple[Description, ...]:
        return (*self.counters, *self.gauges, *self.histograms)


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` bounds, each `factor` times the one before it, multiplied one after the other."""
    return tuple(accumulate(repeat(factor, count - 1), mul, initial=start))
