"""Server-side apply: what becomes of an object when one of its managers says how it shall be."""

from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api import status
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.apply.fieldtree import (
    LEAF,
    Path,
    Tree,
    contains,
    difference,
    field_set,
    intersection,
    paths,
    union,
)
from stowplan.localcluster.apply.managedfields import (
    APPLY,
    BEFORE_FIRST_APPLY,
    UPDATE,
    ManagedFields,
    Manager,
    Managers,
    managed_fields_of,
    tracked_parts,
)
from stowplan.localcluster.apply.shapes import (
    FieldShape,
    ObjectType,
    compare,
    merged,
    said,
    shape_of,
    with_named_fields,
    without,
)
from stowplan.localcluster.schema.goform import zero_object

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"
_METADATA_ITSELF: Final[Tree] = {"f:metadata": LEAF}


class Applier(NamedTuple):
    """Applying manager, time, and if it takes over fields of others."""

    manager: str
    stamp: str
    force: bool = False
    subresource: str = ""


class ApplyResult(NamedTuple):
    """The object as it is to be, and its managed fields."""

    object: Json
    managed: ManagedFields


class _Conflict(NamedTuple):
    manager: Manager
    path: Path


def apply_configuration(
    type_: ObjectType, live: Json | None, wanted: Json, by: Applier, *, has_status: bool
) -> ApplyResult:
    """Configuration of one manager, merged into the live object (None: nothing yet).

    Fields that the manager applied before and does not want now are removed, unless they have another owner.
    Raises `ApiError` 409 if that would change fields of others, and it is not forced.
    """
    shape = shape_of(type_)
    start = zero_object(type_) if live is None else live
    before = ManagedFields(()) if live is None else managed_fields_of(live)
    managers = before.managers()
    if live is not None and not managers:
        managers = _before_first_apply(shape, type_, live, by.stamp, has_status=has_status)
    fields = said(shape, tracked_parts(wanted, by.subresource, has_status=has_status))
    fields = difference(fields, _METADATA_ITSELF)
    own = Manager(by.manager, APPLY, wanted["apiVersion"], by.stamp, field_set(fields), by.subresource)
    last = next((manager for manager in managers if manager.identity == own.identity), None)
    others = [manager for manager in managers if manager is not last]
    found = merged(shape, start, wanted)
    if last is not None:
        found = _pruned(shape, found, last.fields.tree, [own, *others])
    changed, removed = compare(
        shape,
        tracked_parts(start, by.subresource, has_status=has_status),
        tracked_parts(found, by.subresource, has_status=has_status),
    )
    conflicts = [
        _Conflict(other, path) for other in others for path in paths(intersection(other.fields.tree, changed))
    ]
    if conflicts and not by.force:
        conflicts = _still_conflicting(shape, start, conflicts, by.manager)
        if conflicts:
            raise _conflict_error(conflicts)
    if not changed and not removed:
        own = own._replace(time="" if last is None else last.time)
    kept = [other.with_tree(difference(difference(other.fields.tree, changed), removed)) for other in others]
    now = tuple(manager for manager in (own, *kept) if manager.fields.tree)
    if by.manager == _KUBECTL and LAST_APPLIED in (found["metadata"].get("annotations") or {}):
        found = _with_last_applied(found, wanted)
    return ApplyResult(found, before if set(now) == set(before.managers()) else ManagedFields(now))


def _before_first_apply(
    shape: FieldShape, type_: ObjectType, live: Json, stamp: str, *, has_status: bool
) -> Managers:
    """Owner of an object whose managers are not known: one without a name."""
    changed, _ = compare(
        shape,
        tracked_parts(zero_object(type_), "", has_status=has_status),
        tracked_parts(live, "", has_status=has_status),
    )
    return (Manager(BEFORE_FIRST_APPLY, UPDATE, live["apiVersion"], stamp, field_set(changed)),)


def _pruned(shape: FieldShape, found: Json, last: Tree, managers: list[Manager]) -> Json:
    """The object without the fields that only its manager's last configuration owned and that have no owner
    now."""
    owned: Tree = {}
    for manager in managers:
        owned = union(owned, manager.fields.tree)
    mine = with_named_fields(shape, last)
    everything = with_named_fields(shape, said(shape, found))
    left = without(shape, found, mine)
    kept = union(with_named_fields(shape, said(shape, left)), with_named_fields(shape, owned))
    gone = intersection(difference(everything, kept), mine)
    return without(shape, found, gone) or {} if gone else found


def _still_conflicting(
    shape: FieldShape, live: Json, conflicts: list[_Conflict], manager: str
) -> list[_Conflict]:
    """The conflicts that remain when kubectl takes over what it applied on the client's side before."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if manager != _KUBECTL or not text:
        return conflicts
    try:
        last = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return conflicts
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return conflicts
    changed, removed = compare(shape, last, live)
    allowed = difference(difference(said(shape, last), changed), removed)
    return [conflict for conflict in conflicts if not contains(allowed, conflict.path)]


def _with_last_applied(found: Json, wanted: Json) -> Json:
    """The object with the annotation in which kubectl keeps what it applied, brought up to date."""
    metadata: Json = {**wanted["metadata"]}
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED
    }
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    text = msgspec.json.encode({**wanted, "metadata": metadata}, order="sorted").decode() + "\n"
    shown = {**found["metadata"], "annotations": {**found["metadata"]["annotations"], LAST_APPLIED: text}}
    return {**found, "metadata": shown}


def _conflict_error(conflicts: list[_Conflict]) -> status.ApiError:
    causes: list[dict[str, Any]] = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_describe(conflict.manager)}",
            "field": _dotted(conflict.path),
        }
        for conflict in conflicts
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for manager in sorted({conflict.manager for conflict in conflicts}, key=lambda found: found.identity):
            lines.append(f"conflicts with {_describe(manager)}:")
            lines += [f"- {_dotted(path)}" for owner, path in conflicts if owner is manager]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return status.ApiError(409, "Conflict", text, {"causes": causes})


def _describe(manager: Manager) -> str:
    text = quote(manager.name)
    if manager.subresource:
        text += f" with subresource {quote(manager.subresource)}"
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text


def _dotted(path: Path) -> str:
    shown = ""
    for step in path:
        if step.startswith("f:"):
            shown += f".{step[2:]}"
        elif step.startswith("k:"):
            keys = msgspec.json.decode(step[2:])
            parts = (f"{key}={msgspec.json.encode(value).decode()}" for key, value in keys.items())
            shown += "[" + ",".join(parts) + "]"
        else:
            shown += f"[={step[2:]}]"
    return shown
