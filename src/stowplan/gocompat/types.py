"""Go's types: how each reads JSON strictly and writes it, with the error messages of Go.

`schema` modules describe objects in terms of these types. Error messages name them, and the rules for null,
for zero and for omitted fields when writing depend on them. Three sorts of errors are distinguished:

* a value of the wrong type: decoding continues, the first such error is reported at the end;
* text that a type refuses (a malformed duration): reported at once, before anything else;
* unknown and duplicate fields: collected, and reported only if nothing worse happened.
"""

import base64
import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import msgspec
import numpy as np

from stowplan.gocompat.durations import Duration, DurationError
from stowplan.gocompat.jsontext import Number, ObjectNode, Tree, kind_of
from stowplan.gocompat.quoting import quote

_MAX_STRICT_PROBLEMS = 100


class DocumentError(ValueError):
    """A document that cannot be decoded."""


class StrictDocumentError(DocumentError):
    """A document that could be decoded but has unknown or duplicate fields, or contains such a part."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("strict decoding error: " + ", ".join(self.problems))


@dataclass(slots=True)
class _Problems:
    """Errors so far."""

    first_mismatch: str | None = None
    strict: dict[str, None] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place in the document that is being decoded.

    `struct` and `fields` are what messages about types name (no list indexes), `path` what messages about
    unknown fields name (with indexes).
    """

    problems: _Problems = dataclasses.field(default_factory=_Problems)
    struct: str = ""
    fields: tuple[str, ...] = ()
    path: str = ""

    def member(self, struct: str, embedded: tuple[str, ...], name: str) -> "Cursor":
        """The place of a field of a struct."""
        fields = (*self.fields, *embedded, name)
        return replace(self, struct=struct, fields=fields, path=self._below(name))

    def entry(self, key: str) -> "Cursor":
        """The place of an entry of a map."""
        return replace(self, path=self._below(key))

    def element(self, index: int) -> "Cursor":
        """The place of an element of a list."""
        return replace(self, path=f"{self.path}[{index}]")

    def mismatch_text(self, found: str, type_name: str) -> str:
        if self.fields:
            where = f"Go struct field {self.struct}.{'.'.join(self.fields)}"
        else:
            where = "Go value"
        return f"json: cannot unmarshal {found} into {where} of type {type_name}"

    def mismatch(self, found: str, type_name: str) -> None:
        """Note a value of the wrong type."""
        self.refuse(self.mismatch_text(found, type_name))

    def refuse(self, message: str) -> None:
        """Note an error that is reported at the end unless another came before."""
        if self.problems.first_mismatch is None:
            self.problems.first_mismatch = message

    def unknown(self, name: str) -> None:
        self._strict("unknown field", name)

    def duplicate(self, name: str) -> None:
        self._strict("duplicate field", name)

    def _strict(self, problem: str, name: str) -> None:
        if len(self.problems.strict) < _MAX_STRICT_PROBLEMS:
            self.problems.strict[f"{problem} {quote(self._below(name))}"] = None

    def _below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


class Decodable(Protocol):
    """A type that can read a JSON value."""

    def decode(self, tree: Tree, cursor: Cursor) -> Any: ...


def decode_strictly(tree: Tree, go_type: Decodable) -> tuple[Any, tuple[str, ...]]:
    """Decode a value as a type; gives it and its unknown and duplicate fields. Raises DocumentError."""
    cursor = Cursor()
    value = go_type.decode(tree, cursor)
    if cursor.problems.first_mismatch is not None:
        raise DocumentError(cursor.problems.first_mismatch)
    return value, tuple(cursor.problems.strict)


class Absent:
    """The type of `ABSENT`."""


ABSENT: Final = Absent()
"""Result of decoding for null and for refused values: the field keeps its default."""

_INTEGER = re.compile(r"-?[0-9]+")


