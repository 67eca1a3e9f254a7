"""JSON text that the decoder refuses, read without recursion: where values end, what a type declares of it.

The decoder recurses, also into what no type declares and it only has to skip. It gives up where Python's
stack would have about a thousand levels, while an API server admits ten thousand, in `managedFields` for
example. So a text that cannot be decoded as it is gets cut down to the declared fields, whose depth the types
bound, and is decoded once more. This is a hundred times slower than decoding, and only for texts that failed.
Free-form values that stowplan only passes on (parameters for drivers) are kept as text if they are deep.

Everything here is a generator that yields after about a millisecond of work, so that a caller on an event
loop can give others a turn. `at_once` is for callers elsewhere.
"""

import re
from collections.abc import Generator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

R = TypeVar("R")

Steps = Generator[None, Any, R]
"""Work in steps of about a millisecond, and its result."""

_STEP: Final = 2_000
"""Tokens of a step."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TO_BRACKETS: Final = re.compile(
    rb'(?:[^\[\]{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[{]++|[\]}]++)', re.DOTALL
)
"""All up to the next brackets that are not part of a string, and those that open or close there in a row."""
_SCALAR: Final = re.compile(rb"[^\s,:\[\]{}\"]+")
_SPACE: Final = re.compile(rb"[ \t\r\n]*")

DEEPEST: Final = 100
"""Levels of a free-form value that is still decoded. Far fewer than Python's stack has, so that the value
can also be encoded from deep inside a call."""

TEXT_FIELD: Final = "text field"
"""Key in the `extra` of a free-form field's annotation: name of the field for deep values, as JSON text."""

_QUOTE, _OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = b'"{}[]'
_COMMA, _COLON = b",:"
_OPENING: Final = frozenset(b"[{")
_NULL: Final = b"null"


class ScanError(ValueError):
    """Text that is no JSON: strings and brackets do not fit together."""


class IncompleteError(ScanError):
    """Text that ends before its value does."""


class Shape(NamedTuple):
    """The parts of a value to keep.

    Of an object with `fields` those members, and others as `others` says; of a list what `elements` says of
    each. A value of another type is kept as it is: the decoder says what is wrong with it.
    """

    fields: Mapping[bytes, "Shape | None"] | None = None
    others: "Shape | None" = None
    elements: "Shape | None" = None
    keeps_nulls: bool = False
    """True if members that are null stay. For types, null counts as absent."""
    text_field: bytes = b""
    """Name of the member that gets the value as text, in a string, if it is deep; empty for none."""


WHOLE: Final = Shape()
"""Everything."""

UNMANAGED: Final = Shape(
    {b"metadata": Shape({b"managedFields": None}, WHOLE, keeps_nulls=True)}, WHOLE, keeps_nulls=True
)
"""An object without the record of who manages which field."""


@cache
def shape_of(cls: type[msgspec.Struct]) -> Shape:
    """The declared fields of a type."""
    return _shape(msgspec.inspect.type_info(cls))


