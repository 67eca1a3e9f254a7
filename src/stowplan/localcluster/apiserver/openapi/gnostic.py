"""A document of version 2 as protobuf, the only form in which kubectl reads that version."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.gocompat.protowire import length_delimited

_SCHEMA: Final = {"$ref": 1, "format": 2, "description": 4}
_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encoded(document: Json) -> bytes:
    """The whole document."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(
        length_delimited(2, _text(1, path) + length_delimited(2, _path(methods)))
        for path, methods in document["paths"].items()
    )
    return (
        _text(1, document["swagger"])
        + length_delimited(2, info)
        + length_delimited(8, paths)
        + length_delimited(9, _named(document["definitions"]))
    )


def _named(schemas: Mapping[str, Json]) -> bytes:
    return b"".join(
        length_delimited(1, _text(1, name) + length_delimited(2, _schema(schema)))
        for name, schema in schemas.items()
    )


def _schema(schema: Json) -> bytes:
    raw = b"".join(_text(number, schema[field]) for field, number in _SCHEMA.items() if schema.get(field))
    raw += b"".join(_text(19, name) for name in schema.get("required", ()))
    if "additionalProperties" in schema:
        raw += length_delimited(21, length_delimited(1, _schema(schema["additionalProperties"])))
    if "type" in schema:
        raw += length_delimited(22, _text(1, schema["type"]))
    if "items" in schema:
        raw += length_delimited(23, length_delimited(1, _schema(schema["items"])))
    if "properties" in schema:
        raw += length_delimited(25, _named(schema["properties"]))
    return raw + _extensions(31, schema)


def _path(methods: Json) -> bytes:
    return b"".join(
        length_delimited(_METHODS[method], _operation(found)) for method, found in methods.items()
    )


def _operation(operation: Json) -> bytes:
    raw = _text(5, operation["operationId"])
    for parameter in operation["parameters"]:
        query = _text(2, "query") + _text(4, parameter["name"]) + _text(6, parameter["type"])
        raw += length_delimited(8, length_delimited(1, length_delimited(2, length_delimited(3, query))))
    answer = _text(1, "200") + length_delimited(2, length_delimited(1, _text(1, "OK")))
    return raw + length_delimited(9, length_delimited(1, answer)) + _extensions(13, operation)


def _extensions(number: int, data: Json) -> bytes:
    """Kubernetes' additions: their values are YAML text."""
    found = ((name, value) for name, value in data.items() if name.startswith("x-"))
    return b"".join(
        length_delimited(
            number, _text(1, name) + length_delimited(2, _text(2, "\n".join(_yaml(value)) + "\n"))
        )
        for name, value in found
    )


def _yaml(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        yield from (f"{key}: {_quoted(part)}" for key, part in value.items())
    elif isinstance(value, list):
        for element in value:
            for i, line in enumerate(_yaml(element)):
                yield f"{'  ' if i else '- '}{line}"
    else:
        yield str(value)


def _quoted(value: Any) -> str:
    return str(value) or '""'


def _text(number: int, text: str) -> bytes:
    return length_delimited(number, text.encode())
