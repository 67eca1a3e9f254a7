"""Objects as kube-apiserver writes them: the empty values that are present and those that are not.

The API's types are Go structs. A field that is a struct, or whose tag lacks `omitempty`, is written even if
it was not set (`resources: {}`, `lastProbeTime: null`, `rules: null`: the fields marked + in the table); any
other one that is zero is left out, unless it is a pointer and so can be set to zero. Quantities and times
have one canonical form.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from operator import is_
from typing import Any, Final

from stowplan.api.quantity import QuantityError, quantity_of
from stowplan.api.requests import Json
from stowplan.gocompat.caching import LONGEST
from stowplan.localcluster.schema.types import Form, SchemaField, TypeDef, the_schema

_ZEROS: Final[Mapping[str, Any]] = {
    "string": "",
    "int": 0,
    "long": 0,
    "number": 0,
    "bool": False,
    "quantity": "0",
    "intstr": 0,
}
"""The zeros of plain forms; those of all others are null."""

_NOT_TOUCHED: Final = "managedFields"
_PLAIN: Final = (bool, int, float, str)
_NOTHING: Final[Json] = {}
_Rule = Callable[[Any], Any]


def as_written(type_: object, obj: Json, old: Json | None = None) -> Json:
    """The object as Go writes it: itself if it is so already.

    `old` has been through here before: what the two share is not looked at again.
    """
    if not isinstance(type_, TypeDef):
        return obj
    written: Json = _writer(type_.full_name).write(obj, old or _NOTHING)
    return written


def zero_object(type_: object) -> Json:
    """Serialized form of an empty object of a type."""
    return _writer(type_.full_name).zero() if isinstance(type_, TypeDef) else {}


class _Writer:
    """Writes the objects of one type. Its rules are computed once; types may contain themselves."""

    __slots__ = ("_is_written", "_pointers", "_rules", "_stays", "_written", "fields")

    fields: Mapping[str, SchemaField]
    _written: list[tuple[str, Callable[[], Any]]]
    _is_written: frozenset[str]
    _pointers: frozenset[str]
    _stays: Mapping[str, tuple[type, ...]]
    """Fields that are written even if zero, and the types of zeros that are written as they are."""
    _rules: Mapping[str, _Rule]

    def prepare(self, type_: TypeDef) -> None:
        self.fields = type_.fields
        self._written = [
            (name, _zero_of(field)) for name, field in self.fields.items() if field.always_written
        ]
        self._is_written = frozenset(name for name, _ in self._written)
        self._pointers = frozenset(field.name for field in self.fields.values() if field.zero_counts)
        self._stays = {name: _plain_zeros(self.fields[name], zero()) for name, zero in self._written}
        found = {field.name: _rule(field.form) for field in self.fields.values()}
        self._rules = {name: rule for name, rule in found.items() if rule and name != _NOT_TOUCHED}

    def zero(self) -> Json:
        return {name: zero() for name, zero in self._written}

    def write(self, data: Any, old: Json = _NOTHING) -> Any:
        """The data in Go's form; fields that are the same object in `old` are in that form."""
        if type(data) is not dict:
            return data
        rules, result = self._rules, data
        for name, value in data.items():
            if not value:
                if name in self._stays and type(value) in self._stays[name]:
                    continue
                result = self._write_zero(data, result, name, value)
            elif name in rules:
                if old and old.get(name) is value:
                    continue
                written = rules[name](value)
                if written is not value:
                    result = dict(data) if result is data else result
                    result[name] = written
        if not self._is_written.issubset(result):
            result = dict(data) if result is data else result
            for name, zero in self._written:
                if name not in result:
                    result[name] = zero()
        return result

    def _write_zero(self, data: Json, result: Json, name: str, value: Any) -> Json:
        """Write a field that is null, zero or empty."""
        field = self.fields.get(name)
        if field is None:
            return result
        if name in self._is_written:
            is_plain = type(value) in _PLAIN and field.form.shape == "plain"
            written = value if is_plain else _zero_of(field)()
        elif value is None or name not in self._pointers:
            result = dict(data) if result is data else result
            del result[name]
            return result
        else:
            rule = self._rules.get(name)
            written = value if rule is None else rule(value)
        if written is not value and (written != value or type(written) is not type(value)):
            result = dict(data) if result is data else result
            result[name] = written
        return result


_WRITERS: Final[dict[str, _Writer]] = {}


def _writer(full_name: str) -> _Writer:
    found = _WRITERS.get(full_name)
    if found is None:
        found = _WRITERS[full_name] = _Writer()
        found.prepare(the_schema().types[full_name])
    return found


def _plain_zeros(field: SchemaField, zero: Any) -> tuple[type, ...]:
    plain = _PLAIN if field.form.shape == "plain" else ()
    return (*plain, type(None)) if zero is None else plain


def _zero_of(field: SchemaField) -> Callable[[], Any]:
    form = field.form
    if form.shape == "type" and not field.zero_counts:
        return lambda: _writer(form.name).zero()
    zero = None if field.zero_counts else _ZEROS.get(form.name) if form.shape == "plain" else None
    return lambda: zero


def _rule(form: Form) -> _Rule | None:
    """How values of a form are written, None if they stay as they are."""
    if form.shape == "type":
        return _writer(form.name).write
    if form.shape == "plain":
        return _PLAIN_RULES.get(form.name)
    assert form.of is not None
    inner = _rule(form.of)
    if inner is None:
        return None
    return _list_rule(inner) if form.shape == "list" else _map_rule(inner)


def _list_rule(inner: _Rule) -> _Rule:
    def write(values: Any) -> Any:
        if type(values) is not list and type(values) is not tuple:
            return values
        written = [inner(value) for value in values]
        return values if all(map(is_, written, values)) else written

    return write


def _map_rule(inner: _Rule) -> _Rule:
    def write(values: Any) -> Any:
        if type(values) is not dict:
            return values
        written = {key: inner(value) for key, value in values.items()}
        return values if all(map(is_, written.values(), values.values())) else written

    return write


def _canonical(raw: Any) -> Any:
    try:
        text = str(quantity_of(raw))
    except QuantityError:
        return raw
    return raw if text == raw else text


_quantity: Final = lru_cache(maxsize=4096)(_canonical)
_QUANTITIES: Final = (str, int, float)


def _write_quantity(raw: Any) -> Any:
    if not isinstance(raw, str | int | float) or isinstance(raw, bool):
        return raw
    written = (
        _quantity(raw) if not isinstance(raw, str) or len(raw) <= LONGEST else _quantity.__wrapped__(raw)
    )
    return raw if written == raw else written


def _write_time(raw: Any) -> Any:
    """Seconds in UTC."""
    if not isinstance(raw, str) or (len(raw) == 20 and raw[-1] == "Z"):
        return raw
    try:
        return datetime.fromisoformat(raw).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return raw


def _write_micro_time(raw: Any) -> Any:
    if not isinstance(raw, str) or (len(raw) == 27 and raw[-1] == "Z"):
        return raw
    try:
        return datetime.fromisoformat(raw).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError):
        return raw


_PLAIN_RULES: Final[Mapping[str, _Rule]] = {
    "quantity": _write_quantity,
    "time": _write_time,
    "microtime": _write_micro_time,
}
