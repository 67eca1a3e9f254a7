"""What a plain YAML word means: the YAML 1.1 rules of the reader Kubernetes uses.

`yes` and `on` are true, `010` is eight, `1_000` a thousand, `~` nothing; dates stay text.
"""

import base64
import binascii
import datetime
import re
from typing import TypeAlias

from stowplan.config.tree import TextError

Scalar: TypeAlias = str | bool | int | float | None

_PREFIX = "tag:yaml.org,2002:"
_STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP, _BINARY = (
    _PREFIX + name for name in ("str", "bool", "int", "float", "null", "timestamp", "binary")
)
_RESOLVABLE = frozenset({"", _STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP})

_WORDS: dict[str, tuple[str, Scalar]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], (_BOOL, True)),
    **dict.fromkeys(
        ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], (_BOOL, False)
    ),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], (_NULL, None)),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], (_FLOAT, float("nan"))),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], (_FLOAT, float("inf"))),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], (_FLOAT, float("-inf"))),
}
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO](?P<octal>[0-7]+)"
    r"|0(?P<zero>[0-7]*)|(?P<decimal>[1-9][0-9]*))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "zero": 8, "decimal": 10}
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TIME = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"([Tt]\d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?(Z|[-+]\d\d:\d\d)| \d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?)?"
)


def resolve_scalar(tag: str, text: str) -> Scalar:
    """The value of an unquoted (or tagged) scalar. Raises TextError where a tag does not fit the text."""
    if tag == _BINARY:
        return _binary(text)
    if tag not in _RESOLVABLE:
        return text
    if tag == _TIMESTAMP and _is_timestamp(text):
        return text
    found, value = (_STR, text) if tag == _STR else _resolve_plain(text)
    if tag in ("", found, _STR):
        return value
    if tag == _FLOAT and found == _INT and isinstance(value, int) and value < 2**63:
        return float(value)
    raise TextError(f"yaml: cannot decode {_short(found)} `{text}` as a {_short(tag)}")


def is_plain_text(text: str) -> bool:
    """Whether unquoted text would be read as text."""
    return _resolve_plain(text)[0] == _STR


def _resolve_plain(text: str) -> tuple[str, Scalar]:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "0123456789+-":
        plain = text.replace("_", "")
        integer = _integer(plain)
        if integer is not None:
            return _INT, integer
        if _DECIMAL.fullmatch(plain) and abs(float(plain)) != float("inf"):
            return _FLOAT, float(plain)
    elif text[0] == "." and _DECIMAL.fullmatch(text) and abs(float(text)) != float("inf"):
        return _FLOAT, float(text)
    return _STR, text


def _integer(text: str) -> int | None:
    """A 64-bit integer in Go's notation, None if the text is none or it does not fit."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    base = next(name for name in _BASES if match[name] is not None)
    value = int(match[base] or "0", _BASES[base])
    if match["sign"] == "-":
        return -value if value <= 2**63 else None
    limit = 2**63 if match["sign"] else 2**64
    return value if value < limit else None


def _is_timestamp(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    try:
        datetime.date(int(match["year"]), int(match["month"]), int(match["day"]))
    except ValueError:
        return False
    return True


def _binary(text: str) -> str:
    try:
        return base64.b64decode(text.replace("\n", ""), validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise TextError("yaml: !!binary value contains invalid base64 data") from None


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX)
