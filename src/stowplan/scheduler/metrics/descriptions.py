"""Metric descriptions: name, labels, buckets and stability as in kube-scheduler, by release."""

from enum import StrEnum
from itertools import accumulate, repeat
from operator import mul
from typing import Final, NamedTuple

from stowplan.api.releases import Release, Version

PREFIX: Final = "scheduler_"


class Stability(StrEnum):
    """Stability level of a metric."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    STABLE = "STABLE"


_ANY: Final = Version(0, 0)
_SHOWN_AFTER_DEPRECATION: Final = {Stability.ALPHA: 0, Stability.BETA: 1, Stability.STABLE: 3}


class MetricDescription(NamedTuple):
    """One metric family. With a feature gate it exists only if that is enabled. `bounds` are for histograms.

    Names that other components share have no prefix. Releases have it from `since` on and before `until`.
    From `promoted` on it is `BETA`. A family that is `deprecated` since some release is hidden after a while.
    """

    name: str
    labels: tuple[str, ...]
    stability: Stability
    help: str
    gate: str | None = None
    bounds: tuple[float, ...] = ()
    prefix: str = PREFIX
    since: Version = _ANY
    until: Version | None = None
    promoted: Version | None = None
    deprecated: Version | None = None

    def in_release(self, release: Release) -> "MetricDescription | None":
        """The family in a release; None if that has no family of this name."""
        now = release.minor
        if now < self.since or (self.until is not None and now >= self.until):
            return None
        described = self
        if self.promoted is not None and now >= self.promoted:
            described = described._replace(stability=Stability.BETA)
        if self.deprecated is not None and now < self.deprecated:
            described = described._replace(deprecated=None)
        return described

    def is_hidden(self, now: Version) -> bool:
        """True if a deprecated family is no longer shown: at once (ALPHA), or after one or three releases."""
        if self.deprecated is None:
            return False
        shown_for = _SHOWN_AFTER_DEPRECATION[self.stability]
        return now >= Version(self.deprecated.major, self.deprecated.minor + shown_for)

    @property
    def full_name(self) -> str:
        return self.prefix + self.name

    @property
    def text(self) -> str:
        """The help text, with the stability level in front."""
        deprecated = f"(Deprecated since {self.deprecated}.0) " if self.deprecated else ""
        return f"[{self.stability}] {deprecated}{self.help}"


class MetricCatalogue(NamedTuple):
    """The families of one registry."""

    counters: tuple[MetricDescription, ...] = ()
    gauges: tuple[MetricDescription, ...] = ()
    histograms: tuple[MetricDescription, ...] = ()

    @property
    def all(self) -> tuple[MetricDescription, ...]:
        return (*self.counters, *self.gauges, *self.histograms)


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` bucket bounds, each `factor` times the one before."""
    return tuple(accumulate(repeat(factor, count - 1), mul, initial=start))


ALPHA, BETA, STABLE = Stability
