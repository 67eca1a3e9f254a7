"""Costs of calls at run time.

The formulas are upstream's to the number, as the limits are part of the API: an expression ends at the same
place. `estimates` computes the maximum cost of an expression.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stowplan.api.cel import types, values
from stowplan.api.cel.functions import Format
from stowplan.api.cel.values import Map, Value

MAX: Final = 2**64 - 1
"""A cost without bounds."""

LIST_COST: Final = 10
MAP_COST: Final = 30
STRUCT_COST: Final = 40
CHECK_COST: Final = 350_000
"""An authorization check: an expression can afford two."""
STRING_FACTOR: Final = 0.1
PATTERN_FACTOR: Final = 0.25

Actual = Callable[[Sequence[Value], Value], int]

NOMINAL: Final = frozenset(
    [
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
        *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed"),
        *("reason", "error", "errored"),
    ]
)
TRAVERSING: Final = frozenset(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"))
PARSING: Final = frozenset(
    ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver", "url")
)
TRANSFORMING: Final = frozenset(("lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"))
EQUALITY: Final = frozenset(("equals", "not_equals"))
COMPARING: Final = frozenset(
    f"{name}_{kind}"
    for name in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)
LIST_FUNCTIONS: Final = frozenset(
    (
        "list_slice",
        "list_flatten",
        "list_flatten_int",
        "lists_range",
        "list_reverse",
        "list_distinct",
        *(
            f"list_{kind.name}_{name}"
            for kind in (
                types.INT,
                types.UINT,
                types.DOUBLE,
                types.BOOL,
                types.DURATION,
                types.TIMESTAMP,
                types.STRING,
                types.BYTES,
            )
            for name in ("sort", "sortByAssociatedKeys")
        ),
    )
)
SET_FACTORS: Final = {
    "list_sets_contains_list": 1.0,
    "list_sets_intersects_list": 1.0,
    "list_sets_equivalent_list": 2.0,
}


class CostRelease(NamedTuple):
    """Differences of a Kubernetes release in the cost formulas."""

    prefix_by_argument: bool = False
    """`startsWith` and `endsWith` cost by the size of their argument, not of the text."""
    global_matches: bool = False
    """`matches(text, pattern)` costs as much as `text.matches(pattern)`."""
    includes_traverses: bool = False
    """`includes` costs by the size of the list, not a fixed amount."""


def actual(function: str, overload: str, release: CostRelease) -> Actual | int:
    """Cost of a call, given its arguments and result: a formula, or a fixed amount."""
    if overload in LIST_FUNCTIONS:
        return _LIST_COSTS.get(overload, _self_comparison(1 if overload.endswith("Keys") else 0))
    if overload in SET_FACTORS:
        factor = SET_FACTORS[overload]
        return lambda args, _: 1 + int(float(values.cost_size(args[0]) * values.cost_size(args[1])) * factor)
    if overload == "cidr_ip" or function in NOMINAL:
        return 1
    if function == "check":
        return CHECK_COST
    if function in ("fieldSelector", "labelSelector"):
        return lambda args, _: selector_cost(values.cost_size(args[1]))
    if function in TRAVERSING or (function == "includes" and release.includes_traverses):
        return lambda args, _: _traversed(args[0])
    if function in PARSING or function in TRANSFORMING:
        return lambda args, _: math.ceil(values.cost_size(args[0]) * STRING_FACTOR)
    if function in ("containsIP", "containsCIDR"):
        return _contained(overload or f"cidr_contains_{function[8:].lower()}")
    if function in _ACTUAL_BY_FUNCTION:
        return _ACTUAL_BY_FUNCTION[function]
    if overload in ("starts_with_string", "ends_with_string"):
        at = 1 if release.prefix_by_argument else 0
        return lambda args, _: math.ceil(values.cost_size(args[at]) * STRING_FACTOR)
    if overload == "matches" and not release.global_matches:
        return 1
    if overload in EQUALITY or overload in COMPARING:
        return _smaller
    return _ACTUAL.get(overload, 1)


def selector_cost(length: int) -> int:
    """Cost of parsing a selector: its text, and a list of as many requirements as can be in it."""
    requirements = math.ceil(length * 0.5)
    text = math.ceil(length * STRING_FACTOR)
    return LIST_COST + text + math.ceil(requirements * (LIST_COST + STRUCT_COST))


def _smaller(args: Sequence[Value], _: Value) -> int:
    return math.ceil(min(values.cost_size(args[0]), values.cost_size(args[1])) * STRING_FACTOR)


def _traversed(value: Value) -> int:
    match value:
        case str():
            return int(len(value.encode("utf-8", "surrogatepass")) * STRING_FACTOR)
        case bytes():
            return int(len(value) * STRING_FACTOR)
        case list():
            values.work(len(value))
            return sum([_traversed(item) for item in value])
        case Map():
            values.work(len(value))
            return sum([_traversed(key) + _traversed(item) for key, item in value.items()])
    return 1


def _allocation(factor: float, size: int) -> int:
    return int(float(size) * (1.0 if factor < 0 else factor)) + 1 + LIST_COST


def _made(_: Sequence[Value], result: Value) -> int:
    return _allocation(1.0, values.cost_size(result))


def _flattened(args: Sequence[Value], _: Value) -> int:
    depth = float(args[1]) if len(args) == 2 and type(args[1]) is int else 1.0
    return _allocation(depth, values.cost_size(args[0]))


def _self_comparison(at: int) -> Actual:
    def cost(args: Sequence[Value], _: Value) -> int:
        items = args[at]
        if not isinstance(items, list) or not items:
            return _allocation(2.0, 0)
        factor = 2.0 + (STRING_FACTOR if isinstance(items[0], str | bytes) else 0.0)
        return _allocation(factor, len(items) ** 2)

    return cost


_LIST_COSTS: Final[dict[str, Actual]] = {
    "list_slice": _made,
    "lists_range": _made,
    "list_reverse": _made,
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
}


def _text_and_pattern(args: Sequence[Value], _: Value) -> int:
    text = math.ceil((1.0 + values.cost_size(args[0])) * STRING_FACTOR)
    return text * math.ceil(values.cost_size(args[1]) * PATTERN_FACTOR)


def _validated(args: Sequence[Value], _: Value) -> int:
    if not isinstance(args[0], Format):
        return 1
    text = math.ceil((1.0 + values.cost_size(args[1])) * STRING_FACTOR)
    return text * math.ceil(args[0].pattern_size * PATTERN_FACTOR)


def _contained(overload: str) -> Actual:
    """Of an address or a network in a network; a text has to be parsed as well."""
    parsed = overload.endswith("_string")
    network = overload.startswith("cidr_contains_cidr")

    def cost(args: Sequence[Value], _: Value) -> int:
        size = values.cost_size(args[0])
        total = math.ceil(size * 2 * STRING_FACTOR)
        if network:
            total += math.ceil(size * STRING_FACTOR) + 1
        return total + (math.ceil(values.cost_size(args[1]) * STRING_FACTOR) if parsed else 0)

    return cost


_ACTUAL_BY_FUNCTION: Final[dict[str, Actual]] = {
    "replace": lambda args, _: math.ceil(values.cost_size(args[0]) * 2 * STRING_FACTOR),
    "split": lambda args, _: math.ceil(values.cost_size(args[0]) * 2 * STRING_FACTOR),
    "join": lambda _, result: math.ceil(values.cost_size(result) * 2 * STRING_FACTOR),
    "find": _text_and_pattern,
    "findAll": _text_and_pattern,
    "ip.isCanonical": lambda args, _: math.ceil(values.cost_size(args[0]) * 2 * STRING_FACTOR),
    "validate": _validated,
}
_ACTUAL: Final[dict[str, Actual]] = {
    **dict.fromkeys(
        ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        lambda args, _: math.ceil(values.cost_size(args[0]) * STRING_FACTOR),
    ),
    "in_list": lambda args, _: values.cost_size(args[1]),
    **dict.fromkeys(
        ("add_string", "add_bytes"),
        lambda args, _: math.ceil((values.cost_size(args[0]) + values.cost_size(args[1])) * STRING_FACTOR),
    ),
    "matches": _text_and_pattern,
    "matches_string": _text_and_pattern,
    "contains_string": lambda args, _: (
        math.ceil(values.cost_size(args[0]) * STRING_FACTOR)
        * math.ceil(values.cost_size(args[1]) * STRING_FACTOR)
    ),
}
