"""From bytes to typed objects: pages of lists and lines of watches.

Many objects are decoded at once. Only if something in them cannot be read that way is each object read by
itself, so that one bad object does not hide the others: where they begin and end is found by strings and
brackets alone (`api/pruning.py`), and of the object itself only what its type declares has to be good.

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
from stowplan.api.decode import UNDECODABLE, DecodeError, decoding, decoding_plain, undecodable
from stowplan.api.meta import AnyObject, Object
from stowplan.api.pruning import ScanError, Steps, at_once, elements, members
from stowplan.api.status import ApiError
from stowplan.client.http.connection import LARGEST_OBJECT, TooLargeError
from stowplan.client.interface import ADDED, BOOKMARK, DELETED, MODIFIED, Unreadable, WatchEvent

T = TypeVar("T", bound=Object)

ERROR: Final = "ERROR"
_SHOWN: Final = frozenset((ADDED, MODIFIED, DELETED))
"""Events that show an object."""

SLICE: Final = 128 * 1024
"""Bytes of a page that are decoded at once. They take one or two milliseconds."""

_ONE_BY_ONE: Final = 100
_FIRST_ITEM: Final = re.compile(rb'"items"\s*:\s*\[\s*(\{\s*"[^"\\]+"\s*:)')
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
    uid: str | None = None
    resource_version: str | None = None
    annotations: dict[str, str] | None = None

    @property
    def key(self) -> str:
        name = self.name or "?"
        return f"{self.namespace}/{name}" if self.namespace else name


_NAMELESS: Final = _Metadata(name="?")


class _Outline(msgspec.Struct):
    metadata: _Metadata = _Metadata()


class WantedFields(Enum):
    """Input that decoding waits for."""

    MORE = auto()


MORE: Final = WantedFields.MORE


class Page(msgspec.Struct, Generic[T]):
    """A part of a list. `rest` is where the next one begins, "" after the last."""

    items: list[T]
    unreadable: list[Unreadable]
    resource_version: str
    rest: str


class Decoding(Generic[T]):
    """Decodes objects of one resource as one type.

    Servers leave kind and version out of the objects of a list; here they have them in any case. Managed
    fields, often the larger half of an object, are left out.
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

    def parts(self) -> "Generator[Page[T] | WantedFields | None, bytes, None]":
        """A page of a list that is decoded while it comes, in steps of a few milliseconds.

        A step gives objects; or `MORE`, when the next piece of the text has to be sent, b"" after the last;
        or nothing. The version and the rest are in the last part. Raises one of `UNDECODABLE` if it is no
        list, or has something in it that is larger than any object.
        """
        text, ended = yield from _gathered(b"", SLICE)
        first = None if ended else _FIRST_ITEM.search(text)
        kind = None if first is None else _kind_of_head(text[: first.start(1)])
        if first is None or kind is None or not (kind or self._resource.kind):
            while not ended:
                _check_size(text, "a list that does not begin as one")
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
            if not cut:
                _check_size(text, "an object of a list")
            text, size = text[cut:], (SLICE if cut else min(2 * size, LARGEST_OBJECT))
            yield Page(items, unreadable, "", "")
        yield (yield from self._whole_page(head + text))

    def _slice(
        self, text: bytes, separator: bytes, kind: str, items: list[T], unreadable: list[Unreadable]
    ) -> Steps[int]:
        """Decode as many whole items as possible from the beginning of a text; how many bytes they were.

        The separator also occurs within items that have such lists themselves. Cut there, what comes before
        is no sequence of whole values, and decoding it fails. Then the end of each item is looked for.
        """
        at = text.rfind(separator)
        if at >= 0:
            try:
                items += yield from self._decoded(b"[%b]" % text[: at + 1], kind, unreadable)
                return at + 2
            except UNDECODABLE:
                yield
        spans, rest = yield from elements(text, 0)
        raws = [text[begin:end] for begin, end in spans]
        items += yield from self._one_by_one(raws, kind, unreadable)
        return rest

    def _decoded(self, array: bytes, kind: str, unreadable: list[Unreadable]) -> Steps[list[T]]:
        """The readable objects of a JSON array. Raises one of `UNDECODABLE` if they cannot be told apart."""
        try:
            return [self._complete(item, kind) for item in self._items.decode(array)]
        except msgspec.ValidationError:
            raws = msgspec.json.decode(array, type=list[msgspec.Raw])
        return (yield from self._one_by_one(map(bytes, raws), kind, unreadable))

    def _whole_page(self, text: bytes) -> Steps[Page[T]]:
        try:
            found = self._pages.decode(text)
            items = [self._complete(item, found.kind) for item in found.items or ()]
            return Page(items, [], found.metadata.resource_version, found.metadata.continue_)
        except UNDECODABLE:
            yield
        kind, metadata, raws = yield from _taken_apart(text)
        unreadable: list[Unreadable] = []
        items = yield from self._one_by_one(raws, kind, unreadable)
        return Page(items, unreadable, metadata.resource_version, metadata.continue_)

    def _one_by_one(self, raws: Iterable[bytes], kind: str, unreadable: list[Unreadable]) -> Steps[list[T]]:
        items: list[T] = []
        for number, raw in enumerate(raws, 1):
            try:
                items.append((yield from self._object(raw, kind)))
            except DecodeError as error:
                outline = yield from _outline(raw)
                version = outline.resource_version or ""
                unreadable.append(Unreadable(outline.key, str(error), outline.uid or "", version))
            if not number % _ONE_BY_ONE:
                yield
        return items

    def event(self, line: bytes | memoryview) -> WatchEvent[T] | None:
        """A line of a watch that is as it should be; None for another one, which `reading` reads in steps.

        Raises `ApiError` for an ERROR.
        """
        try:
            found = self._lines.decode(line)
            obj = self._complete(found.object, "")
        except UNDECODABLE:
            return _without_object(line)
        kind: str = found.type
        if kind in (ERROR, BOOKMARK):
            return _without_object(line)
        return WatchEvent(kind, obj.key, obj.metadata.resource_version, obj)

    def reading(self, line: bytes) -> Steps[WatchEvent[T]]:
        """Any line of a watch, in steps. Raises `ApiError` for an ERROR, ScanError for what is no event."""
        found = yield from members(line)
        try:
            kind, raw = _text(line, found[b"type"]), line[slice(*found[b"object"])]
        except KeyError as error:
            raise ScanError(f"an event without {error.args[0].decode()!r}") from None
        if kind == ERROR:
            raise _error(raw)
        outline = yield from _outline(raw)
        version = outline.resource_version or ""
        if kind == BOOKMARK:
            return _bookmark(outline)
        try:
            obj = yield from self._object(raw, "")
        except DecodeError as error:
            return WatchEvent(kind or "?", outline.key, version, problem=str(error), uid=outline.uid or "")
        return WatchEvent(kind or "?", obj.key, version, obj)

    def events(self, lines: bytes) -> list[WatchEvent[T]] | None:
        """Several lines of a watch, all decoded at once. None if one of them shows no object, or one that
        cannot be read: then each has to be read by itself.
        """
        try:
            found = self._lines.decode_lines(lines)
            if not _SHOWN.issuperset([one.type for one in found]):
                return None
            objects = [self._complete(one.object, "") for one in found]
        except UNDECODABLE:
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

    def _object(self, raw: bytes, list_kind: str) -> Steps[T]:
        """Raises DecodeError."""
        if not self._any:
            return self._complete((yield from decoding(raw, self._cls)), list_kind)
        data = yield from decoding_plain(raw)
        try:
            return self._complete(data, list_kind)
        except UNDECODABLE as error:
            raise DecodeError(f"object: {undecodable(error)}") from None


