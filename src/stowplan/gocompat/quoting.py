"""Strings in quotes as Go's `%q` prints them, text made safe for a terminal, and Go's errors about files."""

import errno
import re
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
_INVALID_BYTES: Final = range(0xDC80, 0xDD00)
"""Where Python keeps bytes that are not UTF-8 (`surrogateescape`)."""


def quote(text: str, *, ascii_only: bool = False) -> str:
    """A string in double quotes, with escapes for what cannot be printed; `ascii_only` is Go's `%+q`."""
    if (
        text.isprintable()
        and '"' not in text
        and "\\" not in text
        and not (ascii_only and not text.isascii())
    ):
        return f'"{text}"'
    return '"' + "".join(escape(character, ascii_only=ascii_only) for character in text) + '"'


def escape(character: str, *, ascii_only: bool = False) -> str:
    """One character as it stands inside quotes."""
    known = _ESCAPES.get(character)
    if known is not None:
        return known
    if character.isprintable() and (character < "\x7f" or not ascii_only):
        return character
    return _code(character)


# Letters and marks that are not drawn, although Unicode does not call them format characters: fillers of
# Hangul, joiners, and the variation selectors that can carry hidden text.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U000e0100-\U000e01ef]"
)


def visible(text: str, keep: str = "") -> str:
    """A text with escapes such as `\\u202e` for characters that are invisible or affect a terminal.

    These are controls (C0 and C1), marks and overrides of direction, characters without width, tags,
    separators of lines and paragraphs, and blanks other than the space. Characters in `keep` stay as they
    are.
    """
    if text.isprintable() and not _UNSEEN.search(text):
        return text
    return "".join(
        one if one in keep or (one.isprintable() and not _UNSEEN.match(one)) else _code(one) for one in text
    )


def _code(character: str) -> str:
    """A character by its number, in the form that `quote` has."""
    if character in "\a\b\f\n\r\t\v":
        return _ESCAPES[character]
    code = ord(character)
    if code in _INVALID_BYTES:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def path_error(error: OSError, path: str) -> str:
    """Why a file could not be read, as Go's os.PathError says it: `open /x: no such file or directory`."""
    action = "read" if error.errno == errno.EISDIR else "open"
    return f"{action} {path}: {(error.strerror or str(error)).lower()}"
