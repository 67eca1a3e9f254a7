"""Validation of storage.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation.core import RECLAIM_POLICIES
from stowplan.embedded.admission.validation.meta import IMMUTABLE

_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")


def storage_class_errors(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    if not obj.get("provisioner"):
        errors.append(required("provisioner"))
    if obj.get("reclaimPolicy") not in RECLAIM_POLICIES:
        errors.append(not_supported("reclaimPolicy", obj.get("reclaimPolicy") or "", ["Delete", "Retain"]))
    if obj.get("volumeBindingMode") not in _BINDING_MODES:
        errors.append(not_supported("volumeBindingMode", obj.get("volumeBindingMode") or "", _BINDING_MODES))
    return errors


def storage_class_update_errors(old: Json, new: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("parameters", "provisioner"):
        if (old.get(field) or None) != (new.get(field) or None):
            errors.append(forbidden(field, f"updates to {field} are forbidden."))
    for field in ("reclaimPolicy", "volumeBindingMode"):
        if old.get(field) != new.get(field):
            errors.append(invalid(field, new.get(field), IMMUTABLE))
    return errors


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.STORAGE_CLASSES: storage_class_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.STORAGE_CLASSES: storage_class_update_errors,
}
