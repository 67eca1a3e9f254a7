"""The status of a CustomResourceDefinition: its conditions, its names, the versions it has stored."""

from collections.abc import Iterable
from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that holds a definition until its objects are gone."""

ESTABLISHED: Final = "Established"
NAMES_ACCEPTED: Final = "NamesAccepted"
TERMINATING: Final = "Terminating"


def versions_of(definition: Json) -> list[Json]:
    return (definition.get("spec") or {}).get("versions") or []


def storage_version(definition: Json) -> str:
    """The name of the version that objects are stored in."""
    return next((one.get("name", "") for one in versions_of(definition) if one.get("storage")), "")


def initial_status(definition: Json) -> Json:
    """The status of a new definition: nothing is accepted yet."""
    stored = storage_version(definition)
    return {
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": None,
        "storedVersions": [stored] if stored else None,
    }


def with_stored_version(definition: Json) -> Json:
    """The definition with its storage version among those that objects may be stored in."""
    stored, status = storage_version(definition), definition.get("status") or {}
    known = status.get("storedVersions") or []
    if not stored or stored in known:
        return definition
    return {**definition, "status": {**status, "storedVersions": [*known, stored]}}


def condition_of(definition: Json, type_: str) -> Json | None:
    found = (definition.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one.get("type") == type_), None)


def is_true(definition: Json, type_: str) -> bool:
    condition = condition_of(definition, type_)
    return condition is not None and condition.get("status") == "True"


def with_crd_condition(definition: Json, new: Json, stamp: str) -> Json:
    """The definition with a condition; its time changes with its value only."""
    status = definition.get("status") or {}
    conditions = [*(status.get("conditions") or ())]
    for i, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            same = old.get("status") == new["status"] and old.get("lastTransitionTime")
            conditions[i] = {"lastTransitionTime": old["lastTransitionTime"] if same else stamp, **new}
            break
    else:
        conditions.append({"lastTransitionTime": stamp, **new})
    return {**definition, "status": {**status, "conditions": conditions}}


def marked_for_deletion(definition: Json, stamp: str) -> Json:
    """A definition that is deleted for the first time: it waits for its objects to go."""
    finalizers = definition["metadata"].get("finalizers") or []
    if CLEANUP not in finalizers:
        finalizers = [*finalizers, CLEANUP]
    metadata = {**definition["metadata"], "deletionTimestamp": stamp, "finalizers": finalizers}
    pending = {
        "type": TERMINATING,
        "status": "True",
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    return with_crd_condition({**definition, "metadata": metadata}, pending, stamp)


def names_after(definition: Json, others: Iterable[Json]) -> tuple[Json, Json]:
    """Accepted names of a definition among the others of its group, and the condition that tells if all are.

    A name that another one has already is not accepted; the rest are.
    """
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        taken = (other.get("status") or {}).get("acceptedNames") or {}
        resources.update(
            (taken.get("plural", ""), taken.get("singular", ""), *(taken.get("shortNames") or ()))
        )
        kinds.update((taken.get("kind", ""), taken.get("listKind", "")))
    wanted = (definition.get("spec") or {}).get("names") or {}
    accepted: Json = {**((definition.get("status") or {}).get("acceptedNames") or {})}
    condition = {
        "type": NAMES_ACCEPTED,
        "status": "True",
        "reason": "NoConflicts",
        "message": "no conflicts found",
    }
    for field, reason, used in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        conflicts = _conflicts(wanted.get(field), accepted.get(field), used)
        if conflicts:
            condition |= {"status": "False", "reason": reason, "message": _together(conflicts)}
        elif wanted.get(field):
            accepted[field] = wanted[field]
        else:
            accepted.pop(field, None)
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    else:
        accepted.pop("categories", None)
    return accepted, condition


def _conflicts(wanted: Any, accepted: Any, used: set[str]) -> list[str]:
    if wanted == accepted or not wanted:
        return []
    mine = accepted if isinstance(accepted, list) else [accepted]
    names = wanted if isinstance(wanted, list) else [wanted]
    return [f"{quote(name)} is already in use" for name in names if name not in mine and name in used]


def _together(errors: list[str]) -> str:
    return errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
