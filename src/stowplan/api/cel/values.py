"""Values of CEL: how they are represented here, compared, added and converted.

Bools, ints, doubles, strings, bytes, null and lists are Python's own; an error is a value too, since `&&` and
`||` look at it before it counts. Whatever can fail gives back a `EvaluationFailure`.
"""

import math
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Self

from stowplan.api.cel import types
from stowplan.api.cel.network import Cidr, Ip
from stowplan.api.cel.semver import Semver
from stowplan.api.cel.types import Type
from stowplan.api.cel.urls import Url
from stowplan.api.quantity import Quantity
from stowplan.gocompat.durations import Duration, DurationError
from stowplan.gocompat.numbers import fits_int64, parse_int64

Value = Any


class EvaluationFailure:
    """An error as the result of a part of an expression."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message

    def __repr__(self) -> str:
        return f"Failure({self.message!r})"


class UInt(int):
    """An unsigned integer."""

    __slots__ = ()


class Timestamp(int):
    """A point in time, in nanoseconds since 1970."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    present: bool
    value: Value = None


class WorkLimitError(Exception):
    """An evaluation that handles more elements than any useful one would."""


class _Work(threading.local):
    """Remaining work of an evaluation beyond its cost (comparing nested lists, say).

    Costly expressions are evaluated in threads, so each thread has a separate count.
    """

    left = 0


_work: Final = _Work()
MAX_WORK: Final = 5_000_000


def begin_work(most: int = MAX_WORK) -> None:
    """An evaluation begins."""
    _work.left = most


def work(amount: int) -> None:
    """Count elements that are looked at. Raises WorkLimitError."""
    _work.left -= amount
    if _work.left < 0:
        raise WorkLimitError


NONE: Final = Optional(False)
NO_SUCH_OVERLOAD: Final = EvaluationFailure("no such overload")
_OVERFLOW: Final = EvaluationFailure("integer overflow")
_UNSIGNED_OVERFLOW: Final = EvaluationFailure("unsigned integer overflow")
_TIMESTAMP_OVERFLOW: Final = EvaluationFailure("timestamp overflow")
_SECOND: Final = 1_000_000_000
_MIN_TIME: Final = -62135596800
_MAX_TIME: Final = 253402300799
_MAX_UINT: Final = 2**64 - 1


class Map:
    """A map. Numbers that are equal are the same key; true is not the key 1."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterator[tuple[Value, Value]] | None = None) -> None:
        self._entries: dict[Value, tuple[Value, Value]] = {}
        for key, value in entries or ():
            self._entries[_hashable(key)] = (key, value)

    @classmethod
    def of_strings(cls, entries: dict[str, Value]) -> Self:
        made = cls()
        made._entries = {key: (key, value) for key, value in entries.items()}
        return made

    def find(self, key: Value) -> tuple[Value, bool]:
        """The value of a key, and whether there is one."""
        found = self._entries.get(_hashable(key))
        return (None, False) if found is None else (found[1], True)

    def has(self, key: Value) -> bool:
        return self.find(key)[1]

    def inserted(self, key: Value, value: Value) -> "Map":
        made = Map()
        made._entries = {**self._entries, _hashable(key): (key, value)}
        return made

    def insert(self, key: Value, value: Value) -> None:
        self._entries[_hashable(key)] = (key, value)

    def items(self) -> Iterator[tuple[Value, Value]]:
        return iter(self._entries.values())

    def keys(self) -> list[Value]:
        return [key for key, _ in self._entries.values()]

    def __len__(self) -> int:
        return len(self._entries)


class LazyMap(Map):
    """A map whose values are worked out when they are first asked for, by functions of no arguments."""

    __slots__ = ("_pending",)

    def __init__(self, pending: dict[str, Callable[[], Value]]) -> None:
        super().__init__()
        self._pending = pending

    def find(self, key: Value) -> tuple[Value, bool]:
        pending = self._pending.pop(key, None) if type(key) is str else None
        if pending is not None:
            self.insert(key, pending())
        return super().find(key)


class Struct(Map):
    """A value of a struct type that an expression has made."""

    __slots__ = ("made_type",)

    made_type: Type

    @classmethod
    def of(cls, name: str, fields: dict[str, Value]) -> "Struct":
        made = cls.of_strings(fields)
        made.made_type = Type("struct", name)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.made_type == other.made_type and _equal_maps(self, other)

    __hash__ = None  # type: ignore[assignment]


class DefaultMap(Map):
    """A map that answers every key: unknown ones with an empty map, as the domains of a device do."""

    __slots__ = ()

    def find(self, key: Value) -> tuple[Value, bool]:
        found = self._entries.get(_hashable(key))
        return (_EMPTY, True) if found is None else (found[1], True)

    def has(self, key: Value) -> bool:
        return _hashable(key) in self._entries


_EMPTY: Final = Map()


def _hashable(key: Value) -> Value:
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind is bool:
        return ("bool", key)
    if kind in (UInt, float):
        return key
    try:
        hash(key)
    except TypeError:
        return ("other", id(key))
    return ("other", kind, key)


_TYPES: Final[dict[type, Type]] = {
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.list_of(types.DYN),
    Map: types.map_of(types.DYN, types.DYN),
    DefaultMap: types.map_of(types.DYN, types.DYN),
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Optional: types.optional_of(types.DYN),
    Quantity: types.QUANTITY,
    Semver: types.SEMVER,
    Url: types.URL,
    Ip: types.IP,
    Cidr: types.CIDR,
    Type: types.TYPE,
    LazyMap: Type("struct", "kubernetes.variables"),
}


def register(kind: type, declared: Type) -> None:
    """Say what type the values of a Python class have."""
    _TYPES[kind] = declared


def type_of(value: Value) -> Type:
    return value.made_type if type(value) is Struct else _TYPES[type(value)]


def type_name(value: Value) -> str:
    return type_of(value).name


_GO_TYPES: Final = {
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "optional_type": "*types.Optional",
    "type": "*types.Type",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}


def go_type(value: Value) -> str:
    """Upstream's `%T` for a value."""
    name = type_name(value)
    return _GO_TYPES.get(name) or f"cel.{name.rpartition('.')[2]}"


