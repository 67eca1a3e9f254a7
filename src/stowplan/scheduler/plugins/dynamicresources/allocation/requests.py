"""Requests of claims: requirements of each device, and tolerated taints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan.api.devices import (
    DeviceClass,
    DeviceID,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    RawQuantity,
)
from stowplan.scheduler.table.devices import DeviceRef

_PREVENTING: Final = ("NoSchedule", "NoExecute")
_NO_REQUESTS: Final[Mapping[str, RawQuantity]] = {}


@dataclass(frozen=True, slots=True)
class Request:
    """A request, or one alternative of it: then `parent` is the name of the request."""

    name: str
    parent: str
    class_name: str
    mode: str
    count: int
    admin: bool
    sets_admin: bool
    selectors: tuple[DeviceSelector, ...]
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, RawQuantity]
    asks_capacity: bool
    derived: Mapping[str, str]
    """Expressions that compute attributes for constraints, by name."""

    @property
    def full_name(self) -> str:
        return f"{self.parent}/{self.name}" if self.parent else self.name


@dataclass(slots=True)
class Wanted:
    """A request while devices are searched for it; `all_devices` are those that an All request needs.

    `matches` are the devices that class and request select, or do not, as far as that was looked at.
    """

    request: Request
    device_class: DeviceClass
    count: int
    all_devices: list[DeviceRef] | None = None
    matches: dict[DeviceID, bool] = field(default_factory=dict)


def requests_of(request: DeviceRequest) -> list[Request]:
    """The alternatives of a request, or the request itself. Empty if it is of a kind that is not known."""
    if request.first_available:
        return [_request(one.name, request.name, one) for one in request.first_available]
    return [] if request.exactly is None else [_request(request.name, "", request.exactly)]


def _request(name: str, parent: str, asked: ExactDeviceRequest | DeviceSubRequest) -> Request:
    admin = asked.admin_access if isinstance(asked, ExactDeviceRequest) else None
    return Request(
        name=name,
        parent=parent,
        class_name=asked.device_class_name,
        mode=asked.allocation_mode,
        count=asked.count,
        admin=bool(admin),
        sets_admin=admin is not None,
        selectors=asked.selectors,
        tolerations=asked.tolerations,
        capacity=_NO_REQUESTS if asked.capacity is None else asked.capacity.requests,
        asks_capacity=asked.capacity is not None,
        derived={one.name: one.expression for one in asked.derived_attributes},
    )


def tolerated(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    """True if every taint that keeps a device from being allocated is tolerated."""
    return all(is_tolerated(taint, tolerations) for taint in taints)


def is_tolerated(taint: DeviceTaint, tolerations: Sequence[DeviceToleration]) -> bool:
    """True if a taint does not keep a device from being allocated."""
    return taint.effect not in _PREVENTING or any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
