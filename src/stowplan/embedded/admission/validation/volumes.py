"""Volumes, claims, storage classes."""

from collections.abc import Iterator
from typing import Final

from stowplan.api.fielderrors import FieldError, not_supported, required
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation.amounts import amount_errors

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIMS: Final = ("Delete", "Recycle", "Retain")
_BINDINGS: Final = ("Immediate", "WaitForFirstConsumer")


def volume_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_mode_errors(spec)]
    if not spec.get("capacity"):
        errors.append(required("spec.capacity"))
    errors += amount_errors(spec.get("capacity"), "spec.capacity")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIMS:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy or "", _RECLAIMS))
    return errors


def claim_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_mode_errors(spec)]
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        errors.append(required("spec.resources[storage]"))
    errors += amount_errors(requests, "spec.resources.requests")
    return errors


def storage_class_errors(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    if not obj.get("provisioner"):
        errors.append(required("provisioner"))
    if obj.get("reclaimPolicy") not in _RECLAIMS:
        errors.append(not_supported("reclaimPolicy", obj.get("reclaimPolicy") or "", ["Delete", "Retain"]))
    if obj.get("volumeBindingMode") not in _BINDINGS:
        errors.append(not_supported("volumeBindingMode", obj.get("volumeBindingMode") or "", _BINDINGS))
    return errors


def _mode_errors(spec: Json) -> Iterator[FieldError]:
    modes = spec.get("accessModes")
    if not modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes or ():
        if mode not in _MODES:
            yield not_supported("spec.accessModes", mode, _MODES)
