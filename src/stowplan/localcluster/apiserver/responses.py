"""Responses: Status objects, warnings, and objects as JSON, as rows of a table or by their metadata alone."""

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from stowplan.api.catalogue import EVENTS, Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError, bad_request
from stowplan.gocompat.quoting import quote
from stowplan.gocompat.yamltext import to_yaml
from stowplan.localcluster.apiserver.request import (
    JSON,
    METADATA,
    METADATA_LIST,
    TABLE,
    YAML,
    ResponseFormat,
    not_acceptable,
)
from stowplan.localcluster.apiserver.tables import Tables
from stowplan.localcluster.apply import plain_json
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.schema.goform import zero_object
from stowplan.localcluster.schema.protobuf import ProtobufError, encoded_text
from stowplan.localcluster.store import BOOKMARK, StoreChange
from stowplan.localcluster.store.attempts import WriteAttempts
from stowplan.localcluster.store.conversion import Conversion, as_core
from stowplan.localcluster.store.definitions import Definitions
from stowplan.runtime.clock import Clock

_INCLUDED: Final = ("", "Metadata", "Object", "None")
_LONGEST_BLOCK_YAML: Final = 64 * 1024
"""Bytes of JSON that are written as YAML in block style, which is slow. JSON is YAML too."""

PIECE: Final = 64 * 1024
_ROWS: Final = 100
_MAX_WARNINGS: Final = 30
_MAX_WARNING_LENGTH: Final = 256
_encode: Final = msgspec.json.Encoder(enc_hook=plain_json).encode


def response_of(
    raw: bytes, code: int = 200, *, content_type: str = JSON, warnings: Sequence[str] = ()
) -> web.Response:
    """An answer whose body is there already."""
    response = web.Response(body=raw, status=code, content_type=content_type)
    for warning in warnings[:_MAX_WARNINGS]:
        response.headers.add("Warning", warning_header(warning))
    return response


def add_warnings(response: web.StreamResponse, attempts: WriteAttempts | None) -> None:
    """Add the warnings of a write to its response."""
    for warning in [] if attempts is None else attempts.warnings[:_MAX_WARNINGS]:
        response.headers.add("Warning", warning_header(warning))


def warning_header(text: str) -> str:
    return f'299 - "{_escaped(text[:_MAX_WARNING_LENGTH])}"'


def json_response(data: Any, code: int = 200, *, content_type: str = JSON) -> web.Response:
    return response_of(_encode(data), code, content_type=content_type)


async def in_media_type(response: web.Response, media: str) -> web.Response:
    """A response in JSON as one of another media type. Raises `ApiError` 406 if there is no such thing.

    Others are served between the objects of a list.
    """
    body = response.body
    if media == JSON or response.content_type != JSON or not isinstance(body, bytes):
        return response
    if media == YAML:
        if len(body) <= _LONGEST_BLOCK_YAML:
            response.body = to_yaml(msgspec.json.decode(body)).encode()
    else:
        try:
            response.body = await _between_others(encoded_text(body))
        except ProtobufError:
            raise not_acceptable((JSON, YAML)) from None
    response.content_type = media
    return response


async def _between_others(steps: Generator[None, None, bytes]) -> bytes:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: bytes = end.value
            return made
        await asyncio.sleep(0)


