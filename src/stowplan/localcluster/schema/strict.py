"""Strict decoding: JSON text held against the types, with the fields that no type declares.

The types are made into msgspec structs, so that a body is checked at the speed of decoding it.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, ForwardRef

import msgspec
from msgspec import Meta

from stowplan.gocompat.quoting import quote
from stowplan.localcluster.schema.types import Form, SchemaField, TypeDef, the_schema

_PYTHON_TYPES: Final[dict[str, Any]] = {
    "string": str,
    "int": Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)],
    "long": Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)],
    "number": float,
    "bool": bool,
    "bytes": bytes,
    "time": Annotated[datetime, Meta(tz=True)],
    "microtime": Annotated[datetime, Meta(tz=True)],
    # Possessive: on a long number with a bad end the plain form takes quadratic time.
    "quantity": Annotated[str, Meta(pattern=r"^ *+[+-]?[0-9.]++[eEinumkKMGTP]*+[-+]?[0-9]*+ *+$")]
    | int
    | float,
    "intstr": str | Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)],
    "any": Any,
}


@cache
def decoder(full_name: str) -> msgspec.json.Decoder[Any]:
    """Decodes JSON text as a type of the table; unknown fields are mistakes."""
    return msgspec.json.Decoder(struct_of(full_name))


@cache
def struct_of(full_name: str) -> type[msgspec.Struct]:
    """The type as a struct. Every field may be left out or null: validation checks for required ones
    later."""
    found: TypeDef = the_schema().types[full_name]
    _being_made.add(full_name)
    fields = [
        (f"f{i}", _python(form_of(full_name, field)) | None, None)
        for i, field in enumerate(found.fields.values())
    ]
    _being_made.remove(full_name)
    names = {f"f{i}": name for i, name in enumerate(found.fields)}
    made = msgspec.defstruct(
        found.name, fields, rename=names, forbid_unknown_fields=True, gc=False, module=__name__
    )
    globals()[_reference(full_name)] = made
    return made


_being_made: set[str] = set()
SCHEMA: Final = "apiextensions.v1.JSONSchemaProps"
_SCHEMA_OR_BOOL: Final = Form("or", "bool", Form("type", SCHEMA))
_SCHEMA_OR_LIST: Final = Form("or", "list", Form("type", SCHEMA))
_SCHEMA_FIELDS: Final = {
    "additionalItems": _SCHEMA_OR_BOOL,
    "additionalProperties": _SCHEMA_OR_BOOL,
    "items": _SCHEMA_OR_LIST,
}
"""Fields of schemas that hold a schema or something else."""


def form_of(full_name: str, field: SchemaField) -> Form:
    """The form of a field of a type, with the alternatives that a schema may have."""
    return _SCHEMA_FIELDS.get(field.name, field.form) if full_name == SCHEMA else field.form


def _reference(full_name: str) -> str:
    """Name of a type for those that contain it while it is still being made (or are it)."""
    return "Struct_" + full_name.replace(".", "_")


def _python(form: Form) -> Any:
    if form.shape == "or":
        assert form.of is not None
        schema = _python(form.of)
        return schema | bool if form.name == "bool" else schema | list[schema]  # type: ignore[valid-type]
    if form.shape == "type" and form.name in _being_made:
        return ForwardRef(_reference(form.name))
    if form.shape == "list":
        assert form.of is not None
        return list[_python(form.of)]  # type: ignore[misc]
    if form.shape == "map":
        assert form.of is not None
        return dict[str, _python(form.of)]  # type: ignore[misc]
    return struct_of(form.name) if form.shape == "type" else _PYTHON_TYPES[form.name]


_JSON_TYPES: Final = {"str": "string", "object": "map", "array": "list", "bool": "boolean"}


class TypeMismatchError(ValueError):
    """Data whose types are not those of its kind; the message names the field and what was expected."""


def decode_body(type_: TypeDef, text: bytes) -> tuple[Any, list[str]]:
    """JSON text as data without what its type does not have, and the fields that were left out for that.

    Raises `TypeMismatchError`, or msgspec.DecodeError for what is not JSON.
    """
    try:
        decoder(type_.full_name).decode(text)
    except msgspec.ValidationError:
        pass
    else:
        return _decoded(text), []
    data = _decoded(text)
    unknown = unknown_fields(type_, data)
    try:
        msgspec.convert(data, struct_of(type_.full_name))
    except msgspec.ValidationError as error:
        raise TypeMismatchError(_bad_text(type_, data) or _readable(type_, str(error))) from None
    return data, unknown


def unknown_fields(type_: TypeDef, data: Any) -> list[str]:
    """Take fields that a type does not have out of the data; gives back their paths, sorted."""
    return sorted(_unknown(Form("type", type_.full_name), data, ""))


def _unknown(form: Form, data: Any, path: str) -> Iterator[str]:
    if form.shape == "type" and isinstance(data, dict):
        fields = the_schema().types[form.name].fields
        for key in [key for key in data if key not in fields]:
            del data[key]
            yield f"{path}.{key}" if path else key
        for key, value in data.items():
            inner = form_of(form.name, fields[key])
            yield from _unknown(inner, value, f"{path}.{key}" if path else key)
    elif form.shape == "or":
        assert form.of is not None
        yield from _unknown(Form("list", of=form.of) if isinstance(data, list) else form.of, data, path)
    elif form.shape == "list" and isinstance(data, list):
        assert form.of is not None
        for i, value in enumerate(data):
            yield from _unknown(form.of, value, f"{path}[{i}]")
    elif form.shape == "map" and isinstance(data, dict):
        assert form.of is not None
        for key, value in data.items():
            yield from _unknown(form.of, value, f"{path}.{key}")


def _decoded(text: bytes) -> Any:
    """The data, without nulls: they say the same as nothing."""
    data = msgspec.json.decode(text)
    return _without_nulls(data) if b"null" in text else data


def _without_nulls(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_nulls(value) for key, value in data.items() if value is not None}
    return [_without_nulls(value) for value in data] if isinstance(data, list) else data


_QUANTITY: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_GOT: Final = {"str": "string", "int": "number", "float": "number"}
_GO_TYPES: Final = {
    "int": "int32",
    "long": "int64",
    "number": "float64",
    "bytes": "[]uint8",
    "time": "v1.Time",
}
_MISMATCH: Final = re.compile(r"Expected `[^`]*`, got `(\w+)`")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[[^\]]*\]")


_LAYOUTS: Final = {"time": "2006-01-02T15:04:05Z07:00", "microtime": "2006-01-02T15:04:05.000000Z07:00"}
_TEXTS: Final = (*_LAYOUTS, "bytes")
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=\r\n]")


def _bad_text(type_: TypeDef, data: Any) -> str:
    """Go's words for the first time that does not even begin with a year, or text that is not base64."""
    for kind, value in _texts(Form("type", type_.full_name), data):
        if kind == "bytes":
            illegal = _NOT_BASE64.search(value)
            if illegal is not None:
                return f"illegal base64 data at input byte {illegal.start()}"
        elif not re.match(r"\d{4}", value):
            shown = quote(value)
            return f'parsing time {shown} as "{_LAYOUTS[kind]}": cannot parse {shown} as "2006"'
    return ""


