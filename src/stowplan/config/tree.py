"""A document after parsing, before it means anything: JSON values that keep what readers usually drop.

Objects keep repeated keys and the order of their members, numbers keep their spelling: strict decoding
and its error messages need both.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

MAX_DEPTH = 200
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


def plain(tree: Tree) -> Any:
    """The value as ordinary Python data."""
    if isinstance(tree, ObjectNode):
        return {name: plain(value) for name, value in tree.members}
    if isinstance(tree, list):
        return [plain(value) for value in tree]
    if isinstance(tree, Number):
        try:
            return int(tree.text)
        except ValueError:
            return float(tree.text)
    return tree