class GoType(ABC):
    """A type. `name` is how messages call it, `zero` the value of a null list element."""

    name: str
    zero: Any

    @abstractmethod
    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        """The value, or ABSENT; problems are noted at the cursor."""

    def encode(self, value: Any) -> Any:
        """The value as plain JSON data."""
        return value

    def is_empty(self, value: Any) -> bool:
        """True if a field with `omitempty` leaves this value out."""
        return value is None or value == self.zero


class String(GoType):
    """A string; named string types (operators, actions) differ in their name only."""

    def __init__(self, name: str = "string") -> None:
        self.name = name
        self.zero = ""

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        return tree if isinstance(tree, str) else type_mismatch(tree, self.name, cursor)


class Bool(GoType):
    """True or false."""

    name = "bool"
    zero = False

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        return tree if isinstance(tree, bool) else type_mismatch(tree, self.name, cursor)


class Int(GoType):
    """An integer of this number of bits."""

    zero = 0

    def __init__(self, bits: int) -> None:
        self.name = f"int{bits}"
        self._limit = 2 ** (bits - 1)

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, Number):
            return type_mismatch(tree, self.name, cursor)
        if _INTEGER.fullmatch(tree.text) and -self._limit <= int(tree.text) < self._limit:
            return int(tree.text)
        return _number_mismatch(tree, self.name, cursor)


class Float32(GoType):
    """A number with a fraction; kept and written with the digits a 32-bit float has."""

    name = "float32"
    zero = 0.0

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, Number):
            return type_mismatch(tree, self.name, cursor)
        with np.errstate(over="ignore"):
            value = np.float32(tree.text)
        return float(str(value)) if np.isfinite(value) else _number_mismatch(tree, self.name, cursor)

    def encode(self, value: Any) -> Any:
        return int(value) if float(value).is_integer() else value


class DurationString(GoType):
    """A duration as a string.

    It parses its own text, so what it refuses is reported at once; unless the field is optional even null is
    (empty) text to it.
    """

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
            return type_mismatch(tree, self.name, cursor)
        try:
            return decode_base64(tree)
        except Base64Error as error:
            cursor.refuse(str(error))
            return ABSENT

    def _byte(self, tree: Tree, cursor: Cursor) -> int:
        if not isinstance(tree, Number):
            type_mismatch(tree, "uint8", cursor)
        elif tree.text.isdigit() and int(tree.text) < 256:
            return int(tree.text)
        else:
            _number_mismatch(tree, "uint8", cursor)
        return 0

    def encode(self, value: Any) -> Any:
        return msgspec.to_builtins(value)


class RawExtension(GoType):
    """Any JSON value, kept as it is for a later decoder."""

    name = "runtime.RawExtension"
    zero = None

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        return tree

    def is_empty(self, value: Any) -> bool:
        return False


def type_mismatch(tree: Tree, type_name: str, cursor: Cursor) -> Absent:
    """Note that a value has the wrong type; null never has."""
    if tree is not None:
        cursor.mismatch(kind_of(tree), type_name)
    return ABSENT


def _number_mismatch(number: Number, type_name: str, cursor: Cursor) -> Absent:
    """Note that a number does not fit its type."""
    cursor.mismatch(f"number {number.text}", type_name)
    return ABSENT


class ExplicitEmptyList(tuple[Any, ...]):
    """An empty list that stands in the document, as opposed to one that is just not given.

    Equal to the empty tuple in every respect, except that it is written out as `[]`.
    """

    __slots__ = ()


class ListOf(GoType):
    """A list; null elements become the zero value of their type."""

    zero = ()

    def __init__(self, element: GoType) -> None:
        self.name = f"[]{element.name}"
        self._element = element

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, list):
            return type_mismatch(tree, self.name, cursor)
        element = self._element
        values = (element.decode(item, cursor.element(index)) for index, item in enumerate(tree))
        return tuple(element.zero if value is ABSENT else value for value in values) or ExplicitEmptyList()

    def encode(self, value: Any) -> Any:
        if not value and not isinstance(value, ExplicitEmptyList):
            return None
        return [self._element.encode(item) for item in value]