def _texts(form: Form, data: Any) -> Iterator[tuple[str, str]]:
    if form.shape == "type" and isinstance(data, dict):
        fields = the_schema().types[form.name].fields
        for key, value in data.items():
            if key in fields:
                yield from _texts(form_of(form.name, fields[key]), value)
    elif form.of is not None and isinstance(data, list | dict):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _texts(form.of, value)
    elif form.name in _TEXTS and isinstance(data, str):
        yield form.name, data


def _readable(type_: TypeDef, problem: str) -> str:
    """msgspec's message in Go's words, or at least with the field first and JSON's names of types."""
    what, _, where = problem.partition(" - at `")
    if "matching regex" in what:
        return _QUANTITY
    place = where.rstrip("`").removeprefix("key in ").strip("`").removeprefix("$")
    mismatch = _MISMATCH.match(what)
    if mismatch is not None and place:
        struct, path, expected = _field_at(type_, place)
        got = _GOT.get(mismatch[1], mismatch[1])
        return f"json: cannot unmarshal {got} into Go struct field {struct}.{path} of type {expected}"
    what = re.sub(r"`(\w+)( \| null)?`", lambda match: _JSON_TYPES.get(match[1], match[1]), what)
    place = place.removeprefix(".")
    return f"{place}: {what[:1].lower()}{what[1:]}" if place else what


def _field_at(type_: TypeDef, place: str) -> tuple[str, str, str]:
    """The struct that a field belongs to, the names on the way to it, and its type in Go."""
    form = Form("type", type_.full_name)
    struct, names = type_.name, []
    for step in _STEP.finditer(place):
        if form.shape == "type" and step[1] is not None:
            found = the_schema().types[form.name]
            struct = found.name
            names.append(step[1])
            field = found.fields.get(step[1])
            form = Form("plain", "any") if field is None else form_of(form.name, field)
        elif form.of is not None:
            form = form.of
    return struct, ".".join(names), _go_type(form)


def _go_type(form: Form) -> str:
    if form.shape == "list" and form.of is not None:
        return f"[]{_go_type(form.of)}"
    if form.shape == "map" and form.of is not None:
        return f"map[string]{_go_type(form.of)}"
    if form.shape == "type":
        return form.name.partition(".")[2]
    return _GO_TYPES.get(form.name, form.name)
