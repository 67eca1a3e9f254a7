"""The structured allocator: a depth-first search for devices, claim by claim, request by request.

The first solution counts. Devices are tried in the order of their pools; within one request only in
ascending order, so that every set of devices is tried once.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from stowplan.api.devices import (
    ALL_DEVICES,
    EXACT_COUNT,
    MOST_RESULTS,
    DeviceAttribute,
    DeviceClass,
    DeviceID,
    DeviceRequest,
    DeviceSelector,
    ResourceClaim,
)
from stowplan.api.node import Node
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.cel.recursion import DeepStack
from stowplan.cluster.devices import (
    AllocatedState,
    Classes,
    Consumed,
    DeviceRef,
    PoolID,
    add_consumed,
    remove_consumed,
)
from stowplan.plugins.dynamicresources.capacity import CapacityError, capacity_rules
from stowplan.plugins.dynamicresources.compatibility import (
    ByCounterSet,
    admitted_by,
    allocated_members,
    joined_by,
)
from stowplan.plugins.dynamicresources.constraints import Constraint, LookUp, constraints_of, look_up
from stowplan.plugins.dynamicresources.features import Features
from stowplan.plugins.dynamicresources.operations import is_usable
from stowplan.plugins.dynamicresources.pools import Pool, PoolError, available_counters, device_matches
from stowplan.plugins.dynamicresources.requests import Request, requests_of, tolerated
from stowplan.plugins.dynamicresources.selectors import CompileError, EvaluationError, Selectors

_NOTHING: Consumed = {}
_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class AllocationError(Exception):
    """Something is wrong with a claim, a class or a pool: the attempt ends with this message."""


class AllocationTimeoutError(Exception):
    """The search took longer than it may."""


class InvalidPoolsError(Exception):
    """Nothing was found, and pools were left out because they are invalid."""


class _TooManyError(Exception):
    """A claim would get more devices than a claim can have."""


@dataclass(slots=True)
class Wanted:
    """A request while devices are searched for it; `all_devices` are those that an All request needs."""

    request: Request
    device_class: DeviceClass
    count: int
    all_devices: list[DeviceRef] | None = None
    matches: dict[DeviceID, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Chosen:
    """A device chosen for a request."""

    request: Request
    ref: DeviceRef
    is_share: bool = False
    consumed: Consumed = field(default_factory=dict)


class Found(NamedTuple):
    """The devices of one claim, and by request the alternative that was taken."""

    devices: list[Chosen]
    wanted: list[Wanted]


class _Undo(NamedTuple):
    """What choosing a device changed, for taking it back. `groups` are those of before."""

    counters: bool
    constraints: int
    marked: bool
    share: Consumed | None = None
    was_shared: bool = False
    groups: ByCounterSet | None = None


class Allocator:
    """Searches devices for claims on one node after the other, as things stand at one moment."""

    def __init__(
        self,
        features: Features,
        allocated: AllocatedState,
        classes: Classes,
        selectors: Selectors,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.features = features
        self.allocated = allocated
        self.classes = classes
        self.selectors = selectors
        self.timer = timer
        choices = features.choices
        self.capacity_rules = capacity_rules(features)
        self.constraint_of = constraints_of(features)
        self.selector_failure = _naming_device if choices.selector_errors_name_device else _plain_failure
        self.all_counts_remaining = choices.all_mode_capacity == "remaining"
        self.shares_by_capacity = choices.shared_device_counters == "every-share"
        self._available: dict[PoolID, dict[str, dict[str, Quantity]]] = {}
        self._members: dict[PoolID, ByCounterSet] = {}

    def allocate(
        self,
        node: Node,
        pools: Sequence[Pool],
        claims: Sequence[ResourceClaim],
        deadline: float | None = None,
    ) -> list[Found] | None:
        """Devices for all claims, None if there are none.

        Raises AllocationError, InvalidPoolsError, AllocationTimeoutError.
        """
        search = _Search(self, node, pools, claims, deadline)
        found = search.run()
        if found is None and any(pool.is_invalid for pool in pools):
            raise InvalidPoolsError
        return found

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


class _Search:
    """One search on one node."""

    def __init__(
        self,
        allocator: Allocator,
        node: Node,
        pools: Sequence[Pool],
        claims: Sequence[ResourceClaim],
        deadline: float | None,
    ) -> None:
        self._allocator = allocator
        self._features = allocator.features
        self._capacity = allocator.capacity_rules
        self._allocated = allocator.allocated
        self._node = node
        self._pools = pools
        self._pool_of = {pool.id: pool for pool in pools}
        self._claims = claims
        self._deadline = deadline
        self._devices = [
            ref for pool in pools if not (pool.is_incomplete or pool.is_invalid) for ref in pool.devices
        ]
        self._wanted: list[list[list[Wanted]]] = []
        self._selected: dict[tuple[int, int], int] = {}
        self._constraints: list[list[Constraint]] = []
        self._taking: dict[DeviceID, set[int]] = {}
        self._taking_capacity: dict[DeviceID, Consumed] = {}
        self._derived: dict[tuple[DeviceID, str], DeviceAttribute] = {}
        self._members: dict[PoolID, ByCounterSet] = {}
        self._consumed_counters: dict[PoolID, dict[str, dict[str, Quantity]]] = {}
        self._results: list[list[Chosen]] = [[] for _ in claims]

    def run(self) -> list[Found] | None:
        deepest = 0
        for number, claim in enumerate(self._claims):
            deepest += self._prepare(number, claim)
        with DeepStack(deepest + 2 * sum(map(len, self._wanted)) + len(self._claims)):
            done = self._next_claim(0)
        if not done:
            return None
        return [
            Found(
                self._results[number],
                [
                    options[self._selected.get((number, place), 0)]
                    for place, options in enumerate(self._wanted[number])
                ],
            )
            for number in range(len(self._claims))
        ]

    # Checking claims

    def _prepare(self, number: int, claim: ResourceClaim) -> int:
        """Look at the requests and constraints of a claim. Returns how many devices it may take at most."""
        least = most = 0
        wanted: list[list[Wanted]] = []
        for request in claim.spec.devices.requests:
            options = self._options(claim, request)
            wanted.append(options)
            counts = [option.count for option in options]
            least += min(counts, default=0)
            most += max(counts, default=0)
        self._wanted.append(wanted)
        if least > MOST_RESULTS:
            raise AllocationError(
                f"claim {claim.key}: number of requested devices {least} exceeds "
                f"the claim limit of {MOST_RESULTS}"
            )
        constraints: list[Constraint] = []
        for place, given in enumerate(claim.spec.devices.constraints):
            constraint = self._allocator.constraint_of(given)
            if constraint is None:
                raise AllocationError(
                    f"claim {claim.key}, constraint #{place}: empty constraint (unsupported constraint type?)"
                )
            constraints.append(constraint)
        self._constraints.append(constraints)
        return min(most, MOST_RESULTS)

    def _options(self, claim: ResourceClaim, request: DeviceRequest) -> list[Wanted]:
        options = requests_of(request)
        if request.first_available and not self._features.prioritized_list:
            raise AllocationError(
                f"claim {claim.key}, request {request.name}: has subrequests, "
                "but the DRAPrioritizedList feature is disabled"
            )
        if not options:
            raise AllocationError(f"claim {claim.key}, request {request.name}: unknown request type")
        if not self._features.consumable_capacity:
            for option in options:
                if option.asks_capacity:
                    what = "subrequest" if option.parent else "request"
                    raise AllocationError(
                        f"claim {claim.key}, {what} {option.name}: has capacity requests, "
                        "but the DRAConsumableCapacity feature is disabled"
                    )
        return [self._check(claim, option) for option in options]

    def _check(self, claim: ResourceClaim, request: Request) -> Wanted:
        where = f"claim {claim.key}, request {request.name}"
        derives = bool(request.derived) and not self._features.derived_attributes
        if derives and self._features.choices.unknown_request_fields_fail:
            raise AllocationError(
                f"{where}: cannot handle request with derived attributes, the feature is disabled"
            )
        for place, selector in enumerate(request.selectors):
            if selector.cel is None:
                raise AllocationError(
                    f"{where}, selector #{place}: CEL expression empty (unsupported selector type?)"
                )
        if request.sets_admin and not self._features.admin_access:
            raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
        if not request.class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._allocator.classes.get(request.class_name)
        if device_class is None:
            raise AllocationError(
                f"{where}: could not retrieve device class {request.class_name}: "
                f'deviceclass.resource.k8s.io "{request.class_name}" not found'
            )
        if request.mode == EXACT_COUNT:
            return Wanted(request, device_class, request.count)
        if request.mode != ALL_DEVICES:
            raise AllocationError(f"{where}: unsupported count mode {request.mode}")
        wanted = Wanted(request, device_class, 0, [])
        wanted.all_devices = list(self._all_devices(claim, wanted, where))
        wanted.count = len(wanted.all_devices)
        return wanted

    def _all_devices(self, claim: ResourceClaim, wanted: Wanted, where: str) -> Iterator[DeviceRef]:
        for pool in self._pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.text} is currently {state}"
                )
            for ref in pool.devices:
                if self._is_selectable(claim, wanted, ref) and self._counts_for_all(claim, wanted, ref):
                    yield ref

    def _counts_for_all(self, claim: ResourceClaim, wanted: Wanted, ref: DeviceRef) -> bool:
        """Whether a device that was selected is one of those an All request needs. Raises AllocationError."""
        if self._allocator.all_counts_remaining:
            return self._has_capacity(claim, wanted.request, ref)
        if not self._features.consumable_capacity:
            return True
        try:
            return self._capacity.fits(wanted.request.capacity, ref.device.capacity, _NOTHING, _NOTHING)
        except CapacityError as cause:
            raise AllocationError(
                f"claim {claim.key}, request {wanted.request.name}: "
                f"checking capacity for device {ref.device.name}: {cause}"
            ) from None

    # The search

    def _next_claim(self, number: int) -> bool:
        return number >= len(self._claims) or self._next_request(number, 0)

    def _next_request(self, number: int, place: int) -> bool:
        """Find devices for the requests of a claim from one on, then for the next claims.

        Raises _TooManyError if nothing that was chosen before within the claim can help.
        """
        self._check_time()
        options = self._wanted[number]
        if place >= len(options):
            try:
                return self._next_claim(number + 1)
            except _TooManyError:
                # A claim before may take other devices, which may leave it an alternative with fewer.
                return False
        alternatives = options[place]
        if not alternatives[0].request.parent:
            return self._next_device(number, place, alternatives[0], 0, 0)
        always_too_many = True
        for choice, wanted in enumerate(alternatives):
            try:
                done = self._next_device(number, place, wanted, 0, 0)
            except _TooManyError:
                continue
            always_too_many = False
            if done:
                self._selected[number, place] = choice
                return True
        if always_too_many:
            raise _TooManyError
        return False

    def _next_device(self, number: int, place: int, wanted: Wanted, index: int, start: int) -> bool:
        """Find the devices of a request from number `index` on, looking at devices from `start` on."""
        self._check_time()
        if wanted.all_devices is not None and not wanted.all_devices:
            return False
        if index >= wanted.count:
            return self._next_request(number, place + 1)
        if len(self._results[number]) + wanted.count - index > MOST_RESULTS:
            raise _TooManyError
        if wanted.all_devices is not None:
            return self._take_all(number, place, wanted, index)
        claim, request = self._claims[number], wanted.request
        devices = self._devices
        for position in range(start, len(devices)):
            ref = devices[position]
            if self._is_taken(request, ref.id, number):
                continue
            if not self._is_selectable(claim, wanted, ref) or not self._has_capacity(claim, request, ref):
                continue
            undo = self._take(number, wanted, ref, must=False)
            if undo is None:
                continue
            done = False
            try:
                done = self._next_device(number, place, wanted, index + 1, position + 1)
            finally:
                if not done:
                    self._give_back(number, wanted, ref, undo)
            if done:
                return True
        return False

    def _take_all(self, number: int, place: int, wanted: Wanted, index: int) -> bool:
        """All devices are needed, so there is only one way to take them."""
        assert wanted.all_devices is not None
        ref = wanted.all_devices[index]
        undo = self._take(number, wanted, ref, must=True)
        if undo is None:
            return False
        done = False
        try:
            done = self._next_device(number, place, wanted, index + 1, 0)
        finally:
            if not done:
                self._give_back(number, wanted, ref, undo)
        return done

    def _check_time(self) -> None:
        if self._deadline is not None and self._allocator.timer() > self._deadline:
            raise AllocationTimeoutError

    # One device

    def _is_taken(self, request: Request, id: DeviceID, number: int) -> bool:
        if request.admin:
            return number in self._taking.get(id, ())
        allocated = self._allocated
        if id in allocated.devices or self._taking.get(id):
            return True
        return not self._features.consumable_capacity and id in allocated.shared

    def _is_selectable(self, claim: ResourceClaim, wanted: Wanted, ref: DeviceRef) -> bool:
        """Whether class and request select a device, and it is for the node. Raises AllocationError."""
        if ref.device.binding_conditions and not self._features.binding_conditions:
            return False
        known = wanted.matches.get(ref.id)
        if known is None:
            known = wanted.matches[ref.id] = self._selects(claim, wanted, ref)
        return known

    def _selects(self, claim: ResourceClaim, wanted: Wanted, ref: DeviceRef) -> bool:
        device_class = wanted.device_class
        if not self._match(f"class {device_class.name}", device_class.spec.selectors, ref):
            return False
        if not self._match(f"claim {claim.key}", wanted.request.selectors, ref):
            return False
        if not ref.slice.spec.per_device_node_selection:
            return True
        try:
            return device_matches(self._node, ref.device)
        except PoolError as cause:
            raise AllocationError(str(cause)) from None

    def _match(self, whose: str, selectors: Sequence[DeviceSelector], ref: DeviceRef) -> bool:
        for place, selector in enumerate(selectors):
            expression = "" if selector.cel is None else selector.cel.expression
            try:
                if not self._allocator.selectors.matches(expression, ref):
                    return False
            except CompileError as cause:
                raise AllocationError(f"{whose}: selector #{place}: CEL compile error: {cause}") from None
            except EvaluationError as cause:
                failed = self._allocator.selector_failure(place, ref, str(cause))
                raise AllocationError(f"{whose}: {failed}") from None
        return True

    def _has_capacity(
        self, claim: ResourceClaim, request: Request, ref: DeviceRef, doing: str = "checking"
    ) -> bool:
        """Whether enough is left of what a device has. Raises AllocationError."""
        if not self._features.consumable_capacity:
            return True
        taken = self._allocated.capacity.get(ref.id, _NOTHING)
        taking = self._taking_capacity.get(ref.id, _NOTHING)
        try:
            return self._capacity.fits(request.capacity, ref.device.capacity, taken, taking)
        except CapacityError as cause:
            raise AllocationError(
                f"claim {claim.key}, request {request.name}: "
                f"{doing} capacity for device {'/'.join(ref.id)}: {cause}"
            ) from None

    def _take(self, number: int, wanted: Wanted, ref: DeviceRef, *, must: bool) -> _Undo | None:
        """Choose a device, if it can be used; None if not. Raises AllocationError if it `must` be used."""
        request, device, id = wanted.request, ref.device, ref.id
        shares = self._features.consumable_capacity and bool(device.allow_multiple_allocations)
        if request.admin:
            if not shares and number in self._taking.get(id, ()):
                return None
        elif self._is_taken(request, id, number):
            return None
        if device.consumes_counters and not self._features.partitionable:
            return None
        if self._features.heeds_skipped_operations and not is_usable(
            ref.slice, self._node, enabled=self._features.optional_node_operations
        ):
            return None
        counters = bool(device.consumes_counters) and not (shares and self._is_shared(id))
        groups = self._groups_with(ref) if counters and self._features.compatibility_groups else None
        if groups is not None and not admitted_by(groups, device):
            return None
        if counters and not self._draw_counters(ref):
            return None
        if groups is not None:
            self._members[id[:2]] = joined_by(groups, device)
        undo = _Undo(counters, 0, False, groups=groups)
        if self._features.device_taints and not tolerated(ref.taints, request.tolerations):
            self._undo(number, wanted, ref, undo)
            return None
        base, sub = (request.parent, request.name) if request.parent else (request.name, "")
        looking_up: LookUp = look_up
        if request.derived and self._features.derived_attributes:
            looking_up = partial(self._attribute, request)
        for constraint in self._constraints[number]:
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
        if not self._has_capacity(self._claims[number], request, ref, "rechecking"):
            self._undo(number, wanted, ref, undo)
            return None
        chosen = Chosen(request, ref, shares)
        if shares:
            chosen.consumed = self._capacity.consumed(request.capacity, device.capacity)
            undo = undo._replace(share=chosen.consumed, was_shared=id in self._taking_capacity)
            add_consumed(self._taking_capacity, id, chosen.consumed)
        self._results[number].append(chosen)
        return undo

    def _attribute(self, request: Request, ref: DeviceRef, name: str) -> DeviceAttribute | None:
        """An attribute of a device as a request has it: computed, or the device's. Raises AllocationError."""
        expression = request.derived.get(name)
        if expression is None:
            return look_up(ref, name)
        known = self._derived.get((ref.id, expression))
        if known is None:
            try:
                known = self._allocator.selectors.attribute(expression, ref)
            except CompileError as cause:
                raise AllocationError(f"compile derived attribute {name} failed: {cause}") from None
            except EvaluationError as cause:
                raise AllocationError(
                    f"evaluate derived attribute {name} on device {'/'.join(ref.id)} failed: {cause}"
                ) from None
            self._derived[ref.id, expression] = known
        return known

    def _is_shared(self, id: DeviceID) -> bool:
        """Whether a device that can be shared is in use, so that its counters are charged already."""
        if id in self._allocated.capacity or id in self._taking_capacity:
            return True
        return id in self._allocated.shared and not self._allocator.shares_by_capacity

    def _give_back(self, number: int, wanted: Wanted, ref: DeviceRef, undo: _Undo) -> None:
        self._results[number].pop()
        self._undo(number, wanted, ref, undo)

    def _undo(self, number: int, wanted: Wanted, ref: DeviceRef, undo: _Undo) -> None:
        """Take back what choosing a device changed, in the opposite order."""
        request, id = wanted.request, ref.id
        if undo.share is not None:
            remove_consumed(self._taking_capacity, id, undo.share)
            if undo.was_shared:
                self._taking_capacity.setdefault(id, {})
        if undo.marked:
            self._taking[id].discard(number)
        base, sub = (request.parent, request.name) if request.parent else (request.name, "")
        for constraint in reversed(self._constraints[number][: undo.constraints]):
            constraint.remove(base, sub)
        if undo.groups is not None:
            self._members[id[:2]] = undo.groups
        if undo.counters:
            self._change_counters(ref, -1)

    # Counters

    def _groups_with(self, ref: DeviceRef) -> ByCounterSet:
        """What the devices of a pool that are taken or chosen have in common, by counter set."""
        pool = ref.id[:2]
        found = self._members.get(pool)
        return self._allocator.allocated_members(self._pool_of[pool]) if found is None else found

    def _draw_counters(self, ref: DeviceRef) -> bool:
        """Take what a device draws from the counters of its pool; False if some counter has too little."""
        pool = self._pool_of[ref.id[:2]]
        self._change_counters(ref, 1)
        consumed = self._consumed_counters[pool.id]
        for name, counters in self._allocator.available_counters(pool).items():
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


_ZERO: Final = quantity_of("0")


def _plain_failure(place: int, ref: DeviceRef, error: str) -> str:
    return f"selector #{place}: CEL runtime error: {error}"


def _naming_device(place: int, ref: DeviceRef, error: str) -> str:
    advice = _ADVICE if "no such key:" in error else ""
    return f"selector #{place} on device {'/'.join(ref.id)}: CEL runtime error: {error}{advice}"
