"""Objects as protobuf, which clients written in Go like to speak, from and to what JSON would say.

Whoever accepts JSON besides gets JSON: protobuf is written only for those who accept nothing else.
"""

import base64
import struct
from collections.abc import Generator, Iterator
from functools import cache
from math import isfinite
from typing import Any, Final

import msgspec

from stowplan.api.meta import micro_timestamp, seconds_of, timestamp
from stowplan.api.requests import Json
from stowplan.gocompat.protowire import length_delimited, varint
from stowplan.localcluster.schema.strict import form_of
from stowplan.localcluster.schema.types import Form, SchemaField, TypeDef, the_schema

MAGIC: Final = b"k8s\x00"
_SIGNED: Final = 1 << 63
_LAST_TAG: Final = (1 << 32) - 1
_DEEPEST: Final = 64
_EXACT: Final = 1e21
"""From here on Go writes numbers with an exponent."""


class ProtobufError(ValueError):
    """Bytes that are no protobuf of the type expected."""


def envelope(body: bytes) -> tuple[str, str, bytes]:
    """apiVersion and kind that a body says it has, and the object's own bytes. Raises `ProtobufError`."""
    if not body.startswith(MAGIC):
        raise ProtobufError("the body does not begin as protobuf of an object does")
    api_version = kind = ""
    raw = b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == 1:
            for part, text in _fields(_bytes(value)):
                if part == 1:
                    api_version = _text(text)
                elif part == 2:
                    kind = _text(text)
        elif number == 2:
            raw = _bytes(value)
    return api_version, kind, raw


def decoded(type_: TypeDef, raw: bytes) -> Json:
    """The bytes of an object of a type as data. Raises `ProtobufError`."""
    return _message(type_, raw, 0)


Numbers = dict[int, "SchemaField | Numbers"]
Raw = int | float | bytes | None
"""A value as it is sent: a varint, a double, or bytes. None for a number of 32 bits, which no field has."""


@cache
def _fields_of(full_name: str) -> dict[str, SchemaField]:
    """A type's fields, with the alternatives that are messages of their own in protobuf."""
    fields = the_schema().types[full_name].fields
    return {name: field._replace(form=form_of(full_name, field)) for name, field in fields.items()}


@cache
def _numbers(full_name: str) -> Numbers:
    """A type's fields by their numbers; where fields are nested, a map of them."""
    found: Numbers = {}
    for field in _fields_of(full_name).values():
        if not field.number:
            continue
        *outer, last = field.number
        within = found
        for number in outer:
            nested = within.setdefault(number, {})
            assert isinstance(nested, dict)
            within = nested
        within[last] = field
    return found


def _message(type_: TypeDef, raw: bytes, depth: int, before: Json | None = None) -> Json:
    if depth > _DEEPEST:
        raise ProtobufError("nested too deeply")
    data: Json = {} if before is None else before
    _read(data, _numbers(type_.full_name), raw, depth)
    return data


def _read(data: Json, numbers: Numbers, raw: bytes, depth: int) -> None:
    for number, value in _fields(raw):
        field = numbers.get(number)
        if isinstance(field, SchemaField):
            _put(data, field, value, depth)
        elif field is not None:
            _read(data, field, _bytes(value), depth)


def _put(data: Json, field: SchemaField, value: Raw, depth: int) -> None:
    """Put a value into its field: lists and maps grow, zeros that mean nothing are left out.

    A field that is sent twice has its last value; messages are merged.
    """
    form = field.form
    if form.of is not None and form.shape == "list":
        packed = form.of.name in ("int", "long") and isinstance(value, bytes)
        found = _packed(form.of, _bytes(value)) if packed else [_value(form.of, value, depth)]
        data.setdefault(field.name, []).extend(found)
    elif form.of is not None and form.shape == "map":
        key, found = _entry(form.of, _bytes(value), depth)
        data.setdefault(field.name, {})[key] = found
    else:
        before = data.get(field.name) if form.shape == "type" else None
        found = _value(form, value, depth, before)
        if field.zero_counts or found not in (None, "", 0, False, {}):
            data[field.name] = found
        else:
            data.pop(field.name, None)


def _entry(of: Form, raw: bytes, depth: int) -> tuple[str, Any]:
    key, value = "", _zero(of)
    for number, part in _fields(raw):
        if number == 1:
            key = _text(part)
        elif number == 2:
            value = _value(of, part, depth)
    return key, value


def _zero(form: Form) -> Any:
    return {"string": "", "bytes": "", "quantity": "0"}.get(form.name, [] if form.shape == "list" else {})


def _packed(form: Form, raw: bytes) -> list[int]:
    """Numbers of a list that are sent together."""
    found: list[int] = []
    place = 0
    while place < len(raw):
        number, place = _varint(raw, place)
        found.append(_value(form, number, 0))
    return found


