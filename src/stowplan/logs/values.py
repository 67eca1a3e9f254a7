"""Values in log lines: names and strings in quotes, numbers bare, everything else as JSON.

Whatever a value is, showing it must not fail: what cannot be shown says so in its place.
"""

import dataclasses
import json
from collections.abc import Mapping, Set
from json.encoder import encode_basestring
from numbers import Integral, Real
from typing import Any, Final

import msgspec

from stowplan.gocompat.jsontext import escape_html
from stowplan.gocompat.quoting import quote
from stowplan.logs.journal import Ref
from stowplan.logs.quoting import block


def as_text(value: object) -> str:
    """A value in a line of text, after its `=`."""
    kind = type(value)
    if kind is str or kind is Ref:
        return quote(value) if "\n" not in value else block(value)  # type: ignore[arg-type, operator]
    if kind is int:
        return str(value)
    plain = _plain(value)
    if isinstance(plain, str):
        return block(plain) if "\n" in plain else quote(plain)
    if isinstance(plain, bytes):
        return quote(plain.decode("utf-8", "surrogateescape"), ascii_only=True)
    return escape_html(_json(plain))


def as_json(value: object) -> str:
    """A value in a line of JSON."""
    if type(value) is int:
        return str(value)
    if type(value) is str:
        return encode_basestring(value)
    plain = _plain(value)
    if isinstance(plain, Ref):
        return _parts(plain)
    if isinstance(plain, bytes):
        plain = plain.decode("utf-8", "backslashreplace")
    return _json(plain)


def _parts(name: Ref) -> str:
    namespace, slash, rest = name.partition("/")
    if not slash:
        return f'{{"name":{encode_basestring(namespace)}}}'
    return f'{{"name":{encode_basestring(rest)},"namespace":{encode_basestring(namespace)}}}'


def _plain(value: object) -> Any:
    """A value as a string, bytes, or something that JSON knows."""
    if isinstance(value, str):
        return value if isinstance(value, Ref) else str(value)
    if value is None or isinstance(value, bool | bytes | dict | list | tuple):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _number(float(value))
    if isinstance(value, BaseException):
        return _said(value)
    return _named(value)


def _named(value: object) -> Any:
    """An object by its name, a collection or a record by what is in it, anything else by what it says."""
    metadata = getattr(value, "metadata", None)
    name = getattr(metadata, "name", None)
    if isinstance(name, str):
        namespace = getattr(metadata, "namespace", "")
        return Ref(f"{namespace}/{name}" if namespace else name)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=str)
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value, enc_hook=_said)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return _said(value)


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _said(value: object) -> str:
    try:
        return str(value)
    except Exception as failure:  # noqa: BLE001 - a value that cannot be shown must not stop the speaker
        return f"<{type(value).__name__} that cannot be shown: {type(failure).__name__}>"


def _json(value: object) -> str:
    try:
        return _ENCODER.encode(value)
    except Exception as failure:  # noqa: BLE001 - as above
        return encode_basestring(f"<internal error: {type(failure).__name__}>")


def _plain_inside(value: object) -> Any:
    plain = _plain(value)
    return plain.decode("utf-8", "backslashreplace") if isinstance(plain, bytes) else plain


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain_inside
)
