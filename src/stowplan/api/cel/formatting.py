"""`string.format`: the clauses of a format, what they make of values, and which types they take."""

import math
from collections.abc import Callable
from typing import Any, Final

from stowplan.api.cel import values
from stowplan.api.cel.syntax import ListNode, MapNode, SyntaxNode
from stowplan.api.cel.types import Type
from stowplan.api.cel.values import EvaluationFailure, Map, Timestamp, Value
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote

_PRECISION: Final = 6
_MAX_PRECISION: Final = 1000
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

_STRING = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)
_WRONG: Final = {
    "s": _STRING,
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_SCALARS: Final = (
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "timestamp",
    "bytes",
    "duration",
    "type",
    "null",
)
_KINDS: Final = {
    "s": frozenset((*_SCALARS, "list", "map")),
    "d": frozenset(("int", "uint")),
    "f": frozenset(("double", "string")),
    "e": frozenset(("double", "string")),
    "b": frozenset(("int", "uint", "bool")),
    "x": frozenset(("int", "uint", "string", "bytes")),
    "X": frozenset(("int", "uint", "string", "bytes")),
    "o": frozenset(("int", "uint")),
}


class FormatError(Exception):
    """A format that does not go with its arguments; `offset` is that of the argument to blame."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


_Clause = Callable[[str, int, int], str]


def _interpolated(text: str, count: int | None, clause: _Clause) -> tuple[str, int]:
    """The text with clauses replaced by what `clause(letter, precision, index)` gives; how many there are."""
    parts: list[str] = []
    at = index = 0
    while at < len(text):
        if text[at] != "%":
            end = text.find("%", at)
            end = len(text) if end < 0 else end
            parts.append(text[at:end])
            at = end
        elif text[at + 1 : at + 2] == "%":
            parts.append("%")
            at += 2
        else:
            if count is not None and index >= count:
                raise FormatError(f"index {index} out of range")
            if at + 1 >= len(text):
                raise FormatError("unexpected end of string")
            letter, precision, at = _clause(text, at + 1)
            parts.append(clause(letter, precision, index))
            index += 1
    return "".join(parts), index


def _clause(text: str, at: int) -> tuple[str, int, int]:
    """The letter and the precision of a clause, and where it ends."""
    wrong = "could not parse formatting clause: "
    precision = _PRECISION
    if text[at] == ".":
        end = at + 1
        while text[end : end + 1].isascii() and text[end : end + 1].isdigit():
            end += 1
        if end >= len(text):
            what = "error while parsing precision: could not find end of precision specifier"
            raise FormatError(wrong + what)
        digits = text[at + 1 : end]
        if not digits or len(digits) > 18 or int(digits) > _MAX_PRECISION:
            detail = f'strconv.Atoi: parsing "{digits}": invalid syntax'
            what = f"error while parsing precision: error while converting precision to integer: {detail}"
            raise FormatError(wrong + what)
        precision, at = int(digits), end
    letter = text[at]
    if letter not in _KINDS:
        raise FormatError(f'{wrong}unrecognized formatting clause "{letter}"')
    return letter, precision, at + 1


def check_format(text: str, args: list[SyntaxNode], type_of: Callable[[SyntaxNode], Type]) -> int:
    """Number of arguments a format uses. Raises FormatError for one whose type its clause refuses."""

    def clause(letter: str, _: int, index: int) -> str:
        if index >= len(args):
            raise FormatError(f"index {index} out of range")
        bad = _refused(letter, args[index], type_of)
        if bad is not None:
            what = f"error during formatting: {_WRONG[letter]}, was given {type_of(bad).name}"
            raise FormatError(what, bad.offset)
        return ""

    return _interpolated(text, None, clause)[1]


def _refused(letter: str, node: SyntaxNode, type_of: Callable[[SyntaxNode], Type]) -> SyntaxNode | None:
    """The part of an argument that a clause does not take."""
    known = type_of(node)
    if known.kind != "dyn" and known.kind not in _KINDS[letter]:
        return node
    if letter != "s":
        return None
    inner: list[SyntaxNode] = []
    if isinstance(node, ListNode):
        inner = node.items
    elif isinstance(node, MapNode):
        inner = [part for entry in node.entries for part in (entry.key, entry.value)]
    for part in inner:
        bad = _refused(letter, part, type_of)
        if bad is not None:
            return bad
    return None


def format_string(text: str, args: list[Value]) -> str | EvaluationFailure:
    """The text with the arguments in the places of its clauses."""

    def clause(letter: str, precision: int, index: int) -> str:
        value = args[index]
        kind = values.type_of(value).kind
        allowed = kind in _KINDS[letter]
        if letter in "fe" and kind == "string":
            allowed = value in ("NaN", "Infinity", "-Infinity")
        if not allowed:
            what = f"{_WRONG[letter]}, was given {values.type_name(value)}"
            raise FormatError(f"error during formatting: {what}")
        return _FORMATTERS[letter](value, precision)

    try:
        return _interpolated(text, len(args), clause)[0]
    except FormatError as issue:
        return EvaluationFailure(str(issue))


def _fixed(value: Any, precision: int) -> str:
    number = _float(value)
    if not math.isfinite(number):
        return _special(number)
    return f"{number:,.{precision}f}"


def _scientific(value: Any, _: int) -> str:
    number = _float(value)
    if not math.isfinite(number):
        return _special(number)
    mantissa, __, power = f"{number:.{_PRECISION}e}".partition("e")
    return f"{mantissa}\u202f×\u202f10{power.removeprefix('+').translate(_SUPERSCRIPTS)}"


def _float(value: Any) -> float:
    return float(value.replace("Infinity", "inf")) if isinstance(value, str) else float(value)


def _special(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _hex(value: Any, _: int) -> str:
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    return value.hex() if isinstance(value, bytes) else f"{int(value):x}"


def _text(value: Any, _: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        values.work(15 * len(value) + 15)
        return f"[{', '.join([_quoted(one) for one in value])}]"
    if isinstance(value, Map):
        values.work(15 * len(value) + 15)
        pairs = sorted([(_quoted(key), _quoted(one)) for key, one in value.items()])
        return f"{{{', '.join([f'{key}:{one}' for key, one in pairs])}}}"
    text = values.to_string(value)
    if isinstance(text, EvaluationFailure):
        raise FormatError(f"error during formatting: {text.message}")
    return str(text)


def _quoted(value: Any) -> str:
    """A value inside a list or map."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return f"b{quote(_text(value, 0))}"
    if isinstance(value, Timestamp):
        return f"timestamp({quote(_text(value, 0))})"
    if isinstance(value, Duration):
        return f"duration({quote(_text(value, 0))})"
    if isinstance(value, float):
        return f"{value:.{_PRECISION}f}" if math.isfinite(value) else quote(values.float_text(value))
    if values.type_of(value).kind not in _KINDS["s"]:
        raise FormatError(f"error during formatting: no formatting function for {values.type_name(value)}")
    return _text(value, 0)


_FORMATTERS: Final[dict[str, Callable[[Any, int], str]]] = {
    "s": _text,
    "d": lambda value, _: str(int(value)),
    "f": _fixed,
    "e": _scientific,
    "b": lambda value, _: f"{int(value):b}",
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
    "o": lambda value, _: f"{int(value):o}",
}
