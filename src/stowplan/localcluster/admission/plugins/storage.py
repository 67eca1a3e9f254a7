"""Plugins about storage: DefaultStorageClass, PersistentVolumeClaimResize, StorageObjectInUseProtection."""

from collections.abc import Callable
from typing import Final

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from stowplan.api.quantity import quantity_of
from stowplan.api.requests import Json
from stowplan.localcluster.admission.refusals import forbidden
from stowplan.localcluster.store.registry import Lookup

_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def default_storage_class(lookup: Lookup, claim: Json) -> None:
    """A claim that names no class gets the default one; of several the youngest."""
    if "storageClassName" in claim["spec"] or _CLASS_ANNOTATION in (
        claim["metadata"].get("annotations") or {}
    ):
        return
    defaults = [found for found in lookup.all(STORAGE_CLASSES) if _is_default(found)]
    if defaults:
        defaults.sort(key=lambda found: found["metadata"]["name"])
        youngest = max(defaults, key=lambda found: str(found["metadata"]["creationTimestamp"]))
        claim["spec"]["storageClassName"] = youngest["metadata"]["name"]


def _is_default(storage_class: Json) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)


def check_resize(lookup: Lookup, old: Json, new: Json) -> None:
    """A claim grows only if its class allows it."""
    before, after = _requested(old), _requested(new)
    if before is None or after is None or quantity_of(after) <= quantity_of(before):
        return
    name = new["metadata"]["name"]
    of_class = (old.get("spec") or {}).get("storageClassName") or ""
    found = lookup.find(STORAGE_CLASSES, "", of_class) if of_class else None
    if (new.get("status") or {}).get("phase") != "Bound" and (old.get("status") or {}).get(
        "phase"
    ) != "Bound":
        raise forbidden(PERSISTENT_VOLUME_CLAIMS, name, "Only bound persistent volume claims can be expanded")
    if found is None or not found.get("allowVolumeExpansion"):
        raise forbidden(
            PERSISTENT_VOLUME_CLAIMS,
            name,
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
            "must support resize",
        )


def _requested(claim: Json) -> str | None:
    spec = claim.get("spec") or {}
    amount: str | None = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return amount


def in_use_protection(finalizer: str) -> Callable[[Lookup, Json], None]:
    """Objects that are not to go while they are in use."""

    def guard(lookup: Lookup, obj: Json) -> None:
        held = obj["metadata"].get("finalizers") or []
        if finalizer not in held:
            obj["metadata"]["finalizers"] = [*held, finalizer]

    return guard
