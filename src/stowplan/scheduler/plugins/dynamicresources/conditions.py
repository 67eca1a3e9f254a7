"""Binding conditions: what a driver has to report of a device before a pod may be bound."""

from stowplan.api.devices import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from stowplan.api.meta import seconds_of
from stowplan.gocompat.quoting import quote

TRUE = "True"


class BindingFailedError(Exception):
    """A driver reported that a device cannot be made ready."""


def is_ready(claim: ResourceClaim) -> bool:
    """True if all devices of a claim are ready. Raises BindingFailedError."""
    if claim.allocation is None:
        return False
    for result in claim.allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        for type in result.binding_failure_conditions:
            failed = status.condition(type)
            if failed is not None and failed.status == TRUE:
                raise BindingFailedError(
                    f"device binding failed: claim={claim.name}, reason={failed.reason}, "
                    f"message={quote(failed.message)}"
                )
        if not all(_is_true(status, type) for type in result.binding_conditions):
            return False
    return True


def _status_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    return next(
        (one for one in claim.status.devices if (one.driver, one.pool, one.device) == result.id), None
    )


def _is_true(status: AllocatedDeviceStatus, type: str) -> bool:
    found = status.condition(type)
    return found is not None and found.status == TRUE


def has_conditions(claim: ResourceClaim) -> bool:
    return claim.allocation is not None and any(
        result.binding_conditions for result in claim.allocation.devices.results
    )


def has_timed_out(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """True if devices have used up their time to become ready."""
    allocation = claim.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_conditions(claim):
        return False
    return seconds_of(allocation.allocation_timestamp) + timeout < now