def _value(form: Form, value: Raw, depth: int, before: Json | None = None) -> Any:
    if form.shape == "type":
        return _message(the_schema().types[form.name], _bytes(value), depth + 1, before)
    if form.shape == "list":
        assert form.of is not None
        return [_value(form.of, part, depth + 1) for _, part in _fields(_bytes(value))]
    if form.shape == "or":
        return _alternative(form, _bytes(value), depth)
    match form.name:
        case "string":
            return _text(value)
        case "int":
            return _int32(_number(value))
        case "long":
            number = _number(value)
            return number - (1 << 64) if number >= _SIGNED else number
        case "bool":
            return _number(value) != 0
        case "number":
            return _fraction(value)
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "time" | "microtime":
            return _time(_bytes(value), micro=form.name == "microtime")
        case "quantity":
            return _text(dict(_fields(_bytes(value))).get(1, b"0"))
        case "intstr":
            return _int_or_string(_bytes(value))
    return _anything(form, value)


_ALLOWS: Final = 1
"""Number of the boolean in a schema or boolean. The schema is the other one of the two numbers."""


def _alternative(form: Form, raw: bytes, depth: int) -> Any:
    """A schema, or what a field may have in its place: a boolean, or a list of schemas."""
    assert form.of is not None
    allows = False
    schema: Json | None = None
    schemas: list[Any] = []
    of_schema = 2 if form.name == "bool" else 1
    for number, value in _fields(raw):
        if number == of_schema:
            schema = _value(form.of, value, depth, schema)
        elif form.name == "bool" and number == _ALLOWS:
            allows = _number(value) != 0
        elif form.name == "list" and number == 2:
            schemas.append(_value(form.of, value, depth))
    if form.name == "bool":
        return allows if schema is None else schema
    return schemas or schema


def _fraction(value: Raw) -> float | int:
    """A number as Go writes it in JSON: without a fraction if it has none."""
    if not isinstance(value, float):
        raise ProtobufError("expected a number of 64 bits, got something else")
    if not isfinite(value):
        raise ProtobufError("a number that JSON does not have")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _time(raw: bytes, *, micro: bool) -> str | None:
    parts = dict(_fields(raw))
    seconds, nanos = _number(parts.get(1, 0)), _number(parts.get(2, 0))
    if not seconds and not nanos:
        return None
    if seconds >= 1 << 36 or nanos >= 1_000_000_000:
        raise ProtobufError("a time out of range")
    return micro_timestamp(seconds + nanos / 1e9) if micro else timestamp(seconds)


def _int_or_string(raw: bytes) -> int | str:
    parts = dict(_fields(raw))
    if _number(parts.get(1, 0)) == 1:
        return _text(parts.get(3, b""))
    return _int32(_number(parts.get(2, 0)))


