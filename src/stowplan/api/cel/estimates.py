"""Maximum cost of an expression, computed before it runs, from the possible sizes of its parts."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from stowplan.api.cel import types
from stowplan.api.cel.checker import Checked
from stowplan.api.cel.cost import (
    COMPARING,
    EQUALITY,
    LIST_COST,
    LIST_FUNCTIONS,
    MAP_COST,
    MAX,
    NOMINAL,
    PARSING,
    PATTERN_FACTOR,
    SET_FACTORS,
    STRING_FACTOR,
    TRANSFORMING,
    TRAVERSING,
    CostRelease,
)
from stowplan.api.cel.recursion import EXPRESSION, DeepStack
from stowplan.api.cel.syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Select,
    SyntaxNode,
)
from stowplan.api.cel.types import Type

_LONGEST_FORMAT: Final = 128
_FORMAT_SIZE: Final = 64
_MAX_INCLUDES: Final = 48


class Range(NamedTuple):
    """A size or a cost, between two bounds."""

    low: int
    high: int

    def plus(self, other: "Range") -> "Range":
        return Range(min(self.low + other.low, MAX), min(self.high + other.high, MAX))

    def times(self, other: "Range") -> "Range":
        return Range(min(self.low * other.low, MAX), min(self.high * other.high, MAX))

    def scaled(self, factor: float) -> "Range":
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: "Range") -> "Range":
        return Range(min(self.low, other.low), max(self.high, other.high))


def _scaled(number: int, factor: float) -> int:
    product = math.ceil(float(number) * factor)
    return MAX if product >= 2**64 else product


def _fixed(number: int) -> Range:
    return Range(number, number)


_UNKNOWN: Final = Range(0, MAX)
_NOTHING: Final = Range(0, 0)
_ONE: Final = Range(1, 1)


class Sized(NamedTuple):
    """A part of an expression as the formulas see it."""

    path: tuple[str, ...]
    type: Type
    node: SyntaxNode | None
    size: Range | None


class Entries(NamedTuple):
    """The sizes of what is in a list or map."""

    kind: str
    key: Range
    value: Range

    def union(self, other: "Entries | None") -> "Entries | None":
        if other is None:
            return None
        return Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(NamedTuple):
    path: tuple[str, ...]
    size: Range | None
    entries: Entries | None


SizeOf = Callable[[tuple[str, ...]], int | None]
"""The largest size that what a path (variable, fields, `@items`, `@keys`, `@values`) leads to may have."""


def estimate(checked: Checked, size_of: SizeOf, release: CostRelease = CostRelease()) -> Range:  # noqa: B008
    """The least and the most that an expression may cost."""
    with DeepStack(EXPRESSION):
        return _Estimator(checked, size_of, release).cost(checked.root)


class _Estimator:
    def __init__(self, checked: Checked, size_of: SizeOf, release: CostRelease) -> None:
        self._checked = checked
        self._size_of = size_of
        self._release = release
        self._known: dict[int, Range] = {}
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: SyntaxNode) -> Range:
        known = self._known.get(id(node))
        if known is not None:
            return known
        found = self._cost(node)
        if not isinstance(node, Ident):
            self._known[id(node)] = found
        return found

    def _cost(self, node: SyntaxNode) -> Range:
        if id(node) in self._checked.constants:
            return _ONE
        match node:
            case Ident():
                local = self._local(node.name)
                self._paths[id(node)] = (node.name,) if local is None else local.path
                return _ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Comprehension():
                return self._binding(node) if node.is_binding else self._comprehension(node)
        return _NOTHING

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _path(self, node: SyntaxNode) -> tuple[str, ...]:
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.path
        return self._paths.get(id(node), ())

    def _select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if self._checked.type(node.operand).kind in ("map", "struct", "param"):
            cost = cost.plus(_ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _list(self, node: ListNode) -> Range:
        total, size = _fixed(LIST_COST), Range(MAX, 0) if node.items else _NOTHING
        for item in node.items:
            total = total.plus(self.cost(item))
            size = size.union(self._sized(item))
        self._entries[id(node)] = Entries("list", _ONE, size)
        return total

    def _map(self, node: MapNode) -> Range:
        total = _fixed(MAP_COST)
        key = value = Range(MAX, 0) if node.entries else _NOTHING
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            key, value = key.union(self._sized(entry.key)), value.union(self._sized(entry.value))
        self._entries[id(node)] = Entries("map", key, value)
        return total

    def _comprehension(self, node: Comprehension) -> Range:
        total = self.cost(node.range).plus(self.cost(node.initial))
        self._push_variable(node.accumulator, node.initial)
        self._push_iterated(node)
        each = self.cost(node.condition).plus(self.cost(node.step))
        self._locals[node.variable].pop()
        if node.second:
            self._locals[node.second].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        count = self._sized(node.range)
        if isinstance(node.initial, Literal):
            self._keep_size(node, self._size(node.initial))
        elif isinstance(node.initial, ListNode | MapNode):
            self._sizes[id(node)] = count
            entries = self._entries_of(node.step)
            if entries is not None:
                self._entries[id(node)] = entries
        return total.plus(count.times(each))

    def _push_variable(self, name: str, node: SyntaxNode) -> None:
        self._push(name, _Local(self._path(node), self._size(node), self._entries_of(node)))

    def _push_iterated(self, node: Comprehension) -> None:
        entries = self._entries_of(node.range)
        kind = self._checked.type(node.range).kind if entries is None else entries.kind
        path = self._path(node.range)
        key, value = (None, None) if entries is None else (entries.key, entries.value)
        if node.second:
            names = ("@indices", "@items") if kind == "list" else ("@keys", "@values")
            self._push(node.variable, _Local((*path, names[0]), key, None))
            self._push(node.second, _Local((*path, names[1]), value, None))
        elif kind == "list":
            self._push(node.variable, _Local((*path, "@items"), value, None))
        else:
            self._push(node.variable, _Local((*path, "@keys"), key, None))

    def _binding(self, node: Comprehension) -> Range:
        total = self.cost(node.range).plus(self.cost(node.initial))
        self._push_variable(node.accumulator, node.initial)
        total = total.plus(self.cost(node.result))
        self._keep_size(node, self._size(node.result))
        entries = self._entries_of(node.result)
        self._locals[node.accumulator].pop()
        if entries is not None:
            self._entries[id(node)] = entries
        return total

    def _keep_size(self, node: SyntaxNode, size: Range | None) -> None:
        if size is not None:
            self._sizes[id(node)] = size

    def _size(self, node: SyntaxNode) -> Range | None:
        known = self._sizes.get(id(node)) or _literal_size(node)
        if known is not None:
            return known
        declared = self._declared_size(self._path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(self._checked.type(node)):
            return _ONE
        local = self._local(node.name) if isinstance(node, Ident) else None
        return None if local is None else local.size

    def _declared_size(self, path: tuple[str, ...]) -> Range | None:
        largest = self._size_of(path) if path else None
        return None if largest is None else Range(0, largest)

    def _sized(self, node: SyntaxNode) -> Range:
        return self._size(node) or _UNKNOWN

    def _entries_of(self, node: SyntaxNode) -> Entries | None:
        known = self._entries.get(id(node))
        if known is None and isinstance(node, Ident):
            local = self._local(node.name)
            return None if local is None else local.entries
        return known

    def _described(self, node: SyntaxNode) -> Sized:
        path = self._path(node)
        if path[:1] == (ACCUMULATOR,):
            path = ()
        return Sized(path, self._checked.type(node), node, self._size(node))

    def _size_or_all(self, part: Sized) -> Range:
        """The size as the Kubernetes formulas see it: what the type declares counts too."""
        return part.size or self._declared_size(part.path) or _UNKNOWN

    def _call(self, node: Call) -> Range:
        if node.function == "dyn" and node.target is None:
            cost = self.cost(node.args[0])
            self._keep_size(node, self._size(node.args[0]))
            entries = self._entries_of(node.args[0])
            if entries is not None:
                self._entries[id(node)] = entries
            return cost.plus(_ONE)
        costs = [self.cost(argument) for argument in node.args]
        args = [self._described(argument) for argument in node.args]
        overloads = self._checked.overloads.get(id(node), ())
        if not overloads:
            return _NOTHING
        own, target = _NOTHING, None
        if node.target is not None:
            own = self.cost(node.target)
            target = self._described(node.target)
        total, size = Range(MAX, 0), None
        for overload in overloads:
            cost, result = self._overload(node, overload.id, target, args, costs)
            total = total.union(cost)
            if result is not None:
                size = result if size is None else size.union(result)
            if overload.id in ("index_list", "index_map"):
                entries = self._entries_of(node.args[0])
                size = None if entries is None else entries.value
                step = "@items" if overload.id == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.args[0]), step)
            if size is None:
                size = self._size(node)
        self._keep_size(node, size)
        return own.plus(total)

    def _overload(
        self, node: Call, overload: str, target: Sized | None, args: list[Sized], costs: list[Range]
    ) -> tuple[Range, Range | None]:
        """The cost of a call by one of its overloads, with its arguments, and the size of the result."""
        if overload in ("logical_and", "logical_or"):
            return Range(costs[0].low, costs[0].plus(costs[1]).high), None
        if overload == "conditional":
            entries = self._entries_of(node.args[1])
            both = entries.union(self._entries_of(node.args[2])) if entries else None
            if both is not None:
                self._entries[id(node)] = both
            size = self._sized(node.args[1]).union(self._sized(node.args[2]))
            return costs[0].plus(costs[1].union(costs[2])), size
        found = self._library(node.function, overload, target, args)
        if found is None:
            found = self._standard(node, overload, target, args)
        cost, result = found
        for one in costs:
            cost = cost.plus(one)
        return cost, result

    def _library(
        self, function: str, overload: str, target: Sized | None, args: list[Sized]
    ) -> tuple[Range, Range | None] | None:
        """The formulas of the Kubernetes libraries and of the list and set extensions."""
        size = self._size_or_all
        if overload in LIST_FUNCTIONS:
            return self._list_function(overload, target, args)
        if overload in SET_FACTORS:
            product = size(args[0]).times(size(args[1]))
            return product.scaled(SET_FACTORS[overload]).plus(_ONE), None
        if overload == "cidr_ip" or function in NOMINAL:
            return _ONE, None
        if function == "includes" and not self._release.includes_traverses:
            return _fixed(_MAX_INCLUDES), None
        if (function in TRAVERSING or function == "includes") and target is not None:
            return self._traversal(function, target), None
        if function in PARSING and args:
            parsed = size(args[0])
            return parsed.scaled(STRING_FACTOR), parsed if function == "url" else None
        if function in TRANSFORMING and target is not None:
            return size(target).scaled(STRING_FACTOR), size(target)
        if function in _KUBERNETES:
            return _KUBERNETES[function](size, overload, target, args)
        if function == "_==_":
            return _same_type_equality(args[0], args[1])
        return None

    def _traversal(self, function: str, target: Sized) -> Range:
        size = self._size_or_all(target)
        if target.type.params:
            element, each = target.type.params[0], _ONE
            if element.kind in ("string", "bytes"):
                path = (*target.path, "@items") if target.path else ()
                inner = self._declared_size(path) or _UNKNOWN
                each = each.plus(inner.scaled(STRING_FACTOR))
            return size.times(each)
        return size.times(_ONE) if function == "includes" else size.scaled(STRING_FACTOR)

    def _list_function(
        self, overload: str, target: Sized | None, args: list[Sized]
    ) -> tuple[Range, Range | None]:
        size = self._size_or_all
        factor = 1.0
        if overload == "lists_range":
            made = _fixed(_literal_count(args[0], MAX))
        elif overload == "list_slice":
            assert target is not None
            begin, end = _literal_count(args[0], 0), _literal_count(args[1], size(target).high)
            made = _fixed((end - begin) % 2**64)
        else:
            assert target is not None
            made = size(args[0] if overload.endswith("sortByAssociatedKeys") else target)
            if overload.startswith("list_flatten"):
                factor = float(_literal_count(args[0], MAX)) if args else 1.0
            elif overload != "list_reverse":
                made = made.times(made)
                text = overload.startswith(("list_string", "list_bytes"))
                factor = 2.0 + (STRING_FACTOR if text else 0.0)
        return made.scaled(factor).plus(_fixed(1 + LIST_COST)), made

    def _standard(
        self, node: Call, overload: str, target: Sized | None, args: list[Sized]
    ) -> tuple[Range, Range | None]:
        """The formulas of the language itself, by overload."""
        sizes = [one.size or _UNKNOWN for one in args]
        own = (target.size or _UNKNOWN) if target is not None else _UNKNOWN
        match overload:
            case "string_format":
                return own.scaled(STRING_FACTOR), None
            case "string_to_bytes":
                return sizes[0].scaled(STRING_FACTOR), Range(sizes[0].low, sizes[0].high * 4 % 2**64)
            case "bytes_to_string":
                return sizes[0].scaled(STRING_FACTOR), Range(sizes[0].low // 4, sizes[0].high)
            case "strings_quote":
                quoted = Range(sizes[0].low + 2, (sizes[0].high * 2 + 2) % 2**64)
                return sizes[0].scaled(STRING_FACTOR), quoted
            case "starts_with_string" | "ends_with_string":
                return sizes[0].scaled(STRING_FACTOR), None
            case "in_list":
                return sizes[1].scaled(1.0), None
            case "matches_string":
                return own.plus(_ONE).scaled(STRING_FACTOR).times(sizes[0].scaled(PATTERN_FACTOR)), None
            case "matches" if self._release.global_matches:
                return sizes[0].plus(_ONE).scaled(STRING_FACTOR).times(sizes[1].scaled(PATTERN_FACTOR)), None
            case "contains_string":
                return own.scaled(STRING_FACTOR).times(sizes[0].scaled(STRING_FACTOR)), None
            case "add_string" | "add_bytes" | "add_list":
                return self._concatenation(node, overload, sizes)
        if overload in EQUALITY or overload in COMPARING:
            smallest = min(sizes[0].high, sizes[1].high)
            return Range(1 if smallest > 0 else 0, smallest).scaled(STRING_FACTOR), None
        return _ONE, None

    def _concatenation(self, node: Call, overload: str, sizes: list[Range]) -> tuple[Range, Range]:
        total = sizes[0].plus(sizes[1])
        entries = self._entries_of(node.args[0])
        both = entries.union(self._entries_of(node.args[1])) if entries else None
        if both is not None:
            self._entries[id(node)] = both
        return (_ONE if overload == "add_list" else total.scaled(STRING_FACTOR)), total


def _literal_size(node: SyntaxNode) -> Range | None:
    if isinstance(node, Literal):
        if isinstance(node.value, str | bytes):
            return _fixed(len(node.value))
        return _ONE
    if isinstance(node, ListNode):
        return _fixed(len(node.items))
    return _fixed(len(node.entries)) if isinstance(node, MapNode) else None


def _is_scalar(known: Type) -> bool:
    if known.is_optional:
        return _is_scalar(known.params[0])
    return known.kind in ("bool", "double", "duration", "int", "timestamp", "uint")


def _literal_count(part: Sized, otherwise: int) -> int:
    if not isinstance(part.node, Literal) or type(part.node.value) is not int:
        return otherwise
    return max(part.node.value, 0)


_Sizes = Callable[[Sized], Range]
_Found = tuple[Range, Range | None] | None


def _replacement(size: _Sizes, _: str, target: Sized | None, args: list[Sized]) -> _Found:
    if target is None or len(args) < 2:
        return None
    whole, old, new = size(target), size(args[0]), size(args[1])
    most, kept_most, least, kept_least = 0, 0, 0, 0
    if old.low == 0:
        most, kept_most = min(whole.high + 1, MAX), whole.high
    elif new.high <= old.low:
        kept_most = whole.high
    else:
        most = math.ceil(float(whole.high) / float(old.low))
    if old.high == 0:
        least, kept_least = min(whole.low + 1, MAX), whole.low
    elif old.high <= new.low:
        kept_least = whole.low
    else:
        least = math.ceil(float(whole.low) / float(old.high))
    result = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return whole.scaled(2 * STRING_FACTOR), result


def _splitting(size: _Sizes, _: str, target: Sized | None, args: list[Sized]) -> _Found:
    if target is None:
        return None
    whole = size(target)
    limit = args[1].node if len(args) > 1 else None
    most = whole.high
    if isinstance(limit, Literal) and type(limit.value) is int:
        most = limit.value % 2**64
    return whole.scaled(2 * STRING_FACTOR), Range(0, most)


def _joining(size: _Sizes, _: str, target: Sized | None, args: list[Sized]) -> _Found:
    if target is None:
        return None
    items, total = size(target), _NOTHING
    if target.type.params:
        path = (*target.path, "@items") if target.path else ()
        total = items.times(size(Sized(path, target.type.params[0], None, None)))
    if args:
        separators = Range(max(items.low - 1, 0), max(items.high - 1, 0))
        total = total.plus(size(args[0]).times(separators))
    return total.scaled(STRING_FACTOR), total


def _searching(size: _Sizes, _: str, target: Sized | None, args: list[Sized]) -> _Found:
    if target is None or not args:
        return None
    text = size(target)
    cost = text.plus(_ONE).scaled(STRING_FACTOR).times(size(args[0]).scaled(PATTERN_FACTOR))
    return cost, Range(0, text.high)


def _canonical(size: _Sizes, _: str, target: Sized | None, args: list[Sized]) -> _Found:
    return size(args[0]).scaled(2 * STRING_FACTOR), None


def _containing_ip(size: _Sizes, overload: str, target: Sized | None, args: list[Sized]) -> _Found:
    cost = Range(8, 32).scaled(STRING_FACTOR)
    if overload == "cidr_contains_ip_string":
        cost = cost.plus(size(args[0]).scaled(STRING_FACTOR))
    return cost, None


def _containing_cidr(size: _Sizes, overload: str, target: Sized | None, args: list[Sized]) -> _Found:
    cost = Range(8, 32).scaled(STRING_FACTOR).plus(Range(4, 16).scaled(STRING_FACTOR)).plus(_ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.plus(size(args[0]).scaled(STRING_FACTOR))
    return cost, None


def _validation(size: _Sizes, _: str, target: Sized | None, args: list[Sized]) -> _Found:
    return size(args[0]).scaled(STRING_FACTOR).scaled(_LONGEST_FORMAT * PATTERN_FACTOR), None


_KUBERNETES: Final[dict[str, Callable[[_Sizes, str, Sized | None, list[Sized]], _Found]]] = {
    "replace": _replacement,
    "split": _splitting,
    "join": _joining,
    "find": _searching,
    "findAll": _searching,
    "ip.isCanonical": _canonical,
    "containsIP": _containing_ip,
    "containsCIDR": _containing_cidr,
    "validate": _validation,
}


def _same_type_equality(left: Sized, right: Sized) -> _Found:
    if left.type != right.type or left.type.kind not in ("opaque", "struct"):
        return None
    if left.type in (types.IP, types.CIDR, types.QUANTITY, types.SEMVER):
        return _ONE, None
    if left.type == types.FORMAT:
        return Range(1, _FORMAT_SIZE).scaled(STRING_FACTOR), None
    if left.type == types.URL:
        most = right.size.high if right.size is not None else 1
        return Range(1, most).scaled(STRING_FACTOR), None
    return None
