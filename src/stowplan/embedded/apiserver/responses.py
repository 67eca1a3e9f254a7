"""Responses: Status objects, warnings, and objects as JSON, as rows of a table or by their metadata alone.

Events of the core group are the events of events.k8s.io under older field names. They are stored in the newer
form only, so whoever writes in one form is read in both.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from stowplan.api.catalogue import CORE_EVENTS, EVENTS, Resource
from stowplan.api.requests import FieldTerm, Json, Selection
from stowplan.api.status import ApiError
from stowplan.clock import Clock
from stowplan.embedded.apiserver.request import METADATA, METADATA_LIST, TABLE, ResponseFormat
from stowplan.embedded.apiserver.tables import Tables
from stowplan.embedded.store import BOOKMARK, Change

_MAX_WARNINGS: Final = 30
_MAX_WARNING_LENGTH: Final = 200
JSON: Final = "application/json"
_encode: Final = msgspec.json.Encoder().encode


def response_of(
    raw: bytes, code: int = 200, *, content_type: str = JSON, warnings: Sequence[str] = ()
) -> web.Response:
    """An answer whose body is there already."""
    response = web.Response(body=raw, status=code, content_type=content_type)
    for warning in warnings[:_MAX_WARNINGS]:
        response.headers.add("Warning", f'299 - "{_escaped(warning[:_MAX_WARNING_LENGTH])}"')
    return response


def json_response(data: Any, code: int = 200, *, content_type: str = JSON) -> web.Response:
    return response_of(_encode(data), code, content_type=content_type)


def error_response(error: ApiError) -> web.Response:
    """An error as the API shows it."""
    response = json_response(error.status(), error.code or 500)
    if error.code in (429, 503, 504) and error.retry_after:
        response.headers["Retry-After"] = str(int(error.retry_after))
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


_OLD_NAMES: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NEW_NAMES: Final[Mapping[str, str]] = {old: new for new, old in _OLD_NAMES.items()}


def as_core(event: Json) -> Json:
    """An event in the older form."""
    shown = {_OLD_NAMES.get(field, field): value for field, value in event.items()}
    shown["apiVersion"] = CORE_EVENTS.api_version
    shown.setdefault("source", {})
    for field in ("firstTimestamp", "lastTimestamp"):
        shown.setdefault(field, None)
    return shown


def from_core(event: Json) -> Json:
    """An event of the older form in the newer one."""
    kept = {_NEW_NAMES.get(field, field): value for field, value in event.items() if value is not None}
    if "apiVersion" in kept:
        kept["apiVersion"] = EVENTS.api_version
    return kept


def selection_from_core(selection: Selection) -> Selection:
    """A selection that names fields of the older form, by the names they are stored under."""
    if not selection.fields:
        return selection
    return Selection(selection.labels, tuple(map(_term_from_core, selection.fields)))


def _term_from_core(term: FieldTerm) -> FieldTerm:
    head, dot, rest = term.path.partition(".")
    if head == "source" and not dot:
        return term._replace(path="reportingController")
    return term._replace(path=_NEW_NAMES.get(head, head) + dot + rest)


encode: Final = msgspec.json.Encoder().encode
_EVENT_START: Final = {
    type_: b'{"type":"' + type_.encode() + b'","object":'
    for type_ in ("ADDED", "MODIFIED", "DELETED", BOOKMARK)
}


class Conversion:
    """A resource as it is served, and the one its objects are stored as."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.stored = EVENTS if resource == CORE_EVENTS else resource
        self.is_converted = self.stored is not resource

    def to_served(self, obj: Json) -> Json:
        return as_core(obj) if self.is_converted else obj

    def to_stored(self, obj: Json) -> Json:
        return from_core(obj) if self.is_converted else obj

    def selection(self, selection: Selection) -> Selection:
        return selection_from_core(selection) if self.is_converted else selection


