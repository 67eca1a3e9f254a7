"""Devices of simulated nodes: what a shape says, and the ResourceSlices and DeviceClasses that it makes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from stowplan.api.requests import Json

DRIVER: Final = "gpu.example.com"
_DEVICES_IN_SLICE: Final = 128
_ADVANCED_IN_SLICE: Final = 64
"""The most devices in a slice if any of them has taints or consumes counters."""
_COUNTER_SETS_IN_SLICE: Final = 8

Amount = str | int


class ShapeVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attribute that is a semantic version."""

    version: str


Attribute = bool | int | str | ShapeVersion


class ShapeCapacity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A capacity of which requests take a part, and which parts they may take."""

    value: Amount
    default: Amount | None = None
    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None
    values: tuple[Amount, ...] = ()

    @property
    def has_policy(self) -> bool:
        return bool(self.values) or any(
            one is not None for one in (self.default, self.min, self.max, self.step)
        )


class ShapeDeviceTaint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class ShapePartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parts of a device that can be allocated instead of the whole."""

    profile: str
    type: str = "mig"
    count: int = 1
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Amount] = {}
    consumes: dict[str, Amount] = {}


class ShapeDevices(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A number of identical devices of a node.

    `name` may hold `{}` for the number of the device. `groups` are attributes with the number of consecutive
    devices that share a value. `counters` is what the partitions of a device share: its capacity by default.
    Devices that are `shared` can be allocated several times, as long as their capacity lasts.
    """

    driver: str = DRIVER
    name: str = "gpu-{}"
    type: str = ""
    count: int = 1
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Amount | ShapeCapacity] = {}
    groups: dict[str, int] = {}
    counters: dict[str, Amount] = {}
    partitions: tuple[ShapePartition, ...] = ()
    shared: bool = False
    taints: tuple[ShapeDeviceTaint, ...] = ()
    extended_resource: str = ""

    @property
    def kind(self) -> str:
        """Value of the attribute `type`: by default the name of the devices without their number."""
        return self.type or self.name.replace("{}", "").strip("-.")

    @property
    def shared_counters(self) -> dict[str, Amount]:
        """Amount of each counter in one of the devices."""
        plain = {
            name: one.value if isinstance(one, ShapeCapacity) else one for name, one in self.capacity.items()
        }
        return self.counters or {counter_name(name): amount for name, amount in plain.items()}

    def named(self, number: int) -> str:
        if "{}" in self.name:
            return self.name.replace("{}", str(number))
        return self.name if self.count == 1 else f"{self.name}-{number}"


def counter_name(capacity: str) -> str:
    """The counter of a capacity, in the form that counters are named in: `copyEngines` is `copy-engines`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", capacity).replace("_", "-").lower()


def consumed(partition: ShapePartition) -> dict[str, Amount]:
    """Counters that a partition consumes: its capacity, and explicit ones."""
    own = {counter_name(name): amount for name, amount in partition.capacity.items()}
    return {**own, **partition.consumes}


def class_name(driver: str, kind: str) -> str:
    """The DeviceClass of the devices of a driver that are of one type: `mig.example.com`."""
    return f"{kind}.{driver.partition('.')[2] or driver}"


# Slices


def slices_of(node: Json, groups: Sequence[ShapeDevices]) -> list[Json]:
    """The ResourceSlices of a node: one pool for each driver, named like the node."""
    by_driver: dict[str, list[ShapeDevices]] = {}
    for group in groups:
        by_driver.setdefault(group.driver, []).append(group)
    return [slice for driver, found in by_driver.items() for slice in _pool(node, driver, found)]


def _pool(node: Json, driver: str, groups: Sequence[ShapeDevices]) -> list[Json]:
    metadata = node["metadata"]
    name = metadata["name"]
    counters = [one for group in groups for one in _counter_sets(group)]
    devices = [one for group in groups for one in devices_of(group, name)]
    advanced = any("taints" in one or "consumesCounters" in one for one in devices)
    most = _ADVANCED_IN_SLICE if advanced else _DEVICES_IN_SLICE
    parts: list[Json] = [
        *({"sharedCounters": part} for part in _chunks(counters, _COUNTER_SETS_IN_SLICE)),
        *({"devices": part} for part in _chunks(devices, most)),
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": len(parts)}
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": metadata["uid"], "controller": True}
    return [
        {
            "metadata": {"name": f"{name}-{driver}-{number}", "ownerReferences": [owner]},
            "spec": {"driver": driver, "nodeName": name, "pool": pool, **part},
        }
        for number, part in enumerate(parts)
    ]


def _chunks(items: Sequence[Json], size: int) -> Iterator[Sequence[Json]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _counter_sets(group: ShapeDevices) -> Iterator[Json]:
    if group.partitions:
        counters = _counters(group.shared_counters)
        for number in range(group.count):
            yield {"name": group.named(number), "counters": counters}


def _counters(amounts: Mapping[str, Amount]) -> Json:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def devices_of(group: ShapeDevices, node: str) -> Iterator[Json]:
    """The devices of a group, each followed by its partitions."""
    for number in range(group.count):
        name = group.named(number)
        own: dict[str, Attribute] = {"type": group.kind, "index": number}
        own |= {attribute: number // size for attribute, size in group.groups.items()}
        attributes = {**own, **group.attributes}
        device: Json = {"name": name, "attributes": _attributes(attributes, number, node)}
        if group.capacity:
            device["capacity"] = {key: _capacity(one) for key, one in group.capacity.items()}
        if group.shared:
            device["allowMultipleAllocations"] = True
        if group.taints:
            device["taints"] = [_taint(taint) for taint in group.taints]
        if group.partitions:
            device["consumesCounters"] = [{"counterSet": name, "counters": _counters(group.shared_counters)}]
        yield device
        for partition in group.partitions:
            yield from _partitions(partition, device, attributes, number, node)


def _partitions(
    partition: ShapePartition, whole: Json, attributes: Mapping[str, Attribute], number: int, node: str
) -> Iterator[Json]:
    parent = whole["name"]
    own = {"type": partition.type, "profile": partition.profile, "parent": parent}
    shown = _attributes({**attributes, **own, **partition.attributes}, number, node)
    for each in range(partition.count):
        device: Json = {
            "name": partition_name(parent, partition, each),
            "attributes": shown,
            "consumesCounters": [{"counterSet": parent, "counters": _counters(consumed(partition))}],
        }
        if partition.capacity:
            device["capacity"] = {key: {"value": str(one)} for key, one in partition.capacity.items()}
        if "taints" in whole:
            device["taints"] = whole["taints"]
        yield device


def partition_name(parent: str, partition: ShapePartition, number: int) -> str:
    profile = re.sub(r"[^a-z0-9]+", "-", partition.profile.lower()).strip("-")
    return f"{parent}-{profile}-{number}"


def _attributes(attributes: Mapping[str, Attribute], number: int, node: str) -> Json:
    return {name: _attribute(value, number, node) for name, value in attributes.items()}


def _attribute(value: Attribute, number: int, node: str) -> Json:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, ShapeVersion):
        return {"version": value.version}
    return {"string": value.replace("{}", str(number)).replace("{node}", node)}


def _capacity(capacity: Amount | ShapeCapacity) -> Json:
    if not isinstance(capacity, ShapeCapacity):
        return {"value": str(capacity)}
    if not capacity.has_policy:
        return {"value": str(capacity.value)}
    policy: Json = {}
    if capacity.default is not None:
        policy["default"] = str(capacity.default)
    if capacity.values:
        policy["validValues"] = [str(one) for one in capacity.values]
    limits = {"min": capacity.min, "max": capacity.max, "step": capacity.step}
    if any(one is not None for one in limits.values()):
        policy["validRange"] = {name: str(one) for name, one in limits.items() if one is not None}
    return {"value": str(capacity.value), "requestPolicy": policy}


def _taint(taint: ShapeDeviceTaint) -> Json:
    made = {"key": taint.key, "effect": taint.effect}
    return {**made, "value": taint.value} if taint.value else made


# Classes


def classes_of(groups: Iterable[ShapeDevices]) -> list[Json]:
    """A DeviceClass for every type of device of every driver."""
    found: dict[str, Json] = {}
    for group in groups:
        for kind in dict.fromkeys((group.kind, *(partition.type for partition in group.partitions))):
            name, driver = class_name(group.driver, kind), group.driver
            text = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "{kind}"'
            made = found.setdefault(
                name, {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": text}}]}}
            )
            if group.extended_resource and kind == group.kind:
                made["spec"]["extendedResourceName"] = group.extended_resource
    return list(found.values())
