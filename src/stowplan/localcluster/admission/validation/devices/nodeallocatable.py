"""Validation of what devices take of the resources of their node."""

from typing import Final

from stowplan.api.fielderrors import FieldError, Kind, invalid, required
from stowplan.api.quantity import quantity_of
from stowplan.api.requests import Json
from stowplan.localcluster.admission.devicefeatures import MAPPINGS, NODE_RESOURCES
from stowplan.localcluster.admission.validation.devices.deviceparts import Errors

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_NATIVE_SINCE_1_37: Final = ("cpu", "memory")
_NOT_NATIVE: Final = "must be a node allocatable resource name"
_WAYS: Final = ("capacityKey", "deviceMultiplier")


def node_resource_errors(device: Json, path: str) -> Errors:
    """Both forms are checked: a field that the release does not have was dropped before."""
    capacity = device.get("capacity") or {}
    for name, mapping in (device.get(MAPPINGS) or {}).items():
        yield from _old_mapping_errors(name, mapping or {}, capacity, f"{path}.{MAPPINGS}[{name}]")
    for name, resource in (device.get(NODE_RESOURCES) or {}).items():
        yield from _resource_errors(name, resource or {}, capacity, f"{path}.{NODE_RESOURCES}[{name}]")


def _old_mapping_errors(name: str, mapping: Json, capacity: Json, path: str) -> Errors:
    if name not in _NATIVE and not name.startswith("hugepages-"):
        yield invalid(path, name, _NOT_NATIVE)
    multiplier, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
    if multiplier is None and key is None:
        yield invalid(path, "", "at least one of allocationMultiplier or capacityKey must be set")
    yield from _positive_errors(mapping, "allocationMultiplier", path)
    yield from _key_errors(key, capacity, path)


def _resource_errors(name: str, resource: Json, capacity: Json, path: str) -> Errors:
    if name not in _NATIVE_SINCE_1_37 and not name.startswith("hugepages-"):
        yield invalid(path, name, _NOT_NATIVE)
    mapping, overhead = resource.get("mapping"), resource.get("overhead")
    if mapping is None and overhead is None:
        yield required(path, "at least one of mapping or overhead must be set")
    if mapping is not None:
        yield from _mapping_errors(mapping, capacity, f"{path}.mapping")
    if overhead is not None:
        yield from _overhead_errors(overhead, f"{path}.overhead")


def _mapping_errors(mapping: Json, capacity: Json, path: str) -> Errors:
    key, multiplier = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    yield from _key_errors(key, capacity, path)
    if key is not None and multiplier is None:
        text = "capacityMultiplier is required when capacityKey is set"
        yield required(f"{path}.capacityMultiplier", text)
    elif key is not None:
        yield from _positive_errors(mapping, "capacityMultiplier", path)
    yield from _positive_errors(mapping, "deviceMultiplier", path)
    if key is None and multiplier is not None:
        yield required(f"{path}.capacityKey", "capacityKey is required when capacityMultiplier is set")
    given, ways = [way for way in _WAYS if mapping.get(way) is not None], ", ".join(f"`{w}`" for w in _WAYS)
    if not given:
        yield invalid(path, "", f"must specify one of: {ways}")
    elif len(given) > 1:
        yield invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {ways}")


def _overhead_errors(overhead: Json, path: str) -> Errors:
    if overhead.get("perPod") is None and overhead.get("perContainer") is None:
        yield invalid(path, "", "at least one of perPod or perContainer must be set")
    for field in ("perPod", "perContainer"):
        amount = overhead.get(field)
        if amount is not None and quantity_of(amount).sign < 0:
            yield invalid(f"{path}.{field}", str(amount), "must be non-negative")


def _key_errors(key: str | None, capacity: Json, path: str) -> Errors:
    if key == "":
        yield invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string")
    elif key is not None and key not in capacity:
        yield FieldError(f"{path}.capacityKey", Kind.NOT_FOUND, key)


def _positive_errors(mapping: Json, field: str, path: str) -> Errors:
    amount = mapping.get(field)
    if amount is not None and quantity_of(amount).sign <= 0:
        yield invalid(f"{path}.{field}", str(amount), "must be positive")
