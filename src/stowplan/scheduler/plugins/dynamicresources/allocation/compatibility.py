"""Compatibility groups (gate DRADeviceCompatibilityGroups).

Devices that draw from the same counters must have a group in common, all of them. Those without any group go
only with others without.
"""

from typing import NamedTuple

from stowplan.api.devices import Device
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool
from stowplan.scheduler.table.devices import AllocatedState


class Members(NamedTuple):
    """The groups that the devices drawing from one counter set have in common; or that none has any."""

    groups: frozenset[str]
    without: bool

    def admits(self, groups: frozenset[str]) -> bool:
        return self.without if not groups else bool(self.groups & groups)

    def joined(self, groups: frozenset[str]) -> "Members":
        return self if self.without or not groups else Members(self.groups & groups, False)


ByCounterSet = dict[str, Members]


def allocated_members(pool: Pool, allocated: AllocatedState) -> ByCounterSet:
    """By counter set, what the devices that are taken have in common."""
    found: ByCounterSet = {}
    for ref in (*pool.devices, *pool.elsewhere):
        if ref.device.consumes_counters and allocated.is_allocated(ref.id):
            found = joined_by(found, ref.device)
    return found


def admitted_by(members: ByCounterSet, device: Device) -> bool:
    """True if a device is compatible with all that draw from its counters."""
    return all(
        drawn.counter_set not in members
        or members[drawn.counter_set].admits(frozenset(drawn.compatibility_groups))
        for drawn in device.consumes_counters
    )


def joined_by(members: ByCounterSet, device: Device) -> ByCounterSet:
    """Common groups of devices after adding another one."""
    found = dict(members)
    for drawn in device.consumes_counters:
        groups, before = frozenset(drawn.compatibility_groups), found.get(drawn.counter_set)
        found[drawn.counter_set] = Members(groups, not groups) if before is None else before.joined(groups)
    return found
