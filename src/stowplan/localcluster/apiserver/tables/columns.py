"""Columns: their names, and what their cells show of an object."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.runtime.clock import Clock

UNKNOWN: Final = "<unknown>"


class TableColumn(NamedTuple):
    """A column. `cell` gets the object and the time. Columns that are not `usual` are for wide tables.

    So are those of custom resources with a `priority`.
    """

    name: str
    cell: Callable[[Json, float], Any]
    type: str = "string"
    usual: bool = True
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority if self.usual else 1,
        }


class KindTable:
    """Columns for the objects of one kind. `conditions` says what is to be noted of an object's row."""

    def __init__(
        self,
        columns: Sequence[TableColumn],
        clock: Clock,
        conditions: Callable[[Json], list[Json]] | None = None,
    ) -> None:
        self.columns = [column.definition() for column in columns]
        self._cells = [column.cell for column in columns]
        self._clock = clock
        self._conditions = conditions
        self._none = None if columns is DEFAULT_COLUMNS else ()

    def rows(self, items: Sequence[Json], attached: Sequence[Any]) -> Any:
        """Rows for objects, each with what is attached to it; kinds without columns have null for no rows."""
        if not items:
            return self._none
        return [self._row(obj, extra) for obj, extra in zip(items, attached, strict=True)]

    def _row(self, obj: Json, attached: Any) -> Json:
        row: Json = {"cells": self.cells(obj)}
        conditions = [] if self._conditions is None else self._conditions(obj)
        if conditions:
            row["conditions"] = conditions
        row["object"] = attached
        return row

    def cells(self, obj: Json) -> list[Any]:
        """Cells of an object's row. Unreadable values are shown as unknown."""
        now = self._clock.now()
        shown: list[Any] = []
        for cell in self._cells:
            try:
                shown.append(cell(obj, now))
            except (TypeError, ValueError, KeyError, AttributeError, IndexError):
                shown.append(UNKNOWN)
        return shown


def age_of(stamp: str | None, now: float) -> str:
    """How long ago something was, shortly."""
    if not stamp:
        return UNKNOWN
    try:
        return duration(now - seconds_of(stamp))
    except ValueError:
        return "<invalid>"


def duration(seconds: float) -> str:
    """A time span as people like it: the longer, the coarser."""
    if seconds < -1:
        return "<invalid>"
    total = max(int(seconds), 0)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


NAME: Final = TableColumn("Name", lambda obj, now: obj["metadata"]["name"], format="name")
AGE: Final = TableColumn("Age", lambda obj, now: age_of(obj["metadata"].get("creationTimestamp"), now))


CREATED_AT: Final = TableColumn(
    "Created At", lambda obj, now: obj["metadata"].get("creationTimestamp"), "date"
)
DEFAULT_COLUMNS: Final = (NAME, CREATED_AT)
"""The columns of kinds without any."""


def spec_of(obj: Json) -> Any:
    return obj.get("spec") or {}


def status_of(obj: Json) -> Any:
    return obj.get("status") or {}


def field_cell(name: str, default: str = "<none>") -> Any:
    """The cell of a field at the top of an object."""
    return lambda obj, now: obj.get(name) or default


def first_of(found: Sequence[str], most: int = 3, *, none: str = "<unset>", joined: str = ",") -> str:
    """The first of some words, and how many more there are."""
    shown = joined.join(found[:most])
    return f"{shown} + {len(found) - most} more..." if len(found) > most else shown or none


def labels_text(labels: Any) -> str:
    """Labels as people write them."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def selector_text(selector: Any) -> str:
    """A selector as people write it."""
    if not selector:
        return "<none>"
    labels = selector.get("matchLabels") or {}
    if not labels and "matchExpressions" not in selector:
        labels = {key: value for key, value in selector.items() if isinstance(value, str)}
    terms = [f"{key}={value}" for key, value in sorted(labels.items())]
    for term in selector.get("matchExpressions") or ():
        operator, key = term.get("operator"), term.get("key")
        values = ",".join(term.get("values") or ())
        shown = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": str(key)}
        terms.append(shown.get(str(operator), f"!{key}"))
    return ",".join(terms) or "<none>"
