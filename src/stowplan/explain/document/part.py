"""Base of all parts of the document: immutable, camelCase in JSON, plain data on request."""

from typing import Any

import msgspec


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a document. All its fields are in the JSON."""

    def document(self) -> dict[str, Any]:
        """The same as plain data, as it is in JSON."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


class SparsePart(Part, frozen=True, omit_defaults=True):
    """A part of which JSON leaves out the fields that do not apply."""