def _gathered(text: bytes, size: int) -> Generator[WantedFields, bytes, tuple[bytes, bool]]:
    """Append further pieces to a text until it has more than `size` bytes or has ended; returns it, and True
    if it has ended."""
    pieces, missing = [text], size - len(text)
    while missing >= 0:
        piece = yield MORE
        if not piece:
            return b"".join(pieces), True
        missing -= len(piece)
        pieces.append(piece)
    return b"".join(pieces), False


def _check_size(text: bytes, what: str) -> None:
    if len(text) > LARGEST_OBJECT:
        raise TooLargeError(what)


def _kind_of_head(head: bytes) -> str | None:
    """The kind of a list whose text ends where its first item begins; None if it is nothing of that sort."""
    try:
        found = msgspec.json.decode(head + b"]}", type=_RawPage)
    except UNDECODABLE:
        return None
    return None if found.items != [] else found.kind


def _taken_apart(text: bytes) -> Steps[tuple[str, _ListMeta, list[bytes]]]:
    """The kind, the metadata and the items of a page. Raises one of `UNDECODABLE` if it is no list."""
    found = yield from members(text)
    kind, metadata = _text(text, found.get(b"kind")), _ListMeta()
    if b"metadata" in found:
        metadata = msgspec.json.decode(text[slice(*found[b"metadata"])], type=_ListMeta)
    begin, end = found.get(b"items", (0, 0))
    array = text[begin:end]
    if array in (b"", b"null"):
        return kind, metadata, []
    if not array.startswith(b"["):
        raise DecodeError("Expected `array` - at `$.items`")
    spans, _ = yield from elements(array, 1, to_the_end=True)
    return kind, metadata, [array[slice(*span)] for span in spans]


def _without_object(line: bytes | memoryview) -> WatchEvent[Any] | None:
    """A line that shows no object: a bookmark. None if it is no such line, `ApiError` for an ERROR."""
    try:
        found = msgspec.json.decode(line, type=_RawLine)
        if found.type == ERROR:
            raise _error(bytes(found.object))
        if found.type == BOOKMARK:
            return _bookmark(msgspec.json.decode(found.object, type=_Outline).metadata)
    except UNDECODABLE:
        return None
    return None


def _bookmark(outline: _Metadata) -> WatchEvent[Any]:
    synced = (outline.annotations or {}).get(_SYNCED) == "true"
    return WatchEvent(BOOKMARK, "", outline.resource_version or "", synced=synced)


def _outline(raw: bytes) -> Steps[_Metadata]:
    """Which object it is, as far as that can be made out."""
    try:
        top = yield from members(raw)
        if b"metadata" not in top:
            return _NAMELESS
        begin = top[b"metadata"][0]
        found = yield from members(raw, begin)
    except ScanError:
        return _NAMELESS
    name, namespace, uid, version = (
        _text(raw, found.get(one)) or None for one in (b"name", b"namespace", b"uid", b"resourceVersion")
    )
    annotations: dict[str, str] | None = None
    if b"annotations" in found:
        try:
            annotations = msgspec.json.decode(raw[slice(*found[b"annotations"])], type=dict[str, str])
        except UNDECODABLE:
            annotations = None
    return _Metadata(name, namespace, uid, version, annotations)


def _text(text: bytes, span: tuple[int, int] | None) -> str:
    """The string that is there, "" if none is."""
    try:
        return "" if span is None else msgspec.json.decode(text[slice(*span)], type=str)
    except UNDECODABLE:
        return ""


def _error(raw: bytes) -> ApiError:
    try:
        return status.from_status(at_once(decoding_plain(raw)))
    except (*UNDECODABLE, TypeError) as error:
        return status.unreachable(f"a watch ended with an error that cannot be read: {undecodable(error)}")
