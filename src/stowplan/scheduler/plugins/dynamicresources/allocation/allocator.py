"""The structured allocator: a depth-first search for devices, claim by claim, request by request.

The first solution counts. Devices are tried in the order of their pools; within one request only in
ascending order, so that every set of devices is tried once. It is a generator that may be interrupted after
every few devices. Once it has taken longer than it takes to look at every device, it looks at what can be
had at all (outlook.py).
"""

from bisect import bisect_left
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Final, NamedTuple

from stowplan.api.devices import (
    ALL_DEVICES,
    EXACT_COUNT,
    MOST_RESULTS,
    DeviceRequest,
    DeviceSelector,
    ResourceClaim,
)
from stowplan.api.node import Node
from stowplan.scheduler.framework.advanced import STRETCH, Budget, Step, standing_still
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.scheduler.plugins.dynamicresources.allocation.capacity import CapacityError
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import (
    AllocationError,
    Chosen,
    DeviceChoice,
    Stock,
    Undo,
)
from stowplan.scheduler.plugins.dynamicresources.allocation.constraints import Constraint, constraints_of
from stowplan.scheduler.plugins.dynamicresources.allocation.outlook import Outlook
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool, PoolError, device_matches
from stowplan.scheduler.plugins.dynamicresources.allocation.requests import Request, Wanted, requests_of
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import (
    CompileError,
    EvaluationError,
    Selectors,
)
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.devices import (
    AllocatedState,
    Classes,
    Consumed,
    DeviceRef,
)

_NOTHING: Consumed = {}
_PATIENCE: Final = 256
"""Devices that a search looks at, or twice as many as the node has, before it looks ahead."""
_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class InvalidPoolsError(Exception):
    """Nothing was found, and pools were left out because they are invalid."""


class Found(NamedTuple):
    """The devices of one claim, and by request the alternative that was taken."""

    devices: list[Chosen]
    wanted: list[Wanted]


@dataclass(slots=True)
class _Level:
    """A place of the search where there is a choice: of a device, or of an alternative of a request.

    `wanted` is None for a choice among alternatives. `next` is the position of the device, or the number of
    the alternative, that is tried next. `ref` and `undo` are those of the device that is chosen now.
    """

    number: int
    place: int
    wanted: Wanted | None
    index: int = 0
    next: int = 0
    ref: DeviceRef | None = None
    undo: Undo | None = None
    always_too_many: bool = True


_FOUND, _DEEPER, _FAILED, _TOO_MANY = range(4)
"""How a part of the search ended: with devices for everything, with another choice to make, without any
solution, or because a claim would get more devices than a claim can have."""

Searching = Generator[Step, None, "list[Found] | None"]


class Allocator(Stock):
    """Searches devices for claims on one node after the other, as things stand at one moment."""

    def __init__(
        self, features: Features, allocated: AllocatedState, classes: Classes, selectors: Selectors
    ) -> None:
        super().__init__(features, allocated)
        self.classes = classes
        self.selectors = selectors
        choices = features.choices
        self.constraint_of = constraints_of(features)
        self.selector_failure = _naming_device if choices.selector_errors_name_device else _plain_failure
        self.all_counts_remaining = choices.all_mode_capacity == "remaining"

    def allocate(
        self,
        node: Node,
        pools: Sequence[Pool],
        claims: Sequence[ResourceClaim],
        budget: Budget | None = None,
    ) -> list[Found] | None:
        """Devices for all claims, None if there are none.

        Raises AllocationError, InvalidPoolsError, BudgetExceededError.
        """
        return run_at_once(self.search(node, pools, claims, budget))

    def search(
        self,
        node: Node,
        pools: Sequence[Pool],
        claims: Sequence[ResourceClaim],
        budget: Budget | None = None,
    ) -> Searching:
        """The same in steps."""
        budget = Budget(standing_still, None) if budget is None else budget
        found = yield from _Search(self, node, pools, claims, budget).run()
        if found is None and any(pool.is_invalid for pool in pools):
            raise InvalidPoolsError
        return found


