"""Validation of objects by API group. All errors of an object are reported at once."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import Resource
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
    resource: rules for group in _GROUPS for resource, rules in group.ON_UPDATE.items()
}


def check_created(resource: Resource, obj: Json) -> None:
    """Raises `ApiError` 422 if a new object is invalid."""
    _check(resource, obj, metadata_errors(resource, obj["metadata"]))


def check_status(resource: Resource, old: Json, new: Json) -> None:
    """Raises `ApiError` 422 if a status is invalid."""


def check_updated(resource: Resource, old: Json, new: Json, subresource: str = "") -> None:
    """Raises `ApiError` 422 if an object is invalid, or what must not change has changed."""
    rules = _ON_UPDATE.get(resource)
    changed = [] if rules is None else rules(old, new)
    _check(resource, new, [*metadata_errors(resource, new["metadata"]), *changed])


def _check(resource: Resource, obj: Json, errors: list[FieldError]) -> None:
    rules = _ALWAYS.get(resource)
    if rules is not None:
        errors += rules(obj)
    if errors:
        raise status.invalid(resource, obj["metadata"].get("name", ""), errors)
