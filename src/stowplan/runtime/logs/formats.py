"""Messages as lines: klog's text format and its JSON.

In text, names and strings are quoted, numbers bare, everything else is JSON. Formatting a value must not
fail: what cannot be shown says so in its place.
"""

import dataclasses
import json
import os
import time
from collections.abc import Mapping, Set
from json.encoder import encode_basestring
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from stowplan.gocompat.jsontext import escape_html
from stowplan.gocompat.quoting import quote, visible
from stowplan.runtime.logs.logger import ERROR, FATAL, PLAIN, WARNING, Ref

SEVERITIES: Final = {ERROR: "E", WARNING: "W", FATAL: "F"}
_FIRST: Final = ("err", "logger")
_NAME: Final = "logger"
_ERROR: Final = "err"
_KEPT: Final = "\t\n"
"""Characters that unquoted text may have."""


class Source(NamedTuple):
    """A file that messages come from: its name, the same with its folder, and the level it is shown up to."""

    file: str
    caller: str
    level: int


def source_of(path: str, level: int) -> Source:
    parts = PurePath(path).parts
    return Source(parts[-1] if parts else "???", "/".join(parts[-2:]), level)


def module_of(path: str) -> str:
    """Name of a file in `--vmodule`."""
    return PurePath(path).stem


class LogFormat(Protocol):
    """Makes a line of a message. `named`: the name of the logger is wanted."""

    def line(
        self,
        level: int,
        message: str,
        values: Mapping[str, object],
        source: Source,
        number: int,
        now: float,
        named: bool,
    ) -> str: ...


class TextFormat:
    """`I1116 02:21:03.123456   12345 binding.py:166] "Message" key="value"`, in local time."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = f"{os.getpid() if pid is None else pid:7}"
        self._second = -1
        self._date = ""

    def line(
        self,
        level: int,
        message: str,
        values: Mapping[str, object],
        source: Source,
        number: int,
        now: float,
        named: bool,
    ) -> str:
        second = int(now)
        if second != self._second:
            self._second = second
            self._date = time.strftime("%m%d %H:%M:%S", time.localtime(second))
        severity = "I" if level >= 0 else SEVERITIES[level]
        micros = int((now - second) * 1e6)
        head = f"{severity}{self._date}.{micros:06} {self._pid} {source.file}:{number}] "
        if values is PLAIN:
            return f"{head}{visible(message, _KEPT)}\n"
        if level < 0 or _NAME in values:
            values = _reordered(values, named or level < 0)
        pairs = [f" {key}={as_text(value)}" for key, value in values.items()]
        return f"{head}{quote(message)}{''.join(pairs)}\n"


class JsonFormat:
    """`{"ts":1763259663123.456,"caller":"scheduler/binding.py:166","msg":"Message","v":2,"key":"value"}`."""

    def line(
        self,
        level: int,
        message: str,
        values: Mapping[str, object],
        source: Source,
        number: int,
        now: float,
        named: bool,
    ) -> str:
        name = values.get(_NAME) if named or level < 0 else None
        logger = "" if name is None else f'"logger":{encode_basestring(str(name))},'
        verbosity = "" if level in (ERROR, FATAL) else f',"v":{max(level, 0)}'
        pairs = [
            f",{encode_basestring(key)}:{as_json(value)}"
            for key, value in values.items()
            if key != _NAME and (key != _ERROR or level >= 0)
        ]
        if level < 0 and _ERROR in values:
            pairs.append(f',"err":{as_json(values[_ERROR])}')
        where = encode_basestring(f"{source.caller}:{number}")
        return (
            f'{{"ts":{now * 1000!r},{logger}"caller":{where},"msg":{encode_basestring(message)}'
            f"{verbosity}{''.join(pairs)}}}\n"
        )


def _reordered(values: Mapping[str, object], named: bool) -> Mapping[str, object]:
    """The error first, then the logger, if it is to be shown, then the rest."""
    first = {key: values[key] for key in _FIRST if key in values and (key != _NAME or named)}
    rest = {key: value for key, value in values.items() if key not in _FIRST}
    return first | rest


def as_text(value: object) -> str:
    """A value in a line of text, after its `=`."""
    kind = type(value)
    if kind is str or kind is Ref:
        return quote(value) if "\n" not in value else _block(value)  # type: ignore[arg-type, operator]
    if kind is int:
        return str(value)
    plain = _plain(value)
    if isinstance(plain, str):
        return _block(plain) if "\n" in plain else quote(plain)
    if isinstance(plain, bytes):
        return quote(plain.decode("utf-8", "surrogateescape"), ascii_only=True)
    return visible(escape_html(_json(plain)))


def as_json(value: object) -> str:
    """A value in a line of JSON."""
    if type(value) is int:
        return str(value)
    if type(value) is str:
        return encode_basestring(value)
    plain = _plain(value)
    if isinstance(plain, Ref):
        return _ref_json(plain)
    if isinstance(plain, bytes):
        plain = plain.decode("utf-8", "backslashreplace")
    return _json(plain)


def _ref_json(name: Ref) -> str:
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
        return _str(value)
    return _plain_object(value)


def _plain_object(value: object) -> Any:
    """An object by its name, a collection or a record by its content, anything else by its `str`."""
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
        return msgspec.to_builtins(value, enc_hook=_str)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return _str(value)


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _str(value: object) -> str:
    try:
        return str(value)
    except Exception as failure:  # noqa: BLE001 - a value that cannot be shown must not fail its caller
        return f"<{type(value).__name__} that cannot be shown: {type(failure).__name__}>"


def _json(value: object) -> str:
    try:
        return _ENCODER.encode(value)
    except Exception as failure:  # noqa: BLE001 - as above
        return encode_basestring(f"<internal error: {type(failure).__name__}>")


def _plain_value(value: object) -> Any:
    plain = _plain(value)
    return plain.decode("utf-8", "backslashreplace") if isinstance(plain, bytes) else plain


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain_value
)


def _block(text: str) -> str:
    """A text of several lines, indented so that no line of it can be taken for another message."""
    lines = text.removesuffix("\n").split("\n")
    return "<\n" + "".join(f"\t{visible(line, _KEPT)}\n" for line in lines) + " >"
