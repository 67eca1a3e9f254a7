"""Consumable capacity: what a request consumes of a device that several claims can share."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from stowplan.api.devices import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    RawQuantity,
)
from stowplan.api.quantity import BINARY_SI, Quantity, quantity_of
from stowplan.gocompat.numbers import MAX_INT64
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.devices import Consumed

Requests = Mapping[str, RawQuantity]
Capacities = Mapping[str, DeviceCapacity]

_NOT_REPRESENTABLE: Final = "capacity request cannot be represented in the device's range arithmetic"
_MOST: Final = Quantity(MAX_INT64)


class CapacityError(Exception):
    """A request that the capacity of a device cannot be compared with at all."""


class CapacityRules(NamedTuple):
    """How requests are rounded and compared; see the choices of releases."""

    fails: bool
    """Requests beyond the range of int64, and negative amounts, are errors."""
    keeps_format: bool
    """True to write an amount that was rounded up to a step in the format of the step."""
    fractions: bool
    """Ranges are counted in thousandths if they can be."""

    def fits(self, requests: Requests, capacities: Capacities, taken: Consumed, taking: Consumed) -> bool:
        """True if a device has room for a request in addition to what is `taken` of it and what the pod is
        `taking`.

        A request for a capacity that the device does not have never fits. Raises CapacityError, regardless of
        other capacities that do not fit.
        """
        if not requests.keys() <= capacities.keys():
            return False
        for name, consumed in self.consumed(requests, capacities).items():
            capacity = capacities[name]
            try:
                violated = self._violates(consumed, capacity.request_policy)
            except CapacityError as cause:
                raise CapacityError(f'capacity "{name}": {cause}') from None
            if violated:
                return False
            total = consumed
            if name in taken:
                total = taken[name].add(total)
            if name in taking:
                total = total.add(taking[name])
            if total > quantity_of(capacity.value):
                return False
        return True

    def consumed(self, requests: Requests, capacities: Capacities) -> Consumed:
        """Amounts that a request consumes of every capacity of a device. Raises CapacityError."""
        found: Consumed = {}
        for name, capacity in capacities.items():
            try:
                found[name] = self._consumed(requests.get(name), capacity)
            except CapacityError as cause:
                raise CapacityError(f'capacity "{name}": {cause}') from None
            if self.fails and found[name].sign < 0:
                raise CapacityError(f'capacity "{name}": capacity value is negative')
        return found

    def _consumed(self, requested: RawQuantity | None, capacity: DeviceCapacity) -> Quantity:
        """A request rounded up to what the policy allows. Without one: the default, or all there is."""
        policy = capacity.request_policy
        if requested is None:
            default = None if policy is None else policy.default
            return quantity_of(capacity.value if default is None else default)
        amount = quantity_of(requested)
        if policy is None:
            return amount
        if policy.valid_range is not None and policy.valid_range.min is not None:
            return self._round_up(amount, policy.valid_range)
        for value in policy.valid_values:
            if amount <= quantity_of(value):
                return quantity_of(value)
        return amount

    def _round_up(self, amount: Quantity, allowed: CapacityRequestPolicyRange) -> Quantity:
        """At least the minimum, then up to the next step from there."""
        assert allowed.min is not None
        least = quantity_of(allowed.min)
        if amount < least:
            return least
        if allowed.step is None:
            return amount
        step = quantity_of(allowed.step)
        format = step.format if self.keeps_format else BINARY_SI
        if self._in_thousandths(allowed):
            if not _is_in_thousandths(amount):
                raise CapacityError(
                    f"{_NOT_REPRESENTABLE}: request {amount} is not a representable milli value"
                )
            rounded = _next_step(amount.milli_value(), least.milli_value(), _step_size(step.milli_value()))
            if rounded > MAX_INT64:
                raise CapacityError(
                    f"{_NOT_REPRESENTABLE}: "
                    f"rounding request {amount} up to the next step passes the milli-value range"
                )
            whole, rest = divmod(rounded, 1000)
            return Quantity(rounded, -3, format) if rest else Quantity(whole, format=format)
        if self.fails and amount > _MOST:
            raise CapacityError(f"{_NOT_REPRESENTABLE}: request {amount} exceeds MaxInt64")
        rounded = _next_step(amount.value(), least.value(), _step_size(step.value()))
        if self.fails and rounded > MAX_INT64:
            raise CapacityError(
                f"{_NOT_REPRESENTABLE}: rounding request {amount} up to the next step passes MaxInt64"
            )
        return Quantity(rounded, format=format)

    def _violates(self, amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
        """True if a policy does not allow an amount. Raises CapacityError."""
        if policy is None:
            return False
        if policy.default is not None and _is_same(amount, quantity_of(policy.default)):
            return False
        if policy.valid_range is not None:
            return self._out_of_range(amount, policy.valid_range)
        return bool(policy.valid_values) and all(amount != quantity_of(one) for one in policy.valid_values)

    def _out_of_range(self, amount: Quantity, allowed: CapacityRequestPolicyRange) -> bool:
        if allowed.max is not None and amount > quantity_of(allowed.max):
            return True
        if allowed.step is None or allowed.min is None:
            return False
        least, step = quantity_of(allowed.min), quantity_of(allowed.step)
        if not self._in_thousandths(allowed):
            return (amount.value() - least.value()) % _step_size(step.value()) != 0
        if not _is_in_thousandths(amount):
            return True
        return (amount.milli_value() - least.milli_value()) % _step_size(step.milli_value()) != 0

    def _in_thousandths(self, allowed: CapacityRequestPolicyRange) -> bool:
        """True if a range is counted in thousandths: all its values are multiples of them."""
        if not self.fractions:
            return False
        limits = [quantity_of(one) for one in (allowed.min, allowed.max, allowed.step) if one is not None]
        if not all(map(_is_in_thousandths, limits)):
            return False
        return allowed.step is None or quantity_of(allowed.step).milli_value() >= 1


def capacity_rules(features: Features) -> CapacityRules:
    choices = features.choices
    return CapacityRules(
        fails=choices.capacity_errors == "fail",
        keeps_format=choices.rounded_capacity_format == "step",
        fractions=features.fractional_range,
    )


def _step_size(step: int) -> int:
    """A step as a number one can divide by.

    Slices with a step of zero are refused, but releases before 1.37 stored them, and there kube-scheduler
    ends at the division. For us it is an error of the attempt, as other amounts are that make no sense.
    """
    if not step:
        raise CapacityError("the step of the capacity's range is zero")
    return step


def _next_step(amount: int, start: int, step: int) -> int:
    """Steps are counted as Go divides: toward zero."""
    steps, rest = divmod(abs(amount - start), abs(step))
    return start + step * ((steps if (amount >= start) == (step > 0) else -steps) + (rest != 0))


def _is_in_thousandths(amount: Quantity) -> bool:
    return amount == Quantity(amount.milli_value(), -3)


def _is_same(one: Quantity, other: Quantity) -> bool:
    """The same amount, written in the same family of suffixes."""
    return one == other and one.format == other.format
