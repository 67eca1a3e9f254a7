"""Parts of a request to an API server besides the object: selectors, patch types, delete options."""

from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api.labels import EVERYTHING, Selector, SelectorError, parse_selector

Json = dict[str, Any]
"""An object as decoded JSON, with all its original fields. Only its creator may change it."""


class PatchType(Enum):
    """How a patch is meant; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class FieldTerm(NamedTuple):
    """One demand: a field has a value, or has any other one."""

    path: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        value = "".join(f"\\{c}" if c in _SPECIAL else c for c in self.value)
        return f"{self.path}{'=' if self.equal else '!='}{value}"


def parse_field_selector(text: str) -> tuple[FieldTerm, ...]:
    """The demands of a selector, ordered by field. Raises `SelectorError`."""
    return tuple(_field_term(text, part) for part in sorted(_split_terms(text)) if part)


_FIELD_OPERATORS: Final = ("!=", "==", "=")
_SPECIAL: Final = "\\,="


def _split_terms(text: str) -> list[str]:
    """The text cut at its commas, except those after a backslash."""
    parts: list[str] = []
    start = position = 0
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] == ",":
            parts.append(text[start:position])
            start = position + 1
        position += 1
    return [*parts, text[start:]]


def _field_term(text: str, part: str) -> FieldTerm:
    for position in range(len(part)):
        for operator in _FIELD_OPERATORS:
            if part.startswith(operator, position):
                value = _unescape(part[position + len(operator) :])
                return FieldTerm(part[:position], value, operator != "!=")
    raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")


def _unescape(value: str) -> str:
    found: list[str] = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if not escaped or escaped not in _SPECIAL:
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            found.append(escaped)
        elif character in _SPECIAL:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            found.append(character)
    return "".join(found)


class Selection(msgspec.Struct, frozen=True):
    """Which objects are meant: by their labels and by some of their fields."""

    labels: Selector = EVERYTHING
    fields: tuple[FieldTerm, ...] = ()

    @classmethod
    def parse(cls, labels: str = "", fields: str = "") -> "Selection":
        """Read selectors as they stand in a URL. Raises `SelectorError`."""
        return cls(parse_selector(labels), parse_field_selector(fields))

    @property
    def is_empty(self) -> bool:
        """True if every object is selected."""
        return self.labels.is_empty and not self.fields

    @property
    def label_text(self) -> str:
        return str(self.labels)

    @property
    def field_text(self) -> str:
        return ",".join(map(str, self.fields))


EVERY_OBJECT: Final = Selection()


class DeleteOptions(msgspec.Struct, frozen=True):
    """How to delete: how much time the object is given, and which object exactly is meant.

    Without a grace period the object's own one counts. `propagation` says what becomes of objects that this
    one owns: they go afterwards (`Background` or nothing), first (`Foreground`), or stay (`Orphan`).
    """

    grace_period_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""


ORDINARY_DELETION: Final = DeleteOptions()
