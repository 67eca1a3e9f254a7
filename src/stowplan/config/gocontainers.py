"""Types made of other types: lists, maps and structs, and how each reads and writes JSON."""

from dataclasses import dataclass
from typing import Any

import msgspec

from stowplan.config.decode import Cursor
from stowplan.config.gotypes import ABSENT, GoType, refused
from stowplan.config.tree import ObjectNode, Tree


class WrittenEmpty(tuple[Any, ...]):
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
            return refused(tree, self.name, cursor)
        element = self._element
        values = (element.decode(item, cursor.element(index)) for index, item in enumerate(tree))
        return tuple(element.zero if value is ABSENT else value for value in values) or WrittenEmpty()

    def encode(self, value: Any) -> Any:
        if not value and not isinstance(value, WrittenEmpty):
            return None
        return [self._element.encode(item) for item in value]


class MapOf(GoType):
    """A map from text."""

    zero = None

    def __init__(self, element: GoType) -> None:
        self.name = f"map[string]{element.name}"
        self._element = element

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, ObjectNode):
            return refused(tree, self.name, cursor)
        values: dict[str, Any] = {}
        for key, item in tree.members:
            if key in values:
                cursor.repeated(key)
            value = self._element.decode(item, cursor.entry(key))
            values[key] = self._element.zero if value is ABSENT else value
        return values

    def encode(self, value: Any) -> Any:
        return {key: self._element.encode(item) for key, item in value.items()}

    def is_empty(self, value: Any) -> bool:
        return not value


@dataclass(frozen=True, slots=True)
class Field:
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

    def __init__(self, package: str, cls: type[msgspec.Struct], *fields: Field, name: str = "") -> None:
        self.struct_name = name or cls.__name__
        self.name = f"{package}.{self.struct_name}"
        self.zero = cls()
        self._cls = cls
        attributes = {info.encode_name: info.name for info in msgspec.structs.fields(cls)}
        self._fields = {field.name: (field, attributes.get(field.name)) for field in fields}

    def decode(self, tree: Tree, cursor: Cursor) -> Any:
        if not isinstance(tree, ObjectNode):
            return refused(tree, self.name, cursor)
        values: dict[str, Any] = {}
        seen: set[str] = set()
        for name, item in tree.members:
            if name not in self._fields:
                cursor.unknown(name)
                continue
            if name in seen:
                cursor.repeated(name)
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
