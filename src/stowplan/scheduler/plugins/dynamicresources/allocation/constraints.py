"""Constraints: what the devices of a claim must have in common, or must differ in."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from stowplan.api.devices import DeviceAttribute, DeviceConstraint
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.devices import DeviceRef

Values = frozenset[tuple[str, object]]
"""The values of an attribute with their type: one, or those of a list. Other types are never equal."""
LookUp = Callable[[DeviceRef, str], DeviceAttribute | None]
"""Finds an attribute of a device by name."""


class Constraint(Protocol):
    """Devices are added one by one and taken back in the opposite order."""

    def add(self, request: str, subrequest: str, ref: DeviceRef, look_up: LookUp) -> bool:
        """Take in a device, if it meets the constraint together with those before."""
        ...

    def remove(self, request: str, subrequest: str) -> None:
        """Take back the last device that was added."""
        ...


def constraints_of(features: Features) -> Callable[[DeviceConstraint], Constraint | None]:
    """Factory of constraints; it returns None for an unknown kind."""
    lists = features.list_attributes
    every_device = features.choices.distinct_attribute == "every-device"
    distinct = DistinctAttribute if every_device else DistinctFromLast

    def made(constraint: DeviceConstraint) -> Constraint | None:
        requests = frozenset(constraint.requests)
        if constraint.match_attribute is not None:
            return MatchAttribute(constraint.match_attribute, requests, lists=lists)
        if constraint.distinct_attribute is not None:
            return distinct(constraint.distinct_attribute, requests, lists=lists)
        return None

    return made


def concerns(requests: frozenset[str], request: str, subrequest: str) -> bool:
    """True if a constraint applies to a request; a constraint that names none applies to all."""
    return not requests or request in requests or (bool(subrequest) and f"{request}/{subrequest}" in requests)


class _OfAttribute(ABC):
    """A constraint on an attribute that every device must have."""

    __slots__ = ("_lists", "_name", "_requests")

    def __init__(self, name: str, requests: frozenset[str], *, lists: bool) -> None:
        self._name = name
        self._requests = requests
        self._lists = lists

    def add(self, request: str, subrequest: str, ref: DeviceRef, look_up: LookUp) -> bool:
        if not concerns(self._requests, request, subrequest):
            return True
        attribute = look_up(ref, self._name)
        return attribute is not None and self._take(request, values_of(attribute, lists=self._lists))

    def remove(self, request: str, subrequest: str) -> None:
        if concerns(self._requests, request, subrequest):
            self._take_back(request)

    @abstractmethod
    def _take(self, request: str, values: Values) -> bool:
        """Take in the values of a device, if they meet the constraint together with those before."""

    @abstractmethod
    def _take_back(self, request: str) -> None:
        """Take back what was taken in last."""


class MatchAttribute(_OfAttribute):
    """All devices have the attribute, with a value that is common to all."""

    __slots__ = ("_common",)

    def __init__(self, name: str, requests: frozenset[str], *, lists: bool) -> None:
        super().__init__(name, requests, lists=lists)
        self._common: list[Values] = []

    def _take(self, request: str, values: Values) -> bool:
        if self._common:
            values &= self._common[-1]
            if not values:
                return False
        self._common.append(values)
        return True

    def _take_back(self, request: str) -> None:
        self._common.pop()


class DistinctAttribute(_OfAttribute):
    """All devices have the attribute, with no value in common."""

    __slots__ = ("_values",)

    def __init__(self, name: str, requests: frozenset[str], *, lists: bool) -> None:
        super().__init__(name, requests, lists=lists)
        self._values: list[Values] = []

    def _take(self, request: str, values: Values) -> bool:
        if not _is_distinct(values, self._values):
            return False
        self._values.append(values)
        return True

    def _take_back(self, request: str) -> None:
        self._values.pop()


class DistinctFromLast(_OfAttribute):
    """All devices have the attribute, with no value in common with the last device of every request."""

    __slots__ = ("_values",)

    def __init__(self, name: str, requests: frozenset[str], *, lists: bool) -> None:
        super().__init__(name, requests, lists=lists)
        self._values: dict[str, Values] = {}

    def _take(self, request: str, values: Values) -> bool:
        if not _is_distinct(values, self._values.values()):
            return False
        self._values[request] = values
        return True

    def _take_back(self, request: str) -> None:
        self._values.pop(request, None)


def _is_distinct(values: Values, others: Collection[Values]) -> bool:
    """True if a device has none of the values that others have; the first one may have any."""
    return not others or (bool(values) and not any(values & other for other in others))


def look_up(ref: DeviceRef, name: str) -> DeviceAttribute | None:
    """An attribute by its full name, or without the domain where that is the driver's."""
    attributes = ref.device.attributes
    found = attributes.get(name)
    if found is not None:
        return found
    domain, slash, id = name.partition("/")
    return attributes.get(id) if slash and domain == ref.id[0] else None


def values_of(attribute: DeviceAttribute, *, lists: bool) -> Values:
    """Empty for a type that cannot be compared."""
    if attribute.string_value is not None:
        return frozenset((("string", attribute.string_value),))
    if attribute.int_value is not None:
        return frozenset((("int", attribute.int_value),))
    if attribute.bool_value is not None:
        return frozenset((("bool", attribute.bool_value),))
    if attribute.version_value is not None:
        return frozenset((("version", attribute.version_value),))
    return _listed(attribute) if lists else frozenset()


def _listed(attribute: DeviceAttribute) -> Values:
    lists: tuple[tuple[str, Iterable[object] | None], ...] = (
        ("string", attribute.string_values),
        ("int", attribute.int_values),
        ("bool", attribute.bool_values),
        ("version", attribute.version_values),
    )
    return frozenset((type, value) for type, values in lists for value in values or ())