class MapOf(GoType):
    """A map with string keys."""

    zero = None

    def __init__(self, element: GoType) -> None:
        self.name = f"map[string]{element.name}"
        self._element = element

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, ObjectNode):
            return type_mismatch(tree, self.name, cursor)
        values: dict[str, Any] = {}
        for key, item in tree.members:
            if key in values:
                cursor.duplicate(key)
            value = self._element.decode(item, cursor.entry(key))
            values[key] = self._element.zero if value is ABSENT else value
        return values

    def encode(self, value: Any) -> Any:
        return {key: self._element.encode(item) for key, item in value.items()}

    def is_empty(self, value: Any) -> bool:
        return not value


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of a struct.

    `omit_empty` fields are not written when empty: with the zero value, or, if a `pointer`, with None.
    `embedded` is the Go struct that the field is taken over from.
    """

    name: str
    type: GoType
    omit_empty: bool = True
    pointer: bool = False
    embedded: tuple[str, ...] = ()


class StructOf(GoType):
    """An object with known fields, read into a Python struct whose own defaults stand for absent fields.

    Fields without an attribute in the Python struct are checked and dropped.
    """

    def __init__(self, package: str, cls: type[msgspec.Struct], *fields: StructField, name: str = "") -> None:
        self.struct_name = name or cls.__name__
        self.name = f"{package}.{self.struct_name}"
        self.zero = cls()
        self._cls = cls
        attributes = {info.encode_name: info.name for info in msgspec.structs.fields(cls)}
        self._fields = {field.name: (field, attributes.get(field.name)) for field in fields}

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, ObjectNode):
            return type_mismatch(tree, self.name, cursor)
        values: dict[str, Any] = {}
        seen: set[str] = set()
        for name, item in tree.members:
            if name not in self._fields:
                cursor.unknown(name)
                continue
            if name in seen:
                cursor.duplicate(name)
            seen.add(name)
            field, attribute = self._fields[name]
            value = field.type.decode(item, cursor.member(self.struct_name, field.embedded, name))
            if value is not ABSENT and attribute is not None:
                values[attribute] = value
        return self._cls(**values)

    def encode(self, value: Any) -> Any:
        encoded: dict[str, Any] = {}
        for field, attribute in self._fields.values():
            if attribute is None:
                continue
            item = getattr(value, attribute)
            is_empty = item is None if field.pointer else field.type.is_empty(item)
            if not (is_empty and field.omit_empty):
                encoded[field.name] = None if item is None else field.type.encode(item)
        return encoded

    def is_empty(self, value: Any) -> bool:
        return value is None


_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_LINE_BREAKS = frozenset(b"\r\n")
_PADDING = ord("=")


class Base64Error(ValueError):
    """A string that is not base64."""


def decode_base64(text: str) -> bytes:
    """Decode standard base64 with padding; line breaks are ignored. Raises Base64Error."""
    data = text.encode("utf-8", "surrogatepass")
    error_at = _first_error(data)
    if error_at is not None:
        raise Base64Error(f"illegal base64 data at input byte {error_at}")
    return base64.b64decode(bytes(byte for byte in data if byte not in _LINE_BREAKS))


def _first_error(data: bytes) -> int | None:
    position, in_group = 0, 0
    while position < len(data):
        byte = data[position]
        if byte in _ALPHABET:
            in_group = (in_group + 1) % 4
        elif byte == _PADDING:
            return _padding_error(data, position, in_group)
        elif byte not in _LINE_BREAKS:
            return position
        position += 1
    return len(data) - in_group if in_group else None


def _padding_error(data: bytes, position: int, in_group: int) -> int | None:
    """Position of the error from the first padding character on; None if there is none."""
    if in_group < 2:
        return position
    end = _after_line_breaks(data, position + 1)
    if in_group == 2:
        if end == len(data):
            return len(data)
        if data[end] != _PADDING:
            return end - 1
        end = _after_line_breaks(data, end + 1)
    return end if end < len(data) else None


def _after_line_breaks(data: bytes, position: int) -> int:
    while position < len(data) and data[position] in _LINE_BREAKS:
        position += 1
    return position
