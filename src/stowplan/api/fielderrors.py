"""Errors about one field of an object, worded as the Kubernetes API words them.

People search for these texts and tools match them, so they are reproduced to the letter: the path, the
kind of error, the value in Go's notation, the detail. Several errors are shown as `[first, second]`.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from stowplan.gocompat.jsontext import as_json
from stowplan.gocompat.quoting import quote


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one clear line.

    `stage` says how far it came: `read` (the file), `decode` (parsing and strict decoding), `validation`
    (values), or `build` (putting extenders and profiles together). `hint` is what may help, which
    kube-scheduler does not say.
    """

    def __init__(self, stage: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
        self.hint = hint

    def located(self, where: str) -> "ConfigError":
        """The same error, with the place it belongs to put before its message."""
        return ConfigError(self.stage, f"{where}: {self.message}", self.hint) if where else self


class Path(str):
    """Where a field stands in its object, such as `profiles[0].plugins`. The empty path is the object."""

    __slots__ = ()

    def child(self, *names: str) -> "Path":
        path = str(self)
        for name in names:
            path = child(path, name)
        return Path(path)

    def at(self, index: int) -> "Path":
        """An element of a list."""
        return Path(f"{self}[{index}]")


def child(path: str, name: str) -> str:
    """The path of a field below another; the root has the empty path."""
    return f"{path}.{name}" if path else name


class Kind(Enum):
    """Kind of a field's error; the value is its text."""

    NOT_FOUND = "Not found"
    REQUIRED = "Required value"
    DUPLICATE = "Duplicate value"
    INVALID = "Invalid value"
    NOT_SUPPORTED = "Unsupported value"
    FORBIDDEN = "Forbidden"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"
    TOO_FEW = "Too few"
    TOO_SHORT = "Too short"
    INTERNAL = "Internal error"
    TYPE_INVALID = "Invalid type"


_SHOWN_AS = {Kind.TYPE_INVALID: Kind.INVALID.value}
"""Kinds that differ only in the reason of their cause."""

_WITHOUT_VALUE = frozenset({Kind.REQUIRED, Kind.FORBIDDEN, Kind.TOO_LONG, Kind.TOO_SHORT, Kind.INTERNAL})


class EnumText(str):
    """Text of a named Go type (an operator, an action): shown as JSON, not as a quoted Go string.

    The two notations differ only in how they escape unusual characters.
    """

    __slots__ = ()


OMITTED: Final = object()
"""Stands for a value that an error does not show."""


class FieldError(str):
    """One thing wrong with one field: the message, which still knows its parts."""

    path: str
    kind: Kind
    value: Any
    detail: str

    def __new__(cls, path: str, kind: Kind, value: Any = None, detail: str = "") -> "FieldError":
        text = _SHOWN_AS.get(kind, kind.value)
        if kind not in _WITHOUT_VALUE and value is not OMITTED:
            text += ": " + show_value(value)
        if detail:
            text += ": " + detail
        error = super().__new__(cls, f"{path}: {text}")
        error.path, error.kind, error.value, error.detail = path, kind, value, detail
        return error


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, Kind.REQUIRED, "", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, Kind.INVALID, value, detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, Kind.DUPLICATE, value)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, Kind.FORBIDDEN, "", detail)


def not_supported(path: str, value: str, supported: Iterable[str]) -> FieldError:
    """The value is not among the supported ones, which are listed in the given order."""
    listed = ", ".join(quote(choice) for choice in supported)
    detail = f"supported values: {listed}" if listed else ""
    return FieldError(path, Kind.NOT_SUPPORTED, EnumText(value), detail)


def aggregate(errors: Iterable[str]) -> str:
    """Several errors in one line: each once, in brackets if there are more than one."""
    unique = list(dict.fromkeys(map(str, errors)))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"


def show_value(value: Any) -> str:
    """A value as an error message shows it: plain text quoted as Go quotes it, everything else as JSON."""
    if isinstance(value, str) and not isinstance(value, EnumText):
        return quote(value)
    return as_json(value)
