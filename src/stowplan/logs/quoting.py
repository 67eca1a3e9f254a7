"""Strings in quotes, the way Go writes them: what people's tools for such logs expect."""

from typing import Final

_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}
_BAD_BYTES: Final = range(0xDC80, 0xDD00)
"""Where Python keeps bytes that are not UTF-8."""


def quote(text: str, *, ascii_only: bool = False) -> str:
    """A string in double quotes, with escapes for what cannot be printed."""
    if (
        text.isprintable()
        and '"' not in text
        and "\\" not in text
        and not (ascii_only and not text.isascii())
    ):
        return f'"{text}"'
    return '"' + "".join(_escaped(one, ascii_only) for one in text) + '"'


def block(text: str) -> str:
    """A text of several lines, indented so that no line of it can be taken for another message."""
    lines = text.removesuffix("\n").split("\n")
    return "<\n" + "".join(f"\t{visible(line)}\n" for line in lines) + " >"


def visible(text: str) -> str:
    """A text without what would move a terminal's cursor; tabs and ends of lines stay."""
    if text.isprintable():
        return text
    return "".join(one if one in "\t\n\\" or one == '"' else _escaped(one, False) for one in text)


def _escaped(one: str, ascii_only: bool) -> str:
    known = _ESCAPES.get(one)
    if known is not None:
        return known
    number = ord(one)
    if one.isprintable() and (number < 0x7F or not ascii_only):
        return one
    if number in _BAD_BYTES:
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x20 or number == 0x7F:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
