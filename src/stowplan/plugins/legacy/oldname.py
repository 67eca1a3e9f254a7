"""What a predicate or priority of earlier releases is called here, and how near that comes to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from stowplan.framework.interface import Point

RELEASES: Final = ("1.9", "1.18")
"""The releases whose meaning of a name is known: the last with predicates as such in full use, and the last
with Policy files for everything."""


class Kind(StrEnum):
    """Predicates say which nodes can take a pod, priorities which of them is best."""

    PREDICATE = "predicate"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True)
class Use:
    """A plugin, the extension points at which it has to be enabled, and its arguments."""

    plugin: str
    points: tuple[Point, ...]
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What runs for a name.

    `exact`: these plugins decide or score by the very rule the name stood for. `note` is what else there is
    to know; if it is not exact, how it differs.
    """

    uses: tuple[Use, ...]
    exact: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class OldName:
    """A predicate or priority by its name.

    `first` and `last` are the releases it was known in, 1.9 and 1.18 being the ends that are looked at.
    `meaning` is what it meant in its last release, `in_1_9` what it meant in 1.9 if that was something else.
    `argument` is the field of a Policy's `argument` that it is defined by. `today` is what comes nearest to
    it in kube-scheduler as it is, in words, where that is not what runs here.
    """

    name: str
    kind: Kind
    meaning: Meaning
    in_1_9: Meaning | None = None
    first: str = "1.9"
    last: str = "1.18"
    argument: str = ""
    today: str = ""

    def as_of(self, release: str) -> Meaning:
        """What the name meant in a release; for one that did not know it, what it meant at any time."""
        return self.in_1_9 if release == "1.9" and self.in_1_9 is not None else self.meaning

    def is_known_in(self, release: str) -> bool:
        return minor(self.first) <= minor(release) <= minor(self.last)


def minor(release: str) -> int:
    """The number of a release that counts: 18 for 1.18."""
    return int(release.partition(".")[2])


def filters(plugin: str, *more: Point, **args: Any) -> Use:
    """A plugin as a filter, asked before filtering too, and at other points."""
    return Use(plugin, (Point.PRE_FILTER, Point.FILTER, *more), args)


def only_filters(plugin: str, **args: Any) -> Use:
    """A plugin as a filter that needs no PreFilter."""
    return Use(plugin, (Point.FILTER,), args)


def scores(plugin: str, **args: Any) -> Use:
    """A plugin as a score, asked before scoring too."""
    return Use(plugin, (Point.PRE_SCORE, Point.SCORE), args)


def only_scores(plugin: str, **args: Any) -> Use:
    """A plugin as a score that needs no PreScore."""
    return Use(plugin, (Point.SCORE,), args)
