"""Managed fields: the manager that set each field of an object, as kube-apiserver tracks it on every write.

They are rarely read, so they are not computed when an object is written: `ManagedFields` keeps the writes
since they were last known and computes them when they are to be shown, or when too many writes have piled up.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api.requests import Json
from stowplan.localcluster.apply.fieldtree import (
    FieldSet,
    Tree,
    difference,
    field_set,
    from_fields_v1,
    union,
)
from stowplan.localcluster.apply.shapes import FieldShape, ObjectType, compare, shape_of
from stowplan.localcluster.schema.goform import zero_object

APPLY: Final = "Apply"
UPDATE: Final = "Update"
FIELDS_V1: Final = "FieldsV1"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
ANCIENT_CHANGES: Final = "ancient-changes"
_MAX_UPDATERS: Final = 10
_MAX_WAITING: Final = 8
"""Number of writes that are kept before they are evaluated."""

_NOT_TRACKED: Final = frozenset(("apiVersion", "kind"))
_NOT_TRACKED_METADATA: Final = frozenset(
    (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)


class Manager(NamedTuple):
    """One manager's fields. An applying manager is the same one in every version of the API."""

    name: str
    operation: str
    api_version: str
    time: str
    fields: FieldSet
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        version = "" if self.operation == APPLY else self.api_version
        return self.name, self.operation, version, self.subresource

    def entry(self) -> Json:
        """As it stands in the metadata of an object."""
        shown: Json = {"manager": self.name, "operation": self.operation, "apiVersion": self.api_version}
        if self.time:
            shown["time"] = self.time
        shown["fieldsType"] = FIELDS_V1
        shown["fieldsV1"] = msgspec.Raw(self.fields.raw)
        if self.subresource:
            shown["subresource"] = self.subresource
        return shown

    def with_tree(self, tree: Tree) -> "Manager":
        return self if tree is self.fields.tree else self._replace(fields=field_set(tree))


Managers = tuple[Manager, ...]
_order: Final = itemgetter(1, 3, 0, 2, 5)


class Update(NamedTuple):
    """A write by any other means than apply: who wrote, and which parts of the object before and after."""

    manager: str
    api_version: str
    time: str
    subresource: str
    shape: FieldShape
    old: Json
    new: Json


class _Pending(NamedTuple):
    """Managers that are not worked out yet: those before a write, and the write. `length`: of how many."""

    before: "ManagedFields"
    update: Update
    length: int


class ManagedFields:
    """The managers of one object at one version.

    They are computed when they are first shown: by a request, or the thread that keeps objects on disk. Both
    may do so at the same time. So the known state is one value that is replaced as a whole, and a computation
    reads it once; at worst it is done twice, with the same result.
    """

    __slots__ = ("_known",)

    def __init__(self, known: Managers | _Pending) -> None:
        self._known = known

    def after(self, update: Update) -> "ManagedFields":
        """The managers after a write."""
        known = self._known
        length = known.length + 1 if isinstance(known, _Pending) else 1
        result = ManagedFields(_Pending(self, update, length))
        if length > _MAX_WAITING:
            result.managers()
        return result

    def managers(self) -> Managers:
        """The managers, worked out now if they are not known yet."""
        waiting: list[tuple[ManagedFields, Update]] = []
        state = self
        while isinstance(known := state._known, _Pending):
            waiting.append((state, known.update))
            state = known.before
        for state, update in reversed(waiting):
            state._known = known = after_update(known, update)
        return known

    def entries(self) -> list[Json]:
        """As they stand in the metadata of an object."""
        return [manager.entry() for manager in sorted(self.managers(), key=_order)]

    def __bool__(self) -> bool:
        return bool(self._known)


NOBODY: Final = ManagedFields(())


def plain_json(value: Any) -> Any:
    """For encoders: managed fields as they are shown."""
    if isinstance(value, ManagedFields):
        return value.entries()
    raise TypeError(f"objects of type {type(value)} are no JSON")


def managed_fields_of(obj: Json) -> ManagedFields:
    """The managed fields of a stored object; a process that ended has left them as text."""
    found = obj["metadata"].get("managedFields")
    if isinstance(found, ManagedFields):
        return found
    try:
        return ManagedFields(decoded(found or ()))
    except ValueError:
        return NOBODY


def decoded(entries: Iterable[Any]) -> Managers:
    """The managers that metadata shows. Raises ValueError if it shows something else."""
    found: dict[tuple[str, str, str, str], Manager] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError("expected a map")  # noqa: TRY004
        if entry.get("operation") not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        if not entry.get("apiVersion"):
            raise ValueError("apiVersion must not be empty")
        if entry.get("fieldsType") != FIELDS_V1:
            raise ValueError("fieldsType must be FieldsV1")
        manager = Manager(
            entry.get("manager") or "",
            entry["operation"],
            entry["apiVersion"],
            entry.get("time") or "",
            field_set(from_fields_v1(entry.get("fieldsV1") or {})),
            entry.get("subresource") or "",
        )
        found[manager.identity] = manager
    return tuple(found.values())


def live_or_given(live: ManagedFields, given: Any) -> ManagedFields:
    """The managers that an update starts from: those it gives, if it does and they can be read.

    An empty list, or one empty entry, says that there shall be none.
    """
    if not isinstance(given, list):
        return live
    if given in ([], [{}]):
        return NOBODY
    try:
        managers = decoded(given)
    except ValueError:
        return live
    return live if set(managers) == set(live.managers()) else ManagedFields(managers)


