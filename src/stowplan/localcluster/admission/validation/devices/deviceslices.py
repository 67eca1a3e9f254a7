"""Validation of ResourceSlices: pools, devices and their attributes, shared counters."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api.fielderrors import FieldError, Kind, invalid, required
from stowplan.api.names import subdomain_problems
from stowplan.api.quantity import quantity_of
from stowplan.api.requests import Json
from stowplan.localcluster.admission.devicefeatures import LISTS, MAPPINGS, NODE_RESOURCES
from stowplan.localcluster.admission.validation.devices.devicecapacity import CapacityValidation
from stowplan.localcluster.admission.validation.devices.deviceparts import (
    Errors,
    binding_errors,
    driver_errors,
    full_name_errors,
    label_errors,
    list_errors,
    name_of,
    pool_name_errors,
    qualified_name_errors,
    same,
    skipped_operations_errors,
    taints_errors,
    too_long,
    too_many,
)
from stowplan.localcluster.admission.validation.meta import IMMUTABLE
from stowplan.localcluster.admission.validation.pods.placement import node_selector_errors

_MAX_DEVICES: Final = 128
_MAX_ADVANCED_DEVICES: Final = 64
_MAX_COUNTER_SETS: Final = 8
_MAX_COUNTERS: Final = 32
_MAX_CONSUMED_SETS: Final = 2
_MAX_COMPATIBILITY_GROUPS: Final = 2
_MAX_PROPERTIES: Final = 32
_MAX_VALUES: Final = 48
_MAX_TEXT: Final = 64
_ATTRIBUTES: Final = ("bool", "int", "string", "version", *LISTS)
_NODES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_OF: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_OF_DEVICE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
    "is set to true in the ResourceSlice spec"
)
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_PRE_RELEASE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD: Final = r"[0-9a-zA-Z-]+"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?"
)


def slice_errors(obj: Json, rules: CapacityValidation, old: Mapping[str, Any] | None = None) -> Errors:
    """Errors of a slice; `old` is its spec before, of which unchanged parts stay valid."""
    spec = obj.get("spec") or {}
    yield from driver_errors(spec.get("driver"), "spec.driver")
    yield from _pool_errors(spec.get("pool") or {}, "spec.pool")
    if old is not None:
        yield from _fixed_errors(old, spec)
    yield from _node_errors(spec)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        yield invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    before = {name_of(device): device for device in (old or {}).get("devices") or ()}
    by_device = bool(spec.get("perDeviceNodeSelection"))

    def device_errors(device: Json, path: str) -> Errors:
        return _device_errors(device, path, before.get(name_of(device)), by_device, rules)

    most = _MAX_ADVANCED_DEVICES if any(map(_is_advanced, devices or ())) else _MAX_DEVICES
    yield from list_errors(devices or (), "spec.devices", most, device_errors, name_of)
    yield from list_errors(
        counters or (), "spec.sharedCounters", _MAX_COUNTER_SETS, _counter_set_errors, name_of
    )
    if spec.get("partitionTypeAttribute") is not None:
        yield from _partition_type_errors(spec, "spec")
    yield from skipped_operations_errors(spec, "spec")


def _fixed_errors(old: Mapping[str, Any], new: Json) -> Errors:
    name = (new.get("pool") or {}).get("name")
    if (old.get("pool") or {}).get("name") != name:
        yield invalid("spec.pool.name", name, IMMUTABLE)
    for field in ("driver", "nodeName"):
        if old.get(field) != new.get(field):
            yield invalid(f"spec.{field}", new.get(field), IMMUTABLE)


def _pool_errors(pool: Json, path: str) -> Errors:
    yield from pool_name_errors(pool.get("name"), f"{path}.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        yield invalid(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield invalid(f"{path}.generation", generation, "must be greater than or equal to zero")


def _node_errors(spec: Json) -> Errors:
    """On which nodes the devices are."""
    given = [field for field in _NODES if spec.get(field)]
    name, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if name:
        yield from (invalid("spec.nodeName", name, text) for text in subdomain_problems(name))
    elif name is not None:
        yield invalid("spec.nodeName", name, "must be either unset or set to a non-empty string")
    if selector is not None:
        given = [field for field in _NODES if spec.get(field) or field == "nodeSelector"]
        yield from node_selector_errors(selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            text = "must have exactly one node selector term"
            yield invalid("spec.nodeSelector.nodeSelectorTerms", terms, text)
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False:
            yield invalid(f"spec.{field}", False, "must be either unset or set to true")
    if not given:
        yield required("spec", _ONE_OF)
    elif len(given) > 1:
        yield invalid("spec", _braced(given), f"{_ONE_OF}, but multiple fields are set")


def _braced(fields: Sequence[str]) -> str:
    return "{" + ", ".join(f"`{field}`" for field in fields) + "}"


def _is_advanced(device: Json) -> bool:
    """True if a device has parts that make slices large, so that there may be fewer devices in them."""
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(field in (one or {}) for one in (device.get("attributes") or {}).values() for field in LISTS)


# Counters


def _counter_set_errors(counters: Json, path: str) -> Errors:
    yield from _named_counter_errors(counters.get("name"), f"{path}.name")
    yield from _counters_errors(counters.get("counters") or {}, f"{path}.counters")


def _consumption_errors(consumption: Json, path: str) -> Errors:
    yield from _named_counter_errors(consumption.get("counterSet"), f"{path}.counterSet")
    yield from _counters_errors(consumption.get("counters") or {}, f"{path}.counters")
    groups, here = consumption.get("compatibilityGroups") or (), f"{path}.compatibilityGroups"
    yield from list_errors(groups, here, _MAX_COMPATIBILITY_GROUPS, label_errors, same)


def _partition_type_errors(spec: Json, path: str) -> Errors:
    """The attribute that says of which type partitions are: devices with counters all have it, as a text."""
    name, devices = spec["partitionTypeAttribute"], spec.get("devices") or ()
    wrong = [*full_name_errors(name, f"{path}.partitionTypeAttribute")]
    yield from wrong
    if not any(device.get("consumesCounters") for device in devices):
        text = "may only be set on a slice which declares devices that consume counters"
        yield invalid(f"{path}.partitionTypeAttribute", name, text)
    elif not wrong:
        plain = name.removeprefix(f"{spec.get('driver') or ''}/")
        for i, device in enumerate(devices):
            if device.get("consumesCounters"):
                here = f"{path}.devices[{i}].attributes[{name}]"
                yield from _partition_attribute_errors(device.get("attributes") or {}, name, plain, here)


def _partition_attribute_errors(attributes: Json, name: str, plain: str, path: str) -> Errors:
    attribute = attributes.get(name, attributes.get(plain))
    if attribute is None:
        text = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
        yield required(path, text)
    elif attribute.get("string") is None:
        text = "must be a string value because `partitionTypeAttribute` names this attribute"
        yield invalid(path, attribute, text)


def _named_counter_errors(name: str | None, path: str) -> Errors:
    if not name:
        yield required(path)
    else:
        yield from label_errors(name, path)


def _counters_errors(counters: Json, path: str) -> Errors:
    if not counters:
        yield required(path)
    elif len(counters) > _MAX_COUNTERS:
        yield too_many(path, len(counters), _MAX_COUNTERS)
    else:
        for name in counters:
            yield from label_errors(name, path)


# Devices


def _device_errors(
    device: Json, path: str, old: Json | None, by_device: bool, rules: CapacityValidation
) -> Errors:
    yield from label_errors(device.get("name"), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    properties = len(attributes) + len(capacity)
    if properties > _MAX_PROPERTIES:
        text = f"the total number of attributes and capacities must not exceed {_MAX_PROPERTIES}"
        yield invalid(path, properties, text)
    values = sum(_value_count(one or {}) for one in attributes.values())
    if values > _MAX_VALUES:
        yield invalid(path, values, f"the total number of attribute values must not exceed {_MAX_VALUES}")
    for key, attribute in attributes.items():
        yield from qualified_name_errors(key, f"{path}.attributes")
        yield from _attribute_errors(attribute or {}, f"{path}.attributes[{key}]")
    shared = bool(device.get("allowMultipleAllocations"))
    changed = old is None or not rules.ratchets or (old.get("capacity") or {}) != capacity
    for key, one in capacity.items() if changed else ():
        yield from qualified_name_errors(key, f"{path}.capacity")
        yield from rules.errors(one or {}, f"{path}.capacity[{key}]", shared)
    if old is None or old.get("taints") != device.get("taints"):
        yield from taints_errors(device.get("taints") or (), f"{path}.taints")
    consumed = device.get("consumesCounters") or ()
    here = f"{path}.consumesCounters"
    yield from list_errors(consumed, here, _MAX_CONSUMED_SETS, _consumption_errors, _counter_set_of)
    yield from _device_node_errors(device, path, by_device)
    yield from binding_errors(device, path)
    yield from node_resource_errors(device, path)


def _value_count(attribute: Json) -> int:
    """Number of values of an attribute; those of a list count one by one."""
    return max(1, sum(len(attribute[field] or ()) for field in LISTS if field in attribute))


def _counter_set_of(consumption: Json) -> str:
    return consumption.get("counterSet") or ""


def _device_node_errors(device: Json, path: str, by_device: bool) -> Errors:
    given = [field for field in ("nodeName", "nodeSelector", "allNodes") if device.get(field) is not None]
    if not by_device:
        if given:
            text = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
                "is set to true in the ResourceSlice spec"
            )
            yield invalid(path, None, text)
        return
    name = device.get("nodeName")
    if name:
        yield from (invalid(f"{path}.nodeName", name, text) for text in subdomain_problems(name))
    elif name is not None:
        yield invalid(f"{path}.nodeName", name, "must not be empty")
        given.remove("nodeName")
    if device.get("nodeSelector") is not None:
        yield from node_selector_errors(device["nodeSelector"], f"{path}.nodeSelector")
    if device.get("allNodes") is False:
        yield invalid(f"{path}.allNodes", False, "must be either unset or set to true")
        given.remove("allNodes")
    if not given:
        yield required(path, _ONE_OF_DEVICE)
    elif len(given) > 1:
        yield invalid(path, _braced(given), _ONE_OF_DEVICE)


def _attribute_errors(attribute: Json, path: str) -> Errors:
    if len(attribute) == 1 and (type(attribute.get("int")) is int or type(attribute.get("bool")) is bool):
        return
    given = [field for field in _ATTRIBUTES if attribute.get(field) is not None]
    if "string" in given:
        yield from _text_errors(attribute["string"], f"{path}.string")
    if "version" in given:
        yield from _version_errors(attribute["version"], f"{path}.version")
    for field in LISTS:
        if field in given and not attribute[field]:
            yield invalid(f"{path}.{field}", [], "must not be empty if specified")
    for i, text in enumerate(attribute.get("strings") or ()):
        yield from _text_errors(text, f"{path}.strings[{i}]")
    for i, text in enumerate(attribute.get("versions") or ()):
        yield from _version_errors(text, f"{path}.versions[{i}]")
    if not given:
        yield required(path, "exactly one value must be specified")
    elif len(given) > 1:
        yield invalid(path, attribute, "exactly one value must be specified")


def _text_errors(text: str, path: str) -> Errors:
    if len(text.encode()) > _MAX_TEXT:
        yield too_long(path, _MAX_TEXT)


def _version_errors(text: str, path: str) -> Errors:
    # Of long texts the expression would try many ways; the length alone makes them wrong.
    if len(text) > 1024 or not _VERSION.fullmatch(text):
        yield invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    yield from _text_errors(text, path)


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
