"""Which volume a claim may have, and which of several it gets."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from stowplan.api.labels import Selector, SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.quantity import Quantity, QuantityError, quantity_of
from stowplan.api.requests import Json
from stowplan.embedded.controllers.objects import (
    annotations_of,
    is_deleting,
    labels_of,
    name_of,
    spec_of,
    status_of,
    uid_of,
)

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def class_of(obj: Json) -> str:
    """The name of the class of a claim or a volume."""
    return annotations_of(obj).get(BETA_CLASS) or spec_of(obj).get("storageClassName") or ""


def default_class(classes: Iterable[Json]) -> Json | None:
    """The class of claims that name none: of several the newest."""
    marked = [one for one in classes if annotations_of(one).get(DEFAULT_CLASS) == "true"]
    by_name = sorted(marked, key=name_of)
    return max(by_name, key=lambda one: one["metadata"].get("creationTimestamp", ""), default=None)


def waits_for_consumer(claim: Json, storage_class: Json | None) -> bool:
    """Whether a claim is left alone until a scheduler has chosen a node for it."""
    if SELECTED_NODE in annotations_of(claim):
        return False
    return storage_class is not None and storage_class.get("volumeBindingMode") == FIRST_CONSUMER


def is_claimed_by(volume: Json, claim: Json) -> bool:
    """Whether a volume says it is this claim's; one reserved by name only is too."""
    ref = spec_of(volume).get("claimRef")
    if not ref:
        return False
    metadata = claim["metadata"]
    if (ref.get("namespace"), ref.get("name")) != (metadata.get("namespace"), metadata["name"]):
        return False
    return not ref.get("uid") or ref["uid"] == uid_of(claim)


def mismatch(volume: Json, claim: Json) -> str:
    """Why a volume is none for a claim, "" if it is."""
    if _size(spec_of(volume).get("capacity")) < _requested(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    if not set(spec_of(claim).get("accessModes") or ()) <= set(spec_of(volume).get("accessModes") or ()):
        return "incompatible accessMode"
    return ""


def best_volume(claim: Json, volumes: Iterable[Json], *, only_promised: bool) -> Json | None:
    """The volume that is promised to a claim, else the smallest that is free and fits.

    `only_promised`: the choice among free volumes is the scheduler's.
    """
    selector = _selector(claim)
    best: Json | None = None
    for volume in volumes:
        if mismatch(volume, claim) or is_deleting(volume):
            continue
        if is_claimed_by(volume, claim):
            return volume
        if only_promised or spec_of(volume).get("claimRef") or selector is None:
            continue
        if status_of(volume).get("phase") != "Available" or not selector.matches(labels_of(volume)):
            continue
        if _attributes(volume) == _attributes(claim) and (best is None or _order(volume) < _order(best)):
            best = volume
    return best


def _order(volume: Json) -> tuple[Quantity, str]:
    return _size(spec_of(volume).get("capacity")), name_of(volume)


def _selector(claim: Json) -> Selector | None:
    """What a claim demands of labels: nothing if it does not say, None if it makes no sense."""
    given = spec_of(claim).get("selector")
    try:
        return compile_selector(msgspec.convert(given or {}, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return None


def _requested(claim: Json) -> Quantity:
    return _size((spec_of(claim).get("resources") or {}).get("requests"))


def _size(amounts: Any) -> Quantity:
    try:
        return quantity_of((amounts or {}).get("storage", 0))
    except QuantityError:
        return quantity_of(0)


def _mode(obj: Json) -> str:
    return spec_of(obj).get("volumeMode") or "Filesystem"


def _attributes(obj: Json) -> str:
    return spec_of(obj).get("volumeAttributesClassName") or ""
