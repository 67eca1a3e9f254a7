"""Documents without the pods of namespaces that a viewer may not see.

An explanation of one pod names others: victims of preemption, pods that are in the way, a pod whose end would
help. Plugins put such names into sentences, always as `namespace/name`, so texts are searched for them. The
names of groups are found by what stands before them: `podgroup/namespace/name`, `PodGroup namespace/name`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan.explain.document.pod import Change

HIDDEN: Final = "a pod of another namespace"
HIDDEN_GROUP: Final = "a group of another namespace"

_KEY: Final = re.compile(
    r"(?<![\w./-])(?:pod/|(?P<group>(?:composite)?podgroup/|(?:group|PodGroup|CompositePodGroup) ))?"
    r"(?P<namespace>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?"
)


def redacted(document: Any, hidden: Collection[str]) -> Any:
    """A document, or plain data, in which no pod of a hidden namespace is named."""
    if not hidden:
        return document
    if isinstance(document, str):
        return _KEY.sub(lambda found: _named(found) if found["namespace"] in hidden else found[0], document)
    if isinstance(document, msgspec.Struct):
        found = replace(document, **{name: redacted(value, hidden) for name, value in _fields(document)})
        # A command names a pod and its namespace in separate words, so it goes as a whole.
        return replace(found, command="") if isinstance(found, Change) and found != document else found
    if isinstance(document, Mapping):
        return {
            key: redacted(value, hidden) for key, value in document.items() if not _names_hidden(key, hidden)
        }
    if isinstance(document, tuple):
        return tuple(redacted(one, hidden) for one in document)
    return [redacted(one, hidden) for one in document] if isinstance(document, list) else document


def namespaces_in(document: Any) -> set[str]:
    """The namespaces of everything that may be the name of a pod or group somewhere in a document."""
    if isinstance(document, str):
        return {found["namespace"] for found in _KEY.finditer(document)}
    if isinstance(document, msgspec.Struct):
        document = [value for _, value in _fields(document)]
    elif isinstance(document, Mapping):
        document = [*document, *document.values()]
    if isinstance(document, list | tuple):
        return set().union(*map(namespaces_in, document))
    return set()


def _names_hidden(key: object, hidden: Collection[str]) -> bool:
    """True for the name of a hidden pod as a key: what is known by it is left out."""
    found = _KEY.fullmatch(key) if isinstance(key, str) else None
    return found is not None and found["namespace"] in hidden


def _fields(document: msgspec.Struct) -> list[tuple[str, Any]]:
    return [(name, getattr(document, name)) for name in document.__struct_fields__]


def _named(found: re.Match[str]) -> str:
    return HIDDEN_GROUP if found["group"] else HIDDEN
