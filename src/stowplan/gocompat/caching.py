"""Caches of results for texts from untrusted sources, bounded in number and in length."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

T = TypeVar("T")

LONGEST: Final = 512
"""Longer texts are not kept: a few thousand of a megabyte each would stay in memory after their objects."""


def cached_by_text(most: int, longest: int = LONGEST) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Keep the last `most` results of a function of a text, except those of texts longer than `longest`."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        kept = lru_cache(maxsize=most)(function)

        @wraps(function)
        def cached(text: str) -> T:
            return kept(text) if len(text) <= longest else function(text)

        return cached

    return decorate
