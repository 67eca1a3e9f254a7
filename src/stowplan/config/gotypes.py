"""The simple types fields have in the API's own language, and how each reads and writes JSON.

Error messages name these types, and the rules for null, for zero and for what is left out when writing
depend on them. Lists, maps and structs are in `gocontainers`; `schema` describes every configuration
object in terms of these types.
"""

import re
from abc import ABC, abstractmethod
from typing import Any, Final

import msgspec
import numpy as np

from stowplan.api.durations import Duration, DurationError
from stowplan.config.base64text import Base64Error, decode_base64
from stowplan.config.decode import Cursor, DocumentError
from stowplan.config.tree import Number, Tree, kind_of


class Absent:
    """The type of ABSENT."""


ABSENT: Final = Absent()
"""What decoding gives for null and for values that were refused: the field keeps its default."""

_INTEGER = re.compile(r"-?[0-9]+")


class GoType(ABC):
    """A type. `name` is how messages call it, `zero` the value of a null list element."""

    name: str
    zero: Any

    @abstractmethod
    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        """The value, or ABSENT. Trouble is noted at the cursor."""

    def encode(self, value: Any) -> Any:
        """The value as plain JSON data."""
        return value

    def is_empty(self, value: Any) -> bool:
        """Whether a field that is not written when empty leaves this value out."""
        return value is None or value == self.zero


class Text(GoType):
    """Text; types of their own (operators, actions) are text with another name."""

    def __init__(self, name: str = "string") -> None:
        self.name = name
        self.zero = ""

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        return tree if isinstance(tree, str) else refused(tree, self.name, cursor)


class Bool(GoType):
    """True or false."""

    name = "bool"
    zero = False

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        return tree if isinstance(tree, bool) else refused(tree, self.name, cursor)


class Int(GoType):
    """An integer of so many bits."""

    zero = 0

    def __init__(self, bits: int) -> None:
        self.name = f"int{bits}"
        self._limit = 2 ** (bits - 1)

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, Number):
            return refused(tree, self.name, cursor)
        if _INTEGER.fullmatch(tree.text) and -self._limit <= int(tree.text) < self._limit:
            return int(tree.text)
        return _refused_number(tree, self.name, cursor)


class Float32(GoType):
    """A number with a fraction; kept and written with the digits a 32-bit float has."""

    name = "float32"
    zero = 0.0

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, Number):
            return refused(tree, self.name, cursor)
        with np.errstate(over="ignore"):
            value = np.float32(tree.text)
        return float(str(value)) if np.isfinite(value) else _refused_number(tree, self.name, cursor)

    def encode(self, value: Any) -> Any:
        return int(value) if float(value).is_integer() else value


class Span(GoType):
    """A duration. It reads its own text, so what it refuses is reported at once; unless the field is
    optional even null is (empty) text to it."""

    name = "string"
    zero = Duration()

    def __init__(self, *, optional: bool = False) -> None:
        self._optional = optional

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if tree is None and self._optional:
            return ABSENT
        if tree is not None and not isinstance(tree, str):
            raise DocumentError(cursor.mismatch_text(kind_of(tree), self.name))
        try:
            return Duration.parse(tree or "")
        except DurationError as error:
            raise DocumentError(str(error)) from None

    def encode(self, value: Any) -> Any:
        return str(value)

    def is_empty(self, value: Any) -> bool:
        return value is None


class Bytes(GoType):
    """Bytes, written as base64."""

    name = "[]uint8"
    zero = b""

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if isinstance(tree, list):
            return bytes(self._byte(element, cursor) for element in tree)
        if not isinstance(tree, str):
            return refused(tree, self.name, cursor)
        try:
            return decode_base64(tree)
        except Base64Error as error:
            cursor.refuse(str(error))
            return ABSENT

    def _byte(self, tree: Tree, cursor: Cursor) -> int:
        if not isinstance(tree, Number):
            refused(tree, "uint8", cursor)
        elif tree.text.isdigit() and int(tree.text) < 256:
            return int(tree.text)
        else:
            _refused_number(tree, "uint8", cursor)
        return 0

    def encode(self, value: Any) -> Any:
        return msgspec.to_builtins(value)


class Raw(GoType):
    """Any JSON value, kept as it is for somebody else to read."""

    name = "runtime.RawExtension"
    zero = None

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        return tree

    def is_empty(self, value: Any) -> bool:
        return False


def refused(tree: Tree, type_name: str, cursor: Cursor) -> Absent:
    """Note that a value has the wrong type; null never has."""
    if tree is not None:
        cursor.mismatch(kind_of(tree), type_name)
    return ABSENT


def _refused_number(number: Number, type_name: str, cursor: Cursor) -> Absent:
    """Note that a number does not fit its type."""
    cursor.mismatch(f"number {number.text}", type_name)
    return ABSENT
