"""The printer columns of custom resources: what a definition says of them, as columns of a table."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.gocompat.jsontext import as_json, float_text
from stowplan.localcluster.apiserver.tables.columns import AGE, NAME, TableColumn, duration
from stowplan.localcluster.customresources.jsonpath import JsonPath, JsonPathError
from stowplan.localcluster.customresources.validation import ordered

_AGE_ONLY: Final = (NAME, AGE._replace(type="date"))


def columns_of(definitions: Sequence[Json]) -> list[TableColumn]:
    """The columns of a version; one that says nothing of columns shows the age."""
    if not definitions:
        return [*_AGE_ONLY]
    return [NAME, *(_column(one) for one in definitions)]


def _column(definition: Json) -> TableColumn:
    type_, path = definition.get("type", ""), definition.get("jsonPath", "")
    try:
        found = JsonPath(path)
    except JsonPathError:
        return TableColumn(definition.get("name", ""), lambda obj, now: None, type_)
    described = definition.get("description") or (
        f"Custom resource definition column (in JSONPath format): {path}"
    )
    return TableColumn(
        definition.get("name", ""),
        _cell(found, type_),
        type_,
        format=definition.get("format", ""),
        description=described,
        priority=definition.get("priority", 0),
    )


def _cell(path: JsonPath, type_: str) -> Callable[[Json, float], Any]:
    shown: Callable[[Any, float], Any] = _SHOWN.get(type_, _text)

    def cell(obj: Json, now: float) -> Any:
        found = path.first(obj)
        return shown(found[0], now) if found else None

    return cell


def _text(value: Any, now: float) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return float_text(value)
    return as_json(ordered(value)) if isinstance(value, dict | list) else str(value)


def _integer(value: Any, now: float) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value)


def _number(value: Any, now: float) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: float) -> str | None:
    """Age. A time in the future is shown as invalid, as by kubectl."""
    if not isinstance(value, str):
        return None
    try:
        return duration(now - seconds_of(value))
    except ValueError:
        return "<invalid>"


_SHOWN: Final[dict[str, Callable[[Any, float], Any]]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
