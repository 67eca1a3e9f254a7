"""Why the claims of a pod get no devices on a node: the first request or constraint that cannot be met.

It is found with the allocator itself, on smaller and smaller parts of the claims. Then every device is
examined for the one request that fails.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from stowplan.api.devices import (
    DeviceAttribute,
    DeviceConstraint,
    DeviceID,
    DeviceRequest,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
)
from stowplan.api.node import Node
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.runtime.lazy import lazy_module
from stowplan.scheduler.framework.advanced import Budget, BudgetExceededError
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.scheduler.plugins.dynamicresources.allocation.allocator import Allocator, InvalidPoolsError
from stowplan.scheduler.plugins.dynamicresources.allocation.capacity import CapacityError
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import AllocationError
from stowplan.scheduler.plugins.dynamicresources.allocation.constraints import concerns, look_up, values_of
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool, PoolError, device_matches
from stowplan.scheduler.plugins.dynamicresources.allocation.requests import Request, is_tolerated, requests_of
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import CompileError, EvaluationError
from stowplan.scheduler.table.devices import Claims, DeviceRef

if TYPE_CHECKING:
    from stowplan.api.cel import parts as expressions
else:
    expressions = lazy_module("stowplan.api.cel.parts")

PATIENCE: Final = 0.5
"""Seconds that the diagnosis of an attempt may take on all nodes together: the scheduler waits for it."""

SELECTOR: Final = "selector"
TAKEN: Final = "taken"
TAINT: Final = "taint"
CAPACITY: Final = "capacity"
COUNTER: Final = "counter"
ELSEWHERE: Final = "node"
FAILED: Final = "error"
USABLE: Final = "usable"

_NOTHING: Final[dict[str, Quantity]] = {}


class Verdict(NamedTuple):
    """Reason why one device cannot be used for one request; `kind` is USABLE if there is none."""

    ref: DeviceRef
    request: str
    kind: str
    text: str = ""
    taint: DeviceTaint | None = None
    selector: tuple[int, str] | None = None
    """The number of the request's selector that is false, and the part of it."""
    left: Mapping[str, Quantity] = _NOTHING
    """Its remaining capacity."""

    @property
    def name(self) -> str:
        return "/".join(self.ref.id)


class DeviceProblem(NamedTuple):
    """The claim that cannot be met, and its failing request or constraint.

    `verdicts` are about all devices of the node, once for every alternative of the request.
    """

    number: int
    claim: ResourceClaim
    request: DeviceRequest | None
    constraint: DeviceConstraint | None
    verdicts: Sequence[Verdict]

    def usable(self, request: Request) -> list[Verdict]:
        name = request.full_name
        return [one for one in self.verdicts if one.request == name and one.kind == USABLE]


