"""Strict reading of documents of earlier releases: every mistake is one line that names the field.

Those releases ignored unknown fields in some places and crashed on wrong values in others. Here both are
refused.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from stowplan.config.load import ConfigError
from stowplan.gocompat.jsontext import (
    Number,
    ObjectNode,
    TextError,
    Tree,
    kind_of,
    looks_like_json,
    parse_json,
    to_python,
)
from stowplan.gocompat.quoting import quote
from stowplan.gocompat.yamltext import YamlDocument, yaml_to_json

_KIND_NAMES: Final = {"object": "an object", "array": "a list"}


def parse_document(data: bytes) -> Tree:
    """The value of a JSON or YAML text. Raises ConfigError."""
    try:
        document = _parse_text(data)
    except TextError as error:
        raise ConfigError("decode", str(error)) from None
    if document.repeated_keys:
        raise ConfigError("decode", f"yaml: {document.repeated_keys[0]}")
    return document.tree


def top_level_members(data: bytes) -> Mapping[str, Tree]:
    """The members of a document as far as it can be read at all."""
    try:
        tree = _parse_text(data).tree
    except TextError:
        return {}
    return dict(tree.members) if isinstance(tree, ObjectNode) else {}


def _parse_text(data: bytes) -> YamlDocument:
    return YamlDocument(parse_json(data)) if looks_like_json(data) else yaml_to_json(data)


def refuse(path: str, problem: str) -> NoReturn:
    """Raise ConfigError about a field."""
    raise ConfigError("decode", f"{path}: {problem}" if path else problem)


def _shown(tree: Tree) -> str:
    """A simple value as messages show it."""
    if isinstance(tree, str):
        return quote(tree)
    return "nothing" if tree is None else str(tree).lower()


class LegacyFields:
    """The members of an object, taken one by one; what is left in the end is unknown.

    A member that is null counts as absent. `path` is where the object stands, empty for the document.
    """

    def __init__(self, tree: Tree, path: str = "", *, any_case: bool = False) -> None:
        if not isinstance(tree, ObjectNode):
            _mismatch(path or "document", "an object", tree)
        self.path = path
        self._any_case = any_case
        self._members: dict[str, tuple[str, Tree]] = {}
        for name, value in tree.members:
            if self._key(name) in self._members:
                refuse(self.at(name), "given twice")
            self._members[self._key(name)] = name, value

    def at(self, name: str) -> str:
        """The path of a member."""
        return f"{self.path}.{name}" if self.path else name

    def _key(self, name: str) -> str:
        return name.lower() if self._any_case else name

    def has(self, name: str) -> bool:
        return self._members.get(self._key(name), ("", None))[1] is not None

    def take(self, name: str) -> Tree:
        """A member as it is; None if it is absent."""
        return self._members.pop(self._key(name), ("", None))[1]

    def data(self, name: str) -> Any:
        """A member as plain data, for the v1 decoder."""
        return to_python(self.take(name))

    def text(self, name: str, default: str = "") -> str:
        value = self.take(name)
        if value is None:
            return default
        return value if isinstance(value, str) else _mismatch(self.at(name), "text", value)

    def flag(self, name: str) -> bool:
        value = self.take(name)
        if value is None:
            return False
        return value if isinstance(value, bool) else _mismatch(self.at(name), "true or false", value)

    def number(self, name: str, lowest: int = -(2**63), highest: int = 2**63 - 1) -> int | None:
        """A whole number within bounds, None if it is absent."""
        value = self.take(name)
        if value is None:
            return None
        where = self.at(name)
        if not isinstance(value, Number):
            _mismatch(where, "a whole number", value)
        found = to_python(value)
        if not isinstance(found, int):
            refuse(where, f"expected a whole number, got {value.text}")
        if not lowest <= found <= highest:
            refuse(where, f"{found} is not between {lowest} and {highest}")
        return found

    def object(self, name: str) -> "LegacyFields | None":
        value = self.take(name)
        return None if value is None else LegacyFields(value, self.at(name))

    def elements(self, name: str) -> list[tuple[str, Tree]] | None:
        """The elements of a list with their paths; None if it is absent."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, list):
            _mismatch(self.at(name), "a list", value)
        return [(f"{self.at(name)}[{index}]", element) for index, element in enumerate(value)]

    def objects(self, name: str) -> "list[LegacyFields] | None":
        """The objects of a list; None if it is absent."""
        elements = self.elements(name)
        return None if elements is None else [LegacyFields(element, path) for path, element in elements]

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list."""
        return tuple(
            element if isinstance(element, str) else _mismatch(path, "text", element)
            for path, element in self.elements(name) or ()
        )

    def done(self, what: str = "") -> None:
        """Refuse what was not taken. `what` says what kind of thing it would have to belong to."""
        for name, _ in self._members.values():
            refuse(self.at(name), f"unknown field{f' of {what}' if what else ''}")


def _mismatch(path: str, wanted: str, tree: Tree) -> NoReturn:
    kind = kind_of(tree)
    found = tree.text if isinstance(tree, Number) else _KIND_NAMES.get(kind) or _shown(tree)
    refuse(path, f"expected {wanted}, got {found}")
