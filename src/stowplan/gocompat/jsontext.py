"""JSON as Go reads and writes it.

Values keep what Python's own would lose: objects keep the order and every mention of their members, numbers
keep their spelling. Strict decoding and its error messages need both.
"""

import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from stowplan.gocompat.quoting import quote

MAX_DEPTH: Final = 200
"""Documents nested deeper than this are refused; no configuration comes near."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class ObjectNode:
    """The members of an object in order; a name can occur more than once."""

    members: tuple[tuple[str, "Tree"], ...] = ()


Tree: TypeAlias = ObjectNode | list["Tree"] | str | bool | Number | None


class TextError(ValueError):
    """Text that cannot be parsed."""


def kind_of(tree: Tree) -> str:
    """The JSON type of a value as error messages name it."""
    if tree is None:
        return "null"
    if isinstance(tree, bool):
        return "bool"
    if isinstance(tree, str):
        return "string"
    if isinstance(tree, Number):
        return "number"
    return "object" if isinstance(tree, ObjectNode) else "array"


def to_python(tree: Tree) -> Any:
    """The value as ordinary Python data."""
    if isinstance(tree, ObjectNode):
        return {name: to_python(value) for name, value in tree.members}
    if isinstance(tree, list):
        return [to_python(value) for value in tree]
    if isinstance(tree, Number):
        try:
            return int(tree.text)
        except ValueError:
            return float(tree.text)
    return tree


_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING_RUN = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(rb"[0-9]*")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_LITERALS: dict[int, tuple[bytes, Tree]] = {
    ord("t"): (b"true", True),
    ord("f"): (b"false", False),
    ord("n"): (b"null", None),
}
_ESCAPED = {
    ord('"'): '"',
    ord("\\"): "\\",
    ord("/"): "/",
    ord("b"): "\b",
    ord("f"): "\f",
    ord("n"): "\n",
    ord("r"): "\r",
    ord("t"): "\t",
}


def looks_like_json(data: bytes) -> bool:
    """True if a document is to be read as JSON: its first visible character is a brace."""
    return data.decode("utf-8", "replace").lstrip().startswith("{")


def parse_json(data: bytes) -> Tree:
    """Parse one JSON value; nothing may follow it. Raises TextError."""
    reader = _Parser(data)
    value = reader.value(0)
    reader.skip_space()
    if reader.position < len(data):
        raise reader.unexpected("after top-level value")
    return value


class _Parser:
    """A position in the text and what can be read from there."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def skip_space(self) -> None:
        match = _SPACE.match(self.data, self.position)
        assert match is not None
        self.position = match.end()

    def peek(self) -> int:
        """The next byte; the end of the text is an error here."""
        if self.position >= len(self.data):
            raise TextError("unexpected end of JSON input")
        return self.data[self.position]

    def unexpected(self, where: str) -> TextError:
        character = chr(self.peek())
        shown = {"'": r"\'", '"': '"'}.get(character) or quote(character)[1:-1]
        return TextError(f"invalid character '{shown}' {where}")

    def value(self, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise TextError("exceeded max depth")
        self.skip_space()
        first = self.peek()
        if first == ord("{"):
            return self.object(depth)
        if first == ord("["):
            return self.array(depth)
        if first == ord('"'):
            return self.string()
        if first == ord("-") or chr(first) in "0123456789":
            return self.number()
        if first in _LITERALS:
            return self.literal(*_LITERALS[first])
        raise self.unexpected("looking for beginning of value")

    def object(self, depth: int) -> ObjectNode:
        members: list[tuple[str, Tree]] = []
        self.position += 1
        self.skip_space()
        if self.peek() == ord("}"):
            self.position += 1
            return ObjectNode()
        while True:
            self.skip_space()
            if self.peek() != ord('"'):
                raise self.unexpected("looking for beginning of object key string")
            name = self.string()
            self.skip_space()
            if self.peek() != ord(":"):
                raise self.unexpected("after object key")
            self.position += 1
            members.append((name, self.value(depth + 1)))
            if self.ends(ord("}"), "after object key:value pair"):
                return ObjectNode(tuple(members))

    def array(self, depth: int) -> list[Tree]:
        elements: list[Tree] = []
        self.position += 1
        self.skip_space()
        if self.peek() == ord("]"):
            self.position += 1
            return elements
        while True:
            elements.append(self.value(depth + 1))
            if self.ends(ord("]"), "after array element"):
                return elements

    def ends(self, closing: int, where: str) -> bool:
        """Step over what follows an element: a comma, or the closing bracket that ends the list."""
        self.skip_space()
        if self.peek() not in (closing, ord(",")):
            raise self.unexpected(where)
        self.position += 1
        return self.data[self.position - 1] == closing

    def literal(self, text: bytes, value: Tree) -> Tree:
        for expected in text:
            if self.peek() != expected:
                word = text.decode()
                raise self.unexpected(f"in literal {word} (expecting '{chr(expected)}')")
            self.position += 1
        return value

    def number(self) -> Number:
        start = self.position
        if self.peek() == ord("-"):
            self.position += 1
        if self.peek() == ord("0"):
            self.position += 1
        else:
            self.digits("in numeric literal")
        if self.data[self.position : self.position + 1] == b".":
            self.position += 1
            self.digits("after decimal point in numeric literal")
        if self.data[self.position : self.position + 1] in (b"e", b"E"):
            self.position += 1
            if self.peek() in b"+-":
                self.position += 1
            self.digits("in exponent of numeric literal")
        return Number(self.data[start : self.position].decode())

    def digits(self, where: str) -> None:
        match = _DIGITS.match(self.data, self.position)
        assert match is not None
        if match.end() == self.position:
            raise self.unexpected(where)
        self.position = match.end()

    def string(self) -> str:
        parts: list[str] = []
        self.position += 1
        while True:
            match = _STRING_RUN.match(self.data, self.position)
            assert match is not None
            parts.append(match.group().decode("utf-8", "replace"))
            self.position = match.end()
            if self.peek() == ord('"'):
                self.position += 1
                return _join_surrogates("".join(parts))
            if self.peek() != ord("\\"):
                raise self.unexpected("in string literal")
            self.position += 1
            parts.append(self.escape())

    def escape(self) -> str:
        code = self.peek()
        if code in _ESCAPED:
            self.position += 1
            return _ESCAPED[code]
        if code != ord("u"):
            raise self.unexpected("in string escape code")
        self.position += 1
        for _ in range(4):
            if self.peek() not in _HEX:
                raise self.unexpected("in \\u hexadecimal character escape")
            self.position += 1
        return chr(int(self.data[self.position - 4 : self.position], 16))


def _join_surrogates(text: str) -> str:
    """Escaped surrogate pairs become one character, lone halves the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def as_json(value: Any) -> str:
    """A value as Go's JSON encoder writes it.

    The plain empty tuple is how objects hold a list that was not given, so it is written `null`.
    """
    if type(value) is tuple and not value:
        return "null"
    return escape_html(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


_HTML: Final = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
)


def escape_html(text: str) -> str:
    """JSON with escapes for what could end a script element, which Go's encoder has by default."""
    return text.translate(_HTML)


def float_text(value: float) -> str:
    """A float as Go's JSON encoder writes it: plain unless very large or very small. Raises TextError."""
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise TextError(f"json: unsupported value: {name}")
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if 1e-6 <= abs(value) < 1e21:
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = repr(value).split("e")
    return f"{mantissa}e{int(exponent):+d}"