def _int32(number: int) -> int:
    """The lowest 32 bits, as Go keeps them."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _anything(form: Form, value: Raw) -> Any:
    """Something of no particular type: JSON text within a message."""
    try:
        return msgspec.json.decode(_bytes(dict(_fields(_bytes(value))).get(1, b"null")))
    except msgspec.DecodeError as error:
        raise ProtobufError(str(error)) from None


def _fields(raw: bytes) -> Iterator[tuple[int, Raw]]:
    """Numbers and values of a message."""
    place, end = 0, len(raw)
    while place < end:
        key, place = _varint(raw, place)
        number, wire = key >> 3, key & 7
        if not number or key > _LAST_TAG:
            raise ProtobufError(f"illegal tag {number}")
        if wire == 0:
            value, place = _varint(raw, place)
            yield number, value
            continue
        if wire == 2:
            length, place = _varint(raw, place)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ProtobufError(f"unknown wire type {wire}")
        if place + length > end:
            raise ProtobufError("the message ends too early")
        part = raw[place : place + length]
        place += length
        if wire == 2:
            yield number, part
        else:
            yield number, struct.unpack("<d", part)[0] if wire == 1 else None


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(raw) and shift < 70:
        byte = raw[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value & ((1 << 64) - 1), place
        shift += 7
    raise ProtobufError("the message ends too early")


def _bytes(value: Raw) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("expected bytes, got a number")
    return value


def _number(value: Raw) -> int:
    if not isinstance(value, int):
        raise ProtobufError("expected a number, got something else")
    return value


def _text(value: Raw) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise ProtobufError("text that is not UTF-8") from None


_LIST_META: Final = ("selfLink", "resourceVersion", "continue", "remainingItemCount")


class _List(msgspec.Struct):
    """A list of objects whose elements are decoded one by one."""

    metadata: Json
    items: list[msgspec.Raw]
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")


def encoded_object(data: Json) -> bytes:
    """An object or a Status. Raises `ProtobufError` for any other kind."""
    api_version, kind = str(data.get("apiVersion", "")), str(data.get("kind", ""))
    group, _, version = api_version.rpartition("/")
    is_status = kind == "Status" and api_version == "v1"
    type_ = the_schema().types["meta.v1.Status"] if is_status else _type_of(group, version, kind)
    return _enveloped(api_version, kind, _written(type_, data))


def encoded_text(text: bytes) -> Generator[None, None, bytes]:
    """JSON text of an object, a list of objects or a Status, in steps of one object.

    Raises `ProtobufError` for any other kind.
    """
    try:
        listing = msgspec.json.decode(text, type=_List)
    except msgspec.ValidationError:
        return encoded_object(msgspec.json.decode(text))
    if not listing.kind.endswith("List"):
        return encoded_object(msgspec.json.decode(text))
    group, _, version = listing.api_version.rpartition("/")
    type_ = _type_of(group, version, listing.kind.removesuffix("List"))
    metadata = b"".join(
        _field(number, _plain(listing.metadata[name]))
        for number, name in enumerate(_LIST_META, start=1)
        if listing.metadata.get(name)
    )
    parts = [_field(1, metadata)]
    for item in listing.items:
        parts.append(_field(2, _written(type_, msgspec.json.decode(item))))
        yield
    return _enveloped(listing.api_version, listing.kind, b"".join(parts))


def _enveloped(api_version: str, kind: str, raw: bytes) -> bytes:
    type_meta = _field(1, api_version.encode()) + _field(2, kind.encode())
    return MAGIC + _field(1, type_meta) + _field(2, raw) + _field(3, b"") + _field(4, b"")


def _type_of(group: str, version: str, kind: str) -> TypeDef:
    type_ = the_schema().of_kind(group, version, kind)
    if type_ is None:
        raise ProtobufError(f"no kind {kind!r} is registered for version {version!r}")
    return type_


def _plain(value: Any) -> int | bytes:
    return value if isinstance(value, int) else str(value).encode()


def _written(type_: TypeDef, data: Json) -> bytes:
    """The fields of an object in the order of their numbers."""
    fields = _fields_of(type_.full_name)
    simple: dict[int, bytes] = {}
    nested: dict[int, dict[int, bytes]] = {}
    for name, value in data.items():
        field = fields.get(name)
        if field is None or not field.number or value is None:
            continue
        parts = b"".join(_field(field.number[-1], part) for part in _values(field.form, value))
        if len(field.number) == 1:
            simple[field.number[0]] = parts
        else:
            nested.setdefault(field.number[0], {})[field.number[1]] = parts
    for number, found in nested.items():
        simple[number] = _field(number, b"".join(found[inner] for inner in sorted(found)))
    return b"".join(simple[number] for number in sorted(simple))


def _values(form: Form, value: Any) -> Iterator[int | float | bytes]:
    """A value as what stands in a message: one part, or one for each element."""
    if form.shape == "list":
        assert form.of is not None
        for element in value:
            yield from _values(form.of, element)
    elif form.shape == "map":
        assert form.of is not None
        for key in sorted(value):
            part = (
                _list(form.of, value[key]) if form.of.shape == "list" else next(_values(form.of, value[key]))
            )
            yield _field(1, str(key).encode()) + _field(2, part)
    elif form.shape == "type":
        yield _written(the_schema().types[form.name], value)
    elif form.shape == "or":
        yield _written_alternative(form, value)
    else:
        yield _scalar(form.name, value)


def _written_alternative(form: Form, value: Any) -> bytes:
    assert form.of is not None
    if isinstance(value, bool):
        return _field(_ALLOWS, int(value))
    if form.name == "bool":
        return _field(_ALLOWS, 1) + _field(2, next(_values(form.of, value)))
    if isinstance(value, dict):
        return _field(1, next(_values(form.of, value)))
    return b"".join(_field(2, next(_values(form.of, element))) for element in value)


def _list(form: Form, value: Any) -> bytes:
    assert form.of is not None
    return b"".join(_field(1, part) for element in value for part in _values(form.of, element))


def _scalar(name: str, value: Any) -> int | float | bytes:
    match name:
        case "int" | "long" | "bool":
            return int(value) & ((1 << 64) - 1)
        case "bytes":
            return base64.b64decode(str(value))
        case "time" | "microtime":
            seconds, nanos = divmod(round(seconds_of(str(value)) * 1_000_000), 1_000_000)
            return _field(1, seconds) + _field(2, nanos * 1000)
        case "quantity":
            return _field(1, str(value).encode())
        case "intstr":
            if isinstance(value, int):
                return _field(1, 0) + _field(2, value & ((1 << 64) - 1)) + _field(3, b"")
            return _field(1, 1) + _field(2, 0) + _field(3, str(value).encode())
        case "any":
            return _field(1, msgspec.json.encode(value))
        case "number":
            return float(value)
    return str(value).encode()


def _field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return length_delimited(number, value)
