"""JSONPath as printer columns have it: `.spec.size`, `.status.conditions[?(@.type=="Ready")].status`."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

_Step = Callable[[Iterable[Any], "_Visits"], Iterable[Any]]
_Operand = Callable[[Any, "_Visits"], list[Any]]
_NAME: Final = re.compile(r"(?:\\.|[^.\[\]\\{}\s])+")
_QUOTED: Final = re.compile(r"\s*(?:'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\")\s*")
_SLICE: Final = re.compile(r"\s*(-?\d{1,9})?\s*(?::\s*(-?\d{1,9})?\s*(?::\s*(-?\d{1,9})?\s*)?)?")
_COMPARISON: Final = re.compile(r"^(.*?)\s*(==|!=|<=|>=|<|>)\s*(.*)$", re.DOTALL)
_MAX_LENGTH: Final = 4096
MOST_VALUES: Final = 10_000
"""Values that are looked at for one cell: each `..` looks again at all that the one before found."""


class JsonPathError(ValueError):
    """A path that cannot be read."""


class _Visits:
    """Remaining number of values to visit."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def of(self, values: Iterable[Any]) -> Iterator[Any]:
        """The values until there were too many."""
        for value in values:
            self._left -= 1
            if self._left < 0:
                return
            yield value


class JsonPath:
    """A path that was read."""

    def __init__(self, text: str) -> None:
        """Raises `JsonPathError`."""
        if len(text) > _MAX_LENGTH:
            raise JsonPathError(f"expected at most {_MAX_LENGTH} characters")
        self._steps = [*_steps(text)]

    def first(self, data: Any) -> list[Any]:
        """The first value at the path, if there is one; what is missing on the way is left out.

        Nothing is found by a path of more steps than the stack has room for.
        """
        try:
            return self.within(data, _Visits())
        except RecursionError:
            return []

    def within(self, data: Any, visits: _Visits) -> list[Any]:
        """The same, looking at no more values than are allowed."""
        values: Iterable[Any] = [data]
        for step in self._steps:
            values = visits.of(step(values, visits))
        return [*islice(values, 1)]


@lru_cache(maxsize=1024)
def json_path(text: str) -> JsonPath:
    """The path, read once. Raises `JsonPathError`."""
    return JsonPath(text)


def _steps(text: str) -> Iterator[_Step]:
    at = 1 if text[:1] in ("$", "@") else 0
    while at < len(text):
        if text.startswith("..", at):
            yield _descendants
            at += 2
            name = _NAME.match(text, at)
            if name is not None:
                at = name.end()
                yield _field(_unescaped(name.group()))
        elif text[at] == ".":
            at += 1
            name = _NAME.match(text, at)
            if name is not None:
                at = name.end()
                yield _every if name.group() == "*" else _field(_unescaped(name.group()))
            elif at < len(text) and text[at] != "[":
                raise JsonPathError(f"unrecognized character in path: {text[at]!r}")
        elif text[at] == "[":
            end = _closing(text, at)
            yield _bracket(text[at + 1 : end])
            at = end + 1
        else:
            raise JsonPathError(f"unrecognized character in path: {text[at]!r}")


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` closes."""
    depth, quote, at = 0, "", start
    while at < len(text):
        character = text[at]
        if quote:
            at += character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise JsonPathError("unterminated array")


def _bracket(text: str) -> _Step:
    text = text.strip()
    if text == "*":
        return _every
    if text.startswith("?(") and text.endswith(")"):
        return _filter(text[2:-1])
    names = [*_names(text)]
    if names:
        return lambda values, visits: (
            value[name] for value in values if isinstance(value, dict) for name in names if name in value
        )
    found = _SLICE.fullmatch(text)
    if found is None or not text:
        raise JsonPathError(f"invalid array index {text}")
    if ":" not in text:
        place = int(text)
        return lambda values, visits: (
            value[place] for value in values if isinstance(value, list) and -len(value) <= place < len(value)
        )
    first, last, step = (None if part is None else int(part) for part in found.groups())
    if step == 0:
        raise JsonPathError("slice step must not be 0")
    return lambda values, visits: (
        one for value in values if isinstance(value, list) for one in value[first:last:step]
    )


def _names(text: str) -> Iterator[str]:
    """The names in `'a','b'`; none if that is not what it is."""
    at, found = 0, []
    while at < len(text):
        quoted = _QUOTED.match(text, at)
        if quoted is None:
            return
        found.append(_unescaped(quoted[1] if quoted[1] is not None else quoted[2]))
        at = quoted.end()
        if at < len(text):
            if text[at] != ",":
                return
            at += 1
    yield from found


def _filter(text: str) -> _Step:
    found = _COMPARISON.match(text)
    if found is None:
        present = json_path(text.strip())
        return lambda values, visits: (
            one for one in visits.of(_elements(values)) if present.within(one, visits)
        )
    left, operator, right = _operand(found[1]), found[2], _operand(found[3])

    def chosen(values: Iterable[Any], visits: _Visits) -> Iterable[Any]:
        for one in visits.of(_elements(values)):
            mine, other = left(one, visits), right(one, visits)
            if mine and other and _compare(mine[0], operator, other[0]):
                yield one

    return chosen


def _operand(text: str) -> _Operand:
    text = text.strip()
    if text.startswith(("@", "$", ".")):
        return json_path(text).within
    quoted = _QUOTED.fullmatch(text)
    value: Any
    if quoted is not None:
        value = _unescaped(quoted[1] if quoted[1] is not None else quoted[2])
    elif text in ("true", "false"):
        value = text == "true"
    else:
        try:
            value = float(text)
        except ValueError:
            raise JsonPathError(f"unrecognized operand {text}") from None
    return lambda one, visits: [value]


def _compare(one: Any, operator: str, other: Any) -> bool:
    if operator in ("==", "!="):
        return (one == other) is (operator == "==")
    if not (isinstance(one, str) and isinstance(other, str)) and not (
        isinstance(one, int | float) and isinstance(other, int | float)
    ):
        return False
    return bool(
        {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[operator]  # type: ignore[operator]
    )


def _elements(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from value
        elif isinstance(value, dict):
            yield from value.values()


def _every(values: Iterable[Any], visits: _Visits) -> Iterable[Any]:
    return _elements(values)


def _field(name: str) -> _Step:
    return lambda values, visits: (
        value[name] for value in values if isinstance(value, dict) and name in value
    )


def _descendants(values: Iterable[Any], visits: _Visits) -> Iterable[Any]:
    """Each value and all within it, outermost first."""
    for value in values:
        yield value
        yield from _descendants(_elements([value]), visits)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
