"""Constraints: what the devices of a claim must have in common, or must differ in."""

from typing import Protocol

from stowplan.api.devices import DeviceAttribute, DeviceConstraint
from stowplan.cluster.devices import DeviceRef

Value = tuple[str, object]
"""The type of an attribute and its value: values of different types are never equal."""


class Constraint(Protocol):
    """Devices are added one by one and taken back in the opposite order."""

    def add(self, request: str, subrequest: str, ref: DeviceRef) -> bool:
        """Take in a device, if it meets the constraint together with those before."""
        ...

    def remove(self, request: str, subrequest: str) -> None:
        """Take back the last device that was added."""
        ...


def constraint_of(constraint: DeviceConstraint) -> Constraint | None:
    """None for a constraint of a kind that is not known."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.match_attribute, frozenset(constraint.requests))
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.distinct_attribute, frozenset(constraint.requests))
    return None


def concerns(requests: frozenset[str], request: str, subrequest: str) -> bool:
    """Whether a constraint is about a request; naming none means all."""
    return not requests or request in requests or (bool(subrequest) and f"{request}/{subrequest}" in requests)


class MatchAttribute:
    """All devices have the attribute, with one value."""

    __slots__ = ("_count", "_name", "_requests", "_value")

    def __init__(self, name: str, requests: frozenset[str]) -> None:
        self._name = name
        self._requests = requests
        self._value: Value | None = None
        self._count = 0

    def add(self, request: str, subrequest: str, ref: DeviceRef) -> bool:
        if not concerns(self._requests, request, subrequest):
            return True
        attribute = look_up(ref, self._name)
        if attribute is None:
            return False
        value = value_of(attribute)
        if not self._count:
            self._value = value
        elif value is None or value != self._value:
            return False
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if concerns(self._requests, request, subrequest):
            self._count -= 1


class DistinctAttribute:
    """All devices have the attribute, with different values. Of every request the last value counts."""

    __slots__ = ("_count", "_name", "_requests", "_values")

    def __init__(self, name: str, requests: frozenset[str]) -> None:
        self._name = name
        self._requests = requests
        self._values: dict[str, Value | None] = {}
        self._count = 0

    def add(self, request: str, subrequest: str, ref: DeviceRef) -> bool:
        if not concerns(self._requests, request, subrequest):
            return True
        attribute = look_up(ref, self._name)
        if attribute is None:
            return False
        value = value_of(attribute)
        if self._count and self._values and (value is None or value in self._values.values()):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if concerns(self._requests, request, subrequest):
            self._values.pop(request, None)
            self._count -= 1


def look_up(ref: DeviceRef, name: str) -> DeviceAttribute | None:
    """An attribute by its full name, or without the domain where that is the driver's."""
    attributes = ref.device.attributes
    found = attributes.get(name)
    if found is not None:
        return found
    domain, slash, id = name.partition("/")
    return attributes.get(id) if slash and domain == ref.id[0] else None


def value_of(attribute: DeviceAttribute) -> Value | None:
    """None for a type that cannot be compared."""
    if attribute.string_value is not None:
        return ("string", attribute.string_value)
    if attribute.int_value is not None:
        return ("int", attribute.int_value)
    if attribute.bool_value is not None:
        return ("bool", attribute.bool_value)
    if attribute.version_value is not None:
        return ("version", attribute.version_value)
    return None
