"""Patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386), and which one a request means."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json, PatchType
from stowplan.localcluster.store.objects import LISTS, checked
from stowplan.localcluster.store.strategicpatch import merge_rules, strategic_merge

DEEPEST: Final = 500
"""How deep maps and lists of a patch may be nested."""


def patched(resource: Resource, obj: Json, patch: Any, kind: PatchType) -> Json:
    """The object with the patch applied; what the patch does not touch is shared.

    Raises `ApiError`: 400 if patch or result are malformed, 415 for a type the kind cannot be patched
    with, 422 if the patch does not fit the object.
    """
    return checked(resource, apply_patch(resource, obj, patch, kind))


def apply_patch(resource: Resource, obj: Json, patch: Any, kind: PatchType) -> Any:
    """The same, whatever comes of it."""
    if _is_too_deep(patch):
        raise status.bad_request("error decoding patch: nested too deeply")
    try:
        return _apply_patch(resource, obj, patch, kind)
    except RecursionError:
        raise status.bad_request("error decoding patch: nested too deeply") from None


def _is_too_deep(patch: Any) -> bool:
    """Whether maps and lists of a patch are nested deeper than anything that is meant."""
    level: list[Any] = [patch]
    for _ in range(DEEPEST):
        level = [
            child
            for one in level
            for child in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _apply_patch(resource: Resource, obj: Json, patch: Any, kind: PatchType) -> Any:
    if kind is PatchType.JSON:
        return apply_json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise _not_a("map[string]interface {}", patch)
    if kind is PatchType.MERGE:
        return merge_patch(obj, patch)
    if resource.custom:
        raise status.unsupported_media_type([PatchType.JSON.value, PatchType.MERGE.value])
    return strategic_merge(obj, patch, merge_rules(resource))


def _not_a(go_type: str, patch: Any) -> status.ApiError:
    names = {dict: "object", list: "array", tuple: "array", str: "string", bool: "bool"}
    found = names.get(type(patch), "number")
    return status.bad_request(
        f"error decoding patch: json: cannot unmarshal {found} into Go value of type {go_type}"
    )


def merge_patch(document: Any, patch: Any) -> Any:
    """The document with the patch laid over it; what the patch does not mention is shared."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


MAX_OPERATIONS: Final = 10_000

MAX_COPIED: Final = 3 * 1024 * 1024
"""Bytes that copying within a document may add to it; otherwise few operations make a huge one."""

_MAX_INDEX_LENGTH: Final = 18
_ABSENT: Final = object()

_Edit = Callable[[Any, str], Any]
"""Gives back a container with one of its places changed."""


def apply_json_patch(document: Any, patch: Any) -> Any:
    """The document after all operations. Raises `ApiError`: 400 if malformed, 422 if one does not apply."""
    if not isinstance(patch, LISTS):
        raise _not_a("[]handlers.jsonPatchOp", patch)
    if not all(isinstance(step, dict) for step in patch):
        raise status.unprocessable()
    if len(patch) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise status.ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
    copied = 0
    for step in patch:
        if step.get("op") == "copy":
            copied += len(msgspec.json.encode(_find(document, _pointer(step, "from"))))
            if copied > MAX_COPIED:
                text = f"the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
                raise status.ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
        document = _apply_operation(document, step)
    return document


def _apply_operation(document: Any, step: dict[str, Any]) -> Any:
    path = _pointer(step, "path")
    match step.get("op"):
        case "add":
            return _edit(document, path, _added(_value(step)))
        case "replace":
            return _edit(document, path, _replaced(_value(step)))
        case "remove":
            return _edit(document, path, _remove)
        case "test":
            if not _same(_find(document, path), step.get("value")):
                raise status.unprocessable()
            return document
        case "copy":
            return _edit(document, path, _added(_find(document, _pointer(step, "from"))))
        case "move":
            source = _pointer(step, "from")
            value = _find(document, source)
            return _edit(_edit(document, source, _remove), path, _added(value))
        case _:
            raise status.unprocessable()


def _pointer(step: dict[str, Any], field: str) -> list[str]:
    text = step.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise status.bad_request(f"error decoding patch: {field}: expected a JSON pointer, got {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _value(step: dict[str, Any]) -> Any:
    if "value" not in step:
        raise status.bad_request("error decoding patch: value: expected a value")
    return step["value"]


def _find(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _child(document, part)
        if document is _ABSENT:
            raise status.unprocessable()
    return document


def _edit(document: Any, path: list[str], edit: _Edit) -> Any:
    """The document with the place at `path` changed."""
    if not path:
        return edit({"": document}, "").get("")
    first, *rest = path
    if not rest:
        return edit(document, first)
    child = _child(document, first)
    if child is _ABSENT:
        raise status.unprocessable()
    return _replaced(_edit(child, rest, edit))(document, first)


def _child(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        return container.get(part, _ABSENT)
    if isinstance(container, LISTS):
        return container[_index(part, len(container))]
    return _ABSENT


def _added(value: Any) -> _Edit:
    def add(container: Any, part: str) -> Any:
        if isinstance(container, dict):
            return {**container, part: value}
        if isinstance(container, LISTS):
            place = len(container) if part == "-" else _index(part, len(container) + 1)
            return [*container[:place], value, *container[place:]]
        raise status.unprocessable()

    return add


def _replaced(value: Any) -> _Edit:
    def replace(container: Any, part: str) -> Any:
        if isinstance(container, dict) and part in container:
            return {**container, part: value}
        if isinstance(container, LISTS):
            place = _index(part, len(container))
            return [*container[:place], value, *container[place + 1 :]]
        raise status.unprocessable()

    return replace


def _remove(container: Any, part: str) -> Any:
    if isinstance(container, dict) and part in container:
        return {key: value for key, value in container.items() if key != part}
    if isinstance(container, LISTS):
        place = _index(part, len(container))
        return [*container[:place], *container[place + 1 :]]
    raise status.unprocessable()


def _index(part: str, length: int) -> int:
    written = part.isascii() and part.isdigit() and len(part) <= _MAX_INDEX_LENGTH
    if not written or (part[0] == "0" and part != "0") or int(part) >= length:
        raise status.unprocessable()
    return int(part)


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON values: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, LISTS) and isinstance(right, LISTS):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
