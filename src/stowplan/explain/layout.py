"""How explanations are laid out: colours for a terminal, lines of limited width, names cut in the middle."""

import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TextIO, TypeVar, cast

import msgspec
from msgspec.structs import replace

from stowplan.gocompat import quoting

WIDTH: Final = 100
"""No line is longer, unless a single word is."""

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ESCAPE: Final = re.compile("\x1b\\[[0-9;]*m")
_COLOURS: Final = re.compile(f"({_ESCAPE.pattern})")


class Palette:
    """Colours where they are wanted. They never carry a meaning that the words do not."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> "Palette":
        """Colours for a stream: if it is a terminal that can show them, and NO_COLOR is not set."""
        wanted = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        return cls(wanted and stream.isatty())

    def paint(self, text: str, *styles: str) -> str:
        if not self.enabled or not text:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


PLAIN: Final = Palette(False)


_Data = TypeVar("_Data")


def cleaned(value: _Data) -> _Data:
    """A document or plain data without anything that a terminal acts upon: anybody may write its texts."""
    found: Any = _cleaned(value)
    return cast(_Data, found)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return quoting.visible(value)
    if isinstance(value, msgspec.Struct):
        return replace(value, **{name: _cleaned(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, Mapping):
        return {_cleaned(key): _cleaned(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_cleaned, value))
    return [_cleaned(one) for one in value] if isinstance(value, list) else value


def safe(text: str, *, coloured: bool = False) -> str:
    """Lines for a terminal: nothing in them acts upon it but ends of lines and, if `coloured`, colours."""
    if not coloured:
        return quoting.visible(text, "\n")
    parts = _COLOURS.split(text)
    return "".join(part if place % 2 else quoting.visible(part, "\n") for place, part in enumerate(parts))


def visible(text: str) -> int:
    """How many columns a text takes: two for a wide character, none for a combining one."""
    plain = _ESCAPE.sub("", text)
    return len(plain) if plain.isascii() else sum(map(_columns, plain))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def middle(name: str, width: int) -> str:
    """A name cut in the middle: both ends tell names apart."""
    if visible(name) <= width:
        return name
    half = (width - 1) // 2
    return f"{_start(name, width - 1 - half)}…{_start(name[::-1], half)[::-1]}"


def shortened(text: str, keys: Iterable[str], width: int) -> str:
    """A sentence in which long names are cut in the middle."""
    for key in keys:
        short = middle(key, width)
        if short != key:
            text = text.replace(key, short)
    return text


def _start(text: str, width: int) -> str:
    """As much of a text as fits into a number of columns."""
    if text.isascii():
        return text[:width]
    taken = 0
    for place, character in enumerate(text):
        taken += _columns(character)
        if taken > width:
            return text[:place]
    return text


def hanging(first: str, text: str, width: int = WIDTH) -> list[str]:
    """A text after a first part, continued below its own beginning; columns of spaces are kept."""
    indent = visible(first)
    if indent + visible(text) <= width:
        return [f"{first}{text}".rstrip()]
    parts = textwrap.wrap(text, max(width - indent, 20), break_long_words=False, break_on_hyphens=False)
    begin = [first, *[" " * indent] * (len(parts) - 1)]
    return [f"{lead}{part}".rstrip() for lead, part in zip(begin, parts, strict=True)]


def joined(parts: Iterable[str], first: str = "", width: int = WIDTH) -> list[str]:
    """Parts with a dot between them; a part is only broken if it is longer than a line."""
    indent = visible(first)
    lines: list[str] = []
    current = first
    for part in parts:
        separator = " · " if visible(current) > indent else ""
        if separator and visible(current) + 3 + visible(part) > width:
            lines.append(current)
            current, separator = " " * indent, ""
        current += separator + part
    return [*lines, current]


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def span(seconds: float) -> str:
    """How long something takes: `4m48s`, `12s`, `3h05m`, `2d4h`."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def moment(text: str | None) -> float | None:
    """Seconds since 1970 of a time as JSON has it; None if it is none."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()) -> list[str]:
    """The lines of a table with headings and a ruler; `numeric` columns are aligned to the right."""
    widths = [max(map(visible, column)) for column in zip(headings, *rows, strict=True)]
    ruler = ["-" * width for width in widths]
    return [_aligned(row, widths, numeric) for row in (headings, ruler, *rows)]


def _aligned(row: Sequence[str], widths: Sequence[int], numeric: Collection[int]) -> str:
    cells = (
        padded(cell, width, right=column in numeric)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def padded(text: str, width: int, *, right: bool = False) -> str:
    """A text filled up to a number of columns, aligned to the left or to the right."""
    blanks = " " * (width - visible(text))
    return blanks + text if right else text + blanks


def indented(lines: Sequence[str], by: int = 2) -> list[str]:
    """The lines, indented."""
    return [" " * by + line if line else line for line in lines]
