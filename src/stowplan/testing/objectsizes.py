"""How large the containers inside an object are: every dict, list, set and array, by attribute path.

For finding what only grows. Nothing registers here, so nothing can hide: `sizes_of(scheduler)` walks over
all that the scheduler refers to and adds up entries per path, as in `context.cache.table.pods` or, for what
is inside a container, `context.cache.table.pods[].template.facts`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import msgspec
import numpy as np

_LEAVES: Final[tuple[type, ...]] = (
    str,
    bytes,
    bytearray,
    int,
    float,
    complex,
    bool,
    type(None),
    type,
    ModuleType,
)
_CONTAINERS: Final = (list, tuple, set, frozenset, deque)
_DEEPEST: Final = 14


def sizes_of(
    root: object,
    *,
    without: Iterable[object] = (),
    without_types: tuple[type, ...] = (),
    array_unit: int = 1,
) -> dict[str, int]:
    """Entries by path. An object that is reached twice counts at its first path.

    `without` are objects and `without_types` types of objects that are not descended into. Arrays count one
    entry for every `array_unit` elements: with the number of rows of a table, a column counts one.
    """
    found: dict[str, int] = {}
    seen: set[int] = {id(root), *map(id, without)}
    leaves = (*_LEAVES, *without_types)
    kept: list[object] = []
    waiting: deque[tuple[str, object, int]] = deque([("", root, 0)])
    while waiting:
        path, value, depth = waiting.popleft()
        size = _size(value, array_unit)
        if size is not None:
            found[path] = found.get(path, 0) + size
        if depth >= _DEEPEST:
            continue
        for name, child in _children(value):
            if isinstance(child, leaves) or id(child) in seen:
                continue
            seen.add(id(child))
            kept.append(child)
            waiting.append((f"{path}{name}", child, depth + 1))
    return {path.lstrip("."): size for path, size in found.items()}


def grown(before: Mapping[str, int], after: Mapping[str, int], slack: int) -> dict[str, tuple[int, int]]:
    """The paths that have more than `slack` entries more than before, with both sizes; the largest first."""
    more = {
        path: (before.get(path, 0), size)
        for path, size in after.items()
        if size - before.get(path, 0) > slack
    }
    return dict(sorted(more.items(), key=lambda item: item[1][0] - item[1][1]))


def _size(value: object, array_unit: int) -> int | None:
    if isinstance(value, np.ndarray):
        return -(-value.size // array_unit)
    return len(value) if isinstance(value, Mapping | list | tuple | set | frozenset | deque) else None


def _children(value: object) -> Iterator[tuple[str, object]]:
    """References of an object. API objects are data of the cluster and not descended into."""
    if isinstance(value, msgspec.Struct | BuiltinFunctionType):
        return
    if isinstance(value, np.ndarray):
        return
    if isinstance(value, Mapping):
        yield from (("[]", key) for key in list(value.keys()))
        yield from (("[]", child) for child in list(value.values()))
    elif isinstance(value, _CONTAINERS):
        yield from (("[]", child) for child in list(value))
    if isinstance(value, MethodType):
        yield "", value.__self__
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            yield "()", _content(cell)
    else:
        yield from _attributes(value)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    for name, child in list(getattr(value, "__dict__", {}).items()):
        yield f".{name}", child
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__"):
                child = getattr(value, name, None)
                yield f".{name}", child
