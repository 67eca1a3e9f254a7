"""Validation of objects by API group. All errors of an object are reported at once."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, Resource
from stowplan.api.fielderrors import FieldError
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation import (
    autoscaling,
    controlplane,
    core,
    devices,
    events,
    networking,
    pods,
    rbac,
    scheduling,
    storage,
    workloads,
)
from stowplan.embedded.admission.validation.meta import metadata_errors
from stowplan.embedded.customresources.definitions import definition_errors, definition_update_errors
from stowplan.embedded.customresources.versions import ServedVersion

__all__ = ["check_created", "check_status", "check_updated"]

_GROUPS: Final = (
    core,
    pods,
    workloads,
    autoscaling,
    storage,
    scheduling,
    networking,
    rbac,
    devices,
    controlplane,
    events,
)
_ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    resource: rules for group in _GROUPS for resource, rules in group.ALWAYS.items()
}
_ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    **{resource: rules for group in _GROUPS for resource, rules in group.ON_UPDATE.items()},
    CUSTOM_RESOURCE_DEFINITIONS: definition_update_errors,
}


_ON_CREATE: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    CUSTOM_RESOURCE_DEFINITIONS: definition_errors
}


def check_created(resource: Resource, obj: Json, custom: ServedVersion | None = None) -> None:
    """Raises `ApiError` 422 if a new object is invalid. `custom` is what a definition says of it."""
    rules = _ON_CREATE.get(resource)
    errors = metadata_errors(resource, obj["metadata"])
    if rules is not None:
        errors += rules(obj)
    if custom is not None:
        errors += custom.errors(obj, None, "")
    _check(resource, obj, errors)


def check_status(resource: Resource, old: Json, new: Json, custom: ServedVersion | None = None) -> None:
    """Raises `ApiError` 422 if a status is invalid."""
    if custom is not None:
        errors = custom.errors({**old, "status": new.get("status")}, old, "status")
        if errors:
            raise status.invalid(resource, old["metadata"]["name"], errors)


def check_updated(
    resource: Resource, old: Json, new: Json, subresource: str = "", custom: ServedVersion | None = None
) -> None:
    """Raises `ApiError` 422 if an object is invalid, or what must not change has changed."""
    rules = _ON_UPDATE.get(resource)
    errors = metadata_errors(resource, new["metadata"])
    if rules is not None:
        errors += rules(old, new)
    if custom is not None:
        errors += custom.errors(new, old, subresource)
    _check(resource, new, errors)


def _check(resource: Resource, obj: Json, errors: list[FieldError]) -> None:
    rules = _ALWAYS.get(resource)
    if rules is not None:
        errors += rules(obj)
    if errors:
        raise status.invalid(resource, obj["metadata"].get("name", ""), errors)
