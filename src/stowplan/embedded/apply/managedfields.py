"""Managed fields: who manages which fields of an object, after an update and after server-side apply."""

from typing import Any, Final, NamedTuple

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.apply.fieldset import (
    Path,
    form_of,
    from_fields_v1,
    merged,
    paths_of,
    to_fields_v1,
    values_of,
    without,
)
from stowplan.embedded.schema import Field, TypeDef
from stowplan.gocompat.quoting import quote

APPLY: Final = "Apply"
UPDATE: Final = "Update"
BEFORE_FIRST_APPLY: Final = "before-first-apply"


class Manager(NamedTuple):
    """One manager's fields."""

    manager: str
    operation: str
    api_version: str
    time: str
    paths: frozenset[Path]
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.manager, self.operation, self.subresource

    def entry(self) -> Json:
        """As it stands in the metadata of an object."""
        shown = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(self.paths),
        }
        return {**shown, "subresource": self.subresource} if self.subresource else shown


def managers_of(obj: Json) -> list[Manager]:
    """The managers of an object."""
    return [_manager_from(entry) for entry in obj["metadata"].get("managedFields") or ()]


def _manager_from(entry: Json) -> Manager:
    return Manager(
        entry.get("manager", ""),
        entry.get("operation", UPDATE),
        entry.get("apiVersion", ""),
        entry.get("time", ""),
        frozenset(path for path in from_fields_v1(entry.get("fieldsV1") or {}) if path),
        entry.get("subresource", ""),
    )


def entries_of(managers: list[Manager]) -> list[Json]:
    return [managed.entry() for managed in managers if managed.paths]


def before_first_apply(type_: TypeDef | None, obj: Json) -> list[Manager]:
    """Who manages an object that nobody applied yet: somebody without a name."""
    paths = frozenset(paths_of(form_of(type_), obj))
    return [
        Manager(BEFORE_FIRST_APPLY, UPDATE, obj["apiVersion"], obj["metadata"]["creationTimestamp"], paths)
    ]


def managed_after_update(
    type_: TypeDef | None, old: Json, new: Json, manager: str, stamp: str, subresource: str = ""
) -> list[Json]:
    """The managed fields when somebody has changed an object in another way than by applying it.

    What was changed is that somebody's; what is gone is nobody's.
    """
    form = form_of(type_)
    before, after = values_of(form, old), values_of(form, new)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    managers = managers_of(old)
    if not changed and not gone:
        return entries_of(managers)
    me = (manager, UPDATE, subresource)
    kept = [
        managed if managed.identity == me else managed._replace(paths=managed.paths - changed - gone)
        for managed in managers
    ]
    mine: frozenset[Path] = next((m.paths for m in kept if m.identity == me), frozenset())
    others: list[Any] = [managed for managed in kept if managed.identity != me]
    paths = (mine - gone) | changed
    return entries_of([*others, Manager(manager, UPDATE, new["apiVersion"], stamp, paths, subresource)])


class ApplyResult(NamedTuple):
    """The object as it is to be, and its managed fields."""

    object: Json
    managed: list[Json]


class ApplyOptions(NamedTuple):
    """Who applies, when, and whether they take what is not theirs."""

    manager: str
    stamp: str
    force: bool = False
    subresource: str = ""


def apply_configuration(
    resource: Resource, type_: TypeDef | None, live: Json | None, wanted: Json, by: ApplyOptions
) -> ApplyResult:
    """What one manager wants, laid over what is there.

    What the manager wanted before and does not want now goes, unless somebody else wants it too.
    Raises `ApiError` 409 if that would change what others manage, and it is not forced.
    """
    form = form_of(type_)
    values = values_of(form, wanted)
    paths = frozenset(values)
    mine = Manager(by.manager, APPLY, resource.api_version, by.stamp, paths, by.subresource)
    if live is None:
        return ApplyResult(wanted, entries_of([mine]))
    managers = managers_of(live) or before_first_apply(type_, live)
    before = next((m.paths for m in managers if m.identity == mine.identity), frozenset())
    others = [m for m in managers if m.identity != mine.identity]
    contested = _conflicts(values_of(form, live), values, others)
    if contested and not by.force:
        raise _conflict_error(contested)
    others = [m._replace(paths=m.paths - _taken_from(contested, m)) for m in others]
    result: Json = merged(Field("", form), live, wanted)
    let_go = before - paths - _still_managed(others, paths)
    if let_go:
        result = without(Field("", form), result, to_fields_v1(let_go))
    same = next((m for m in managers if m.identity == mine.identity and m.paths == paths), None)
    return ApplyResult(result, entries_of([*others, same or mine]))


def _conflicts(
    live: dict[Path, Any], wanted: dict[Path, Any], others: list[Manager]
) -> list[tuple[Manager, Path]]:
    """Fields that others manage and that would get another value."""
    found: list[tuple[Manager, Path]] = []
    for other in others:
        shared = sorted(path for path in other.paths if path in wanted and path[-1][0] == "f")
        found += [(other, path) for path in shared if live.get(path) != wanted[path]]
    return found


def _still_managed(others: list[Manager], paths: frozenset[Path]) -> set[Path]:
    """Everything that somebody still wants, and everything on the way to it."""
    found: set[Path] = set()
    for wanted in (paths, *(other.paths for other in others)):
        for path in wanted:
            found.update(path[:length] for length in range(1, len(path) + 1))
    return found


def _taken_from(contested: list[tuple[Manager, Path]], other: Manager) -> set[Path]:
    return {path for managed, path in contested if managed is other}


def _conflict_error(contested: list[tuple[Manager, Path]]) -> status.ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_describe(other)}",
            "field": _dotted(path),
        }
        for other, path in contested
    ]
    count = len(causes)
    managers = list(dict.fromkeys(_describe(other) for other, _ in contested))
    if len(managers) == 1:
        text = f"conflict with {managers[0]}: {', '.join(str(cause['field']) for cause in causes)}"
        if count > 1:
            text = f"conflicts with {managers[0]}:\n" + "\n".join(f"- {cause['field']}" for cause in causes)
    else:
        parts = []
        for manager in managers:
            fields = "\n".join(
                f"- {_dotted(path)}" for other, path in contested if _describe(other) == manager
            )
            parts.append(f"conflicts with {manager}:\n{fields}")
        text = "\n".join(parts)
    several = "conflict" if count == 1 else "conflicts"
    message = f"Apply failed with {count} {several}: {text}"
    return status.ApiError(409, "Conflict", message, {"causes": causes})


def _describe(managed: Manager) -> str:
    if managed.operation == APPLY:
        return quote(managed.manager)
    via = f" with subresource {quote(managed.subresource)}" if managed.subresource else ""
    return f"{quote(managed.manager)}{via} using {managed.api_version}"


def _dotted(path: Path) -> str:
    shown = ""
    for step in path:
        if step.startswith("f:"):
            shown += f".{step[2:]}"
        elif step.startswith("k:"):
            keys = step[3:-1].split(",")
            shown += "[" + ",".join(key.replace('"', "", 2).replace(":", "=", 1) for key in keys) + "]"
        else:
            shown += f"[={step[2:]}]"
    return shown
