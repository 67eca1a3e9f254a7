"""`--vmodule`: more detail from some modules than from others."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

MAX_VERBOSITY: Final = 2**31 - 1

Pattern = tuple[str, int]
"""A pattern for names of modules (files without `.py`), and a level."""


def parse_vmodule(text: str) -> tuple[Pattern, ...]:
    """The patterns of a flag `pattern=N,...`. Raises ValueError that says what is wrong."""
    found: list[Pattern] = []
    for one in text.split(","):
        if not one:
            continue
        pattern, equals, level = one.partition("=")
        if not equals or not pattern or not level or "=" in level:
            raise ValueError(f'"{one}" does not have the pattern=N format')
        if not (level.isascii() and level.isdecimal()) or int(level) > MAX_VERBOSITY:
            raise ValueError(f'"{one}": expected a number from 0 to {MAX_VERBOSITY} after the equal sign')
        found.append((pattern, int(level)))
    return tuple(found)


class _Compiled(NamedTuple):
    pattern: re.Pattern[str]
    level: int


class Modules:
    """The levels of modules: of the patterns that match a name the first one counts.

    In a pattern `*` stands for anything, `?` for one character, `[a-z]` for one of several, `[^a-z]` for one
    of all others, and a backslash takes the meaning from the character after it.
    """

    def __init__(self, patterns: Iterable[Pattern] = ()) -> None:
        self._patterns = [_Compiled(_compiled(pattern), level) for pattern, level in patterns]
        self.highest = max((one.level for one in self._patterns), default=0)

    def level(self, module: str) -> int:
        """Up to which level a module is shown, whatever the verbosity."""
        return next((one.level for one in self._patterns if one.pattern.fullmatch(module)), 0)


_PARTS: Final = re.compile(r"\\(.)|(\*)|(\?)|\[(\^?)((?:\\.|[^\]\\])+)\]|(.)", re.DOTALL)


def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression; one that makes no sense matches nothing but itself."""
    try:
        return re.compile("".join(_part(found) for found in _PARTS.finditer(pattern)), re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))


def _part(found: re.Match[str]) -> str:
    escaped, star, one, inverted, chosen, plain = found.groups()
    if star:
        return ".*"
    if one:
        return "."
    if chosen:
        inside = chosen.replace("[", r"\[").replace("^", r"\^")
        return f"[{'^' if inverted else ''}{inside}]"
    return re.escape(escaped or plain)
