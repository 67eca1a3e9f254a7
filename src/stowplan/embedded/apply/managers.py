"""Who manages which fields of an object."""

from typing import Any, Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.embedded.apply.paths import Path, as_tree, form_of, from_tree, paths_of, values_of
from stowplan.embedded.schema import TypeDef

APPLY: Final = "Apply"
UPDATE: Final = "Update"
BEFORE: Final = "before-first-apply"


class Managed(NamedTuple):
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
            "fieldsV1": as_tree(self.paths),
        }
        return {**shown, "subresource": self.subresource} if self.subresource else shown


def read(obj: Json) -> list[Managed]:
    """The managers of an object."""
    return [_read(entry) for entry in obj["metadata"].get("managedFields") or ()]


def _read(entry: Json) -> Managed:
    return Managed(
        entry.get("manager", ""),
        entry.get("operation", UPDATE),
        entry.get("apiVersion", ""),
        entry.get("time", ""),
        frozenset(path for path in from_tree(entry.get("fieldsV1") or {}) if path),
        entry.get("subresource", ""),
    )


def written(managers: list[Managed]) -> list[Json]:
    return [managed.entry() for managed in managers if managed.paths]


def everything_there(type_: TypeDef | None, obj: Json) -> list[Managed]:
    """Who manages an object that nobody applied yet: somebody without a name."""
    paths = frozenset(paths_of(form_of(type_), obj))
    return [Managed(BEFORE, UPDATE, obj["apiVersion"], obj["metadata"]["creationTimestamp"], paths)]


def after_update(
    type_: TypeDef | None, old: Json, new: Json, manager: str, stamp: str, subresource: str = ""
) -> list[Json]:
    """The managed fields when somebody has changed an object in another way than by applying it.

    What was changed is that somebody's; what is gone is nobody's.
    """
    form = form_of(type_)
    before, after = values_of(form, old), values_of(form, new)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    managers = read(old)
    if not changed and not gone:
        return written(managers)
    me = (manager, UPDATE, subresource)
    kept = [
        managed if managed.identity == me else managed._replace(paths=managed.paths - changed - gone)
        for managed in managers
    ]
    mine: frozenset[Path] = next((m.paths for m in kept if m.identity == me), frozenset())
    others: list[Any] = [managed for managed in kept if managed.identity != me]
    paths = (mine - gone) | changed
    return written([*others, Managed(manager, UPDATE, new["apiVersion"], stamp, paths, subresource)])
