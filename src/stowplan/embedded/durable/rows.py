"""Changes as rows of the database, and back."""

from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from stowplan.api.catalogue import Catalogue, Resource
from stowplan.embedded.store import DELETED, Change
from stowplan.embedded.store.objects import Key
from stowplan.embedded.store.storage import LogEntry

WIDTH: Final = 6
"""How many columns a row has."""

_JSON: Final = msgspec.json.Encoder()
_OBJECT: Final = msgspec.json.Decoder(dict)

Row = tuple[int, str, str, str, int, bytes | None]
"""Version, resource (`plural.version.group`), namespace, name, checksum of everything, object as JSON."""


class RowError(ValueError):
    """A row that is not as it was written."""


class Recorded(NamedTuple):
    """A change that waits to be kept. What it refers to is never changed, so any thread may read it."""

    resource: Resource
    key: Key
    change: Change


def row_of(recorded: Recorded) -> Row:
    """The row that a change is kept as; of a deleted object only the fact."""
    (namespace, name), change = recorded.key, recorded.change
    resource = recorded.resource.dotted
    text = None if change.type == DELETED else _JSON.encode(change.object)
    return (
        change.version,
        resource,
        namespace,
        name,
        _sum(change.version, resource, recorded.key, text),
        text,
    )


def entry_of(row: Row, catalogue: Catalogue) -> LogEntry:
    """The change that a row was kept for. Raises RowError."""
    version, dotted, namespace, name, checksum, text = row
    key = (namespace, name)
    if _sum(version, dotted, key, text) != checksum:
        raise RowError(f"the checksum of {dotted} {namespace}/{name} at version {version} is wrong")
    resource = catalogue.named(dotted)
    if resource is None:
        raise RowError(f"{dotted} {namespace}/{name} is of a resource that is not known here")
    return LogEntry(resource, key, version, None if text is None else _OBJECT.decode(text))


def definition_of(resource: Resource) -> bytes:
    """A resource that is not built in, so that it can be known again."""
    return _JSON.encode(resource)


def register(catalogue: Catalogue, definition: bytes) -> None:
    """Know a resource again, unless it is known already. Raises RowError."""
    try:
        resource = msgspec.json.decode(definition, type=Resource)
        if catalogue.named(resource.dotted) is None:
            catalogue.register(resource)
    except ValueError as error:
        raise RowError(f"the definition of a resource cannot be read: {error}") from None


def _sum(version: int, resource: str, key: Key, text: bytes | None) -> int:
    place = f"{version} {resource} {key[0]} {key[1]} {text is None}".encode()
    return crc32(text or b"", crc32(place))
