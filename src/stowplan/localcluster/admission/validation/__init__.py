"""Validation of objects by API group. All errors of an object are reported at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, Resource
from stowplan.api.fielderrors import FieldError
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.requests import Json
from stowplan.localcluster.admission.devicefeatures import DeviceFeatures
from stowplan.localcluster.admission.validation import (
    admissionregistration,
    controlplane,
    core,
    events,
    limits,
    networking,
    persistentvolumes,
    rbac,
    scheduling,
    services,
    storage,
)
from stowplan.localcluster.admission.validation.devices import devices
from stowplan.localcluster.admission.validation.meta import metadata_errors
from stowplan.localcluster.admission.validation.pods import pods
from stowplan.localcluster.admission.validation.pods.podupdates import ephemeral_update_errors, resize_errors
from stowplan.localcluster.admission.validation.workloads import autoscaling, jobs, podgroups, workloads
from stowplan.localcluster.customresources.definitions import definition_errors, definition_update_errors
from stowplan.localcluster.customresources.versions import ServedVersion

__all__ = ["check_created", "check_loaded", "check_status", "check_updated"]

_GROUPS: Final = (
    core,
    services,
    limits,
    persistentvolumes,
    pods,
    workloads,
    jobs,
    autoscaling,
    storage,
    scheduling,
    podgroups,
    networking,
    rbac,
    admissionregistration,
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
    **pods.ON_CREATE,
    **jobs.ON_CREATE,
    CUSTOM_RESOURCE_DEFINITIONS: definition_errors,
}
_ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    **pods.ON_STATUS,
    **workloads.ON_STATUS,
    **jobs.ON_STATUS,
    **limits.ON_STATUS,
    **devices.ON_STATUS,
    **podgroups.ON_STATUS,
}
DEVICE_FEATURES: Final = DeviceFeatures.of(DEFAULT_GATES)
"""The optional parts of devices in the default configuration."""
_POD_PARTS: Final = {"ephemeralcontainers": ephemeral_update_errors, "resize": resize_errors}


def check_created(
    resource: Resource,
    obj: Json,
    custom: ServedVersion | None = None,
    optional: DeviceFeatures = DEVICE_FEATURES,
    found: Sequence[FieldError] = (),
) -> None:
    """Raises `ApiError` 422 if a new object is invalid.

    `custom` is what a definition says of it; `optional` are the parts of devices that there are; `found` are
    errors that are known already.
    """
    errors = [*_errors(resource, obj), *found]
    rules = _ON_CREATE.get(resource) or devices.rules_of(optional).on_create.get(resource)
    if rules is not None:
        errors += rules(obj)
    if custom is not None:
        errors += custom.errors(obj, None, "")
    _refuse(resource, obj, errors)


def check_loaded(resource: Resource, obj: Json, optional: DeviceFeatures = DEVICE_FEATURES) -> None:
    """Raises `ApiError` 422 if an object that comes from another cluster is invalid."""
    rules = devices.rules_of(optional).on_load.get(resource)
    _refuse(resource, obj, [*_errors(resource, obj), *(() if rules is None else rules(obj))])


def check_status(resource: Resource, old: Json, new: Json, custom: ServedVersion | None = None) -> None:
    """Raises `ApiError` 422 if a status is invalid."""
    rules = _ON_STATUS.get(resource)
    errors = [] if rules is None else rules(old, new)
    if custom is not None:
        errors += custom.errors({**old, "status": new.get("status")}, old, "status")
    if errors:
        raise status.invalid(resource, old["metadata"]["name"], errors)


def check_updated(
    resource: Resource,
    old: Json,
    new: Json,
    subresource: str = "",
    custom: ServedVersion | None = None,
    optional: DeviceFeatures = DEVICE_FEATURES,
    found: Sequence[FieldError] = (),
) -> None:
    """Raises `ApiError` 422 if an object is invalid, or what must not change has changed."""
    rules = (
        _POD_PARTS.get(subresource)
        or _ON_UPDATE.get(resource)
        or devices.rules_of(optional).on_update.get(resource)
    )
    errors = [*_errors(resource, new), *found]
    if rules is not None:
        errors += rules(old, new)
    if custom is not None:
        errors += custom.errors(new, old, subresource)
    _refuse(resource, new, errors)


def _errors(resource: Resource, obj: Json) -> list[FieldError]:
    errors = metadata_errors(resource, obj["metadata"])
    rules = _ALWAYS.get(resource)
    if rules is not None:
        errors += rules(obj)
    return errors


def _refuse(resource: Resource, obj: Json, errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid(resource, obj["metadata"].get("name", ""), errors)
