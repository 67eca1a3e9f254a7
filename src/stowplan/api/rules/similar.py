"""Names that look like another one: for a label, class or claim that does not exist."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

_ALIKE: Final = 0.72
"""Share of equal characters from which a name may be a misspelling of another: `genral` and `general`."""
_MOST: Final = 500
"""Names that are compared: finding a similar one is quadratic in their length."""


def nearest(names: Iterable[str], wanted: str, least: float = _ALIKE) -> str | None:
    """The name that looks most like the wanted one; None if none does."""
    best, share = None, least
    matcher = SequenceMatcher(None, b=wanted, autojunk=False)
    for count, name in enumerate(names):
        if count == _MOST:
            break
        if name == wanted:
            continue
        matcher.set_seq1(name)
        if matcher.real_quick_ratio() >= share and matcher.ratio() > share - (best is None) * 1e-9:
            best, share = name, matcher.ratio()
    return best


def alike(one: str, other: str) -> float:
    """Share of equal characters of two names, in order."""
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
