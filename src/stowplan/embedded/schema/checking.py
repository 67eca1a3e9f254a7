"""Bodies against the table: what cannot be read at all, and what nobody would read."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stowplan.embedded.schema.structs import decoder, struct_of
from stowplan.embedded.schema.types import Form, TypeDef, the_schema

_WORDS: Final = {"str": "string", "object": "map", "array": "list", "bool": "boolean"}


class MisfitError(ValueError):
    """Data whose types are not those of its kind; the message names the field and what was expected."""


def checked_body(type_: TypeDef, text: bytes) -> tuple[Any, list[str]]:
    """JSON text as data without what its type does not have, and the fields that were left out for that.

    Raises `MisfitError`, or msgspec.DecodeError for what is not JSON.
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
        raise MisfitError(_in_words(str(error))) from None
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
            yield from _unknown(fields[key].form, value, f"{path}.{key}" if path else key)
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


def _in_words(problem: str) -> str:
    """msgspec's message with the field first and JSON's names of types."""
    what, _, where = problem.partition(" - at `")
    what = re.sub(r"`(\w+)( \| null)?`", lambda match: _WORDS.get(match[1], match[1]), what)
    place = where.rstrip("`").removeprefix("key in ").strip("`").removeprefix("$").removeprefix(".")
    return f"{place}: {what[:1].lower()}{what[1:]}" if place else what
