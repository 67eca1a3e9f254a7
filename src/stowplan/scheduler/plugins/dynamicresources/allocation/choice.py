"""The devices that a search has chosen so far, and what others can still get because of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from stowplan.api.devices import Device, DeviceAttribute, DeviceID, ResourceClaim
from stowplan.api.node import Node
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.scheduler.plugins.dynamicresources.allocation.capacity import CapacityError, capacity_rules
from stowplan.scheduler.plugins.dynamicresources.allocation.constraints import Constraint, LookUp, look_up
from stowplan.scheduler.plugins.dynamicresources.allocation.operations import is_usable
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool, available_counters
from stowplan.scheduler.plugins.dynamicresources.allocation.requests import Request, Wanted, tolerated
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import CompileError, EvaluationError
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.devices import (
    AllocatedState,
    Consumed,
    DeviceRef,
    PoolID,
    add_consumed,
    remove_consumed,
)


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


_NOTHING: Consumed = {}
_ZERO: Final = quantity_of("0")


class AllocationError(Exception):
    """Something is wrong with a claim, a class or a pool: the attempt ends with this message."""


@dataclass(slots=True)
class Chosen:
    """A device chosen for a request."""

    request: Request
    ref: DeviceRef
    is_share: bool = False
    consumed: Consumed = field(default_factory=dict)


class Undo(NamedTuple):
    """Changes made by choosing a device, for taking it back. `groups` are those of before."""

    counters: bool
    constraints: int
    marked: bool
    share: Consumed | None = None
    was_shared: bool = False
    groups: ByCounterSet | None = None


class Stock:
    """Allocated devices and remaining counters at one moment."""

    def __init__(self, features: Features, allocated: AllocatedState) -> None:
        self.features = features
        self.allocated = allocated
        self.capacity_rules = capacity_rules(features)
        self.shares_by_capacity = features.choices.shared_device_counters == "every-share"
        self._available: dict[PoolID, dict[str, dict[str, Quantity]]] = {}
        self._members: dict[PoolID, ByCounterSet] = {}

    def available_counters(self, pool: Pool) -> dict[str, dict[str, Quantity]]:
        """As `available_counters`, looked at once."""
        found = self._available.get(pool.id)
        if found is not None:
            return found
        found = available_counters(pool, self.allocated)
        self._available[pool.id] = found
        return found

    def allocated_members(self, pool: Pool) -> ByCounterSet:
        """As `allocated_members`, looked at once."""
        found = self._members.get(pool.id)
        if found is None:
            found = self._members[pool.id] = allocated_members(pool, self.allocated)
        return found


class DeviceChoice:
    """The devices chosen for claims on one node: by claim, in the order in which they were chosen.

    `constraints` are those of every claim. `derived` are attributes that requests compute of devices.
    """

    def __init__(
        self, stock: Stock, node: Node, pools: Sequence[Pool], claims: Sequence[ResourceClaim]
    ) -> None:
        self._stock = stock
        self._features = stock.features
        self._capacity = stock.capacity_rules
        self._allocated = stock.allocated
        self._node = node
        self._pool_of = {pool.id: pool for pool in pools}
        self._claims = claims
        self.constraints: list[list[Constraint]] = []
        self.derived: dict[tuple[DeviceID, str], DeviceAttribute | CompileError | EvaluationError] = {}
        self.results: list[list[Chosen]] = [[] for _ in claims]
        self._taking: dict[DeviceID, set[int]] = {}
        self._taking_capacity: dict[DeviceID, Consumed] = {}
        self._members: dict[PoolID, ByCounterSet] = {}
        self._consumed_counters: dict[PoolID, dict[str, dict[str, Quantity]]] = {}

    def is_taken(self, request: Request, id: DeviceID, number: int) -> bool:
        if request.admin:
            return number in self._taking.get(id, ())
        return bool(self._taking.get(id)) or self.is_allocated(id)

    def is_allocated(self, id: DeviceID) -> bool:
        """True if others have a device for themselves."""
        allocated = self._allocated
        return id in allocated.devices or (not self._features.consumable_capacity and id in allocated.shared)

    def has_capacity(
        self, claim: ResourceClaim, request: Request, ref: DeviceRef, doing: str = "checking"
    ) -> bool:
        """True if enough is left of what a device has. Raises AllocationError."""
        if not self._features.consumable_capacity:
            return True
        return self._fits(claim, request, ref, self._taking_capacity.get(ref.id, _NOTHING), doing)

    def has_capacity_alone(self, claim: ResourceClaim, request: Request, ref: DeviceRef) -> bool:
        """The same as if nothing were chosen yet."""
        return not self._features.consumable_capacity or self._fits(claim, request, ref, _NOTHING, "checking")

    def _fits(
        self, claim: ResourceClaim, request: Request, ref: DeviceRef, taking: Consumed, doing: str
    ) -> bool:
        taken = self._allocated.capacity.get(ref.id, _NOTHING)
        try:
            return self._capacity.fits(request.capacity, ref.device.capacity, taken, taking)
        except CapacityError as cause:
            raise AllocationError(
                f"claim {claim.key}, request {request.name}: "
                f"{doing} capacity for device {'/'.join(ref.id)}: {cause}"
            ) from None

    def is_takeable(self, request: Request, ref: DeviceRef) -> bool:
        """True if nothing about a device itself keeps it from a request."""
        if ref.device.consumes_counters and not self._features.partitionable:
            return False
        if self._features.heeds_skipped_operations and not is_usable(
            ref.slice, self._node, enabled=self._features.optional_node_operations
        ):
            return False
        return not self._features.device_taints or tolerated(ref.taints, request.tolerations)

    def take(self, number: int, wanted: Wanted, ref: DeviceRef, *, must: bool) -> Undo | None:
        """Choose a device, if it can be used; None if not. Raises AllocationError if it `must` be used."""
        request, device, id = wanted.request, ref.device, ref.id
        shares = self._features.consumable_capacity and bool(device.allow_multiple_allocations)
        if request.admin:
            if not shares and number in self._taking.get(id, ()):
                return None
        elif self.is_taken(request, id, number):
            return None
        if not self.is_takeable(request, ref):
            return None
        counters = bool(device.consumes_counters) and not (shares and self._is_shared(id))
        groups = self._groups_with(ref) if counters and self._features.compatibility_groups else None
        if groups is not None and not admitted_by(groups, device):
            return None
        if counters and not self._draw_counters(ref):
            return None
        if groups is not None:
            self._members[id[:2]] = joined_by(groups, device)
        undo = Undo(counters, 0, False, groups=groups)
        base, sub = (request.parent, request.name) if request.parent else (request.name, "")
        looking_up: LookUp = look_up
        if request.derived and self._features.derived_attributes:
            looking_up = partial(self._attribute, request)
        for constraint in self.constraints[number]:
            if not constraint.add(base, sub, ref, looking_up):
                self._undo(number, wanted, ref, undo)
                if must:
                    raise AllocationError(
                        f"claim {self._claims[number].key}, request {request.name}: cannot add device "
                        f"{'/'.join(id)} because a claim constraint would not be satisfied"
                    )
                return None
            undo = undo._replace(constraints=undo.constraints + 1)
        if not shares:
            self._taking.setdefault(id, set()).add(number)
            undo = undo._replace(marked=True)
        if not self.has_capacity(self._claims[number], request, ref, "rechecking"):
            self._undo(number, wanted, ref, undo)
            return None
        chosen = Chosen(request, ref, shares)
        if shares:
            chosen.consumed = self._capacity.consumed(request.capacity, device.capacity)
            undo = undo._replace(share=chosen.consumed, was_shared=id in self._taking_capacity)
            add_consumed(self._taking_capacity, id, chosen.consumed)
        self.results[number].append(chosen)
        return undo

    def _attribute(self, request: Request, ref: DeviceRef, name: str) -> DeviceAttribute | None:
        """An attribute of a device as a request has it: computed, or the device's. Raises AllocationError."""
        expression = request.derived.get(name)
        if expression is None:
            return look_up(ref, name)
        found = self.derived[ref.id, expression]
        if isinstance(found, CompileError):
            raise AllocationError(f"compile derived attribute {name} failed: {found}")
        if isinstance(found, EvaluationError):
            raise AllocationError(
                f"evaluate derived attribute {name} on device {'/'.join(ref.id)} failed: {found}"
            )
        return found

    def _is_shared(self, id: DeviceID) -> bool:
        """True if a device that can be shared is in use, so that its counters are charged already."""
        if id in self._allocated.capacity or id in self._taking_capacity:
            return True
        return id in self._allocated.shared and not self._stock.shares_by_capacity

    def give_back(self, number: int, wanted: Wanted, ref: DeviceRef, undo: Undo) -> None:
        self.results[number].pop()
        self._undo(number, wanted, ref, undo)

    def _undo(self, number: int, wanted: Wanted, ref: DeviceRef, undo: Undo) -> None:
        """Take back what choosing a device changed, in the opposite order."""
        request, id = wanted.request, ref.id
        if undo.share is not None:
            remove_consumed(self._taking_capacity, id, undo.share)
            if undo.was_shared:
                self._taking_capacity.setdefault(id, {})
        if undo.marked:
            self._taking[id].discard(number)
        base, sub = (request.parent, request.name) if request.parent else (request.name, "")
        for constraint in reversed(self.constraints[number][: undo.constraints]):
            constraint.remove(base, sub)
        if undo.groups is not None:
            self._members[id[:2]] = undo.groups
        if undo.counters:
            self._change_counters(ref, -1)

    # Counters

    def _groups_with(self, ref: DeviceRef) -> ByCounterSet:
        """Common groups of the devices of a pool that are taken or chosen, by counter set."""
        pool = ref.id[:2]
        found = self._members.get(pool)
        return self._stock.allocated_members(self._pool_of[pool]) if found is None else found

    def _draw_counters(self, ref: DeviceRef) -> bool:
        """Take what a device draws from the counters of its pool; False if some counter has too little."""
        pool = self._pool_of[ref.id[:2]]
        self._change_counters(ref, 1)
        consumed = self._consumed_counters[pool.id]
        for name, counters in self._stock.available_counters(pool).items():
            drawn = consumed.get(name, {})
            for key, available in counters.items():
                if available < drawn.get(key, _ZERO):
                    self._change_counters(ref, -1)
                    return False
        return True

    def _change_counters(self, ref: DeviceRef, sign: int) -> None:
        consumed = self._consumed_counters.setdefault(ref.id[:2], {})
        for drawn in ref.device.consumes_counters:
            counters = consumed.setdefault(drawn.counter_set, {})
            for key, counter in drawn.counters.items():
                amount, known = quantity_of(counter.value), counters.get(key, _ZERO)
                counters[key] = known.add(amount) if sign > 0 else known.sub(amount)
