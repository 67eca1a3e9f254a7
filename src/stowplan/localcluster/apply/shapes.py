"""How objects of a type are looked into: field by field, element by element, or not at all.

A shape is what server-side apply has to know of a value's type. A struct or a map is granular unless it
is atomic, a list only if its elements have keys; everything else is one value.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from stowplan.api.requests import Json
from stowplan.localcluster.apply.fieldtree import LEAF, MEMBER, Tree
from stowplan.localcluster.schema import Form, SchemaField, TypeDef, the_schema

_KEY_DEFAULTS: Final = {"protocol": "TCP"}
_LISTS: Final = (list, tuple)
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class FieldShape:
    """A value that is one thing, and the base of those that are not."""

    is_map = False
    is_list = False
    full_name = ""
    """Name of the shape of a whole object."""

    def named(self, name: str) -> bool:
        """True if a name is that of a field, rather than a key of a map."""
        return False

    def child(self, name: str) -> "tuple[str, FieldShape]":
        """The step to a field, and its shape."""
        return f"f:{name}", ONE_VALUE


class MapShape(FieldShape):
    """A map of strings to something."""

    is_map = True

    def __init__(self, element: FieldShape | None) -> None:
        self._element = element

    def child(self, name: str) -> tuple[str, FieldShape]:
        return f"f:{name}", self._element or self


class StructShape(FieldShape):
    """A type with fields; what is not among them is one value."""

    is_map = True

    def __init__(self, type_: TypeDef) -> None:
        self.type = type_
        self._children: dict[str, tuple[str, FieldShape]] = {}

    def named(self, name: str) -> bool:
        return name in self.type.fields

    def child(self, name: str) -> tuple[str, FieldShape]:
        found = self._children.get(name)
        if found is None:
            field = self.type.fields.get(name)
            shape = ONE_VALUE if field is None else _shape_of_field(field)
            found = self._children[name] = (f"f:{name}", shape)
        return found


class ListShape(FieldShape):
    """A list whose elements are identified by some of their fields, or (no keys) by themselves."""

    is_list = True

    def __init__(self, keys: tuple[str, ...], element: FieldShape) -> None:
        self._keys = () if keys == ("",) else tuple(sorted(keys))
        self.element = element

    def step(self, element: Any) -> str:
        """The step to an element."""
        if not self._keys or not isinstance(element, dict):
            return "v:" + _encode(element).decode()
        found = {}
        for key in self._keys:
            value = element.get(key, _KEY_DEFAULTS.get(key))
            if value is not None:
                found[key] = value
        return "k:" + _encode(found).decode()

    def indexed(self, elements: Any) -> dict[str, list[Any]]:
        """The elements by their steps. Several of one step are duplicates."""
        found: dict[str, list[Any]] = {}
        for element in elements or ():
            found.setdefault(self.step(element), []).append(element)
        return found


ONE_VALUE: Final = FieldShape()
DEDUCED: Final = MapShape(None)
"""Shape of objects of unknown type: maps are descended into and lists are not."""

_STRUCTS: Final[dict[str, StructShape]] = {}


ObjectType = TypeDef | FieldShape | None
"""Knowledge about objects: their type, their shape alone (custom resources), or nothing."""


def shape_of(type_: ObjectType) -> FieldShape:
    """The shape of the objects of a type."""
    if not isinstance(type_, TypeDef):
        return DEDUCED if type_ is None else type_
    found = _STRUCTS.get(type_.full_name)
    if found is None or found.type is not type_:
        found = _STRUCTS[type_.full_name] = StructShape(type_)
    return found


def _shape_of_field(field: SchemaField) -> FieldShape:
    form = field.form
    if field.atomic:
        return ONE_VALUE
    if form.shape == "list":
        assert form.of is not None
        return ListShape(field.keys, _shape_of_form(form.of)) if field.keys else ONE_VALUE
    return _shape_of_form(form)


def _shape_of_form(form: Form) -> FieldShape:
    if form.shape == "type":
        type_ = the_schema().types[form.name]
        return ONE_VALUE if type_.atomic else shape_of(type_)
    if form.shape == "map":
        assert form.of is not None
        return MapShape(_shape_of_form(form.of))
    return ONE_VALUE


def whole(shape: FieldShape, value: Any) -> Tree:
    """The value and everything in it, as comparing it with nothing finds it."""
    if not value:
        return LEAF
    if shape.is_map and isinstance(value, dict):
        tree: Tree = {MEMBER: {}}
        for name, part in value.items():
            step, inner = shape.child(name)
            tree[step] = whole(inner, part) if part and inner is not ONE_VALUE else LEAF
        return tree
    if isinstance(shape, ListShape) and isinstance(value, _LISTS):
        tree = {MEMBER: {}}
        for step, found in shape.indexed(value).items():
            tree[step] = whole(shape.element, found[0]) if len(found) == 1 else LEAF
        return tree
    return LEAF


def compare(shape: FieldShape, old: Any, new: Any) -> tuple[Tree, Tree]:
    """Differences of two existing values: changed or added fields, and removed ones."""
    if old is new or old == new:
        return {}, {}
    if not old and not new:
        return LEAF, {}
    if shape.is_map and _is_map_or_null(old) and _is_map_or_null(new):
        return _compare_maps(shape, old or {}, new or {})
    if isinstance(shape, ListShape) and _is_list_or_null(old) and _is_list_or_null(new):
        return _compare_lists(shape, shape.indexed(old), shape.indexed(new))
    return LEAF, {}


def _is_map_or_null(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _is_list_or_null(value: Any) -> bool:
    return value is None or isinstance(value, _LISTS)


def _compare_maps(shape: FieldShape, old: Json, new: Json) -> tuple[Tree, Tree]:
    changed: Tree = {}
    removed: Tree = {}
    for name, value in new.items():
        if name not in old:
            step, inner = shape.child(name)
            changed[step] = whole(inner, value)
        elif (before := old[name]) is not value and before != value:
            step, inner = shape.child(name)
            below, gone = compare(inner, before, value)
            if below:
                changed[step] = below
            if gone:
                removed[step] = gone
    for name, value in old.items():
        if name not in new:
            step, inner = shape.child(name)
            removed[step] = whole(inner, value)
    return changed, removed


def _compare_lists(
    shape: ListShape, old: dict[str, list[Any]], new: dict[str, list[Any]]
) -> tuple[Tree, Tree]:
    changed: Tree = {}
    removed: Tree = {}
    element = shape.element
    for step, found in new.items():
        before = old.get(step, ())
        below, gone = _compare_elements(element, before, found)
        if below:
            changed[step] = below
        if gone:
            removed[step] = gone
    for step, before in old.items():
        if step not in new:
            removed[step] = whole(element, before[0]) if len(before) == 1 else LEAF
    return changed, removed


def _compare_elements(shape: FieldShape, old: Sequence[Any], new: list[Any]) -> tuple[Tree, Tree]:
    """Elements of one step. Duplicates are one value together."""
    if len(new) == 1 and len(old) <= 1:
        return compare(shape, old[0], new[0]) if old else (whole(shape, new[0]), {})
    if len(new) > 1 and len(old) > 1:
        return (LEAF if list(old) != new else {}), {}
    if len(old) > 1:
        return whole(shape, new[0]), LEAF
    return LEAF, whole(shape, old[0]) if old else {}


def said(shape: FieldShape, value: Any) -> Tree:
    """Fields of a configuration: its values and the elements of its lists, without the path to them."""
    if shape.is_map and isinstance(value, dict):
        tree: Tree = {}
        for name, part in value.items():
            step, inner = shape.child(name)
            below = said(inner, part)
            if part is None or part == {} or (not shape.named(name) and inner is not ONE_VALUE):
                below = {MEMBER: {}, **below}
            if below:
                tree[step] = below
        return tree
    if isinstance(shape, ListShape) and isinstance(value, _LISTS):
        return {
            step: {MEMBER: {}, **said(shape.element, found[0])} if len(found) == 1 else LEAF
            for step, found in shape.indexed(value).items()
        }
    return LEAF


def with_named_fields(shape: FieldShape, tree: Tree) -> Tree:
    """The set with the fields that lead to its members, but not with keys of maps or elements that do."""
    result: Tree = {}
    for step, below in tree.items():
        if step == MEMBER:
            result[MEMBER] = below
            continue
        inner = ONE_VALUE
        named = False
        if step.startswith("f:"):
            inner, named = shape.child(step[2:])[1], shape.named(step[2:])
        elif isinstance(shape, ListShape):
            inner = shape.element
        found = with_named_fields(inner, below)
        result[step] = {**found, MEMBER: {}} if named else found
    return result


def without(shape: FieldShape, value: Any, tree: Tree) -> Any:
    """The value without the members of a set; None if nothing is left."""
    if shape.is_map and isinstance(value, dict):
        kept = {}
        for name, part in value.items():
            step, inner = shape.child(name)
            below = tree.get(step)
            if below is None:
                kept[name] = part
            elif MEMBER not in below:
                kept[name] = without(inner, part, below)
        return kept or None
    if isinstance(shape, ListShape) and isinstance(value, _LISTS):
        elements = []
        for element in value:
            below = tree.get(shape.step(element))
            if below is None:
                elements.append(element)
            elif MEMBER not in below:
                elements.append(without(shape.element, element, below))
        return elements or None
    return value


def merged(shape: FieldShape, live: Any, wanted: Any) -> Any:
    """The live value with the wanted one merged into it."""
    if shape.is_map and isinstance(wanted, dict) and isinstance(live, dict):
        result = dict(live)
        for name, value in wanted.items():
            inner = shape.child(name)[1]
            result[name] = merged(inner, live[name], value) if name in live else value
        return result
    if isinstance(shape, ListShape) and isinstance(wanted, _LISTS) and isinstance(live, _LISTS):
        return list(_merged_elements(shape, live, wanted))
    return wanted


def _merged_elements(shape: ListShape, live: Sequence[Any], wanted: Sequence[Any]) -> Iterator[Any]:
    """The elements of both: those wanted in the order they are wanted in, the others in their places."""
    places = {shape.step(element): element for element in live}
    wishes = {shape.step(element): element for element in wanted}
    here, there = list(places), list(wishes)
    shared = [step for step in there if step in places]
    done: set[str] = set()
    i = j = 0
    while i < len(here) or j < len(there):
        if i < len(here) and j < len(there):
            if here[i] == there[j]:
                done.add(here[i])
                yield merged(shape.element, places[here[i]], wishes[here[i]])
                i, j = i + 1, j + 1
                shared = shared[1:]
                continue
            if here[i] in wishes and shared and shared[0] != here[i]:
                i += 1
                continue
        if i < len(here):
            if here[i] not in wishes:
                yield places[here[i]]
                i += 1
                continue
            if here[i] in done:
                i += 1
        if j < len(there):
            step = there[j]
            done.add(step)
            yield merged(shape.element, places[step], wishes[step]) if step in places else wishes[step]
            j += 1
            if shared and shared[0] == step:
                shared = shared[1:]
