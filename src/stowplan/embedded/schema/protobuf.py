"""Objects that come as protobuf, as clients written in Go like to send them, turned into what JSON would say.

Only reading is needed: whoever sends protobuf reads JSON too.
"""

import base64
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from stowplan.api.meta import micro_timestamp, timestamp
from stowplan.api.requests import Json
from stowplan.embedded.schema.types import Field, Form, TypeDef, the_schema

MAGIC: Final = b"k8s\x00"
_SIGNED: Final = 1 << 63
_DEEPEST: Final = 64


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


Numbers = dict[int, "Field | Numbers"]


@cache
def _numbers(full_name: str) -> Numbers:
    """A type's fields by their numbers; where fields are nested, a map of them."""
    found: Numbers = {}
    for field in the_schema().types[full_name].fields.values():
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


def _message(type_: TypeDef, raw: bytes, depth: int) -> Json:
    if depth > _DEEPEST:
        raise ProtobufError("nested too deeply")
    data: Json = {}
    _read(data, _numbers(type_.full_name), raw, depth)
    return data


def _read(data: Json, numbers: Numbers, raw: bytes, depth: int) -> None:
    for number, value in _fields(raw):
        field = numbers.get(number)
        if isinstance(field, Field):
            _put(data, field, value, depth)
        elif field is not None:
            _read(data, field, _bytes(value), depth)


def _put(data: Json, field: Field, value: int | bytes, depth: int) -> None:
    """Put a value into its field: lists and maps grow, zeros that mean nothing are left out."""
    form = field.form
    if form.of is not None and form.shape == "list":
        data.setdefault(field.name, []).append(_value(form.of, value, depth))
    elif form.of is not None and form.shape == "map":
        key, found = _entry(form.of, _bytes(value), depth)
        data.setdefault(field.name, {})[key] = found
    else:
        found = _value(form, value, depth)
        if field.zero_counts or found not in (None, "", 0, False, {}):
            data[field.name] = found


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


def _value(form: Form, value: int | bytes, depth: int) -> Any:
    if form.shape == "type":
        return _message(the_schema().types[form.name], _bytes(value), depth + 1)
    if form.shape == "list":
        assert form.of is not None
        return [_value(form.of, part, depth + 1) for _, part in _fields(_bytes(value))]
    match form.name:
        case "string":
            return _text(value)
        case "int" | "long":
            number = _number(value)
            return number - (1 << 64) if number >= _SIGNED else number
        case "bool":
            return _number(value) != 0
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "time" | "microtime":
            return _time(_bytes(value), micro=form.name == "microtime")
        case "quantity":
            return _text(dict(_fields(_bytes(value))).get(1, b"0"))
        case "intstr":
            return _int_or_string(_bytes(value))
    return _anything(form, value)


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
    number = _number(parts.get(2, 0))
    return number - (1 << 64) if number >= _SIGNED else number


def _anything(form: Form, value: int | bytes) -> Any:
    """Something of no particular type: JSON text within a message."""
    try:
        return msgspec.json.decode(_bytes(dict(_fields(_bytes(value))).get(1, b"null")))
    except msgspec.DecodeError as error:
        raise ProtobufError(str(error)) from None


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message: numbers for varints and fixed ones, bytes for everything else."""
    place, end = 0, len(raw)
    while place < end:
        key, place = _varint(raw, place)
        number, wire = key >> 3, key & 7
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
        yield number, part if wire == 2 else int.from_bytes(part, "little")
        place += length


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


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("expected bytes, got a number")
    return value


def _number(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ProtobufError("expected a number, got bytes")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise ProtobufError("text that is not UTF-8") from None
