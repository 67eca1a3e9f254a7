"""Reading what a client is ready to accept."""

from collections.abc import Mapping
from typing import NamedTuple


class Clause(NamedTuple):
    """One kind of answer that is accepted, with what is said besides: `application/json;as=Statusz`."""

    type: str
    subtype: str
    parameters: Mapping[str, str]
    weight: float = 1.0

    def matches(self, media_type: str) -> bool:
        kind, _, subtype = media_type.partition("/")
        return (self.type == "*" and self.subtype == "*") or (
            self.type == kind and self.subtype in (subtype, "*")
        )


def accepted(header: str) -> list[Clause]:
    """The clauses of an Accept header, those that are wanted most first. What cannot be read is left out."""
    clauses = [clause for part in header.split(",") if (clause := _clause(part)) is not None]
    return sorted(clauses, key=lambda one: (-one.weight, one.type == "*", one.subtype == "*"))


def _clause(text: str) -> Clause | None:
    media, *rest = (piece.strip() for piece in text.split(";"))
    kind, slash, subtype = ("*", "/", "*") if media == "*" else media.partition("/")
    if not slash or not kind or not subtype:
        return None
    parameters = {
        name.strip(): value.strip().strip('"') for name, equals, value in map(_split, rest) if equals
    }
    return Clause(kind.strip(), subtype.strip(), parameters, _weight(parameters.pop("q", "")))


def _split(parameter: str) -> tuple[str, str, str]:
    return parameter.partition("=")


def _weight(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 1.0
