"""Services of a store for clients of an API server besides keeping objects: Go's form, and managed fields.

A store that only components of this process use does without it.
"""

from typing import Any

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apply import (
    Applier,
    ApplyResult,
    ManagedFields,
    ObjectType,
    after_change,
    after_creation,
    apply_configuration,
)
from stowplan.localcluster.schema import TypeDef, the_schema
from stowplan.localcluster.schema.goform import as_written
from stowplan.localcluster.store.definitions import Definitions
from stowplan.localcluster.store.objects import with_metadata
from stowplan.localcluster.store.writer import WriteContext


class FieldManager:
    """Brings objects into the form in which Go writes them, and tracks who manages which of their fields."""

    def __init__(self) -> None:
        self._types: dict[Resource, TypeDef | None] = {}
        self.definitions: Definitions | None = None
        """Definitions of custom resources."""

    def type_of(self, resource: Resource) -> ObjectType:
        """Type of the fields of a resource's objects."""
        if resource.custom:
            custom = None if self.definitions is None else self.definitions.version_of(resource)
            return None if custom is None else custom.shape
        if resource not in self._types:
            self._types[resource] = the_schema().of_kind(resource.group, resource.version, resource.kind)
        return self._types[resource]

    def written(self, resource: Resource, obj: Json, old: Json | None = None) -> Json:
        """The object in Go's form; what it shares with an old one is in that form already."""
        return as_written(self.type_of(resource), obj, old)

    def created(
        self, resource: Resource, obj: Json, by: WriteContext, stamp: str, given: Any
    ) -> ManagedFields:
        """The managed fields of a new object, before admission changes it."""
        if by.served is not None:
            resource, obj = by.served.resource, by.served.to_served(obj)
        return after_creation(
            self.type_of(resource),
            obj,
            by.field_manager,
            stamp,
            has_status=resource.status,
            given=given,
            at_once=resource.lifetime is None,
        )

    def changed(
        self,
        resource: Resource,
        old: Json,
        new: Json,
        by: WriteContext,
        stamp: str,
        subresource: str = "",
        given: Any = None,
    ) -> ManagedFields:
        """The managed fields of an object that replaces another; `given` are those in the request."""
        if by.served is not None:
            resource, old, new = by.served.resource, by.served.to_served(old), by.served.to_served(new)
        return after_change(
            self.type_of(resource),
            old,
            new,
            (by.field_manager, stamp, subresource),
            has_status=resource.status,
            given=None if subresource else given,
        )

    def applied(
        self, resource: Resource, old: Json | None, wanted: Json, applier: Applier, by: WriteContext
    ) -> ApplyResult:
        """Result of applying a configuration to an object."""
        served = by.served
        if served is None:
            type_ = self.type_of(resource)
            return apply_configuration(type_, old, wanted, applier, has_status=resource.status)
        type_, before = self.type_of(served.resource), None if old is None else served.to_served(old)
        result = apply_configuration(type_, before, wanted, applier, has_status=resource.status)
        return result._replace(object=served.to_stored(result.object))


def with_managed_fields(obj: Json, managed: ManagedFields) -> Json:
    """The object with its managed fields; without any if it has no managers."""
    return with_metadata(obj, managedFields=managed) if managed else without_managed_fields(obj)


def without_managed_fields(obj: Json) -> Json:
    if "managedFields" not in obj["metadata"]:
        return obj
    metadata = {field: value for field, value in obj["metadata"].items() if field != "managedFields"}
    return {**obj, "metadata": metadata}