class Holders:
    """Which claims hold a device, as long as no claim changes."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._version = -1
        self._of_device: dict[DeviceID, list[ResourceClaim]] = {}

    def of(self, device: DeviceID) -> list[ResourceClaim]:
        if self._version != self._claims.version:
            self._version = self._claims.version
            self._of_device = {}
            in_flight = [one.claim for one in self._claims.in_flight().values() if one.counts]
            for claim in (*self._claims.all(), *in_flight):
                for result in () if claim.allocation is None else claim.allocation.devices.results:
                    known = self._of_device.setdefault(result.id, [])
                    if not result.admin_access and claim not in known:
                        known.append(claim)
        return self._of_device.get(device, [])


class Diagnosis:
    """Looks for what is in the way of claims on one node."""

    def __init__(
        self,
        allocator: Allocator,
        holders: Holders,
        node: Node,
        pools: Sequence[Pool],
        claims: Sequence[ResourceClaim],
        budget: Budget,
    ) -> None:
        self._allocator = allocator
        self.budget = budget
        self._holders = holders
        self._node = node
        self.pools = pools
        self.claims = claims
        self.devices = [
            ref for pool in pools if not (pool.is_incomplete or pool.is_invalid) for ref in pool.devices
        ]

    def fits(self, claims: Sequence[ResourceClaim]) -> bool:
        """True if claims could get devices. Raises AllocationError, BudgetExceededError."""
        try:
            found = self._allocator.allocate(self._node, self.pools, claims, self.budget)
        except InvalidPoolsError:
            return False
        return found is not None

    def fits_with(self, number: int, claim: ResourceClaim) -> bool:
        """True if the claims could get devices with one of them replaced."""
        changed = [claim if place == number else one for place, one in enumerate(self.claims)]
        try:
            return self.fits(changed)
        except (AllocationError, BudgetExceededError):
            return False

    def problem(self) -> DeviceProblem | None:
        """The first thing that cannot be met; None if all can. Raises what `fits` raises."""
        for number, claim in enumerate(self.claims):
            before = self.claims[:number]
            if self.fits([*before, claim]):
                continue
            asked = claim.spec.devices
            for count in range(1, len(asked.requests) + 1):
                if not self.fits([*before, _trimmed(claim, count, 0)]):
                    request = asked.requests[count - 1]
                    return DeviceProblem(number, claim, request, None, [*self.verdicts(claim, request)])
            for count in range(1, len(asked.constraints) + 1):
                if not self.fits([*before, _trimmed(claim, len(asked.requests), count)]):
                    constraint = asked.constraints[count - 1]
                    verdicts = [
                        verdict for request in asked.requests for verdict in self.verdicts(claim, request)
                    ]
                    return DeviceProblem(number, claim, None, constraint, verdicts)
        return None

    def verdicts(self, claim: ResourceClaim, request: DeviceRequest) -> Iterator[Verdict]:
        """The verdict on every device for a request, alternative by alternative.

        Raises BudgetExceededError.
        """
        for option in requests_of(request):
            for ref in self.devices:
                self.budget.spend()
                yield self._verdict(claim, option, ref)

    def _verdict(self, claim: ResourceClaim, request: Request, ref: DeviceRef) -> Verdict:
        found = self._not_selected(claim, request, ref)
        if found is None and ref.slice.spec.per_device_node_selection:
            found = self._elsewhere(request, ref)
        return (
            found
            or self._taken(request, ref)
            or self._tainted(request, ref)
            or self._short_of_capacity(request, ref)
            or self._short_of_counters(request, ref)
            or Verdict(ref, request.full_name, USABLE)
        )

    def _not_selected(self, claim: ResourceClaim, request: Request, ref: DeviceRef) -> Verdict | None:
        device_class = self._allocator.classes.get(request.class_name)
        of_class = () if device_class is None else device_class.spec.selectors
        for whose, selectors in ((f"class {request.class_name}", of_class), ("", request.selectors)):
            for place, selector in enumerate(selectors):
                said = self._said(selector, ref)
                if said is None:
                    continue
                kind, part, text = said
                where = f" (selector of {whose})" if whose else ""
                about = None if whose else (place, part)
                return Verdict(ref, request.full_name, kind, text + where, selector=about)
        return None

    def _said(self, selector: DeviceSelector, ref: DeviceRef) -> tuple[str, str, str] | None:
        """The kind of trouble, the part of a selector that is false or fails, and both in words."""
        expression = "" if selector.cel is None else selector.cel.expression
        try:
            if self._matches(expression, ref):
                return None
        except (CompileError, EvaluationError) as cause:
            return FAILED, expression, f"{expression} fails: {cause}"
        for part in expressions.conjuncts(expression):
            try:
                if self._matches(part, ref):
                    continue
            except (CompileError, EvaluationError):
                continue
            return SELECTOR, part, f"{part} is false{_looked_at(part, ref)}"
        return SELECTOR, expression, f"{expression} is false{_looked_at(expression, ref)}"

    def _matches(self, expression: str, ref: DeviceRef) -> bool:
        return run_at_once(self._allocator.selectors.match(expression, ref, self.budget))

    def _elsewhere(self, request: Request, ref: DeviceRef) -> Verdict | None:
        try:
            if device_matches(self._node, ref.device):
                return None
        except PoolError as cause:
            return Verdict(ref, request.full_name, FAILED, str(cause))
        return Verdict(ref, request.full_name, ELSEWHERE, "for other nodes")

    def _taken(self, request: Request, ref: DeviceRef) -> Verdict | None:
        if request.admin or ref.id not in self._allocator.allocated.devices:
            return None
        return Verdict(ref, request.full_name, TAKEN, f"taken by {held_by(self._holders.of(ref.id))}")

    def _tainted(self, request: Request, ref: DeviceRef) -> Verdict | None:
        if not self._allocator.features.device_taints:
            return None
        for taint in ref.taints:
            if not is_tolerated(taint, request.tolerations):
                text = f"tainted {shown_taint(taint)}"
                return Verdict(ref, request.full_name, TAINT, text, taint)
        return None

    def _short_of_capacity(self, request: Request, ref: DeviceRef) -> Verdict | None:
        if not self._allocator.features.consumable_capacity:
            return None
        taken = self._allocator.allocated.capacity.get(ref.id, _NOTHING)
        offered = ref.device.capacity
        try:
            if self._allocator.capacity_rules.fits(request.capacity, offered, dict(taken), {}):
                return None
        except CapacityError as cause:
            return Verdict(ref, request.full_name, CAPACITY, str(cause))
        missing = sorted(request.capacity.keys() - offered.keys())
        if missing:
            return Verdict(ref, request.full_name, CAPACITY, f"without capacity {', '.join(missing)}")
        left = {
            name: quantity_of(one.value).sub(taken[name]) if name in taken else quantity_of(one.value)
            for name, one in offered.items()
        }
        wants = self._allocator.capacity_rules.consumed(request.capacity, offered)
        short = [name for name, amount in wants.items() if amount > left[name]]
        parts = [f"{name} {wants[name]} wanted, {left[name]} of {offered[name].value} left" for name in short]
        holders = self._holders.of(ref.id)
        shared = f" (shared by {held_by(holders)})" if holders else ""
        text = ", ".join(parts) + shared if parts else "capacity that its policy does not allow"
        return Verdict(ref, request.full_name, CAPACITY, text, left=left)

    def _short_of_counters(self, request: Request, ref: DeviceRef) -> Verdict | None:
        pool = next((one for one in self.pools if one.id == ref.id[:2]), None)
        if pool is None or self._allocator.allocated.is_allocated(ref.id):
            return None
        available = self._allocator.available_counters(pool)
        for drawn in ref.device.consumes_counters:
            for key, counter in drawn.counters.items():
                left = available.get(drawn.counter_set, {}).get(key)
                if left is not None and quantity_of(counter.value) > left:
                    text = f"counter {key} of {drawn.counter_set} has {left} left, it draws {counter.value}"
                    return Verdict(ref, request.full_name, COUNTER, text)
        return None


def _trimmed(claim: ResourceClaim, requests: int, constraints: int) -> ResourceClaim:
    """A claim with the first of its requests and constraints only."""
    asked = claim.spec.devices
    devices = replace(
        asked, requests=asked.requests[:requests], constraints=asked.constraints[:constraints], config=()
    )
    return replace(claim, spec=replace(claim.spec, devices=devices))


def _looked_at(part: str, ref: DeviceRef) -> str:
    """The values that a part of an expression looked at: ` (model "a100")`."""
    found = []
    for what, domain, name in expressions.mentioned(part):
        if what == "capacity":
            capacity = ref.device.capacity.get(f"{domain}/{name}")
            if capacity is None and domain == ref.id[0]:
                capacity = ref.device.capacity.get(name)
            value = "not set" if capacity is None else str(capacity.value)
        else:
            attribute = look_up(ref, f"{domain}/{name}")
            value = "not set" if attribute is None else shown_value(attribute)
        found.append(f"{name} {value}")
    return f" ({', '.join(found)})" if found else ""


def shown_value(attribute: DeviceAttribute) -> str:
    values = sorted(values_of(attribute, lists=True), key=str)
    shown = [f'"{value}"' if isinstance(value, str) else str(value).lower() for _, value in values]
    return " and ".join(shown) if shown else "of an unknown type"


def shown_taint(taint: DeviceTaint | DeviceToleration) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def held_by(claims: Sequence[ResourceClaim]) -> str:
    """The pods for which claims are reserved, and the claims where there is no pod or one of another name."""
    shown = []
    for claim in claims:
        pods = [f"{claim.namespace}/{one.name}" for one in claim.status.reserved_for]
        shown.append(f"{' and '.join(pods)} (claim {claim.name})" if pods else f"claim {claim.key}")
    return ", ".join(shown) if shown else "a claim that is gone"


def values_seen(problem: DeviceProblem, attribute: str, lists: bool) -> Counter[str]:
    """Number of usable devices by value of a constraint's attribute."""
    constraint = problem.constraint
    assert constraint is not None
    named = frozenset(constraint.requests)
    found: Counter[str] = Counter()
    seen: set[DeviceID] = set()
    for verdict in problem.verdicts:
        base, _, sub = verdict.request.partition("/")
        if verdict.kind != USABLE or verdict.ref.id in seen or not concerns(named, base, sub):
            continue
        seen.add(verdict.ref.id)
        value = look_up(verdict.ref, attribute)
        found["not set" if value is None else shown_value(value)] += 1
    return found
