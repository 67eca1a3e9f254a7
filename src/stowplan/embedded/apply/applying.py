"""Applying what one manager wants to what is there."""

from typing import Any, NamedTuple

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.apply.managers import APPLY, Managed, everything_there, read, written
from stowplan.embedded.apply.paths import Path, as_tree, form_of, merged, values_of, without
from stowplan.embedded.schema import Field, TypeDef
from stowplan.gocompat.quoting import quote


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
    told = values_of(form, wanted)
    paths = frozenset(told)
    mine = Managed(by.manager, APPLY, resource.api_version, by.stamp, paths, by.subresource)
    if live is None:
        return Applied(wanted, written([mine]))
    managers = read(live) or everything_there(type_, live)
    before = next((m.paths for m in managers if m.identity == mine.identity), frozenset())
    others = [m for m in managers if m.identity != mine.identity]
    contested = _contested(values_of(form, live), told, others)
    if contested and not by.force:
        raise _conflict(contested)
    others = [m._replace(paths=m.paths - _taken(contested, m)) for m in others]
    result: Json = merged(Field("", form), live, wanted)
    let_go = before - paths - _owned(others, paths)
    if let_go:
        result = without(Field("", form), result, as_tree(let_go))
    same = next((m for m in managers if m.identity == mine.identity and m.paths == paths), None)
    return Applied(result, written([*others, same or mine]))


def _contested(
    live: dict[Path, Any], wanted: dict[Path, Any], others: list[Managed]
) -> list[tuple[Managed, Path]]:
    """Fields that others manage and that would get another value."""
    found: list[tuple[Managed, Path]] = []
    for other in others:
        shared = sorted(path for path in other.paths if path in wanted and path[-1][0] == "f")
        found += [(other, path) for path in shared if live.get(path) != wanted[path]]
    return found


def _owned(others: list[Managed], paths: frozenset[Path]) -> set[Path]:
    """Everything that somebody still wants, and everything on the way to it."""
    found: set[Path] = set()
    for wanted in (paths, *(other.paths for other in others)):
        for path in wanted:
            found.update(path[:length] for length in range(1, len(path) + 1))
    return found


def _taken(contested: list[tuple[Managed, Path]], other: Managed) -> set[Path]:
    return {path for managed, path in contested if managed is other}


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