def size(value: Value) -> int | None:
    """Result of `size()`, None for a value without a size."""
    kind = type(value)
    if kind is str or kind is list or kind is bytes or kind is Map or kind is DefaultMap:
        return len(value)
    return None


def cost_size(value: Value) -> int:
    """The size of a value as far as its cost is concerned."""
    kind = type(value)
    if kind is str or kind is list or kind is bytes or kind is Map or kind is DefaultMap:
        return len(value)
    if kind is Ip:
        return value.size  # type: ignore[no-any-return]
    if kind is Cidr:
        return value.size  # type: ignore[no-any-return]
    if kind is Optional and value.present:
        return cost_size(value.value)
    return 1


_NUMBERS: Final = frozenset((int, UInt, float))


_WITHIN_TYPE: Final = frozenset((Quantity, Semver, Url, Ip, Cidr))
"""Types of Kubernetes, whose values cannot be compared with others; those of CEL are not equal to others."""


def equal(left: Value, right: Value) -> bool:
    """True if two values are equal, as loops over lists and maps ask."""
    return equals(left, right) is True


def equals(left: Value, right: Value) -> bool | EvaluationFailure:
    """Equality across types: numbers by their value, everything else only within its type.

    The left value decides: `quantity('1') == 1` fails and `1 == quantity('1')` is false.
    """
    kind, other = type(left), type(right)
    if kind is not other:
        if kind in _WITHIN_TYPE and right is not None:
            return NO_SUCH_OVERLOAD
        if kind in _NUMBERS and other in _NUMBERS:
            return bool(left == right)
        if kind in _MAPS and other in _MAPS:
            return _equal_maps(left, right)
        return False
    if kind is list:
        return _equal_lists(left, right)
    if kind in _MAPS:
        return _equal_maps(left, right)
    if kind is Optional:
        if left.present and right.present:
            return equals(left.value, right.value)
        return bool(left.present == right.present)
    if kind is Type:
        return bool(left.name == right.name)
    return bool(left == right)


_MAPS: Final = frozenset((Map, DefaultMap))


# Elements that cannot be compared count as equal in lists and maps, as in cel-go: only false ends the search.


def _equal_lists(left: list[Value], right: list[Value]) -> bool:
    if len(left) != len(right):
        return False
    work(len(left) + 4)
    return all(equals(*pair) is not False for pair in zip(left, right, strict=True))


def _equal_maps(left: Map, right: Map) -> bool:
    if len(left) != len(right):
        return False
    work(len(left) + 4)
    for key, value in left.items():
        other, found = right.find(key)
        if not found or equals(value, other) is False:
            return False
    return True


_ORDERED: Final = frozenset((bool, int, UInt, float, str, bytes, Duration, Timestamp))


def is_ordered(value: Value) -> bool:
    return type(value) in _ORDERED


def compare(left: Value, right: Value) -> int | EvaluationFailure:
    """-1, 0 or 1; numbers of all types compare, other values only within their type."""
    kind, other = type(left), type(right)
    if kind is not other and not (kind in _NUMBERS and other in _NUMBERS):
        return NO_SUCH_OVERLOAD
    if (kind is float or other is float) and (math.isnan(left) or math.isnan(right)):
        return EvaluationFailure("NaN values cannot be ordered")
    if kind is str:
        left, right = left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass")
    return int(left > right) - int(left < right)


