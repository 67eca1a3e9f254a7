"""Fields of an object as paths, in the notation that managed fields have.

A path is a sequence of steps: `f:name` into a field or a map, `k:{"name":"x"}` to the element of a list with
these keys, `v:"x"` to an element that is its own key.
"""

from collections.abc import Iterator
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
    found: set[Path] = set()
    for key, value in obj.items():
        if key in ("apiVersion", "kind"):
            continue
        inner = field_form(form, key)
        if key == "metadata" and isinstance(value, dict):
            value = {name: part for name, part in value.items() if name not in _SERVER_SET}
            if not value:
                continue
        found.update(_paths(inner, value, (f"f:{key}",)))
    return found


def _paths(field: Field, value: Any, path: Path) -> Iterator[Path]:
    if is_map(field, value):
        if not value:
            yield path
        for key, part in value.items():
            yield from _paths(field_of(field.form, key), part, (*path, f"f:{key}"))
    elif is_keyed(field, value):
        if not value:
            yield path
        for element in value:
            step = step_of(field, element)
            yield (*path, step)
            if isinstance(element, dict) and field.keys != ("",):
                inner = Field("", field.form.of or ANY)
                for key, part in element.items():
                    yield from _paths(field_of(inner.form, key), part, (*path, step, f"f:{key}"))
    else:
        yield path


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


def field_form(form: Form, name: str) -> Field:
    return field_of(form, name)


def step_of(field: Field, element: Any) -> str:
    """The step to an element of a list."""
    if field.keys == ("",) or not isinstance(element, dict):
        return "v:" + msgspec.json.encode(element).decode()
    keys = {key: element.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(field.keys)}
    told = {key: value for key, value in keys.items() if value is not None}
    return "k:" + msgspec.json.encode(told).decode()


def value_at(form: Form, obj: Any, path: Path) -> Any:
    """What stands at a path; None if nothing does."""
    field = Field("", form)
    for step in path:
        if step.startswith("f:"):
            if not isinstance(obj, dict) or step[2:] not in obj:
                return None
            field, obj = field_of(field.form, step[2:]), obj[step[2:]]
        else:
            if not isinstance(obj, list | tuple):
                return None
            found = next((element for element in obj if step_of(field, element) == step), None)
            field, obj = Field("", field.form.of or ANY), found
    return obj


def removed(form: Form, obj: Any, path: Path, field: Field | None = None) -> Any:
    """The object without what stands at a path; shared where nothing changes."""
    field = Field("", form) if field is None else field
    step, rest = path[0], path[1:]
    if step.startswith("f:"):
        name = step[2:]
        if not isinstance(obj, dict) or name not in obj:
            return obj
        if not rest:
            return {key: value for key, value in obj.items() if key != name}
        inner = field_of(field.form, name)
        return {**obj, name: removed(form, obj[name], rest, inner)}
    if not isinstance(obj, list | tuple):
        return obj
    if not rest:
        return [element for element in obj if step_of(field, element) != step]
    inner = Field("", field.form.of or ANY)
    return [
        removed(form, element, rest, inner) if step_of(field, element) == step else element for element in obj
    ]


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


def as_tree(paths: set[Path]) -> Json:
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


def from_tree(tree: Any, path: Path = ()) -> Iterator[Path]:
    """The paths that nested maps stand for."""
    if not tree or "." in tree:
        yield path
    for step, below in tree.items():
        if step != ".":
            yield from from_tree(below, (*path, step))