class View:
    """One form of one resource's objects, as bytes. The same object shown twice in a row costs once."""

    def __init__(self, conversion: Conversion, shape: Callable[[Json], Any], kind: str) -> None:
        self._conversion = conversion
        self._shape = shape
        self._kind = kind
        self._last: Json | None = None
        self._last_raw = b""

    def raw(self, obj: Json) -> bytes:
        """One object."""
        if obj is self._last:
            return self._last_raw
        self._last_raw = encode(self._shape(obj))
        self._last = obj
        return self._last_raw

    def listing(self, items: list[Json], metadata: Json) -> bytes:
        """Objects as a list."""
        shape = self._shape
        api_version, _, kind = self._kind.rpartition("/")
        shown = [shape(obj) for obj in items]
        return encode({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": shown})

    def line(self, change: Change) -> bytes:
        """A change as a line of a watch."""
        raw = encode(self._bookmark(change.object)) if change.type == BOOKMARK else self.raw(change.object)
        return _EVENT_START[change.type] + raw + b"}\n"

    def _bookmark(self, obj: Json) -> Any:
        return {
            **obj,
            "apiVersion": self._conversion.resource.api_version,
            "kind": self._conversion.resource.kind,
        }


class TableView(View):
    """Objects as rows. Rows show ages, so nothing is cached."""

    def __init__(self, conversion: Conversion, tables: Tables, version: str, include: str) -> None:
        super().__init__(conversion, lambda obj: obj, "")
        self._tables = tables
        self._version = f"meta.k8s.io/{version}"
        self._include = include

    def raw(self, obj: Json) -> bytes:
        return encode(self._table([obj], {"resourceVersion": obj["metadata"]["resourceVersion"]}))

    def listing(self, items: list[Json], metadata: Json) -> bytes:
        return encode(self._table(items, metadata))

    def _bookmark(self, obj: Json) -> Any:
        return self._table([], obj["metadata"])

    def _table(self, items: list[Json], metadata: Json) -> Json:
        table = self._tables.of(self._conversion.resource)
        to_served = as_core if self._conversion.stored == EVENTS else self._conversion.to_served
        rows = [self._row(table.cells(to_served(obj)), obj) for obj in items]
        return {
            "kind": "Table",
            "apiVersion": self._version,
            "metadata": metadata,
            "columnDefinitions": table.columns,
            "rows": rows,
        }

    def _row(self, cells: list[Any], obj: Json) -> Json:
        if self._include == "None":
            return {"cells": cells}
        if self._include == "Object":
            return {"cells": cells, "object": self._conversion.to_served(obj)}
        return {"cells": cells, "object": metadata_only(obj)}


def metadata_only(obj: Json) -> Json:
    """What is left of an object for those who want its metadata."""
    return {"kind": METADATA, "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


class Views:
    """The views of all resources, each made when first asked for."""

    def __init__(self, clock: Clock) -> None:
        self._tables = Tables(clock)
        self._conversions: dict[Resource, Conversion] = {}
        self._plain: dict[Resource, View] = {}

    def conversion(self, resource: Resource) -> Conversion:
        conversion = self._conversions.get(resource)
        if conversion is None:
            conversion = self._conversions[resource] = Conversion(resource)
        return conversion

    def plain(self, resource: Resource) -> View:
        """The objects as they are."""
        view = self._plain.get(resource)
        if view is None:
            conversion = self.conversion(resource)
            view = View(conversion, conversion.to_served, f"{resource.api_version}/{resource.kind}List")
            self._plain[resource] = view
        return view

    def view(self, resource: Resource, wanted: ResponseFormat, include: str = "") -> View:
        """The objects in the form that is wanted; forms that objects do not have are ignored."""
        if wanted.form == TABLE:
            return TableView(self.conversion(resource), self._tables, wanted.version, include)
        if wanted.form in (METADATA, METADATA_LIST):
            return View(self.conversion(resource), metadata_only, f"meta.k8s.io/v1/{METADATA_LIST}")
        return self.plain(resource)