def _int_result(value: int) -> int | EvaluationFailure:
    return value if fits_int64(value) else _OVERFLOW


def _uint_result(value: int) -> UInt | EvaluationFailure:
    return UInt(value) if 0 <= value <= _MAX_UINT else _UNSIGNED_OVERFLOW


def _duration_result(nanoseconds: int) -> Duration | EvaluationFailure:
    return Duration(nanoseconds) if fits_int64(nanoseconds) else _OVERFLOW


def _timestamp_result(nanoseconds: int) -> Timestamp | EvaluationFailure:
    in_range = _MIN_TIME <= nanoseconds // _SECOND <= _MAX_TIME
    return Timestamp(nanoseconds) if in_range else _TIMESTAMP_OVERFLOW


def _missing(operator: str) -> EvaluationFailure:
    return EvaluationFailure(f"no such overload: {operator}")


def add(left: Value, right: Value) -> Value:
    match left, right:
        case (bool(), _) | (_, bool()):
            pass
        case Timestamp(), Duration():
            return _timestamp_result(int(left) + right.nanoseconds)
        case Duration(), Timestamp():
            return _timestamp_result(left.nanoseconds + int(right))
        case Duration(), Duration():
            return _duration_result(left.nanoseconds + right.nanoseconds)
        case Timestamp(), _:
            return NO_SUCH_OVERLOAD
        case UInt(), UInt():
            return _uint_result(int(left) + int(right))
        case (str(), str()) | (bytes(), bytes()) | (list(), list()) | (float(), float()):
            return left + right
        case int(), int() if type(left) is type(right) is int:
            return _int_result(left + right)
    return NO_SUCH_OVERLOAD if type(left) in _ADDERS else _missing("_+_")


_ADDERS: Final = frozenset((bytes, float, Duration, int, list, str, Timestamp, UInt))


def subtract(left: Value, right: Value) -> Value:
    match left, right:
        case (bool(), _) | (_, bool()):
            pass
        case Timestamp(), Duration():
            return _timestamp_result(int(left) - right.nanoseconds)
        case Timestamp(), Timestamp():
            return _duration_result(int(left) - int(right))
        case Duration(), Duration():
            return _duration_result(left.nanoseconds - right.nanoseconds)
        case Timestamp(), _:
            return NO_SUCH_OVERLOAD
        case UInt(), UInt():
            return _uint_result(int(left) - int(right))
        case float(), float():
            return left - right
        case int(), int() if type(left) is type(right) is int:
            return _int_result(left - right)
    return NO_SUCH_OVERLOAD if type(left) in (float, Duration, int, Timestamp, UInt) else _missing("_-_")