def tracked_parts(obj: Json, subresource: str, *, has_status: bool) -> Json:
    """Parts of an object that a request can set: its status by the subresource of that name and only so.

    A scale of zero is one without replicas.
    """
    if subresource == "scale":
        replicas = (obj.get("spec") or {}).get("replicas")
        return {"spec": {"replicas": replicas} if replicas else {}}
    if subresource == "status":
        parts = {"status": obj["status"]} if "status" in obj else {}
        return {**parts, "metadata": _tracked_metadata(obj)}
    parts = {part: value for part, value in obj.items() if part not in _NOT_TRACKED}
    if has_status:
        parts.pop("status", None)
    parts["metadata"] = _tracked_metadata(obj)
    return parts


def _tracked_metadata(obj: Json) -> Json:
    metadata = obj.get("metadata") or {}
    return {field: value for field, value in metadata.items() if field not in _NOT_TRACKED_METADATA}


def without_shared_parts(old: Json, new: Json) -> tuple[Json, Json]:
    """Two objects without the parts in which they are equal."""
    shared = [part for part, value in new.items() if part in old and old[part] == value]
    if not shared:
        return old, new
    return (
        {part: value for part, value in old.items() if part not in shared},
        {part: value for part, value in new.items() if part not in shared},
    )


def after_update(managers: Managers, update: Update) -> Managers:
    """The managers after a write."""
    return _handed_over(managers, update, *compare(update.shape, update.old, update.new))


def _handed_over(managers: Managers, update: Update, changed: Tree, removed: Tree) -> Managers:
    """The managers after a write: the writer owns the changes, and removed fields have no owner."""
    if not changed and not removed:
        return managers
    me = (update.manager, UPDATE, update.api_version, update.subresource)
    result: list[Manager] = []
    mine: Manager | None = None
    for manager in managers:
        if manager.identity == me:
            mine = manager.with_tree(difference(manager.fields.tree, removed))
            continue
        left = manager.with_tree(difference(difference(manager.fields.tree, changed), removed))
        if left.fields.tree:
            result.append(left)
    if changed:
        owned = changed if mine is None else union(mine.fields.tree, changed)
        fields = mine.fields if mine is not None and owned is mine.fields.tree else field_set(owned)
        result.append(
            Manager(update.manager, UPDATE, update.api_version, update.time, fields, update.subresource)
        )
    elif mine is not None and mine.fields.tree:
        result.append(mine)
    return _capped(result)


def _capped(managers: list[Manager]) -> Managers:
    """Limit the number of updaters: the oldest become one."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    excess = len(updaters) - _MAX_UPDATERS
    if excess <= 0:
        return tuple(managers)
    updaters.sort(key=lambda manager: (manager.time, manager.name))
    oldest = updaters[: excess + 1]
    tree: Tree = {}
    for manager in oldest:
        tree = union(tree, manager.fields.tree)
    last = oldest[-1]
    bucket = Manager(ANCIENT_CHANGES, UPDATE, last.api_version, last.time, field_set(tree))
    return (*(manager for manager in managers if manager not in oldest), bucket)


_CREATED: Final[dict[tuple[str, bytes], FieldSet]] = {}
_MAX_CREATED: Final = 1024
_LONGEST_KEY: Final = 16 * 1024
_encode: Final = msgspec.json.Encoder().encode


def after_creation(
    type_: ObjectType,
    obj: Json,
    manager: str,
    stamp: str,
    *,
    has_status: bool,
    given: Any = None,
    at_once: bool = True,
) -> ManagedFields:
    """The managed fields of a new object.

    They are computed at once if admission goes on to change the object. Objects with equal fields, as pods
    made from one template, share them.
    """
    parts = tracked_parts(obj, "", has_status=has_status)
    if not at_once:
        zero = tracked_parts(zero_object(type_), "", has_status=has_status)
        return NOBODY.after(Update(manager, obj["apiVersion"], stamp, "", shape_of(type_), zero, parts))
    text = _encode(parts)
    key = ("" if type_ is None else type_.full_name, text)
    fields = _CREATED.get(key)
    if fields is None:
        zero = tracked_parts(zero_object(type_), "", has_status=has_status)
        fields = field_set(compare(shape_of(type_), zero, parts)[0])
        if len(text) < _LONGEST_KEY:
            if len(_CREATED) >= _MAX_CREATED:
                _CREATED.clear()
            _CREATED[key] = fields
    start = live_or_given(NOBODY, given)
    if start is NOBODY:
        own = Manager(manager, UPDATE, obj["apiVersion"], stamp, fields)
        return ManagedFields((own,)) if fields.tree else NOBODY
    update = Update(manager, obj["apiVersion"], stamp, "", shape_of(type_), {}, parts)
    return ManagedFields(_handed_over(start.managers(), update, fields.tree, {}))


def after_change(
    type_: ObjectType,
    old: Json,
    new: Json,
    by: tuple[str, str, str],
    *,
    has_status: bool,
    given: Any = None,
) -> ManagedFields:
    """The managed fields after an update or a patch by a manager, at a time, of a subresource.

    An object that has no managers gets none by being updated. A status is not changed by admission, so what
    its update means can wait.
    """
    manager, stamp, subresource = by
    live = managed_fields_of(old)
    start = live_or_given(live, given)
    if not start:
        return start
    before = tracked_parts(old, subresource, has_status=has_status)
    after = tracked_parts(new, subresource, has_status=has_status)
    before, after = without_shared_parts(before, after)
    if not before and not after:
        return start
    shape = shape_of(type_)
    when = "" if subresource == "scale" else stamp
    update = Update(manager, new["apiVersion"], when, subresource, shape, before, after)
    if subresource == "status":
        return start.after(update)
    managers = start.managers()
    now = after_update(managers, update)
    return start if now == managers else ManagedFields(now)
