"""From bytes to typed objects: pages of lists and lines of watches.

Many objects are decoded at once. Only if something in them cannot be read that way is each object read by
itself, so that one bad object does not hide the others.

A page can be tens of megabytes: servers that answer from their watch cache ignore `limit`. It is cut between
items and decoded slice by slice while it comes, so that the caller can let others run in between.
"""

import re
from collections.abc import Generator, Iterable
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.decode import DecodeError, decode
from stowplan.api.meta import AnyObject, Object
from stowplan.api.status import ApiError
from stowplan.client.interface import ADDED, BOOKMARK, DELETED, MODIFIED, Unreadable, WatchEvent

T = TypeVar("T", bound=Object)

ERROR: Final = "ERROR"
_SHOWN: Final = frozenset((ADDED, MODIFIED, DELETED))
"""Events that show an object."""

SLICE: Final = 128 * 1024
"""Bytes of a page that are decoded at once. They take one or two milliseconds."""

_CUTS_TRIED: Final = 4
_ONE_BY_ONE: Final = 100
_FIRST_ITEM: Final = re.compile(rb'"items":\[(\{"[^"\\]+":)')
"""The beginning of the items of a page with the first key of the first one. Others begin like it."""

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


class Wanted(Enum):
    """What decoding waits for."""

    MORE = auto()


MORE: Final = Wanted.MORE


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
        items_type: Any = list[dict[str, Any]] if self._any else list[cls]  # type: ignore[valid-type]
        page_type: Any = _Page[dict[str, Any]] if self._any else _Page[cls]  # type: ignore[type-var, valid-type]
        line_type: Any = _Line[dict[str, Any]] if self._any else _Line[cls]  # type: ignore[type-var, valid-type]
        self._items = msgspec.json.Decoder(items_type)
        self._pages = msgspec.json.Decoder(page_type)
        self._lines = msgspec.json.Decoder(line_type)

    def parts(self) -> "Generator[Page[T] | Wanted | None, bytes, None]":
        """A page of a list that is decoded while it comes, in steps of a few milliseconds.

        A step gives objects; or `MORE`, when the next piece of the text has to be sent, b"" after the last;
        or nothing. The version and the rest are in the last part. Raises msgspec.MsgspecError if it is no
        list.
        """
        text, ended = yield from _gathered(b"", SLICE)
        first = None if ended else _FIRST_ITEM.search(text)
        kind = None if first is None else _kind_of_head(text[: first.start(1)])
        if first is None or kind is None or not (kind or self._resource.kind):
            while not ended:
                text, ended = yield from _gathered(text, 2 * len(text))
            yield (yield from self._whole_page(text))
            return
        head, text = text[: first.start(1)], text[first.start(1) :]
        size = SLICE
        while True:
            text, ended = yield from _gathered(text, size)
            if ended:
                break
            items: list[T] = []
            unreadable: list[Unreadable] = []
            cut = yield from self._slice(text, b"}," + first[1], kind, items, unreadable)
            text, size = text[cut:], (SLICE if cut else 2 * size)
            yield Page(items, unreadable, "", "")
        yield (yield from self._whole_page(head + text))

    def _slice(
        self, text: bytes, separator: bytes, kind: str, items: list[T], unreadable: list[Unreadable]
    ) -> Generator[None, bytes, int]:
        """Decode as many whole items as possible from the beginning of a text; how many bytes they were.

        The separator also occurs within items that have such lists themselves. Cut there, what comes before
        is no sequence of whole values, and decoding it fails.
        """
        end = len(text)
        for _ in range(_CUTS_TRIED):
            at = text.rfind(separator, 0, end)
            if at < 0:
                break
            try:
                found = yield from self._decoded(b"[%b]" % text[: at + 1], kind, unreadable)
            except msgspec.MsgspecError:
                end = at + len(separator) - 1
                yield
            else:
                items += found
                return at + 2
        return 0

    def _decoded(
        self, array: bytes, kind: str, unreadable: list[Unreadable]
    ) -> Generator[None, bytes, list[T]]:
        """The readable objects of a JSON array."""
        try:
            return [self._complete(item, kind) for item in self._items.decode(array)]
        except msgspec.ValidationError:
            raws = msgspec.json.decode(array, type=list[msgspec.Raw])
        return (yield from self._one_by_one(raws, kind, unreadable))

    def _whole_page(self, text: bytes) -> Generator[None, bytes, Page[T]]:
        try:
            found = self._pages.decode(text)
            items = [self._complete(item, found.kind) for item in found.items or ()]
            return Page(items, [], found.metadata.resource_version, found.metadata.continue_)
        except msgspec.ValidationError:
            raw = msgspec.json.decode(text, type=_RawPage)
        unreadable: list[Unreadable] = []
        items = yield from self._one_by_one(raw.items or (), raw.kind, unreadable)
        return Page(items, unreadable, raw.metadata.resource_version, raw.metadata.continue_)

    def _one_by_one(
        self, raws: Iterable[msgspec.Raw], kind: str, unreadable: list[Unreadable]
    ) -> Generator[None, bytes, list[T]]:
        items: list[T] = []
        for number, raw in enumerate(raws, 1):
            try:
                items.append(self._object(raw, kind))
            except (DecodeError, msgspec.MsgspecError) as error:
                unreadable.append(Unreadable(_key(_outline(raw)), str(error)))
            if not number % _ONE_BY_ONE:
                yield
        return items

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

    def events(self, lines: bytes) -> list[WatchEvent[T]] | None:
        """Several lines of a watch, all decoded at once. None if one of them shows no object, or one that
        cannot be read: then each has to be read by itself.
        """
        try:
            found = self._lines.decode_lines(lines)
            if not _SHOWN.issuperset([one.type for one in found]):
                return None
            objects = [self._complete(one.object, "") for one in found]
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return [
            WatchEvent(one.type, obj.key, obj.metadata.resource_version, obj)
            for one, obj in zip(found, objects, strict=True)
        ]

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


def _gathered(text: bytes, size: int) -> Generator[Wanted, bytes, tuple[bytes, bool]]:
    """A text with further pieces, until it has more than so many bytes or has ended, and whether it has."""
    pieces, missing = [text], size - len(text)
    while missing >= 0:
        piece = yield MORE
        if not piece:
            return b"".join(pieces), True
        missing -= len(piece)
        pieces.append(piece)
    return b"".join(pieces), False


def _kind_of_head(head: bytes) -> str | None:
    """The kind of a list whose text ends where its first item begins; None if it is nothing of that sort."""
    try:
        found = msgspec.json.decode(head + b"]}", type=_RawPage)
    except msgspec.MsgspecError:
        return None
    return None if found.items != [] else found.kind


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
