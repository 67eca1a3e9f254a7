"""Small conversions that the builders share."""

from collections.abc import Mapping
from uuid import UUID, uuid5

from stowplan.api.meta import LabelSelector
from stowplan.api.pod import RawQuantity, ResourceList

_UIDS = UUID("5d0a7c0e-6e1c-4c55-9d0c-0d6a4e4f7c11")

Selects = Mapping[str, str] | LabelSelector
"""Which pods are meant: labels they all have, or a selector."""


def uid_of(kind: str, key: str) -> str:
    """A uid that depends on the object's name alone: unique, and the same in every run."""
    return str(uuid5(_UIDS, f"{kind}/{key}"))


def amounts(given: Mapping[str, RawQuantity], named: Mapping[str, RawQuantity]) -> ResourceList:
    """Quantities by resource. `ephemeral_storage` as a keyword stands for `ephemeral-storage`."""
    return {**given, **{name.replace("_", "-"): value for name, value in named.items()}}


def selector_of(selects: Selects) -> LabelSelector:
    return selects if isinstance(selects, LabelSelector) else LabelSelector(match_labels=dict(selects))
