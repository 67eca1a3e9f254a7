"""Objects whose versions a webhook would convert, where nobody calls it: nothing that was written is lost.

Such an object is stored with the fields of all versions it was written in. A version shows the fields that
its schema has, and a write in it changes these; the others stay. Reading in the version that was written
gives back every field.
"""

from typing import Any

from stowplan.api.requests import Json
from stowplan.localcluster.customresources.structural import META_FIELDS, StructuralSchema

_TYPES = {"string": str, "boolean": bool, "object": dict, "array": list}


def fitting(schema: StructuralSchema, obj: Json) -> Json:
    """The object without values of other types than the schema's: these are another version's."""
    return {
        name: _fitting(schema.child(name), value)
        for name, value in obj.items()
        if name in META_FIELDS or _fits(schema.child(name), value)
    }


def _fitting(schema: StructuralSchema | None, value: Any) -> Any:
    if schema is None:
        return value
    if isinstance(value, dict):
        return {
            name: _fitting(schema.child(name), inner)
            for name, inner in value.items()
            if _fits(schema.child(name), inner)
        }
    if isinstance(value, list):
        return [_fitting(schema.items, inner) for inner in value if _fits(schema.items, inner)]
    return value


def _fits(schema: StructuralSchema | None, value: Any) -> bool:
    if schema is None or value is None or schema.int_or_string:
        return True
    if schema.type in ("integer", "number"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    expected = _TYPES.get(schema.type)
    return expected is None or isinstance(value, expected)


def merged(stored: Any, shown: Any, new: Any) -> Any:
    """The object to store after `shown`, a version's view of `stored`, has been replaced by `new`."""
    if new == shown:
        return stored
    if isinstance(new, dict) and isinstance(shown, dict) and isinstance(stored, dict):
        kept = {name: value for name, value in stored.items() if name not in shown and name not in new}
        changed = {
            name: merged(stored[name], shown[name], value) if name in shown and name in stored else value
            for name, value in new.items()
        }
        return {**kept, **changed}
    same_length = isinstance(new, list) and isinstance(shown, list) and isinstance(stored, list)
    if same_length and len(new) == len(shown) == len(stored):
        return [merged(*elements) for elements in zip(stored, shown, new, strict=True)]
    return new


def stored_after(stored: Json, shown: Json, new: Json) -> Json:
    """The object to store for one that was written in a version.

    It keeps the version that it was last described in: metadata and status say nothing about that.
    """
    described = [name for name in {*shown, *new} if name not in (*META_FIELDS, "status")]
    version = stored["apiVersion"]
    if any(shown.get(name) != new.get(name) for name in described):
        version = new["apiVersion"]
    body: Json = merged(
        {key: value for key, value in stored.items() if key != "metadata"},
        {key: value for key, value in shown.items() if key != "metadata"},
        {key: value for key, value in new.items() if key != "metadata"},
    )
    return {**body, "apiVersion": version, "metadata": new["metadata"]}


def with_metadata_of(obj: Json, converted: Json) -> Json:
    """A converted object with the metadata of the original, but for its labels and annotations."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("labels", "annotations")}
    for field in ("labels", "annotations"):
        if converted["metadata"].get(field):
            metadata[field] = converted["metadata"][field]
    return {**converted, "metadata": metadata}