def multiply(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind not in _NUMBERS:
        return _missing("_*_")
    if kind is not type(right):
        return NO_SUCH_OVERLOAD
    if kind is float:
        return left * right
    return _int_result(left * right) if kind is int else _uint_result(int(left) * int(right))


def divide(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind not in _NUMBERS:
        return _missing("_/_")
    if kind is not type(right):
        return NO_SUCH_OVERLOAD
    if kind is float:
        return _divide_floats(left, right)
    if not right:
        return EvaluationFailure("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    if kind is UInt:
        return UInt(quotient)
    return _int_result(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_floats(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind not in (int, UInt):
        return _missing("_%_")
    if kind is not type(right):
        return NO_SUCH_OVERLOAD
    if not right:
        return EvaluationFailure("modulus by zero")
    if kind is int and left == -(2**63) and right == -1:
        return _OVERFLOW
    rest = abs(int(left)) % abs(int(right))
    return UInt(rest) if kind is UInt else -rest if left < 0 else rest


def negate(value: Value) -> Value:
    kind = type(value)
    if kind is bool:
        return NO_SUCH_OVERLOAD
    if kind is float:
        return -value
    return _int_result(-value) if kind is int else _missing("-_")


def to_int(value: Value) -> Value:
    match value:
        case Timestamp():
            return int(value) // _SECOND
        case Duration():
            return value.nanoseconds
        case float():
            if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
                return _OVERFLOW
            return int(value)
        case str():
            number = parse_int64(value)
            return _conversion("string", "int") if number is None else number
    return _int_result(int(value))


def to_uint(value: Value) -> Value:
    match value:
        case float():
            if math.isnan(value) or not 0 <= value < 2.0**64:
                return _UNSIGNED_OVERFLOW
            return UInt(int(value))
        case str():
            if not re.fullmatch(r"[0-9]{1,40}", value, re.ASCII) or int(value) > _MAX_UINT:
                return _conversion("string", "uint")
            return UInt(int(value))
    return _uint_result(int(value))


_FLOAT = re.compile(r"[+-]?([0-9]++\.?[0-9]*+|\.[0-9]++)([eE][+-]?[0-9]++)?", re.ASCII)


def to_double(value: Value) -> Value:
    if not isinstance(value, str):
        return float(value)
    if value.lstrip("+-").lower() in ("inf", "infinity", "nan") and len(value) - len(value.lstrip("+-")) < 2:
        return float(value)
    if not _FLOAT.fullmatch(value) or math.isinf(float(value)):
        return _conversion("string", "double")
    return float(value)


_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def to_bool(value: Value) -> Value:
    return _BOOLS.get(value, _conversion("string", "bool")) if isinstance(value, str) else value


def to_bytes(value: Value) -> Value:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def to_string(value: Value) -> Value:
    match value:
        case bool():
            return "true" if value else "false"
        case Timestamp():
            return _timestamp_text(value)
        case Duration():
            return f"{_plain_float(value.seconds)}s"
        case float():
            return float_text(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return EvaluationFailure("invalid UTF-8 in bytes, cannot convert to string")
        case int():
            return str(int(value))
        case Type():
            return value.name
        case Ip() | Cidr():
            return str(value)
    return value


def float_text(value: float) -> str:
    """As Go's `%g` writes a float."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if not value:
        return "-0" if sign else "0"
    power = len(digits) + int(exponent) - 1
    if -5 < power < 21:
        return _plain_float(value)
    text = "".join(map(str, digits))
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{'-' * sign}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02}"


def _plain_float(value: float) -> str:
    """Without an exponent, with as many digits as it takes."""
    text = f"{Decimal(repr(value)):f}"
    return text.rstrip("0").removesuffix(".") if "." in text else text


_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


def to_timestamp(value: Value) -> Value:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int):
        return Timestamp(value * _SECOND) if _MIN_TIME <= value <= _MAX_TIME else _TIMESTAMP_OVERFLOW
    match = _RFC3339.fullmatch(value)
    if match is None:
        return _conversion("string", types.TIMESTAMP.name)
    try:
        year, month, day, hour, minute, second = [int(match[part]) for part in range(1, 7)]
        time = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return _conversion("string", types.TIMESTAMP.name)
    seconds = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    if match[8] != "Z":
        hours, minutes = int(match[8][1:3]), int(match[8][4:6])
        if hours > 24 or minutes > 60:
            return _conversion("string", types.TIMESTAMP.name)
        seconds -= (hours * 3600 + minutes * 60) * (-1 if match[8][0] == "-" else 1)
    if not _MIN_TIME <= seconds <= _MAX_TIME:
        return _TIMESTAMP_OVERFLOW
    return Timestamp(seconds * _SECOND + int((match[7] or "")[:9].ljust(9, "0")))


def to_duration(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    try:
        return Duration.parse(value)
    except DurationError:
        return _conversion("string", types.DURATION.name)


def _conversion(source: str, target: str) -> EvaluationFailure:
    return EvaluationFailure(f"type conversion error from '{source}' to '{target}'")


def moment(value: Timestamp) -> datetime:
    """The timestamp in UTC, without what is smaller than a microsecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(value) // 1000)


def _timestamp_text(value: Timestamp) -> str:
    fraction = f"{int(value) % _SECOND:09}".rstrip("0")
    time = moment(Timestamp(int(value) // _SECOND * _SECOND))
    return f"{time:%Y}".rjust(4, "0") + f"{time:-%m-%dT%H:%M:%S}" + (f".{fraction}Z" if fraction else "Z")


def shown(value: Value) -> str:
    """A value as it stands in messages (Go's `%v`)."""
    work(10)
    match value:
        case None:
            return "null"
        case list():
            return f"[{', '.join([shown(one) for one in value])}]"
        case Optional():
            return f"optional({shown(value.value)})" if value.present else "optional.none()"
        case Quantity():
            return str(value)
        case bytes():
            return value.decode("utf-8", "replace")
        case Map():
            return f"{{{', '.join([f'{shown(key)}: {shown(one)}' for key, one in value.items()])}}}"
    text = to_string(value)
    return text if isinstance(text, str) else str(value)


def is_zero(value: Value) -> bool:
    """True if a value is the zero value of its type."""
    match value:
        case Optional():
            return not value.present
        case Duration():
            return not value.nanoseconds
        case Quantity() | Semver() | Url() | Ip() | Cidr() | Type():
            return False
        case Timestamp():
            return int(value) == _MIN_TIME * _SECOND
    return not len(value) if isinstance(value, Map) else not value