def _shape(info: msgspec.inspect.Type) -> Shape:
    if isinstance(info, msgspec.inspect.Metadata):
        name = (info.extra or {}).get(TEXT_FIELD, "")
        return _shape(info.type)._replace(text_field=name.encode())
    if isinstance(info, msgspec.inspect.StructType):
        return Shape({field.encode_name.encode(): _shape(field.type) for field in info.fields})
    if isinstance(info, msgspec.inspect.DictType):
        return Shape({}, _shape(info.value_type))
    if isinstance(info, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
        return Shape(elements=_shape(info.item_type))
    if isinstance(info, msgspec.inspect.UnionType):
        shapes = [shape for shape in map(_shape, info.types) if shape is not WHOLE]
        return shapes[0] if len(shapes) == 1 else WHOLE
    return WHOLE


def at_once(steps: Steps[R]) -> R:
    """The result of some steps, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def is_deep(value: Any) -> bool:
    """True if plain data has more levels than are decoded."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        containers = (one for one in level if isinstance(one, dict | list))
        level = [inner for one in containers for inner in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def depth_of(text: bytes) -> Steps[int]:
    """Levels of a JSON value. Raises ScanError."""
    _, depth = yield from _extent(text, _behind_space(text, 0))
    return depth


def end_of(text: bytes, at: int) -> Steps[int]:
    """Where the value ends that begins here. Raises IncompleteError, or ScanError if none begins here."""
    end, _ = yield from _extent(text, at)
    return end


def _extent(text: bytes, at: int) -> Steps[tuple[int, int]]:
    """End and depth of the value that begins here."""
    first = _byte(text, at)
    if first not in _OPENING:
        found = (_STRING if first == _QUOTE else _SCALAR).match(text, at)
        if found is None:
            raise IncompleteError("unexpected end") if first == _QUOTE else _misplaced(text, at)
        return found.end(), 0
    depth, deepest, tokens, end = 0, 0, 0, at
    while found := _TO_BRACKETS.match(text, end):
        begin, end = found.span(1)
        if text[begin] in _OPENING:
            depth += end - begin
            deepest = max(deepest, depth)
        elif end - begin < depth:
            depth -= end - begin
        else:
            return begin + depth, deepest
        tokens += 1
        if not tokens % _STEP:
            yield
    raise IncompleteError("unexpected end")


def elements(text: bytes, at: int, *, to_the_end: bool = False) -> Steps[tuple[list[tuple[int, int]], int]]:
    """The elements of a list, from one on as long as another follows, and where that one begins.

    With `to_the_end` all of them, and where the list ends. Raises ScanError for what is no list.
    """
    found: list[tuple[int, int]] = []
    at = _behind_space(text, at)
    if to_the_end and _byte(text, at) == _CLOSE_LIST:
        return found, at
    while True:
        try:
            end = yield from end_of(text, at)
            behind = _behind_space(text, end)
            is_last = _byte(text, behind) == _CLOSE_LIST
        except IncompleteError:
            if to_the_end:
                raise
            return found, at
        if is_last and not to_the_end:
            return found, at
        if not is_last and text[behind] != _COMMA:
            raise _misplaced(text, behind)
        found.append((at, end))
        if is_last:
            return found, behind
        at = _behind_space(text, behind + 1)
        if not len(found) % _STEP:
            yield


def members(text: bytes, at: int = 0) -> Steps[dict[bytes, tuple[int, int]]]:
    """Where the members of an object are, by name. Raises ScanError."""
    found: dict[bytes, tuple[int, int]] = {}
    at = _behind_space(text, at)
    if _byte(text, at) != _OPEN_OBJECT:
        raise _misplaced(text, at)
    at = _behind_space(text, at + 1)
    while _byte(text, at) != _CLOSE_OBJECT:
        key, begin = _key(text, at)
        end = yield from end_of(text, begin)
        found[_name(key)] = (begin, end)
        at = _behind_member(text, end, _CLOSE_OBJECT)
        if not len(found) % _STEP:
            yield
    return found


def pruned(text: bytes, shape: Shape) -> Steps[bytes]:
    """JSON without what a shape leaves out. Raises ScanError for what is no JSON."""
    out: list[bytes] = []
    stack: list[tuple[Shape, bool]] = []
    """Where we are: the shape of each open object or list, and whether the next member is its first."""
    at, steps = _behind_space(text, 0), 0
    while True:
        # A value begins here.
        first = _byte(text, at)
        if first == _OPEN_OBJECT and shape.fields is not None:
            out.append(b"{")
            stack.append((shape, True))
            at = _behind_space(text, at + 1)
        elif first == _OPEN_LIST and shape.elements is not None:
            out.append(b"[")
            stack.append((shape, True))
            at = _behind_space(text, at + 1)
        else:
            end = yield from end_of(text, at)
            out.append(text[at:end])
            at = _behind_space(text, end)
            if stack:
                at = _behind_member(text, end, _closing(stack[-1][0]))
        # A value has ended, or an object or list has begun. Find the next value to keep.
        while stack:
            steps += 1
            if not steps % _STEP:
                yield
            parent, is_first = stack[-1]
            closing = _closing(parent)
            if _byte(text, at) == closing:
                out.append(text[at : at + 1])
                stack.pop()
                at = _behind_space(text, at + 1)
                if stack:
                    at = _behind_member(text, at, _closing(stack[-1][0]))
                continue
            if parent.elements is not None:
                shape = parent.elements
                if not is_first:
                    out.append(b",")
            else:
                assert parent.fields is not None
                key, begin = _key(text, at)
                wanted = parent.fields.get(_name(key), parent.others)
                if wanted is None or (not parent.keeps_nulls and _is_null(text, begin)):
                    end = yield from end_of(text, begin)
                    at = _behind_member(text, end, closing)
                    continue
                if wanted.text_field:
                    end, depth = yield from _extent(text, begin)
                    if depth > DEEPEST:
                        quoted = msgspec.json.encode(text[begin:end].decode())
                        out += ((b'"' if is_first else b',"'), wanted.text_field, b'":', quoted)
                        stack[-1] = (parent, False)
                        at = _behind_member(text, end, closing)
                        continue
                out += ((b'"' if is_first else b',"'), key, b'":')
                shape, at = wanted, begin
            stack[-1] = (parent, False)
            break
        else:
            if at != len(text):
                raise _misplaced(text, at)
            return b"".join(out)


def _closing(shape: Shape) -> int:
    return _CLOSE_OBJECT if shape.elements is None else _CLOSE_LIST


def _key(text: bytes, at: int) -> tuple[bytes, int]:
    """The name of a member as it is written, and where its value begins."""
    found = _STRING.match(text, at)
    if found is None:
        raise _misplaced(text, at)
    colon = _behind_space(text, found.end())
    if _byte(text, colon) != _COLON:
        raise _misplaced(text, colon)
    return text[at + 1 : found.end() - 1], _behind_space(text, colon + 1)


def _name(key: bytes) -> bytes:
    """The name that is written so."""
    if b"\\" not in key:
        return key
    try:
        return msgspec.json.decode(b'"%b"' % key, type=str).encode()
    except ValueError:
        return key


def _behind_member(text: bytes, end: int, closing: int) -> int:
    """Where the next member or the closing bracket is."""
    at = _behind_space(text, end)
    if _byte(text, at) == _COMMA:
        return _behind_space(text, at + 1)
    if text[at] != closing:
        raise _misplaced(text, at)
    return at


def _behind_space(text: bytes, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _is_null(text: bytes, at: int) -> bool:
    return text.startswith(_NULL, at)


def _byte(text: bytes, at: int) -> int:
    if at >= len(text):
        raise IncompleteError("unexpected end")
    return text[at]


def _misplaced(text: bytes, at: int) -> ScanError:
    if at >= len(text):
        return IncompleteError("unexpected end")
    return ScanError(f"JSON is malformed: unexpected {chr(text[at])!r} (byte {at})")
