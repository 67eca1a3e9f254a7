"""Validation of storage.k8s.io."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import label_key_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import (
    IMMUTABLE,
    NOT_NEGATIVE,
    name_errors,
    read_quantity,
    selector_errors,
)
from stowplan.localcluster.admission.validation.persistentvolumes import RECLAIM_POLICIES

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
    return [
        invalid(field, new.get(field), IMMUTABLE)
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        if (old.get(field) or None) != (new.get(field) or None)
    ]


_FS_GROUP: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE: Final = ("Persistent", "Ephemeral")
_MIN_EXPIRATION: Final = 600
_MAX_EXPIRATION: Final = 1 << 32
_MAX_NODE_ID: Final = 192


def csi_driver_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _FS_GROUP:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP))
    errors += _token_request_errors(spec.get("tokenRequests") or (), "spec.tokenRequests")
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLE:
            errors.append(not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        text = "must be greater than or equal to 10 seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, text))
    return errors


def _token_request_errors(requests: Sequence[Json], path: str) -> Iterator[FieldError]:
    audiences: set[str] = set()
    for i, request in enumerate(requests):
        audience, seconds = request.get("audience") or "", request.get("expirationSeconds")
        if audience in audiences:
            yield duplicate(f"{path}[{i}].audience", audience)
            continue
        audiences.add(audience)
        if seconds is not None and seconds < _MIN_EXPIRATION:
            text = "may not specify a duration less than 10 minutes"
            yield invalid(f"{path}[{i}].expirationSeconds", seconds, text)
        if seconds is not None and seconds > _MAX_EXPIRATION:
            text = "may not specify a duration larger than 2^32 seconds"
            yield invalid(f"{path}[{i}].expirationSeconds", seconds, text)


def csi_driver_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return [
        invalid(f"spec.{shown}", after.get(field), IMMUTABLE)
        for field, shown in (
            ("attachRequired", "attachedRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        )
        if before.get(field) != after.get(field)
    ]


def csi_node_errors(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for i, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path, name, node = f"spec.drivers[{i}]", driver.get("name") or "", driver.get("nodeID") or ""
        errors += name_errors(f"{path}.name", name, lambda text: subdomain_problems(text.lower()))
        if not node:
            errors.append(required(f"{path}.nodeID"))
        elif len(node) > _MAX_NODE_ID:
            text = f"must be {_MAX_NODE_ID} characters or less"
            errors.append(invalid(f"{path}.nodeID", node, text))
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            errors.append(invalid(f"{path}.allocatable.count", count, NOT_NEGATIVE))
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        for key in driver.get("topologyKeys") or ():
            errors += name_errors(path, key, label_key_problems)
    return errors


def csi_node_update_errors(old: Json, new: Json) -> list[FieldError]:
    before = {each.get("name"): each for each in (old.get("spec") or {}).get("drivers") or ()}
    return [
        invalid("spec.drivers", driver, IMMUTABLE)
        for driver in (new.get("spec") or {}).get("drivers") or ()
        if driver.get("name") in before and _fixed(driver) != _fixed(before[driver.get("name")])
    ]


def _fixed(driver: Json) -> Json:
    return {field: value for field, value in driver.items() if field != "allocatable" and value}


_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def volume_attachment_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [
        *name_errors("spec.attacher", spec.get("attacher"), lambda text: subdomain_problems(text.lower()))
    ]
    source = spec.get("source") or {}
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and volume is None:
        errors.append(required("spec.source", _ONE_SOURCE))
    elif inline is not None and volume is not None:
        errors.append(forbidden("spec.source", _ONE_SOURCE))
    elif volume == "":
        text = "must specify non empty persistentVolumeName"
        errors.append(required("spec.source.persistentVolumeName", text))
    node = spec.get("nodeName") or ""
    errors += [invalid("spec.nodeName", node, text) for text in subdomain_problems(node)]
    return errors


def volume_attachment_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return [] if before == after else [invalid("spec", after, IMMUTABLE)]


def storage_capacity_errors(obj: Json) -> list[FieldError]:
    name = obj.get("storageClassName") or ""
    errors = [*selector_errors(obj.get("nodeTopology"), "nodeTopology")]
    errors += [invalid("storageClassName", name, text) for text in subdomain_problems(name)]
    amount = read_quantity(obj["capacity"]) if obj.get("capacity") is not None else None
    if amount is not None and amount.sign < 0:
        errors.append(invalid("capacity", str(amount), NOT_NEGATIVE))
    return errors


def storage_capacity_update_errors(old: Json, new: Json) -> list[FieldError]:
    return [
        invalid(field, new.get(field), IMMUTABLE)
        for field in ("nodeTopology", "storageClassName")
        if old.get(field) != new.get(field)
    ]


def attributes_class_errors(obj: Json) -> list[FieldError]:
    errors = [
        *name_errors("driverName", obj.get("driverName"), lambda text: label_key_problems(text.lower()))
    ]
    if not obj.get("parameters"):
        errors.append(required("parameters", "must contain at least one key/value pair"))
    return errors


def attributes_class_update_errors(old: Json, new: Json) -> list[FieldError]:
    return [
        forbidden(field, f"updates to {field} are forbidden.")
        for field in ("driverName", "parameters")
        if old.get(field) != new.get(field)
    ]


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.STORAGE_CLASSES: storage_class_errors,
    catalogue.CSI_DRIVERS: csi_driver_errors,
    catalogue.CSI_NODES: csi_node_errors,
    catalogue.VOLUME_ATTACHMENTS: volume_attachment_errors,
    catalogue.CSI_STORAGE_CAPACITIES: storage_capacity_errors,
    catalogue.VOLUME_ATTRIBUTES_CLASSES: attributes_class_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.STORAGE_CLASSES: storage_class_update_errors,
    catalogue.CSI_DRIVERS: csi_driver_update_errors,
    catalogue.CSI_NODES: csi_node_update_errors,
    catalogue.VOLUME_ATTACHMENTS: volume_attachment_update_errors,
    catalogue.CSI_STORAGE_CAPACITIES: storage_capacity_update_errors,
    catalogue.VOLUME_ATTRIBUTES_CLASSES: attributes_class_update_errors,
}
