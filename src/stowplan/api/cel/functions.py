"""Implementations of the functions of the Kubernetes environments, by overload."""

import base64
import binascii
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stowplan.api import names, quantity
from stowplan.api.cel import authorization, network, semver, types, urls, values
from stowplan.api.cel.formatting import format_string
from stowplan.api.cel.values import (
    NO_SUCH_OVERLOAD,
    NONE,
    EvaluationFailure,
    Map,
    Optional,
    Timestamp,
    UInt,
    Value,
)
from stowplan.api.quantity import Quantity, QuantityError
from stowplan.gocompat import regexps
from stowplan.gocompat.caching import cached_by_text
from stowplan.gocompat.durations import SECOND, Duration

_MAX_RANGE: Final = 1_000_001
"""Maximum length of `lists.range`: more elements cost more than any expression may."""

MAX_TEXT: Final = 10_000_000
"""Characters of a text that a function makes; a longer one ends the evaluation with an error."""


@dataclass(frozen=True, slots=True)
class Format:
    """A named format that texts can be checked against."""

    name: str
    pattern_size: int
    problems: Callable[[str], list[str]]


values.register(Format, types.FORMAT)


def _lower(text: str) -> str:
    return "".join([one.lower() if one.isascii() else one for one in text])


def _upper(text: str) -> str:
    return "".join([one.upper() if one.isascii() else one for one in text])


def _char_at(text: str, at: int) -> Value:
    return text[at : at + 1] if 0 <= at <= len(text) else EvaluationFailure(f"index out of range: {at}")


def _index_of(text: str, part: str, begin: int = 0) -> Value:
    if begin < 0:
        return EvaluationFailure(f"index out of range: {begin}")
    if not part:
        return min(begin, len(text))
    return text.find(part, begin)


