"""Patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386), and which one a request means."""

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
    """Apply a patch of one kind to an object. Raises `ApiError` 400 for one that is nested too deeply."""
    if _is_too_deep(patch):
        raise status.bad_request("error decoding patch: nested too deeply")
    try:
        return _apply_patch(resource, obj, patch, kind)
    except RecursionError:
        raise status.bad_request("error decoding patch: nested too deeply") from None


def _is_too_deep(patch: Any) -> bool:
    """True if maps and lists of a patch are nested deeper than any valid patch."""
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
_CONTAINERS: Final = (dict, *LISTS)


def apply_json_patch(document: Any, patch: Any) -> Any:
    """The document after all operations. Raises `ApiError`: 400 if malformed, 422 if one does not apply."""
    if not isinstance(patch, LISTS):
        raise _not_a("[]handlers.jsonPatchOp", patch)
    if not all(isinstance(step, dict) for step in patch):
        raise status.unprocessable()
    if len(patch) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise status.ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
    patched = _Patched(document)
    for step in patch:
        patched.apply(step)
    return patched.document


class _Patched:
    """A document while operations change it: containers are copied when they change for the first time."""

    def __init__(self, document: Any) -> None:
        self._holder: dict[str, Any] = {"": document}
        """The document, as something in a container that can be replaced like everything else."""
        self._own: dict[int, Any] = {id(self._holder): self._holder}
        """Containers made here, which are not shared, by identity."""
        self._copied = 0

    @property
    def document(self) -> Any:
        return self._holder.get("")

    def apply(self, step: dict[str, Any]) -> None:
        path = _pointer(step, "path")
        match step.get("op"):
            case "add":
                self._add(path, _value(step))
            case "replace":
                value = _value(step)
                container, place = self._place(path)
                container[place] = value
            case "remove":
                self._remove(path)
            case "test":
                if not _same(self._find(path), step.get("value")):
                    raise status.unprocessable()
            case "copy":
                self._add(path, self._copy(_pointer(step, "from")))
            case "move":
                source = _pointer(step, "from")
                value = self._find(source)
                self._remove(source)
                self._add(path, value)
            case _:
                raise status.unprocessable()

    def _find(self, path: list[str]) -> Any:
        found: Any = self._holder
        for part in path:
            found = _child(found, part)
            if found is _ABSENT:
                raise status.unprocessable()
        return found

    def _copy(self, path: list[str]) -> Any:
        """A copy of what is at a place, so that no container is at two."""
        text = msgspec.json.encode(self._find(path))
        self._copied += len(text)
        if self._copied > MAX_COPIED:
            why = f"the accumulated size increase of copy is {self._copied}, exceeding the limit {MAX_COPIED}"
            raise status.ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")
        return msgspec.json.decode(text)

    def _container(self, path: list[str]) -> Any:
        """The container of the last part of a path, to be changed."""
        container: Any = self._holder
        for part in path[:-1]:
            child = _child(container, part)
            if isinstance(child, _CONTAINERS) and id(child) not in self._own:
                child = dict(child) if isinstance(child, dict) else [*child]
                self._own[id(child)] = child
                container[_key(container, part)] = child
            container = child
        if not isinstance(container, _CONTAINERS):
            raise status.unprocessable()
        return container

    def _place(self, path: list[str]) -> tuple[Any, str | int]:
        """The container of a place and its key or index there. Raises `ApiError` 422 if it is empty."""
        container, part = self._container(path), path[-1]
        if isinstance(container, dict) and part not in container:
            raise status.unprocessable()
        return container, _key(container, part)

    def _add(self, path: list[str], value: Any) -> None:
        container, part = self._container(path), path[-1]
        if isinstance(container, dict):
            container[part] = value
        else:
            container.insert(len(container) if part == "-" else _index(part, len(container) + 1), value)

    def _remove(self, path: list[str]) -> None:
        container, place = self._place(path)
        if container is self._holder:
            container[""] = None
        else:
            del container[place]


def _pointer(step: dict[str, Any], field: str) -> list[str]:
    """The parts of a path, the first of which is the document."""
    text = step.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise status.bad_request(f"error decoding patch: {field}: expected a JSON pointer, got {text!r}")
    return ["", *(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])]


def _value(step: dict[str, Any]) -> Any:
    if "value" not in step:
        raise status.bad_request("error decoding patch: value: expected a value")
    return step["value"]


def _child(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        return container.get(part, _ABSENT)
    if isinstance(container, LISTS):
        return container[_index(part, len(container))]
    return _ABSENT


def _key(container: Any, part: str) -> str | int:
    """A part of a path as the key or index that its container has."""
    return part if isinstance(container, dict) else _index(part, len(container))


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
