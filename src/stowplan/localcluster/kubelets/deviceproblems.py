"""Errors of the devices of a shape; each is one line that begins with the field."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from stowplan.api.names import (
    dns_label_problems,
    is_extended_resource,
    label_key_problems,
    subdomain_problems,
)
from stowplan.api.quantity import QuantityError, quantity_of
from stowplan.localcluster.kubelets.devices import (
    Amount,
    Attribute,
    ShapeCapacity,
    ShapeDevices,
    ShapePartition,
    ShapeVersion,
    class_name,
    consumed,
    devices_of,
    partition_name,
)

EFFECTS: Final = ("NoSchedule", "NoExecute", "None")
MAX_DEVICES: Final = 1_024
"""Maximum number of devices of one driver on a node."""

_MAX_DRIVER: Final = 63
_MAX_TEXT: Final = 64
_MAX_PROPERTIES: Final = 32
"""The most attributes and capacities of a device."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_PARTS: Final = r"[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*"
_NUMBER: Final = r"(0|[1-9]\d*)"
_VERSION: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PARTS})?(\+{_PARTS})?", re.ASCII)


def device_problems(groups: Sequence[ShapeDevices]) -> Iterator[str]:
    """Errors of the devices of a shape, field by field."""
    total: dict[str, int] = {}
    names: dict[str, set[str]] = {}
    for place, group in enumerate(groups):
        for problem in _group_problems(group):
            yield f"devices[{place}].{problem}"
            return
        each = 1 + sum(partition.count for partition in group.partitions)
        total[group.driver] = total.get(group.driver, 0) + group.count * each
        if total[group.driver] > MAX_DEVICES:
            most = f"at most {MAX_DEVICES} devices of {group.driver} altogether"
            yield f"devices[{place}].count: expected {most}, got {total[group.driver]}"
            return
        for device in devices_of(group, "n"):
            if device["name"] in names.setdefault(group.driver, set()):
                yield f"devices[{place}].name: two devices would be called {device['name']!r}"
                return
            names[group.driver].add(device["name"])


def class_problems(shapes: Iterable[Sequence[ShapeDevices]]) -> Iterator[str]:
    """Devices of one class that shall be requested as different extended resources."""
    resources: dict[str, str] = {}
    for number, groups in enumerate(shapes):
        for place, group in enumerate(groups):
            name, resource = class_name(group.driver, group.kind), group.extended_resource
            if resource and resources.setdefault(name, resource) != resource:
                expected = f"expected {resources[name]!r} as for other devices of class {name}"
                yield f"nodes[{number}].devices[{place}].extendedResource: {expected}, got {resource!r}"


def _group_problems(group: ShapeDevices) -> Iterator[str]:
    if group.count < 1:
        yield f"count: expected at least 1, got {group.count}"
        return
    if subdomain_problems(group.driver) or len(group.driver) > _MAX_DRIVER:
        yield f"driver: expected a DNS subdomain of at most {_MAX_DRIVER} characters, got {group.driver!r}"
    if dns_label_problems(group.named(group.count - 1)):
        yield f"name: expected lower case letters, digits and '-', got {group.name!r}"
    if dns_label_problems(group.kind):
        yield f"type: expected lower case letters, digits and '-', got {group.kind!r}"
    if group.extended_resource and not is_extended_resource(group.extended_resource):
        yield (
            "extendedResource: expected the name of an extended resource such as example.com/gpu, "
            f"got {group.extended_resource!r}"
        )
    yield from _attribute_problems(group.attributes, "attributes")
    yield from _capacity_problems(group)
    for name, size in group.groups.items():
        yield from _name_problems(name, f"groups.{name}")
        if size < 1:
            yield f"groups.{name}: expected at least 1, got {size}"
    for number, taint in enumerate(group.taints):
        if label_key_problems(taint.key):
            yield f"taints[{number}].key: {label_key_problems(taint.key)[0]}"
        if taint.effect not in EFFECTS:
            yield f"taints[{number}].effect: expected one of {', '.join(EFFECTS)}, got {taint.effect!r}"
    yield from _counter_problems(group)
    for number, partition in enumerate(group.partitions):
        for problem in _partition_problems(group, partition):
            yield f"partitions[{number}].{problem}"
    yield from _size_problems(group)


def _name_problems(name: str, place: str) -> Iterator[str]:
    domain, slash, identifier = name.rpartition("/")
    if not _IDENTIFIER.fullmatch(identifier) or (slash and subdomain_problems(domain)):
        yield f"{place}: expected a name such as model or example.com/model, got {name!r}"


def _attribute_problems(attributes: Mapping[str, Attribute], place: str) -> Iterator[str]:
    for name, value in attributes.items():
        here = f"{place}.{name}"
        yield from _name_problems(name, here)
        if isinstance(value, str) and len(value) > _MAX_TEXT:
            yield f"{here}: expected at most {_MAX_TEXT} characters, got {len(value)}"
        if isinstance(value, ShapeVersion) and not _VERSION.fullmatch(value.version):
            yield f"{here}.version: expected a version such as 1.2.3, got {value.version!r}"


