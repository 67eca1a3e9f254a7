"""From bytes to typed objects: pages of lists and lines of watches.

The straight way decodes everything at once. Only if something in it cannot be read that way is each object
read by itself, so that one bad object does not hide the others.
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.decode import DecodeError, decode
from stowplan.api.meta import AnyObject, Object
from stowplan.api.status import ApiError
from stowplan.client.interface import BOOKMARK, Unreadable, WatchEvent

T = TypeVar("T", bound=Object)

ERROR: Final = "ERROR"
_SYNCED: Final = "k8s.io/initial-events-end"


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, Generic[T]):
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: list[T] | None = None


class _RawPage(msgspec.Struct):
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _RawLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    annotations: dict[str, str] | None = None


class _Outline(msgspec.Struct):
    metadata: _Metadata = _Metadata()


class Page(msgspec.Struct, Generic[T]):
    """A part of a list. `rest` is where the next one begins, "" after the last."""

    items: list[T]
    unreadable: list[Unreadable]
    resource_version: str
    rest: str


class Decoding(Generic[T]):
    """Decodes objects of one resource as one type.

    Servers leave kind and version out of the objects of a list; here they have them in any case. Who manages
    which field, often the larger half of an object, is left out.
    """

    def __init__(self, resource: Resource, cls: type[T]) -> None:
        self._resource = resource
        self._cls = cls
        self._any = issubclass(cls, AnyObject)
        page_type: Any = _Page[dict[str, Any]] if self._any else _Page[cls]  # type: ignore[type-var, valid-type]
        line_type: Any = _Line[dict[str, Any]] if self._any else _Line[cls]  # type: ignore[type-var, valid-type]
        self._pages = msgspec.json.Decoder(page_type)
        self._lines = msgspec.json.Decoder(line_type)

    def page(self, text: bytes) -> Page[T]:
        """A page of a list. Raises msgspec.MsgspecError if it is no list at all."""
        try:
            found = self._pages.decode(text)
            items = [self._complete(item, found.kind) for item in found.items or ()]
            return Page(items, [], found.metadata.resource_version, found.metadata.continue_)
        except msgspec.ValidationError:
            return self._page_one_by_one(text)

    def event(self, line: bytes | memoryview) -> WatchEvent[T]:
        """A line of a watch. Raises `ApiError` for an ERROR, msgspec.MsgspecError for what is no event."""
        try:
            found = self._lines.decode(line)
            obj = self._complete(found.object, "")
        except msgspec.ValidationError:
            return self._event_piecewise(line)
        kind: str = found.type
        if kind in (ERROR, BOOKMARK):
            return self._event_piecewise(line)
        return WatchEvent(kind, obj.key, obj.metadata.resource_version, obj)

    def _complete(self, item: Any, list_kind: str) -> T:
        resource = self._resource
        if self._any:
            metadata = item.get("metadata")
            if isinstance(metadata, dict):
                metadata.pop("managedFields", None)
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind or list_kind.removesuffix("List"))
            made: Any = self._cls.of(item)  # type: ignore[attr-defined]
            return made  # type: ignore[no-any-return]
        if not item.kind:
            msgspec.structs.force_setattr(item, "kind", resource.kind or list_kind.removesuffix("List"))
            msgspec.structs.force_setattr(item, "api_version", resource.api_version)
        return item  # type: ignore[no-any-return]

    def _page_one_by_one(self, text: bytes) -> Page[T]:
        found = msgspec.json.decode(text, type=_RawPage)
        page: Page[T] = Page([], [], found.metadata.resource_version, found.metadata.continue_)
        for raw in found.items or ():
            try:
                page.items.append(self._object(raw, found.kind))
            except (DecodeError, msgspec.MsgspecError) as error:
                page.unreadable.append(Unreadable(_key(_outline(raw)), str(error)))
        return page

    def _event_piecewise(self, line: bytes | memoryview) -> WatchEvent[T]:
        found = msgspec.json.decode(line, type=_RawLine)
        if found.type == ERROR:
            raise _error(found.object)
        outline = _outline(found.object)
        version = outline.resource_version or ""
        if found.type == BOOKMARK:
            synced = (outline.annotations or {}).get(_SYNCED) == "true"
            return WatchEvent(BOOKMARK, "", version, synced=synced)
        try:
            obj = self._object(found.object, "")
        except (DecodeError, msgspec.MsgspecError) as error:
            return WatchEvent(found.type, _key(outline), version, problem=str(error))
        return WatchEvent(found.type, obj.key, version, obj)

    def _object(self, raw: msgspec.Raw, list_kind: str) -> T:
        if self._any:
            return self._complete(msgspec.json.decode(raw, type=dict[str, Any]), list_kind)
        return self._complete(decode(bytes(raw), self._cls), list_kind)


def _outline(raw: msgspec.Raw) -> _Metadata:
    """Which object it is, as far as that can be made out."""
    try:
        return msgspec.json.decode(raw, type=_Outline).metadata
    except msgspec.MsgspecError:
        return _rough_outline(raw)


def _rough_outline(raw: msgspec.Raw) -> _Metadata:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = None
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(metadata, dict):
        return _Metadata(name="?")
    texts = {key: value for key, value in metadata.items() if isinstance(value, str)}
    return _Metadata(texts.get("name", "?"), texts.get("namespace"), texts.get("resourceVersion"))


def _key(metadata: _Metadata) -> str:
    name = metadata.name or "?"
    return f"{metadata.namespace}/{name}" if metadata.namespace else name


def _error(raw: msgspec.Raw) -> ApiError:
    try:
        return status.from_status(msgspec.json.decode(raw, type=dict[str, Any]))
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        return status.unreachable(f"a watch ended with an error that cannot be read: {error}")
