"""What becomes of an object when another is put in its place: some of it is not the writer's to change."""

from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, forbidden, invalid
from stowplan.api.requests import Json

_IMMUTABLE: Final = ("name", "namespace", "uid")
NEVER_GIVEN: Final = frozenset(
    (
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
    )
)
"""Metadata that only the server sets, also when an object is created."""

_SERVER_SET: Final = NEVER_GIVEN.union(_IMMUTABLE)
"""Metadata that an update cannot set."""


def replaced(resource: Resource, old: Json, new: Json, subresource: str) -> Json:
    """The object to write when `new` is asked for in place of `old`, with the version of `old`.

    Raises `ApiError` 422 for changes nobody may make.
    """
    _check(resource, old, new["metadata"])
    if subresource == "finalize":
        return _with_section(old, "spec", new)
    if subresource:
        return _with_section(old, "status", new)
    kept = _with_section(new, "status", old) if resource.status else new
    metadata = {field: value for field, value in old["metadata"].items() if field in _SERVER_SET}
    metadata |= {field: value for field, value in new["metadata"].items() if field not in _SERVER_SET}
    if resource.generation and _asks_for_other(resource, old, kept):
        metadata["generation"] = metadata.get("generation", 0) + 1
    return {**kept, "metadata": metadata}


def _with_section(obj: Json, section: str, source: Json) -> Json:
    """The object with one section taken from another, absent if it is absent there."""
    result = {**obj, section: source.get(section)}
    if result[section] is None:
        del result[section]
    return result


def _asks_for_other(resource: Resource, old: Json, new: Json) -> bool:
    """Whether more has changed than what describes the object and what is observed of it."""
    if not resource.custom:
        return bool(old.get("spec") != new.get("spec"))
    described = ("metadata", "status") if resource.status else ("metadata",)
    return any(old.get(part) != new.get(part) for part in old.keys() | new.keys() if part not in described)


def _check(resource: Resource, old: Json, metadata: Json) -> None:
    before = old["metadata"]
    errors: list[FieldError] = []
    if "deletionTimestamp" in before:
        added = sorted(set(metadata.get("finalizers", ())) - set(before.get("finalizers", ())))
        if added:
            shown = "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
            text = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.append(forbidden("metadata.finalizers", text + shown))
    for field in _IMMUTABLE:
        given = metadata.get(field)
        if given and given != before.get(field):
            errors.append(invalid(f"metadata.{field}", given, "field is immutable"))
    if errors:
        raise status.invalid(resource, before["name"], errors)
