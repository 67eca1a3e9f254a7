"""What a request to an API server can say besides the object itself: which objects, which kind of patch."""

from enum import Enum
from typing import Any, Final

import msgspec

from stowplan.api.fieldselector import FieldTerm, parse_field_selector
from stowplan.api.labels import EVERYTHING, Selector, parse_selector

Json = dict[str, Any]
"""An object as JSON has it, with every field it came with. Who did not make it must not change it."""


class PatchType(Enum):
    """How a patch is meant; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Selection(msgspec.Struct, frozen=True):
    """Which objects are meant: by their labels and by some of their fields."""

    labels: Selector = EVERYTHING
    fields: tuple[FieldTerm, ...] = ()

    @classmethod
    def parse(cls, labels: str = "", fields: str = "") -> "Selection":
        """Read selectors as they stand in a URL. Raises `SelectorError`."""
        return cls(parse_selector(labels), parse_field_selector(fields))

    @property
    def is_empty(self) -> bool:
        """Whether every object is selected."""
        return self.labels.is_empty and not self.fields

    @property
    def label_text(self) -> str:
        return str(self.labels)

    @property
    def field_text(self) -> str:
        return ",".join(map(str, self.fields))


EVERY_OBJECT: Final = Selection()


class DeleteOptions(msgspec.Struct, frozen=True):
    """How to delete: how much time the object is given, and which object exactly is meant.

    Without a grace period the object's own one counts. `propagation` says what becomes of objects that this
    one owns: they go afterwards (`Background` or nothing), first (`Foreground`), or stay (`Orphan`).
    """

    grace_period_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""


ORDINARY_DELETION: Final = DeleteOptions()
