"""Strings in quotes as Go's `%q` prints them, and errors about files as Go words them."""

import errno
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
    code = ord(character)
    if character.isprintable() and (code < 0x7F or not ascii_only):
        return character
    if code in _INVALID_BYTES:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def path_error(error: OSError, path: str) -> str:
    """Why a file could not be read, as Go's os.PathError says it: `open /x: no such file or directory`."""
    action = "read" if error.errno == errno.EISDIR else "open"
    return f"{action} {path}: {(error.strerror or str(error)).lower()}"
