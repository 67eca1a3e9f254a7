"""Which tolerations tolerate which taints."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from stowplan.api.node import Taint
from stowplan.api.pod import Toleration
from stowplan.gocompat.numbers import parse_int64

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"

HARD_EFFECTS: Final = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""Effects that keep a pod off a node, rather than lower its score."""

_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, compare: bool = False) -> bool:
    """True if one toleration tolerates one taint.

    An empty effect or key stands for any. `compare` admits the operators Lt and Gt, which compare the taint's
    value with the toleration's (feature gate TaintTolerationComparisonOperators).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator == "Exists":
        return True
    if operator == "" or operator == "Equal":
        return toleration.value == taint.value
    return compare and _compares(operator, taint.value, toleration.value)


def tolerated(taint: Taint, tolerations: Sequence[Toleration], compare: bool = False) -> bool:
    """True if any of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint, compare) for toleration in tolerations)


class Tolerations:
    """A pod's tolerations, found by what a taint has: however many there are, a taint costs a few lookups."""

    __slots__ = ("_any", "_equal", "_exists", "_greater", "_less")

    def __init__(self, tolerations: Sequence[Toleration], compare: bool = False) -> None:
        self._any = bool(tolerations)
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        self._less: dict[tuple[str, str], int] = {}
        self._greater: dict[tuple[str, str], int] = {}
        for toleration in tolerations:
            where = (toleration.key, toleration.effect)
            operator = toleration.operator
            if operator == "Exists":
                self._exists.add(where)
            elif operator == "" or operator == "Equal":
                self._equal.add((*where, toleration.value))
            elif compare and operator in ("Lt", "Gt"):
                limit = _plain_integer(toleration.value)
                if limit is not None and operator == "Lt":
                    self._less[where] = max(limit, self._less.get(where, limit))
                elif limit is not None:
                    self._greater[where] = min(limit, self._greater.get(where, limit))

    def tolerate(self, taint: Taint) -> bool:
        """True if any of them tolerates a taint."""
        if not self._any:
            return False
        key, effect, value = taint.key, taint.effect, taint.value
        for where in ((key, effect), (key, ""), ("", effect), ("", "")):
            if where in self._exists or (*where, value) in self._equal:
                return True
        return bool(self._less or self._greater) and self._compare(taint)

    def _compare(self, taint: Taint) -> bool:
        number = _plain_integer(taint.value)
        if number is None:
            return False
        for where in ((taint.key, taint.effect), (taint.key, ""), ("", taint.effect), ("", "")):
            less, greater = self._less.get(where), self._greater.get(where)
            if (less is not None and number < less) or (greater is not None and number > greater):
                return True
        return False

    def keep_off(self, taints: Sequence[Taint], effects: Collection[str] = HARD_EFFECTS) -> bool:
        """True if some taint with one of these effects is not tolerated."""
        return any(taint.effect in effects and not self.tolerate(taint) for taint in taints)


def untolerated(
    taints: Sequence[Taint],
    tolerations: Sequence[Toleration],
    effects: Collection[str] = HARD_EFFECTS,
    compare: bool = False,
) -> Taint | None:
    """The first taint with one of these effects that nothing tolerates."""
    for taint in taints:
        if taint.effect in effects and not tolerated(taint, tolerations, compare):
            return taint
    return None


def same_taints(old: Sequence[Taint], new: Sequence[Taint]) -> bool:
    """True if two lists of taints are equal, including the times when the taints were added."""
    return old == new and [taint.time_added for taint in old] == [taint.time_added for taint in new]


def _compares(operator: str, actual: str, bound: str) -> bool:
    number, limit = _plain_integer(actual), _plain_integer(bound)
    if number is None or limit is None:
        return False
    return (operator == "Lt" and number < limit) or (operator == "Gt" and number > limit)


def _plain_integer(text: str) -> int | None:
    """An int64 as a person writes it: no plus sign, no leading zeros."""
    return parse_int64(text) if _PLAIN_INTEGER.fullmatch(text) else None
