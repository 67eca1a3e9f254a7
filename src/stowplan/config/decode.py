"""Strict decoding: JSON values into typed structs, with the error messages kube-scheduler gives.

Three sorts of trouble are told apart, as upstream does:

* a value of the wrong type: decoding goes on, the first such error is reported at the end;
* text that a type refuses (a duration that is none): reported at once, before anything else;
* unknown and repeated fields: collected, and reported only if nothing worse happened.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from stowplan.api.fielderrors import quote
from stowplan.config.tree import Tree

_MAX_STRICT_PROBLEMS = 100


class DocumentError(ValueError):
    """A document that cannot be decoded."""


class StrictDocumentError(DocumentError):
    """A document that could be decoded but has unknown or repeated fields, or contains such a part."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("strict decoding error: " + ", ".join(self.problems))


@dataclass(slots=True)
class _Findings:
    """What went wrong so far."""

    first_mismatch: str | None = None
    strict: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place in the document that is being decoded.

    `struct` and `fields` are what messages about types name (no list indexes), `path` what messages about
    unknown fields name (with indexes).
    """

    findings: _Findings = field(default_factory=_Findings)
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
        if self.findings.first_mismatch is None:
            self.findings.first_mismatch = message

    def unknown(self, name: str) -> None:
        self._strict("unknown field", name)

    def repeated(self, name: str) -> None:
        self._strict("duplicate field", name)

    def _strict(self, problem: str, name: str) -> None:
        if len(self.findings.strict) < _MAX_STRICT_PROBLEMS:
            self.findings.strict[f"{problem} {quote(self._below(name))}"] = None

    def _below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


class Decodable(Protocol):
    """A type that can read a JSON value."""

    def decode(self, tree: Tree, cursor: Cursor) -> Any: ...


def decode_strictly(tree: Tree, go_type: Decodable) -> tuple[Any, tuple[str, ...]]:
    """Decode a value as a type; gives it and its unknown and repeated fields. Raises DocumentError."""
    cursor = Cursor()
    value = go_type.decode(tree, cursor)
    if cursor.findings.first_mismatch is not None:
        raise DocumentError(cursor.findings.first_mismatch)
    return value, tuple(cursor.findings.strict)
