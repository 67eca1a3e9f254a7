"""Consumable capacity: what a request consumes of a device that several claims can share."""

from collections.abc import Mapping

from stowplan.api.devices import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    RawQuantity,
)
from stowplan.api.quantity import BINARY_SI, Quantity, quantity_of
from stowplan.cluster.devices import Consumed

Requests = Mapping[str, RawQuantity]
Capacities = Mapping[str, DeviceCapacity]

_NOTHING: Consumed = {}


def fits(requests: Requests, capacities: Capacities, taken: Consumed, taking: Consumed) -> bool:
    """Whether a device has room for a request beside what is `taken` of it and what the pod is `taking`.

    A request for a capacity that the device does not have never fits.
    """
    if not requests.keys() <= capacities.keys():
        return False
    for name, capacity in capacities.items():
        consumed = _consumed(requests.get(name), capacity)
        if _violates(consumed, capacity.request_policy):
            return False
        total = consumed
        if name in taken:
            total = taken[name].add(total)
        if name in taking:
            total = total.add(taking[name])
        if total > quantity_of(capacity.value):
            return False
    return True


def consumed_capacity(requests: Requests, capacities: Capacities) -> Consumed:
    """What a request consumes of every capacity of a device."""
    return {name: _consumed(requests.get(name), capacity) for name, capacity in capacities.items()}


def _consumed(requested: RawQuantity | None, capacity: DeviceCapacity) -> Quantity:
    """A request rounded up to what the policy allows. Without one: the default, or all there is."""
    policy = capacity.request_policy
    if requested is None:
        default = None if policy is None else policy.default
        return quantity_of(capacity.value if default is None else default)
    amount = quantity_of(requested)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up(amount, policy.valid_range)
    for value in policy.valid_values:
        if amount <= quantity_of(value):
            return quantity_of(value)
    return amount


def _round_up(amount: Quantity, allowed: CapacityRequestPolicyRange) -> Quantity:
    """At least the minimum, then up to the next step from there."""
    assert allowed.min is not None
    least = quantity_of(allowed.min)
    if amount < least:
        return least
    if allowed.step is None:
        return amount
    start, step = least.value(), quantity_of(allowed.step).value()
    steps = -((start - amount.value()) // step)
    return Quantity(start + step * steps, format=BINARY_SI)


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None:
        return False
    if policy.default is not None and _is_same(amount, quantity_of(policy.default)):
        return False
    if policy.valid_range is not None:
        return _out_of_range(amount, policy.valid_range)
    return bool(policy.valid_values) and all(amount != quantity_of(one) for one in policy.valid_values)


def _is_same(one: Quantity, other: Quantity) -> bool:
    """The same amount, written in the same family of suffixes."""
    return one == other and one.format == other.format


def _out_of_range(amount: Quantity, allowed: CapacityRequestPolicyRange) -> bool:
    if allowed.max is not None and amount > quantity_of(allowed.max):
        return True
    if allowed.step is None or allowed.min is None:
        return False
    return (amount.value() - quantity_of(allowed.min).value()) % quantity_of(allowed.step).value() != 0
