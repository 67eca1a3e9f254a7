"""How objects are shown: as they are, as rows of a table, or by their metadata alone."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import CORE_EVENTS, EVENTS, Resource
from stowplan.api.requests import Json, Selection
from stowplan.clock import Clock
from stowplan.embedded.apiserver.coreevents import as_core, from_core, selection_from_core
from stowplan.embedded.apiserver.negotiation import METADATA, METADATA_LIST, TABLE, Wanted
from stowplan.embedded.apiserver.tables import Tables
from stowplan.embedded.store import BOOKMARK, Change

encode: Final = msgspec.json.Encoder().encode
_EVENT_START: Final = {
    type_: b'{"type":"' + type_.encode() + b'","object":'
    for type_ in ("ADDED", "MODIFIED", "DELETED", BOOKMARK)
}


class Wire:
    """A resource as it is addressed, and how it is kept."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.stored = EVENTS if resource == CORE_EVENTS else resource
        self.is_kept_otherwise = self.stored is not resource

    def outward(self, obj: Json) -> Json:
        return as_core(obj) if self.is_kept_otherwise else obj

    def inward(self, obj: Json) -> Json:
        return from_core(obj) if self.is_kept_otherwise else obj

    def selection(self, selection: Selection) -> Selection:
        return selection_from_core(selection) if self.is_kept_otherwise else selection


class View:
    """One form of one resource's objects, as bytes. The same object shown twice in a row costs once."""

    def __init__(self, wire: Wire, shape: Callable[[Json], Any], kind: str) -> None:
        self._wire = wire
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
        return {**obj, "apiVersion": self._wire.resource.api_version, "kind": self._wire.resource.kind}


class TableView(View):
    """Objects as rows. Rows tell ages, so nothing is kept."""

    def __init__(self, wire: Wire, tables: Tables, version: str, include: str) -> None:
        super().__init__(wire, lambda obj: obj, "")
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
        table = self._tables.of(self._wire.resource)
        outward = as_core if self._wire.stored == EVENTS else self._wire.outward
        rows = [self._row(table.cells(outward(obj)), obj) for obj in items]
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
            return {"cells": cells, "object": self._wire.outward(obj)}
        return {"cells": cells, "object": metadata_only(obj)}


def metadata_only(obj: Json) -> Json:
    """What is left of an object for those who want its metadata."""
    return {"kind": METADATA, "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


class Views:
    """The views of all resources, each made when first asked for."""

    def __init__(self, clock: Clock) -> None:
        self._tables = Tables(clock)
        self._wires: dict[Resource, Wire] = {}
        self._plain: dict[Resource, View] = {}

    def wire(self, resource: Resource) -> Wire:
        wire = self._wires.get(resource)
        if wire is None:
            wire = self._wires[resource] = Wire(resource)
        return wire

    def plain(self, resource: Resource) -> View:
        """The objects as they are."""
        view = self._plain.get(resource)
        if view is None:
            wire = self.wire(resource)
            view = View(wire, wire.outward, f"{resource.api_version}/{resource.kind}List")
            self._plain[resource] = view
        return view

    def view(self, resource: Resource, wanted: Wanted, include: str = "") -> View:
        """The objects in the form that is wanted; forms that objects do not have are ignored."""
        if wanted.form == TABLE:
            return TableView(self.wire(resource), self._tables, wanted.version, include)
        if wanted.form in (METADATA, METADATA_LIST):
            return View(self.wire(resource), metadata_only, f"meta.k8s.io/v1/{METADATA_LIST}")
        return self.plain(resource)
