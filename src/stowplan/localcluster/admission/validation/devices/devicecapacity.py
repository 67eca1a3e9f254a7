"""Validation of what a device that can be shared lets claims request of its capacity."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from stowplan.api.fielderrors import forbidden, invalid, required
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.api.requests import Json
from stowplan.gocompat.numbers import MAX_INT64
from stowplan.localcluster.admission.devicefeatures import DeviceFeatures
from stowplan.localcluster.admission.validation.devices.deviceparts import Errors, list_errors
from stowplan.localcluster.admission.validation.meta import NOT_NEGATIVE

_MAX_VALUES: Final = 10
_MOST: Final = Quantity(MAX_INT64)


@dataclass(frozen=True, slots=True)
class CapacityValidation:
    """The rules of a release for the capacities of devices."""

    ratchets: bool
    """Capacities that an update leaves as they are are not checked again; limits beyond int64 are refused."""
    fractions: bool
    """Ranges with fractions are counted in thousandths."""

    @classmethod
    def of(cls, features: DeviceFeatures) -> "CapacityValidation":
        return cls(
            ratchets=features.release.behaviour.devices.capacity_range_errors == "default",
            fractions=features.fractional_range,
        )

    def errors(self, capacity: Json, path: str, shared: bool) -> Errors:
        """Errors of a capacity of a device that can or cannot be `shared`."""
        policy = capacity.get("requestPolicy")
        if policy is None:
            return
        here = f"{path}.requestPolicy"
        if not shared:
            yield forbidden(here, "allowMultipleAllocations must be true")
        elif policy.get("validValues") and policy.get("validRange") is not None:
            both = 'cannot specify "validValues" and "validRange" at the same time'
            yield forbidden(here, f"exactly one policy can be specified, {both}")
        elif policy.get("validValues"):
            yield from self._choice_errors(capacity, policy, here)
        elif policy.get("validRange") is not None:
            yield from self._range_errors(capacity, policy, here)

    def _choice_errors(self, capacity: Json, policy: Json, path: str) -> Errors:
        """A policy by which only some amounts can be requested."""
        if policy.get("default") is None:
            yield required(f"{path}.default", "required when validValues is defined")
            return
        most, default = quantity_of(capacity.get("value") or 0), quantity_of(policy["default"])
        values = [quantity_of(one) for one in policy["validValues"]]
        here = f"{path}.validValues"
        for i, (before, after) in enumerate(pairwise(values)):
            if before > after:
                text = "values must be sorted in ascending order"
                yield invalid(f"{here}[{i + 1}]", after.canonical(), text)

        def errors(value: Quantity, at: str) -> Errors:
            if value > most:
                text = f"option is larger than capacity value: {most.canonical()}"
                yield invalid(at, value.canonical(), text)

        yield from list_errors(values, here, _MAX_VALUES, errors, self._key_of)
        if default not in values:
            text = "default value is not valid according to the requestPolicy"
            yield invalid(here, default.canonical(), text)

    def _key_of(self, value: Quantity) -> str:
        return value.canonical() if self.fractions else str(value.value())

    def _range_errors(self, capacity: Json, policy: Json, path: str) -> Errors:
        """A policy by which amounts from a range can be requested."""
        if policy.get("default") is None:
            yield required(f"{path}.default", "required when validRange is defined")
            return
        most, here = quantity_of(capacity.get("value") or 0), f"{path}.validRange"
        if policy["validRange"].get("min") is None:
            yield required(f"{here}.min", "required when validRange is defined")
            return
        given = {
            "default": quantity_of(policy["default"]),
            **{
                field: quantity_of(policy["validRange"][field])
                for field in ("min", "max", "step")
                if policy["validRange"].get(field) is not None
            },
        }
        yield from self._limit_errors(given, most, here)
        in_thousandths = self.fractions and any(map(_has_fraction, given.values()))
        if in_thousandths:
            problems = [*_unrepresentable(given, here)]
            yield from problems
            if problems:
                return
        if "step" in given:
            yield from self._step_errors(given, most, here, in_thousandths)

    def _limit_errors(self, given: Mapping[str, Quantity], most: Quantity, path: str) -> Errors:
        least, default, limit = given["min"], given["default"], given.get("max")
        if least > most:
            text = f"min is larger than capacity value: {most.canonical()}"
            yield invalid(f"{path}.min", least.canonical(), text)
        if default < least:
            at = f"{path}.default" if self.ratchets else f"{path}.min"
            yield invalid(at, default.canonical(), f"default is less than min: {least.canonical()}")
        if limit is None:
            return
        if least > limit:
            yield invalid(f"{path}.max", least.canonical(), f"min is larger than max: {limit.canonical()}")
        if limit > most:
            text = f"max is larger than capacity value: {most.canonical()}"
            yield invalid(f"{path}.max", limit.canonical(), text)
        if default > limit:
            at = f"{path}.default" if self.ratchets else f"{path}.max"
            yield invalid(at, default.canonical(), f"default is more than max: {limit.canonical()}")

    def _step_errors(
        self, given: Mapping[str, Quantity], most: Quantity, path: str, in_thousandths: bool
    ) -> Errors:
        step, least = given["step"], given["min"]
        if step.sign <= 0:
            yield invalid(f"{path}.step", step.canonical(), "must be greater than zero")
            return
        added = least.add(step)
        if added > most:
            text = f"one step {added.canonical()} is larger than capacity value: {most.canonical()}"
            yield invalid(f"{path}.step", step.canonical(), text)
        problems = [] if in_thousandths else [*_out_of_range(given, path)]
        if self.ratchets:
            yield from problems
        if problems:
            return
        number = Quantity.milli_value if in_thousandths else Quantity.value
        text = f"value is not a multiple of a given step ({step.canonical()}) from ({least.canonical()})"
        for field in ("default", "max"):
            if field in given and (number(given[field]) - number(least)) % number(step):
                text = (
                    f"value is not a multiple of a given step ({step.canonical()}) from ({least.canonical()})"
                )
                yield invalid(f"{path}.step", given[field].canonical(), text)


def _has_fraction(amount: Quantity) -> bool:
    return amount != Quantity(amount.value())


def _unrepresentable(given: Mapping[str, Quantity], path: str) -> Errors:
    """Amounts that are no whole number of thousandths."""
    for field, amount in given.items():
        if amount != Quantity(amount.milli_value(), -3):
            text = "value cannot be represented as a milli value"
            yield invalid(f"{path}.{field}", amount.canonical(), text)


def _out_of_range(given: Mapping[str, Quantity], path: str) -> Errors:
    """Amounts that are negative or beyond int64, with which steps cannot be counted."""
    for field, amount in given.items():
        if amount.sign < 0:
            yield invalid(f"{path}.{field}", amount.canonical(), NOT_NEGATIVE)
        elif amount > _MOST:
            yield invalid(f"{path}.{field}", amount.canonical(), f"must not be larger than {MAX_INT64}")
