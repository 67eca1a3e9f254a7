"""Changes of objects, and the stretch of them that is remembered for those who resume a watch."""

from bisect import bisect_right
from collections import deque
from itertools import islice
from typing import Final

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation on the bookmark that ends the initial state of a watch."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """What happened to one object, as a watcher sees it.

    `previous` is the object as it was before, None where there was none. A deleted object is shown in its
    last state, with the version of its deletion.
    """

    type: str
    version: int
    object: Json
    previous: Json | None = None

    @property
    def ends_initial_state(self) -> bool:
        """Whether all that existed when the watch began has been shown."""
        annotations = self.object["metadata"].get("annotations") or {}
        return self.type == BOOKMARK and annotations.get(INITIAL_EVENTS_END) == "true"


def bookmark(resource: Resource, version: int, *, ends_initial_state: bool = False) -> Change:
    """Says only how far the watch has come."""
    metadata: Json = {"resourceVersion": str(version)}
    if ends_initial_state:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    shown = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return Change(BOOKMARK, version, shown)


class Past(msgspec.Struct, frozen=True):
    """What is known of the versions of an earlier life, if there was one.

    Changes up to `forgotten` cannot be resumed from. Versions strictly within one of `gaps` may have been
    seen by somebody, but what they stood for was lost.
    """

    forgotten: int = 0
    gaps: tuple[tuple[int, int], ...] = ()

    def lacks(self, version: int) -> bool:
        return version < self.forgotten or any(before < version < after for before, after in self.gaps)


NO_PAST: Final = Past()


class History:
    """The last changes of one resource, oldest first, and never more than so many.

    One more is kept than can be resumed from: of the oldest only the version counts.
    """

    __slots__ = ("_changes", "_past", "append")

    def __init__(self, capacity: int, past: Past = NO_PAST) -> None:
        self._changes: deque[Change] = deque(maxlen=capacity + 1)
        self._past = past
        self.append: Final = self._changes.append

    @property
    def forgotten(self) -> int:
        """The version of the last change that cannot be given any more."""
        changes = self._changes
        return changes[0].version if len(changes) == changes.maxlen else self._past.forgotten

    def since(self, version: int) -> list[Change]:
        """The changes after a version. Raises `ApiError` 410 if some of them have been forgotten."""
        if version < self.forgotten or self._past.lacks(version):
            raise status.expired(f"too old resource version: {version} ({self.forgotten})")
        first = bisect_right(self._changes, version, key=lambda change: change.version)
        return list(islice(self._changes, first, None))
