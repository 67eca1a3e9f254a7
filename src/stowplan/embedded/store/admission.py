"""Who has a say in what is written: rules of a cluster that are not the store's own."""

from typing import Protocol

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json


class Lookup(Protocol):
    """What rules may want to know of other objects."""

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def all(self, resource: Resource) -> list[Json]: ...


class Admission(Protocol):
    """Fills in and judges objects before they are written; a refusal is an `ApiError`.

    The object that is to be written belongs to the store alone and may be changed in place (but not if it
    is for a subresource); the old one must not be.
    """

    def creating(self, lookup: Lookup, resource: Resource, obj: Json) -> None: ...

    def replacing(
        self, lookup: Lookup, resource: Resource, old: Json, new: Json, subresource: str
    ) -> None: ...

    def deleting(self, lookup: Lookup, resource: Resource, obj: Json) -> None: ...
