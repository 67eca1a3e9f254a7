"""Which tolerations tolerate which taints."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from stowplan.api.node import Taint
from stowplan.api.pod import Toleration
from stowplan.gocompat.numbers import parse_int64

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

HARD_EFFECTS: Final = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""Effects that keep a pod off a node, rather than lower its score."""

_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, compare: bool = False) -> bool:
    """Whether one toleration tolerates one taint.

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
    """Whether any of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint, compare) for toleration in tolerations)


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
    """Whether two lists of taints are the same in everything, also in when the taints were added."""
    return old == new and [taint.time_added for taint in old] == [taint.time_added for taint in new]


def _compares(operator: str, actual: str, bound: str) -> bool:
    number, limit = _plain_integer(actual), _plain_integer(bound)
    if number is None or limit is None:
        return False
    return (operator == "Lt" and number < limit) or (operator == "Gt" and number > limit)


def _plain_integer(text: str) -> int | None:
    """An int64 as a person writes it: no plus sign, no leading zeros."""
    return parse_int64(text) if _PLAIN_INTEGER.fullmatch(text) else None