class _Search:
    """One search on one node."""

    def __init__(
        self,
        allocator: Allocator,
        node: Node,
        pools: Sequence[Pool],
        claims: Sequence[ResourceClaim],
        budget: Budget,
    ) -> None:
        self._allocator = allocator
        self._features = allocator.features
        self._choice = DeviceChoice(allocator, node, pools, claims)
        self._node = node
        self._pools = pools
        self._claims = claims
        self._budget = budget
        self._looked_at = 0
        """Number of devices looked at so far, repeated looks included."""
        self._overfull = 0
        """The claim that would have got too many devices."""
        self._outlook: Outlook | None = None
        self._devices = [
            ref for pool in pools if not (pool.is_incomplete or pool.is_invalid) for ref in pool.devices
        ]
        self._wanted: list[list[list[Wanted]]] = []
        self._selected: dict[tuple[int, int], int] = {}

    def run(self) -> Searching:
        self._budget.spend()
        for number, claim in enumerate(self._claims):
            yield from self._prepare(number, claim)
        if not (yield from self._find()):
            return None
        return [
            Found(
                self._choice.results[number],
                [
                    options[self._selected.get((number, place), 0)]
                    for place, options in enumerate(self._wanted[number])
                ],
            )
            for number in range(len(self._claims))
        ]

    # Checking claims

    def _prepare(self, number: int, claim: ResourceClaim) -> Generator[Step, None, None]:
        """Look at the requests and constraints of a claim."""
        least = 0
        wanted: list[list[Wanted]] = []
        for request in claim.spec.devices.requests:
            options = yield from self._options(claim, request)
            wanted.append(options)
            least += min([option.count for option in options], default=0)
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
        self._choice.constraints.append(constraints)

    def _options(self, claim: ResourceClaim, request: DeviceRequest) -> Generator[Step, None, list[Wanted]]:
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
        found = []
        for option in options:
            wanted = self._check(claim, option)
            if wanted.all_devices is not None:
                yield from self._add_all(claim, wanted)
            found.append(wanted)
        return found

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
        return Wanted(request, device_class, 0, [])

    def _add_all(self, claim: ResourceClaim, wanted: Wanted) -> Generator[Step, None, None]:
        """Find the devices that a request for all of them needs. Raises AllocationError."""
        assert wanted.all_devices is not None
        for pool in self._pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"claim {claim.key}, request {wanted.request.name}: asks for all devices, "
                    f"but resource pool {pool.text} is currently {state}"
                )
            for ref in pool.devices:
                if self._looks_at_one():
                    yield None
                selected = yield from self._is_selectable(claim, wanted, ref)
                if selected and self._counts_for_all(claim, wanted, ref):
                    wanted.all_devices.append(ref)
        wanted.count = len(wanted.all_devices)

    def _counts_for_all(self, claim: ResourceClaim, wanted: Wanted, ref: DeviceRef) -> bool:
        """True if a selected device is one of those an All request needs. Raises AllocationError."""
        if self._allocator.all_counts_remaining:
            return self._choice.has_capacity(claim, wanted.request, ref)
        if not self._features.consumable_capacity:
            return True
        try:
            return self._allocator.capacity_rules.fits(
                wanted.request.capacity, ref.device.capacity, _NOTHING, _NOTHING
            )
        except CapacityError as cause:
            raise AllocationError(
                f"claim {claim.key}, request {wanted.request.name}: "
                f"checking capacity for device {ref.device.name}: {cause}"
            ) from None

    # The search

    def _find(self) -> Generator[Step, None, bool]:
        """Find devices for all claims: go deeper where there is a choice, and back where there is none left.

        The levels stand on a list of their own: claims may take more devices together than Python allows
        calls within each other, and the search can be interrupted at any depth.
        """
        levels: list[_Level] = []
        ended = self._enter_request(levels, 0, 0)
        looks_ahead_after = max(_PATIENCE, 2 * len(self._devices))
        while ended != _FOUND:
            if ended != _DEEPER:
                if not levels:
                    return False
                if not self._returns_to(levels, ended):
                    continue
            top = levels[-1]
            if top.wanted is None:
                ended = self._next_alternative(levels, top)
                continue
            position = yield from self._next_device(top, top.wanted)
            if position < 0:
                levels.pop()
                ended = _FAILED
            else:
                top.next = position + 1
                following = 0 if top.wanted.all_devices is not None else position + 1
                ended = self._enter_device(
                    levels, top.number, top.place, top.wanted, top.index + 1, following
                )
            if self._looked_at > looks_ahead_after:
                looks_ahead_after = maxsize
                self._outlook = yield from self._look_ahead()
                if self._outlook is not None and self._outlook.is_hopeless:
                    return False
        for level in levels:
            if level.wanted is None:
                self._selected[level.number, level.place] = level.next - 1
        return True

    def _returns_to(self, levels: list[_Level], ended: int) -> bool:
        """Take back what was chosen at the last level, as nothing came of it; False if it has no more choice.

        A claim that would get too many devices gets no fewer by other devices of the same request, but maybe
        by other alternatives of it, or with other devices for the claims before.
        """
        top = levels[-1]
        if ended == _TOO_MANY and top.number != self._overfull:
            ended = _FAILED
        if top.wanted is None:
            top.always_too_many = top.always_too_many and ended == _TOO_MANY
            return True
        assert top.ref is not None
        assert top.undo is not None
        self._choice.give_back(top.number, top.wanted, top.ref, top.undo)
        top.ref = top.undo = None
        if ended == _TOO_MANY or top.wanted.all_devices is not None:
            levels.pop()
            return False
        return True

    def _enter_request(self, levels: list[_Level], number: int, place: int) -> int:
        """Go on with a request of a claim, or with the claims after it."""
        while number < len(self._claims) and place >= len(self._wanted[number]):
            number, place = number + 1, 0
        if number >= len(self._claims):
            return _FOUND
        alternatives = self._wanted[number][place]
        if not alternatives[0].request.parent:
            return self._enter_device(levels, number, place, alternatives[0], 0, 0)
        levels.append(_Level(number, place, None))
        return _DEEPER

    def _enter_device(
        self, levels: list[_Level], number: int, place: int, wanted: Wanted, index: int, start: int
    ) -> int:
        """Go on with device number `index` of a request, looking at devices from `start` on."""
        if wanted.all_devices is not None and not wanted.all_devices:
            return _FAILED
        if index >= wanted.count:
            return self._enter_request(levels, number, place + 1)
        if len(self._choice.results[number]) + wanted.count - index > MOST_RESULTS:
            self._overfull = number
            return _TOO_MANY
        levels.append(_Level(number, place, wanted, index, start))
        return _DEEPER

    def _next_alternative(self, levels: list[_Level], top: _Level) -> int:
        alternatives = self._wanted[top.number][top.place]
        if top.next >= len(alternatives):
            levels.pop()
            self._overfull = top.number
            return _TOO_MANY if top.always_too_many else _FAILED
        top.next += 1
        return self._enter_device(levels, top.number, top.place, alternatives[top.next - 1], 0, 0)

    def _next_device(self, top: _Level, wanted: Wanted) -> Generator[Step, None, int]:
        """Choose the next device for a level; returns its position, -1 if there is none."""
        number, request, claim = top.number, wanted.request, self._claims[top.number]
        if wanted.all_devices is not None:
            # All devices are needed, so there is only one way to take them.
            if self._looks_at_one():
                yield None
            ref = wanted.all_devices[top.index]
            if request.derived:
                yield from self._derive(number, request, ref)
            top.ref, top.undo = ref, self._choice.take(number, wanted, ref, must=True)
            return -1 if top.undo is None else top.index
        outlook = self._outlook
        positions: Sequence[int] = range(len(self._devices))
        at = top.next
        if outlook is not None:
            positions = outlook.candidates(wanted)
            at = bisect_left(positions, top.next)
        missing = wanted.count - top.index - 1
        while at < len(positions) - (missing if outlook is not None else 0):
            position = positions[at]
            at += 1
            ref = self._devices[position]
            if self._looks_at_one():
                yield None
            if self._choice.is_taken(request, ref.id, number):
                continue
            if outlook is not None:
                if missing and not outlook.has_company(wanted, ref, position, missing):
                    continue
            elif not (yield from self._is_selectable(claim, wanted, ref)):
                continue
            if not self._choice.has_capacity(claim, request, ref):
                continue
            if request.derived:
                yield from self._derive(number, request, ref)
            undo = self._choice.take(number, wanted, ref, must=False)
            if undo is not None:
                top.ref, top.undo = ref, undo
                return position
        return -1

    def _looks_at_one(self) -> bool:
        """Count a device that is looked at; whether it is time to let others run."""
        self._looked_at += 1
        if self._looked_at % STRETCH:
            return False
        self._budget.spend(STRETCH)
        return True

    def _look_ahead(self) -> Generator[Step, None, Outlook | None]:
        """Look at every device for every request, as the search turns out to be long.

        None if something is wrong with a selector or a capacity: then the attempt fails when the search comes
        to that device, and not before.
        """
        outlook = Outlook(self._devices, self._features)
        for number, claim in enumerate(self._claims):
            for options in self._wanted[number]:
                for wanted in options:
                    if wanted.all_devices is not None and self._choice.constraints[number]:
                        return None
                    try:
                        positions = yield from self._possible(claim, wanted)
                    except AllocationError:
                        return None
                    outlook.add(wanted, positions)
            yield from outlook.add_claim(claim, self._wanted[number], self._budget)
        outlook.judge()
        return outlook

    def _possible(self, claim: ResourceClaim, wanted: Wanted) -> Generator[Step, None, list[int]]:
        """The positions of the devices that a request could get if nothing else were asked for."""
        found = []
        request, choice = wanted.request, self._choice
        needed = None if wanted.all_devices is None else {ref.id for ref in wanted.all_devices}
        for position, ref in enumerate(self._devices):
            if self._looks_at_one():
                yield None
            if needed is not None:
                possible = ref.id in needed
            else:
                possible = yield from self._is_selectable(claim, wanted, ref)
            if possible and not request.admin:
                possible = not choice.is_allocated(ref.id)
            if (
                possible
                and choice.is_takeable(request, ref)
                and choice.has_capacity_alone(claim, request, ref)
            ):
                found.append(position)
        return found

    # One device

    def _is_selectable(
        self, claim: ResourceClaim, wanted: Wanted, ref: DeviceRef
    ) -> Generator[Step, None, bool]:
        """True if class and request select a device, and it is for the node. Raises AllocationError."""
        if ref.device.binding_conditions and not self._features.binding_conditions:
            return False
        known = wanted.matches.get(ref.id)
        if known is None:
            known = wanted.matches[ref.id] = yield from self._selects(claim, wanted, ref)
        return known

    def _selects(self, claim: ResourceClaim, wanted: Wanted, ref: DeviceRef) -> Generator[Step, None, bool]:
        device_class = wanted.device_class
        of_class = device_class.spec.selectors
        if of_class and not (yield from self._match(f"class {device_class.name}", of_class, ref)):
            return False
        asked = wanted.request.selectors
        if asked and not (yield from self._match(f"claim {claim.key}", asked, ref)):
            return False
        if not ref.slice.spec.per_device_node_selection:
            return True
        try:
            return device_matches(self._node, ref.device)
        except PoolError as cause:
            raise AllocationError(str(cause)) from None

    def _match(
        self, whose: str, selectors: Sequence[DeviceSelector], ref: DeviceRef
    ) -> Generator[Step, None, bool]:
        for place, selector in enumerate(selectors):
            expression = "" if selector.cel is None else selector.cel.expression
            try:
                if not (yield from self._allocator.selectors.match(expression, ref, self._budget)):
                    return False
            except CompileError as cause:
                raise AllocationError(f"{whose}: selector #{place}: CEL compile error: {cause}") from None
            except EvaluationError as cause:
                failed = self._allocator.selector_failure(place, ref, str(cause))
                raise AllocationError(f"{whose}: {failed}") from None
        return True

    def _derive(self, number: int, request: Request, ref: DeviceRef) -> Generator[Step, None, None]:
        """Compute the attributes of a device that a request defines, for the constraints of the claim."""
        if not self._features.derived_attributes or not self._choice.constraints[number]:
            return
        for expression in request.derived.values():
            if (ref.id, expression) not in self._choice.derived:
                self._choice.derived[ref.id, expression] = yield from self._allocator.selectors.attribute(
                    expression, ref, self._budget
                )


def _plain_failure(place: int, ref: DeviceRef, error: str) -> str:
    return f"selector #{place}: CEL runtime error: {error}"


def _naming_device(place: int, ref: DeviceRef, error: str) -> str:
    advice = _ADVICE if "no such key:" in error else ""
    return f"selector #{place} on device {'/'.join(ref.id)}: CEL runtime error: {error}{advice}"