def _last_index_of(text: str, part: str, begin: int | None = None) -> Value:
    if begin is None:
        return text.rfind(part) if part else len(text)
    if begin < 0:
        return EvaluationFailure(f"index out of range: {begin}")
    if not part:
        return min(begin, len(text))
    return -1 if begin >= len(text) else text.rfind(part, 0, begin + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> Value:
    times = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + times * len(new) > MAX_TEXT:
        return EvaluationFailure("string.replace: result is too long")
    return text.replace(old, new, max(count, -1))


def _split(text: str, separator: str, count: int = -1) -> Value:
    if count == 0:
        return []
    if not separator:
        parts = list(text)
        return (
            parts if count < 0 or len(parts) <= count else [*parts[: count - 1], "".join(parts[count - 1 :])]
        )
    return text.split(separator, -1 if count < 0 else count - 1)


def _substring(text: str, begin: int, end: int | None = None) -> Value:
    if end is None:
        return text[begin:] if 0 <= begin <= len(text) else EvaluationFailure(f"index out of range: {begin}")
    if begin > end:
        return EvaluationFailure(f"invalid substring range. start: {begin}, end: {end}")
    for one in (begin, end):
        if not 0 <= one <= len(text):
            return EvaluationFailure(f"index out of range: {one}")
    return text[begin:end]


_TRIMMED: Final = "".join(
    map(chr, (*range(9, 14), 32, 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239, 8287, 12288))
)
"""White space as Go sees it."""
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _join(items: list[Value], separator: str = "") -> Value:
    total = 0
    for item in items:
        if not isinstance(item, str):
            return EvaluationFailure(f"join: invalid input: {values.shown(item)}")
        total += len(item) + len(separator)
    return separator.join(items) if total <= MAX_TEXT else EvaluationFailure("join: result is too long")


def _pattern(text: str) -> regexps.Regexp | EvaluationFailure:
    try:
        return regexps.compile(text)
    except regexps.RegexpError as error:
        return EvaluationFailure(str(error))


def _searched(pattern: str, search: Callable[[regexps.Regexp], Value], prefix: str = "") -> Value:
    compiled = _pattern(pattern)
    if isinstance(compiled, EvaluationFailure):
        return EvaluationFailure(prefix + compiled.message)
    try:
        return search(compiled)
    except regexps.TooCostlyError as error:
        return EvaluationFailure(f"regular expression: {error}")


def matches(text: Value, pattern: Value) -> Value:
    if type(text) is not str:
        return EvaluationFailure("no such overload: matches")
    if type(pattern) is not str:
        return NO_SUCH_OVERLOAD
    return _searched(pattern, lambda compiled: compiled.matches(text))


def _find(text: str, pattern: str) -> Value:
    def search(compiled: regexps.Regexp) -> str:
        found = compiled.find(text)
        return text[found[0] : found[1]] if found else ""

    return _searched(pattern, search, "Illegal regex: ")


def _find_all(text: str, pattern: str, limit: int = -1) -> Value:
    return _searched(pattern, lambda compiled: compiled.find_all(text, limit), "Illegal regex: ")


def _is_sorted(items: list[Value]) -> Value:
    for one, other in itertools.pairwise(items):
        if not values.is_ordered(one) or not values.is_ordered(other):
            return NO_SUCH_OVERLOAD
        if values.compare(one, other) == 1:
            return False
    return True


def _extreme(name: str, keep: int) -> Callable[[list[Value]], Value]:
    def choose(items: list[Value]) -> Value:
        if not items:
            return EvaluationFailure(f"{name} called on empty list")
        chosen = items[0]
        for item in items:
            if not values.is_ordered(item):
                return NO_SUCH_OVERLOAD
            if values.compare(chosen, item) == keep:
                chosen = item
        return chosen

    return choose


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def total(items: list[Value]) -> Value:
        result = zero
        for item in items:
            result = values.add(result, item)
            if isinstance(result, EvaluationFailure):
                return result
        return result

    return total


def _position(items: list[Value], wanted: Value) -> int:
    values.work(len(items))
    return next((at for at, item in enumerate(items) if values.equal(item, wanted)), -1)


def _last_position(items: list[Value], wanted: Value) -> int:
    values.work(len(items))
    found = (at for at in range(len(items) - 1, -1, -1) if values.equal(items[at], wanted))
    return next(found, -1)


def contains(items: list[Value], wanted: Value) -> bool:
    return _position(items, wanted) >= 0


def _includes(target: Value, wanted: Value) -> bool:
    return contains(target, wanted) if isinstance(target, list) else values.equal(target, wanted)


def _slice(items: list[Value], begin: int, end: int) -> Value:
    wrong = f"cannot slice({begin}, {end}), "
    if begin < 0 or end < 0:
        return EvaluationFailure(f"{wrong}negative indexes not supported")
    if begin > end:
        return EvaluationFailure(f"{wrong}start index must be less than or equal to end index")
    if len(items) < end:
        return EvaluationFailure(f"{wrong}list is length {len(items)}")
    return items[begin:end]


def _flatten(items: Value, depth: Value = 1) -> Value:
    if not isinstance(items, list):
        given = values.type_of(items)
        return EvaluationFailure(f"no such overload: {given}.flatten()")
    if type(depth) is not int:
        return EvaluationFailure(
            f"no such overload: {values.type_of(items)}.flatten({values.type_of(depth)})"
        )
    if depth < 0:
        return EvaluationFailure("level must be non-negative")
    while depth > 0 and any(isinstance(item, list) for item in items):
        values.work(sum([len(item) if isinstance(item, list) else 1 for item in items]))
        items = [inner for item in items for inner in (item if isinstance(item, list) else (item,))]
        depth -= 1
    return items


def _range(count: int) -> list[Value]:
    return list(range(min(count, _MAX_RANGE)))


def _distinct(items: list[Value]) -> list[Value]:
    found: list[Value] = []
    known: set[Value] = set()
    for item in items:
        if type(item) in (str, int, float, UInt, bytes):
            if item in known:
                continue
            known.add(item)
        elif contains(found, item):
            continue
        found.append(item)
    return found


def sort_by_keys(items: Value, keys: Value) -> Value:
    """The items in the order of their keys."""
    if not isinstance(items, list) or not isinstance(keys, list):
        return NO_SUCH_OVERLOAD
    if len(items) != len(keys):
        what = "@sortByAssociatedKeys() expected a list of the same size as the associated keys list"
        return EvaluationFailure(f"{what}, but got {len(items)} and {len(keys)} elements respectively")
    if not items:
        return items
    if not values.is_ordered(keys[0]):
        return EvaluationFailure("list elements must be comparable")
    if len(keys) > 1 and any(type(key) is not type(keys[0]) for key in keys):
        return EvaluationFailure("list elements must have the same type")
    as_bytes = isinstance(keys[0], str)
    order = [key.encode("utf-8", "surrogatepass") if as_bytes else key for key in keys]
    return [items[at] for at in sorted(range(len(items)), key=order.__getitem__)]


def _set_contains(items: list[Value], part: list[Value]) -> bool:
    return all(contains(items, one) for one in part)


def _inserted(target: Map, key: Value, value: Value) -> Value:
    if target.has(key):
        return EvaluationFailure(f"insert failed: key {values.shown(key)} already exists")
    return target.inserted(key, value)


def _merged(target: Map, other: Map) -> Value:
    result: Value = target
    for key, value in other.items():
        result = _inserted(result, key, value)
        if isinstance(result, EvaluationFailure):
            return result
    return result


def _optional_value(optional: Optional) -> Value:
    return optional.value if optional.present else EvaluationFailure("optional.none() dereference")


def _unwrapped(items: list[Value]) -> Value:
    return [item.value for item in items if item.present]


def _parsed(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """A function that reads a text and fails with the reader's words."""

    def read(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            return EvaluationFailure(str(error))

    return read


def _readable(parse: Callable[[str], Value]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return test


def _parse_cidr(text: str) -> Value:
    try:
        return network.parse_cidr(text)
    except network.NetworkError as error:
        return EvaluationFailure(f"network address parse error during conversion from string: {error}")


def _parse_url(text: str) -> Value:
    try:
        return urls.parse(text)
    except urls.UrlError as error:
        return EvaluationFailure(f"URL parse error during conversion from string: {error}")


@cached_by_text(4096)
def _parse_quantity(text: str) -> Quantity:
    try:
        return quantity.parse(text)
    except QuantityError as error:
        raise ValueError(str(error)) from None


def _get_integer(amount: Quantity) -> Value:
    whole = amount.as_int64()
    return EvaluationFailure("cannot convert value to integer") if whole is None else whole


def _whole(number: int) -> Quantity:
    return Quantity(number, 0, "DecimalExponent")


def _semver(text: str, tolerant: bool = False) -> Value:
    return _parsed(semver.parse_tolerant if tolerant else semver.parse)(text)


def _contains_ip(cidr: network.Cidr, text: str) -> Value:
    ip = _parsed(network.parse_ip)(text)
    return ip if isinstance(ip, EvaluationFailure) else cidr.contains(ip)


def _contains_cidr(cidr: network.Cidr, text: str) -> Value:
    other = _parse_cidr(text)
    return other if isinstance(other, EvaluationFailure) else cidr.contains_network(other)


def _is_canonical(text: str) -> Value:
    ip = _parsed(network.parse_ip)(text)
    return ip if isinstance(ip, EvaluationFailure) else str(ip) == text


def _query(url: urls.Url) -> Map:
    return Map(iter(url.query.items()))


def _prefix_of(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The same check for a name that something is appended to: it may end with a dash."""
    return lambda text: problems(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _date_problems(text: str) -> list[str]:
    return (
        []
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII) and _is_date(text)
        else ["invalid date"]
    )


def _is_date(text: str) -> bool:
    try:
        datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        return False
    return True


def _datetime_problems(text: str) -> list[str]:
    return ["invalid datetime"] if isinstance(values.to_timestamp(text), EvaluationFailure) else []


def _uuid_problems(text: str) -> list[str]:
    wanted = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
    return [] if re.fullmatch(wanted, text, re.ASCII) else ["does not match the UUID format"]


def _byte_problems(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _uri_problems(text: str) -> list[str]:
    try:
        urls.parse(text)
    except urls.UrlError as error:
        return [str(error)]
    return []


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", 30, names.dns_label_problems),
    "dns1123Subdomain": Format("DNS1123Subdomain", 60, names.subdomain_problems),
    "dns1035Label": Format("DNS1035Label", 30, names.service_name_problems),
    "qualifiedName": Format("QualifiedName", 60, names.label_key_problems),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", 30, _prefix_of(names.dns_label_problems)),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", 60, _prefix_of(names.subdomain_problems)),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", 30, _prefix_of(names.service_name_problems)),
    "labelValue": Format("LabelValue", 40, names.label_value_problems),
    "uri": Format("URI", 1000, _uri_problems),
    "uuid": Format("uuid", 79, _uuid_problems),
    "byte": Format("byte", 84, _byte_problems),
    "date": Format("date", 108, _date_problems),
    "datetime": Format("datetime", 108, _datetime_problems),
}


def _validate(format: Format, text: str) -> Optional:
    problems = format.problems(text)
    return Optional(True, problems) if problems else NONE


def _named_format(name: str) -> Optional:
    return Optional(True, FORMATS[name]) if name in FORMATS else NONE


_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "year": lambda time: time.year,
    "month": lambda time: time.month - 1,
    "day_of_year": lambda time: time.timetuple().tm_yday - 1,
    "day_of_month": lambda time: time.day - 1,
    "day_of_month_1_based": lambda time: time.day,
    "day_of_week": lambda time: time.isoweekday() % 7,
    "hours": lambda time: time.hour,
    "minutes": lambda time: time.minute,
    "seconds": lambda time: time.second,
    "milliseconds": lambda time: time.microsecond // 1000,
}


def _part(read: Callable[[datetime], int]) -> Callable[[Timestamp, str], Value]:
    def get(value: Timestamp, zone: str = "UTC") -> Value:
        try:
            return read(_in_zone(values.moment(value), zone))
        except (ValueError, OverflowError, ZoneInfoNotFoundError, OSError):
            return EvaluationFailure(f"unknown time zone {zone}")

    return get


def _in_zone(time: datetime, zone: str) -> datetime:
    match = re.fullmatch(r"([+-]?)([0-9]{1,2}):([0-9]{2})", zone, re.ASCII)
    if match:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return time - offset if match[1] == "-" else time + offset
    return time.astimezone(ZoneInfo(zone or "UTC"))


def _duration_part(unit: int) -> Callable[[Duration], int]:
    return lambda value: int(value.nanoseconds / unit) if value.nanoseconds < 0 else value.nanoseconds // unit


Implementation = Callable[..., Value]
_KINDS: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")

IMPLEMENTATIONS: Final[dict[str, Implementation]] = {
    "logical_not": lambda value: not value if type(value) is bool else NO_SUCH_OVERLOAD,
    **dict.fromkeys(("string_to_bool", "bool_to_bool"), values.to_bool),
    **dict.fromkeys(("string_to_bytes", "bytes_to_bytes"), values.to_bytes),
    **dict.fromkeys(
        ("double_to_double", "int64_to_double", "string_to_double", "uint64_to_double"), values.to_double
    ),
    **dict.fromkeys(("duration_to_duration", "string_to_duration"), values.to_duration),
    "to_dyn": lambda value: value,
    **{
        f"{kind}_to_int64": values.to_int
        for kind in ("int64", "double", "duration", "string", "timestamp", "uint64")
    },
    **{
        f"{kind}_to_string": values.to_string
        for kind in (
            "string",
            "bool",
            "bytes",
            "double",
            "duration",
            "int64",
            "timestamp",
            "uint64",
            "ip",
            "cidr",
        )
    },
    **{f"{kind}_to_timestamp": values.to_timestamp for kind in ("timestamp", "int64", "string")},
    **{f"{kind}_to_uint64": values.to_uint for kind in ("uint64", "double", "int64", "string")},
    "contains_string": lambda text, part: part in text,
    "ends_with_string": lambda text, part: text.endswith(part),
    "starts_with_string": lambda text, part: text.startswith(part),
    **{f"timestamp_to_{name}": _part(read) for name, read in _PARTS.items()},
    **{f"timestamp_to_{name}_with_tz": _part(read) for name, read in _PARTS.items()},
    "duration_to_hours": _duration_part(3600 * SECOND),
    "duration_to_minutes": _duration_part(60 * SECOND),
    "duration_to_seconds": _duration_part(SECOND),
    "duration_to_milliseconds": _duration_part(SECOND // 1000),
    "optional_of": lambda value: Optional(True, value),
    "optional_ofNonZeroValue": lambda value: NONE if values.is_zero(value) else Optional(True, value),
    "optional_none": lambda: NONE,
    "optional_value": _optional_value,
    "optional_hasValue": lambda optional: optional.present,
    "list_first": lambda items: Optional(True, items[0]) if items else NONE,
    "list_last": lambda items: Optional(True, items[-1]) if items else NONE,
    "optional_unwrap": _unwrapped,
    "optional_unwrapOpt": _unwrapped,
    "string_char_at_int": _char_at,
    "list_a_index_of_int": _position,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "list_a_last_index_of_int": _last_position,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_of,
    "string_lower_ascii": _lower,
    "string_upper_ascii": _upper,
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_trim": lambda text: text.strip(_TRIMMED),
    "string_format": format_string,
    "strings_quote": lambda text: f'"{text.translate(_QUOTED)}"',
    "list_join": _join,
    "list_join_string": _join,
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda items: items[::-1],
    "list_distinct": _distinct,
    "list_sets_contains_list": _set_contains,
    "list_sets_equivalent_list": lambda one, other: _set_contains(one, other) and _set_contains(other, one),
    "list_sets_intersects_list": lambda one, other: any(contains(other, item) for item in one),
    "@mapInsert_map_key_value": _inserted,
    "@mapInsert_map_map": _merged,
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
    "string_to_url": _parse_url,
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": lambda url: url.hostname,
    "url_get_port": lambda url: url.port,
    "url_get_escaped_path": lambda url: url.escaped_path,
    "url_get_query": _query,
    "is_url_string": _readable(urls.parse),
    "string_to_quantity": _parsed(_parse_quantity),
    "is_quantity_string": _readable(_parse_quantity),
    "quantity_sign": lambda amount: amount.sign,
    "quantity_is_greater_than": lambda one, other: one.cmp(other) > 0,
    "quantity_is_less_than": lambda one, other: one.cmp(other) < 0,
    "quantity_compare_to": lambda one, other: one.cmp(other),
    "quantity_get_float": Quantity.approximate_float,
    "quantity_get_int": _get_integer,
    "quantity_is_integer": lambda amount: amount.as_int64() is not None,
    "quantity_add": lambda one, other: one.add(other),
    "quantity_add_int": lambda one, number: one.add(_whole(number)),
    "quantity_sub": lambda one, other: one.sub(other),
    "quantity_sub_int": lambda one, number: one.sub(_whole(number)),
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "is_semver_string": _readable(semver.parse),
    "is_semver_string_bool": lambda text, tolerant: (
        not isinstance(_semver(text, tolerant), EvaluationFailure)
    ),
    "semver_is_greater_than": lambda one, other: one.compare(other) > 0,
    "semver_is_less_than": lambda one, other: one.compare(other) < 0,
    "semver_compare_to": lambda one, other: one.compare(other),
    "semver_major": lambda version: version.major,
    "semver_minor": lambda version: version.minor,
    "semver_patch": lambda version: version.patch,
    "string_to_ip": _parsed(network.parse_ip),
    "cidr_ip": lambda cidr: cidr.ip,
    "ip_is_canonical": _is_canonical,
    "is_ip": _readable(network.parse_ip),
    "ip_family": lambda ip: ip.family,
    "ip_is_unspecified": lambda ip: ip.address.is_unspecified,
    "ip_is_loopback": lambda ip: ip.address.is_loopback,
    "ip_is_link_local_multicast": lambda ip: ip.is_link_local_multicast,
    "ip_is_link_local_unicast": lambda ip: ip.address.is_link_local,
    "ip_is_global_unicast": lambda ip: ip.is_global_unicast,
    "string_to_cidr": _parse_cidr,
    "is_cidr": _readable(network.parse_cidr),
    "cidr_contains_ip_string": _contains_ip,
    "cidr_contains_ip_ip": lambda cidr, ip: cidr.contains(ip),
    "cidr_contains_cidr_string": _contains_cidr,
    "cidr_contains_cidr": lambda cidr, other: cidr.contains_network(other),
    "cidr_prefix_length": lambda cidr: cidr.prefix,
    "cidr_masked": lambda cidr: cidr.masked,
    "format-validate": _validate,
    "format-named": _named_format,
    "list_includes_dyn_dyn": _includes,
    **{f"format.{name}": (lambda format=format: format) for name, format in FORMATS.items()},
    **{f"list_{kind}_is_sorted_bool": _is_sorted for kind in _KINDS},
    **{f"list_{kind}_max_{kind}": _extreme("max", -1) for kind in _KINDS},
    **{f"list_{kind}_min_{kind}": _extreme("min", 1) for kind in _KINDS},
    "list_int_sum_int": _sum(0),
    "list_uint_sum_uint": _sum(UInt(0)),
    "list_double_sum_double": _sum(0.0),
    "list_duration_sum_duration": _sum(Duration(0)),
    "string_jsonpatch_escapeKey_string": lambda key: key.replace("~", "~0").replace("/", "~1"),
    **authorization.IMPLEMENTATIONS,
}
"""By overload: a function of the arguments, which have the declared types."""
