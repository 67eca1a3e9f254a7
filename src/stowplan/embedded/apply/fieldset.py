"""Fields of an object as sets of paths, in the notation of managed fields (FieldsV1).

A path is a sequence of steps: `f:name` into a field or a map, `k:{"name":"x"}` to the element of a list with
these keys, `v:"x"` to an element that is its own key.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from stowplan.api.requests import Json
from stowplan.embedded.schema import Field, Form, TypeDef, the_schema

Path = tuple[str, ...]
_KEY_DEFAULTS: Final = {"protocol": "TCP"}
_SERVER_SET: Final = frozenset(
    (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
        "generateName",
    )
)
ANY: Final = Form("plain", "any")


def form_of(type_: TypeDef | None) -> Form:
    """The form of whole objects of a type; of None, whatever they are."""
    return ANY if type_ is None else Form("type", type_.full_name)


def paths_of(form: Form, obj: Json) -> set[Path]:
    """Every field that an object says something about, without those that are the server's."""
    return set(values_of(form, obj))


def values_of(form: Form, obj: Json) -> dict[Path, Any]:
    """What an object says, field by field; of an element of a list that there is one."""
    found: dict[Path, Any] = {}
    for key, value in obj.items():
        if key in ("apiVersion", "kind"):
            continue
        if key == "metadata" and isinstance(value, dict):
            value = {name: part for name, part in value.items() if name not in _SERVER_SET}
            if not value:
                continue
        found.update(_values(field_of(form, key), value, (f"f:{key}",)))
    return found


def _values(field: Field, value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if is_map(field, value):
        if not value:
            yield path, value
        for key, part in value.items():
            yield from _values(field_of(field.form, key), part, (*path, f"f:{key}"))
    elif is_keyed(field, value):
        if not value:
            yield path, value
        inner = field.form.of or ANY
        for element in value:
            step = step_of(field, element)
            yield (*path, step), True
            if isinstance(element, dict) and field.keys != ("",):
                for key, part in element.items():
                    yield from _values(field_of(inner, key), part, (*path, step, f"f:{key}"))
    else:
        yield path, value


def is_map(field: Field, value: Any) -> bool:
    """Whether a value is looked into rather than taken as a whole."""
    if not isinstance(value, dict) or field.atomic or field.form.shape == "list":
        return False
    type_ = the_schema().referred(field.form)
    return type_ is None or not type_.atomic


def is_keyed(field: Field, value: Any) -> bool:
    """Whether a list is looked into, element by element."""
    return isinstance(value, list | tuple) and bool(field.keys)


def field_of(form: Form, name: str) -> Field:
    """A field of a type, or of a map."""
    type_ = the_schema().referred(form)
    if type_ is not None:
        found = type_.fields.get(name)
        return Field(name, ANY) if found is None else found
    return Field(name, form.of if form.shape == "map" and form.of is not None else ANY)


def step_of(field: Field, element: Any) -> str:
    """The step to an element of a list."""
    if field.keys == ("",) or not isinstance(element, dict):
        return "v:" + msgspec.json.encode(element).decode()
    keys = {key: element.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(field.keys)}
    present = {key: value for key, value in keys.items() if value is not None}
    return "k:" + msgspec.json.encode(present).decode()


def without(field: Field, obj: Any, tree: Json) -> Any:
    """The object without what a tree of paths names (as `as_tree` makes them)."""
    if isinstance(obj, dict):
        kept = {}
        for key, value in obj.items():
            below = tree.get(f"f:{key}")
            if below is None:
                kept[key] = value
            elif below and "." not in below:
                kept[key] = without(field_of(field.form, key), value, below)
        return kept
    if isinstance(obj, list | tuple):
        elements = []
        inner = Field("", field.form.of or ANY)
        for element in obj:
            below = tree.get(step_of(field, element))
            if below is None:
                elements.append(element)
            elif below and "." not in below:
                elements.append(without(inner, element, below))
        return elements
    return obj


def merged(field: Field, live: Any, wanted: Any) -> Any:
    """What is there with what is wanted laid over it."""
    if is_map(field, wanted) and isinstance(live, dict):
        result = dict(live)
        for key, value in wanted.items():
            inner = field_of(field.form, key)
            result[key] = merged(inner, live[key], value) if key in live else value
        return result
    if is_keyed(field, wanted) and isinstance(live, list | tuple):
        return _merged_elements(field, live, wanted)
    return wanted


def _merged_elements(field: Field, live: Any, wanted: Any) -> list[Any]:
    places = {step_of(field, element): element for element in live}
    inner = Field("", field.form.of or ANY)
    steps = {step_of(field, element): element for element in wanted}
    result = [
        merged(inner, element, steps[step]) if step in steps else element for step, element in places.items()
    ]
    return result + [element for step, element in steps.items() if step not in places]


def to_fields_v1(paths: Iterable[Path]) -> Json:
    """Paths as managed fields show them: nested maps."""
    tree: Json = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return _without_lone_dots(tree)


def _without_lone_dots(tree: Json) -> Json:
    if tree.keys() == {"."}:
        return {}
    return {step: _without_lone_dots(below) if step != "." else {} for step, below in tree.items()}


def from_fields_v1(tree: Any, path: Path = ()) -> Iterator[Path]:
    """The paths that nested maps stand for."""
    if not tree or "." in tree:
        yield path
    for step, below in tree.items():
        if step != ".":
            yield from from_fields_v1(below, (*path, step))
