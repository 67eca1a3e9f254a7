"""The string syntax of field selectors: `spec.nodeName=n1,status.phase!=Failed`.

A comma, an equals sign or a backslash in a value is written with a backslash before it.
"""

from typing import Final, NamedTuple

from stowplan.api.selectortext import SelectorError

_OPERATORS: Final = ("!=", "==", "=")
_SPECIAL: Final = "\\,="


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
    return tuple(_term(text, part) for part in sorted(_parts(text)) if part)


def _parts(text: str) -> list[str]:
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


def _term(text: str, part: str) -> FieldTerm:
    for position in range(len(part)):
        for operator in _OPERATORS:
            if part.startswith(operator, position):
                value = _unescaped(part[position + len(operator) :])
                return FieldTerm(part[:position], value, operator != "!=")
    raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")


def _unescaped(value: str) -> str:
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