def _amount_problems(amount: Amount, place: str) -> Iterator[str]:
    try:
        if quantity_of(amount).sign < 0:
            yield f"{place}: expected a quantity of at least 0, got {amount!r}"
    except QuantityError:
        yield f"{place}: expected a quantity such as 4, 500m or 16Gi, got {amount!r}"


def _capacity_problems(group: ShapeDevices) -> Iterator[str]:
    for name, capacity in group.capacity.items():
        here = f"capacity.{name}"
        yield from _name_problems(name, here)
        if not isinstance(capacity, ShapeCapacity):
            yield from _amount_problems(capacity, here)
            continue
        if capacity.has_policy and not group.shared:
            yield f"{here}: expected one quantity, for the devices are not shared"
        amounts = {"value": capacity.value, "default": capacity.default, "min": capacity.min}
        amounts |= {"max": capacity.max, "step": capacity.step}
        amounts |= {f"values[{number}]": one for number, one in enumerate(capacity.values)}
        problems = [
            problem
            for field, amount in amounts.items()
            if amount is not None
            for problem in _amount_problems(amount, f"{here}.{field}")
        ]
        yield from problems or _policy_problems(capacity, here)


def _policy_problems(capacity: ShapeCapacity, here: str) -> Iterator[str]:
    """Errors of the request policy."""
    ranged = any(one is not None for one in (capacity.min, capacity.max, capacity.step))
    if capacity.values and ranged:
        yield f"{here}.values: expected either values or min, max and step"
        return
    if (capacity.values or ranged) and capacity.default is None:
        yield f"{here}.default: expected a quantity, for other requests are restricted"
        return
    most = quantity_of(capacity.value)
    default = most if capacity.default is None else quantity_of(capacity.default)
    values = [quantity_of(one) for one in capacity.values]
    if values and (values != sorted(values) or values[-1] > most or default not in values):
        yield f"{here}.values: expected ascending quantities up to the value, the default among them"
    if ranged:
        if capacity.min is None:
            yield f"{here}.min: expected a quantity where max or step is one"
            return
        least = quantity_of(capacity.min)
        limit = most if capacity.max is None else quantity_of(capacity.max)
        if not least <= default <= limit <= most:
            yield f"{here}: expected min <= default <= max <= value"
    elif default > most:
        yield f"{here}.default: expected at most the value"


def _counter_problems(group: ShapeDevices) -> Iterator[str]:
    if group.counters and not group.partitions:
        yield "counters: expected partitions that consume them"
    if group.partitions and group.shared:
        yield "shared: expected false for devices with partitions"
    if group.partitions and not group.shared_counters:
        yield "counters: expected what the partitions share, or a capacity"
    for name, amount in group.counters.items():
        if dns_label_problems(name):
            yield f"counters.{name}: expected lower case letters, digits and '-', got {name!r}"
        yield from _amount_problems(amount, f"counters.{name}")


def _partition_problems(group: ShapeDevices, partition: ShapePartition) -> Iterator[str]:
    if partition.count < 1:
        yield f"count: expected at least 1, got {partition.count}"
        return
    if dns_label_problems(partition_name(group.named(group.count - 1), partition, partition.count - 1)):
        yield f"profile: expected a short name such as 1g.10gb, got {partition.profile!r}"
    if dns_label_problems(partition.type):
        yield f"type: expected lower case letters, digits and '-', got {partition.type!r}"
    yield from _attribute_problems(partition.attributes, "attributes")
    for name, amount in partition.capacity.items():
        yield from _name_problems(name, f"capacity.{name}")
        yield from _amount_problems(amount, f"capacity.{name}")
    for name, amount in partition.consumes.items():
        yield from _amount_problems(amount, f"consumes.{name}")
    taken, there = consumed(partition), group.shared_counters
    if not taken:
        yield "consumes: expected what the partition takes of the counters, or a capacity"
    for name, amount in taken.items():
        if name not in there:
            yield f"consumes.{name}: expected one of the counters {', '.join(there)}"
        elif not _fits(amount, there[name]):
            yield f"consumes.{name}: expected at most {there[name]}, which the device has, got {amount}"


def _fits(amount: Amount, most: Amount) -> bool:
    try:
        return not quantity_of(amount) > quantity_of(most)
    except QuantityError:
        return True


def _size_problems(group: ShapeDevices) -> Iterator[str]:
    for device in devices_of(msgspec.structs.replace(group, count=1), "n"):
        number = len(device["attributes"]) + len(device.get("capacity", ()))
        if number > _MAX_PROPERTIES:
            yield f"attributes: expected at most {_MAX_PROPERTIES} attributes and capacities, got {number}"
            return
