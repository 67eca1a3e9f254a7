"""Sets of fields as trees, in the notation of managed fields (FieldsV1).

A step leads from an object to a part of it: `f:name` into a field or a map, `k:{"name":"x"}` to the element
of a list with these keys, `v:"x"` to an element that is its own key. A node of a tree maps steps to nodes,
and has the key `.` if the path that leads to it belongs to the set. Trees are shared and must not be changed.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stowplan.api.requests import Json

Tree = dict[str, Any]
Path = tuple[str, ...]
MEMBER: Final = "."
LEAF: Final[Tree] = {MEMBER: {}}
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def union(left: Tree, right: Tree) -> Tree:
    """The paths of both; one of the two itself if it has them all."""
    if left is right or not right:
        return left
    if not left:
        return right
    result = left
    for step, below in right.items():
        mine = left.get(step)
        if mine is None:
            merged = below
        elif step == MEMBER:
            continue
        else:
            merged = union(mine, below)
            if merged is mine:
                continue
        result = dict(left) if result is left else result
        result[step] = merged
    return result


def difference(left: Tree, right: Tree) -> Tree:
    """The paths of one that are not in the other; itself if there are none to take away."""
    result = left
    for step, below in right.items():
        mine = left.get(step)
        if mine is None:
            continue
        kept = {} if step == MEMBER else difference(mine, below)
        if kept is mine and step != MEMBER:
            continue
        result = dict(left) if result is left else result
        if kept:
            result[step] = kept
        else:
            del result[step]
    return result


def intersection(left: Tree, right: Tree) -> Tree:
    """The paths that are in both."""
    result: Tree = {}
    for step, below in left.items():
        other = right.get(step)
        if other is None:
            continue
        if step == MEMBER:
            result[MEMBER] = below
        elif shared := intersection(below, other):
            result[step] = shared
    return result


def paths(tree: Tree, path: Path = ()) -> Iterator[Path]:
    """The paths of a set in order: those of a level before those below it."""
    steps = sorted(step for step in tree if step != MEMBER)
    for step in steps:
        if MEMBER in tree[step]:
            yield (*path, step)
    for step in steps:
        yield from paths(tree[step], (*path, step))


def contains(tree: Tree, path: Path) -> bool:
    for step in path:
        found = tree.get(step)
        if found is None:
            return False
        tree = found
    return MEMBER in tree


def to_fields_v1(tree: Tree) -> Json:
    """The tree as managed fields show it: a node without others below it is a member without saying so."""
    return {
        step: {} if step == MEMBER or below.keys() == {MEMBER} else to_fields_v1(below)
        for step, below in tree.items()
    }


def from_fields_v1(fields: Any) -> Tree:
    """The tree that managed fields show. Raises ValueError if they show none."""
    if not isinstance(fields, dict):
        raise ValueError(f"expected a map of fields, got {fields!r}")  # noqa: TRY004
    result: Tree = {}
    for step, below in fields.items():
        if step == MEMBER:
            result[MEMBER] = {}
        elif step[:2] not in ("f:", "k:", "v:", "i:"):
            raise ValueError(f"unknown path element {step!r}")
        else:
            result[step] = from_fields_v1(below) or LEAF
    return result


class FieldSet:
    """A set of fields that is kept: as a tree, and as the JSON text that shows it."""

    __slots__ = ("raw", "tree")

    def __init__(self, tree: Tree, raw: bytes) -> None:
        self.tree = tree
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)


_KEPT: Final[dict[bytes, FieldSet]] = {}
_MAX_KEPT: Final = 4096


def field_set(tree: Tree) -> FieldSet:
    """The set of a tree. Equal sets, as the pods of a workload have them, are one object."""
    raw = _encode(to_fields_v1(tree))
    found = _KEPT.get(raw)
    if found is None:
        if len(_KEPT) >= _MAX_KEPT:
            _KEPT.clear()
        found = _KEPT[raw] = FieldSet(tree, raw)
    return found