def error_response(error: ApiError) -> web.Response:
    """An error as the API shows it."""
    response = json_response(error.status(), error.code or 500)
    if error.code in (429, 503, 504) and error.retry_after:
        response.headers["Retry-After"] = str(int(error.retry_after))
    for warning in error.warnings[:_MAX_WARNINGS]:
        response.headers.add("Warning", warning_header(warning))
    if error.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def success_response(code: int = 200, **details: Any) -> web.Response:
    """A Status that says only that it is done."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    return json_response(body, code)


def _escaped(text: str) -> str:
    """Text as it may stand in a header between quotes."""
    plain = "".join(character if " " <= character <= "~" else "?" for character in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


encode: Final = msgspec.json.Encoder(enc_hook=plain_json).encode
_EVENT_START: Final = {
    type_: b'{"type":"' + type_.encode() + b'","object":'
    for type_ in ("ADDED", "MODIFIED", "DELETED", BOOKMARK)
}


_NOTHING: Final[Mapping[str, Any]] = {}


class ResponseView:
    """One form of one resource's objects, as bytes. The same object shown twice in a row costs once."""

    def __init__(
        self,
        conversion: Conversion,
        shape: Callable[[Json], Any],
        kind: str,
        list_metadata: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """`list_metadata` is what the metadata of a list has even if there is nothing to say."""
        self._conversion = conversion
        self._shape = shape
        self._kind = kind
        self._list_metadata = list_metadata
        self._last: Json | None = None
        self._last_raw = b""
        self._last_event: tuple[Json | None, str, bool] = (None, "", False)
        self._last_line = b""
        resource = conversion.resource
        self._is_typed = kind.startswith(f"{resource.api_version}/") and not resource.custom

    def raw(self, obj: Json) -> bytes:
        """One object."""
        if obj is self._last:
            return self._last_raw
        self._last_raw = encode(self._shape(obj))
        self._last = obj
        return self._last_raw

    def listing(self, items: list[Json], metadata: Json) -> bytes:
        """Objects as a list."""
        return b"".join(self.pieces(items, metadata))

    def pieces(self, items: list[Json], metadata: Json) -> Iterator[bytes]:
        """Objects as a list that is made piece by piece, in pieces of about PIECE bytes."""
        api_version, _, kind = self._kind.rpartition("/")
        metadata = {**self._list_metadata, **metadata}
        head = encode({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": []})
        yield head.removesuffix(b"]}")
        shape = self._shape
        begin, at_once = 0, 1
        while begin < len(items):
            shown = [shape(obj) for obj in items[begin : begin + at_once]]
            if self._is_typed:
                shown = [_without_type(obj) for obj in shown]
            piece = encode(shown)[1:-1]
            yield b"," + piece if begin else piece
            begin += len(shown)
            at_once = min(max(1, PIECE * len(shown) // len(piece)), 4 * at_once)
        yield b"]}"

    def line(self, change: StoreChange, *, begins: bool = False) -> bytes:
        """A change as a line of a watch, which may be the first of it.

        All watches that are sent one change in turn get the same bytes: those that wait to be read are in
        memory once, however many clients do not read.
        """
        obj, type_, begun = self._last_event
        if obj is change.object and type_ == change.type and begun == begins:
            return self._last_line
        self._last_line = _EVENT_START[change.type] + self._event(change, begins) + b"}\n"
        self._last_event = (change.object, change.type, begins)
        return self._last_line

    def forget_last(self) -> None:
        """Keep nothing of what was shown last."""
        self._last, self._last_raw = None, b""
        self._last_event, self._last_line = (None, "", False), b""

    def _event(self, change: StoreChange, begins: bool) -> bytes:
        return encode(self._bookmark(change.object)) if change.type == BOOKMARK else self.raw(change.object)

    def _bookmark(self, obj: Json) -> Any:
        resource = self._conversion.resource
        if not self._is_typed:
            return self._shape({**obj, "apiVersion": resource.api_version, "kind": resource.kind})
        type_ = the_schema().of_kind(resource.group, resource.version, resource.kind)
        shown = {"kind": resource.kind, "apiVersion": resource.api_version, **zero_object(type_)}
        return {**shown, "metadata": obj["metadata"]}


def _without_type(obj: Json) -> Json:
    """An element of a list, whose type the list itself names."""
    return {field: value for field, value in obj.items() if field != "kind" and field != "apiVersion"}


class TableView(ResponseView):
    """Objects as rows. Rows show ages, so what was shown last is kept for that second only."""

    def __init__(self, conversion: Conversion, tables: Tables, version: str, include: str) -> None:
        super().__init__(conversion, lambda obj: obj, "")
        self._tables = tables
        self._version = f"meta.k8s.io/{version}"
        self._include = include
        self._shown_at = 0.0

    def raw(self, obj: Json) -> bytes:
        return encode(self._of_one([obj], obj, with_columns=True))

    def pieces(self, items: list[Json], metadata: Json) -> Iterator[bytes]:
        table = self._table(items[:_ROWS], metadata)
        if len(items) <= _ROWS:
            yield encode(table)
            return
        yield encode(table).removesuffix(b"]}")
        for begin in range(_ROWS, len(items), _ROWS):
            yield b"," + encode(self._table(items[begin : begin + _ROWS], metadata)["rows"])[1:-1]
        yield b"]}"

    def line(self, change: StoreChange, *, begins: bool = False) -> bytes:
        """A change as a line of a watch; only the first has the columns."""
        now = self._tables.clock.now() // 1
        if now != self._shown_at:
            self._shown_at = now
            self.forget_last()
        return super().line(change, begins=begins)

    def _event(self, change: StoreChange, begins: bool) -> bytes:
        rows = [] if change.type == BOOKMARK else [change.object]
        return encode(self._of_one(rows, change.object, with_columns=begins))

    def _of_one(self, rows: list[Json], obj: Json, *, with_columns: bool) -> Json:
        return self._table(rows, {"resourceVersion": obj["metadata"]["resourceVersion"]}, with_columns)

    def _table(self, items: list[Json], metadata: Json, with_columns: bool = True) -> Json:
        table = self._tables.of(self._conversion.resource)
        is_event = self._conversion.stored == EVENTS
        shown = [as_core(obj) for obj in items] if is_event else items
        rows = table.rows(shown, [self._attached(obj) for obj in items])
        return {
            "kind": "Table",
            "apiVersion": self._version,
            "metadata": metadata,
            "columnDefinitions": table.columns if with_columns else None,
            "rows": rows,
        }

    def _attached(self, obj: Json) -> Json | None:
        """Object of a row besides the cells."""
        if self._include == "None":
            return None
        return self._conversion.to_served(obj) if self._include == "Object" else metadata_only(obj)


def metadata_only(obj: Json) -> Json:
    """An object reduced to its metadata."""
    return {"kind": METADATA, "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


class Views:
    """The views of all resources, each made when first asked for."""

    def __init__(self, clock: Clock, definitions: Definitions) -> None:
        self._definitions = definitions
        self._revision = definitions.revision
        self._tables = Tables(clock, definitions)
        self._conversions: dict[Resource, Conversion] = {}
        self._plain: dict[Resource, ResponseView] = {}
        self._others: dict[tuple[Resource, str, str, str], ResponseView] = {}

    def conversion(self, resource: Resource) -> Conversion:
        if self._revision != self._definitions.revision:
            self._forget()
        conversion = self._conversions.get(resource)
        if conversion is None:
            custom = self._definitions.version_of(resource)
            conversion = self._conversions[resource] = Conversion(resource, custom)
        return conversion

    def _forget(self) -> None:
        """Make views anew: what is defined about custom resources has changed."""
        self._revision = self._definitions.revision
        self._conversions.clear()
        self._plain.clear()
        self._others.clear()
        self._tables.forget()

    def plain(self, resource: Resource) -> ResponseView:
        """The objects as they are."""
        conversion = self.conversion(resource)
        view = self._plain.get(resource)
        if view is None:
            custom = self._definitions.version_of(resource)
            kind = f"{resource.kind}List" if custom is None else custom.list_kind
            always = {"continue": ""} if resource.custom else _NOTHING
            view = ResponseView(conversion, conversion.to_served, f"{resource.api_version}/{kind}", always)
            self._plain[resource] = view
        return view

    def view(self, resource: Resource, wanted: ResponseFormat, include: str = "") -> ResponseView:
        """The objects in the form that is wanted; forms that objects do not have are ignored."""
        if wanted.form == TABLE:
            if include not in _INCLUDED:
                raise bad_request(
                    "Unable to convert to Table as requested: includeObject: Invalid value: "
                    f"{quote(include)}: must be 'Metadata', 'Object', 'None', or empty"
                )
        elif wanted.form not in (METADATA, METADATA_LIST):
            return self.plain(resource)
        conversion = self.conversion(resource)
        key = (resource, wanted.form, wanted.version, include)
        view = self._others.get(key)
        if view is None:
            if wanted.form == TABLE:
                view = TableView(conversion, self._tables, wanted.version, include)
            else:
                view = ResponseView(conversion, metadata_only, f"meta.k8s.io/v1/{METADATA_LIST}")
            self._others[key] = view
        return view
