"""Applying what one manager wants to what is there."""

from typing import NamedTuple

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import quote
from stowplan.api.requests import Json
from stowplan.embedded.apply.managers import APPLY, Managed, everything_there, read, written
from stowplan.embedded.apply.paths import Path, form_of, merged, paths_of, removed, value_at
from stowplan.embedded.schema import Field, Form, TypeDef


class Applied(NamedTuple):
    """The object as it is to be, and its managed fields."""

    object: Json
    managed: list[Json]


class Applier(NamedTuple):
    """Who applies, when, and whether they take what is not theirs."""

    manager: str
    stamp: str
    force: bool = False
    subresource: str = ""


def applied(
    resource: Resource, type_: TypeDef | None, live: Json | None, wanted: Json, by: Applier
) -> Applied:
    """What one manager wants, laid over what is there.

    What the manager wanted before and does not want now goes, unless somebody else wants it too.
    Raises `ApiError` 409 if that would change what others manage, and it is not forced.
    """
    form = form_of(type_)
    paths = frozenset(paths_of(form, wanted))
    mine = Managed(by.manager, APPLY, resource.api_version, by.stamp, paths, by.subresource)
    if live is None:
        return Applied(wanted, written([mine]))
    managers = read(live) or everything_there(type_, live)
    before = next((m.paths for m in managers if m.identity == mine.identity), frozenset())
    others = [m for m in managers if m.identity != mine.identity]
    contested = _contested(form, live, wanted, paths, others)
    if contested and not by.force:
        raise _conflict(contested)
    others = [m._replace(paths=m.paths - _taken(contested, m)) for m in others]
    result: Json = merged(Field("", form), live, wanted)
    for path in sorted(before - paths, key=len):
        if not any(path in m.paths or _within(m.paths, path) for m in others) and not _within(paths, path):
            result = removed(form, result, path)
    same = next((m for m in managers if m.identity == mine.identity and m.paths == paths), None)
    return Applied(result, written([*others, same or mine]))


def _contested(
    form: Form, live: Json, wanted: Json, paths: frozenset[Path], others: list[Managed]
) -> list[tuple[Managed, Path]]:
    """Fields that others manage and that would get another value."""
    found: list[tuple[Managed, Path]] = []
    for other in others:
        for path in sorted(paths & other.paths):
            if path[-1][0] != "f":
                continue
            if value_at(form, live, path) != value_at(form, wanted, path):
                found.append((other, path))
    return found


def _taken(contested: list[tuple[Managed, Path]], other: Managed) -> set[Path]:
    return {path for managed, path in contested if managed is other}


def _within(paths: frozenset[Path], outer: Path) -> bool:
    """Whether something below a path is among others."""
    return any(len(path) > len(outer) and path[: len(outer)] == outer for path in paths)


def _conflict(contested: list[tuple[Managed, Path]]) -> status.ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_shown(other)}",
            "field": _dotted(path),
        }
        for other, path in contested
    ]
    count = len(causes)
    managers = list(dict.fromkeys(_shown(other) for other, _ in contested))
    if len(managers) == 1:
        text = f"conflict with {managers[0]}: {', '.join(str(cause['field']) for cause in causes)}"
        if count > 1:
            text = f"conflicts with {managers[0]}:\n" + "\n".join(f"- {cause['field']}" for cause in causes)
    else:
        parts = []
        for manager in managers:
            fields = "\n".join(f"- {_dotted(path)}" for other, path in contested if _shown(other) == manager)
            parts.append(f"conflicts with {manager}:\n{fields}")
        text = "\n".join(parts)
    several = "conflict" if count == 1 else "conflicts"
    message = f"Apply failed with {count} {several}: {text}"
    return status.ApiError(409, "Conflict", message, {"causes": causes})


def _shown(managed: Managed) -> str:
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
