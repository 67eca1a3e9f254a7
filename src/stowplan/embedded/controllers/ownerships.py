"""What becomes of an object when some of its owners are gone or about to go."""

from collections.abc import Set
from enum import Enum, auto
from typing import Final

from stowplan.api.requests import Json
from stowplan.embedded.controllers.objects import owners_of, uid_of

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


class Fate(Enum):
    """What is to be done with an object."""

    STAY = auto()
    DISOWN = auto()
    DELETE = auto()
    DELETE_IN_FOREGROUND = auto()


def fate_of(obj: Json, gone: Set[str], waiting: Set[str], has_dependents: bool) -> Fate:
    """An object stays as long as one owner does; owners that wait for it to go want it to go first.

    `gone` and `waiting` are uids of owners: those that do not exist, and those being deleted in the
    foreground.
    """
    uids = {one.get("uid", "") for one in owners_of(obj)}
    lost = uids & (gone | waiting)
    if not lost:
        return Fate.STAY
    if uids - lost:
        return Fate.DISOWN
    if uids & waiting and has_dependents:
        return Fate.DELETE_IN_FOREGROUND
    return Fate.DELETE


def blocking(obj: Json, owner: Json) -> bool:
    """Whether an owner has to wait for an object to go."""
    return any(one.get("uid") == uid_of(owner) and one.get("blockOwnerDeletion") for one in owners_of(obj))
