"""Changes of claims that may get a pod its devices: a smaller request, or another pod's devices released.

Each is tried on the node with the allocator before it is proposed; the filters then decide if the pod is
placed.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from stowplan.api.devices import (
    ALL_DEVICES,
    CapacityRequirements,
    CELDeviceSelector,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    RawQuantity,
    ResourceClaim,
    ResourceClaimStatus,
)
from stowplan.api.pod import Pod
from stowplan.api.quantity import quantity_of
from stowplan.runtime.lazy import lazy_module
from stowplan.scheduler.framework.advanced import Remedy
from stowplan.scheduler.plugins.dynamicresources.explanation.diagnosis import (
    CAPACITY,
    TAKEN,
    DeviceProblem,
    Diagnosis,
    Holders,
    shown_taint,
)
from stowplan.scheduler.table.devices import Claims
from stowplan.scheduler.table.table import ClusterTable

if TYPE_CHECKING:
    from stowplan.api.cel import parts as expressions
else:
    expressions = lazy_module("stowplan.api.cel.parts")

Asked = ExactDeviceRequest | DeviceSubRequest


def remedies_for(
    pod: Pod, diagnosis: Diagnosis, problem: DeviceProblem, holders: Holders, table: ClusterTable
) -> Iterator[Remedy]:
    """Changes after which the claims get their devices on the node."""
    proposals = Proposals(pod, diagnosis, problem)
    yield from proposals.fewer()
    yield from proposals.tolerations()
    yield from proposals.smaller_capacity()
    yield from proposals.wider_selectors()
    yield from proposals.without_constraint()
    yield from freed(diagnosis, problem, holders, table)


class Proposals:
    """Changes of the claim that is in the way."""

    def __init__(self, pod: Pod, diagnosis: Diagnosis, problem: DeviceProblem) -> None:
        self._diagnosis = diagnosis
        self._problem = problem
        self._claim = problem.claim
        self._where = claim_in_words(pod, problem.claim)

    def fewer(self) -> Iterator[Remedy]:
        """As many devices as there are."""
        for place, request in self._requests():
            wanted = request.exactly
            if wanted is None or wanted.allocation_mode == ALL_DEVICES:
                continue
            for count in range(wanted.count - 1, 0, -1):
                changed = self._with(place, partial(_with_count, count))
                if self._diagnosis.fits_with(self._problem.number, changed):
                    text = f"ask for {count} (now {wanted.count}) in request {request.name} of {self._where}"
                    yield self._remedy("deviceCount", text, changed, (wanted.count - count) / wanted.count)
                    break

    def tolerations(self) -> Iterator[Remedy]:
        taints = list(dict.fromkeys(one.taint for one in self._problem.verdicts if one.taint is not None))
        for place, request in self._requests():
            for chosen in [[taint] for taint in taints] + ([taints] if len(taints) > 1 else []):
                added = tuple(_toleration(taint) for taint in chosen)
                changed = self._with(place, partial(_with_tolerations, added))
                if self._diagnosis.fits_with(self._problem.number, changed):
                    names = ", ".join(map(shown_taint, chosen))
                    text = f"tolerate {names} in request {request.name} of {self._where}"
                    yield self._remedy("deviceToleration", text, changed, len(chosen))
                    break

    def smaller_capacity(self) -> Iterator[Remedy]:
        """As much of a capacity as the device has that has most left."""
        short = [one.left for one in self._problem.verdicts if one.kind == CAPACITY and one.left]
        for place, request in self._requests():
            wanted = request.exactly
            if wanted is None or wanted.capacity is None:
                continue
            for name, amount in wanted.capacity.requests.items():
                left = max((one[name] for one in short if name in one), default=None)
                if left is None or left.is_zero or left < quantity_of(0) or left >= quantity_of(amount):
                    continue
                requests = {**wanted.capacity.requests, name: left.canonical()}
                changed = self._with(place, partial(_with_capacity, requests))
                if self._diagnosis.fits_with(self._problem.number, changed):
                    text = f"ask for {name} {left} (now {amount}) in request {request.name} of {self._where}"
                    yield self._remedy("deviceCapacity", text, changed, 1)

    def wider_selectors(self) -> Iterator[Remedy]:
        """The selector without the part that is false."""
        wrong = dict.fromkeys(one.selector for one in self._problem.verdicts if one.selector is not None)
        for place, request in self._requests():
            for found in wrong:
                assert found is not None
                number, part = found
                changed = self._with(place, partial(_with_selectors, number, part))
                if changed != self._claim and self._diagnosis.fits_with(self._problem.number, changed):
                    text = f"drop {part} from request {request.name} of {self._where}"
                    yield self._remedy("deviceSelector", text, changed, 1)

    def without_constraint(self) -> Iterator[Remedy]:
        constraint = self._problem.constraint
        if constraint is None:
            return
        asked = self._claim.spec.devices
        left = tuple(one for one in asked.constraints if one is not constraint)
        changed = replace(
            self._claim, spec=replace(self._claim.spec, devices=replace(asked, constraints=left))
        )
        if self._diagnosis.fits_with(self._problem.number, changed):
            attribute = constraint.match_attribute or constraint.distinct_attribute
            text = f"drop the constraint on {attribute} from {self._where}"
            yield self._remedy("deviceConstraint", text, changed, 1)

    def _requests(self) -> Iterator[tuple[int, DeviceRequest]]:
        """The request that is in the way; all, if it is a constraint."""
        for place, request in enumerate(self._claim.spec.devices.requests):
            if self._problem.request is None or request is self._problem.request:
                yield place, request

    def _with(self, place: int, change: Callable[[Asked], Asked]) -> ResourceClaim:
        """The claim with one request changed, in all its alternatives."""
        asked = self._claim.spec.devices
        request = asked.requests[place]
        changed = replace(
            request,
            exactly=None if request.exactly is None else change(request.exactly),
            first_available=tuple(map(change, request.first_available)),
        )
        requests = (*asked.requests[:place], changed, *asked.requests[place + 1 :])
        devices = replace(asked, requests=requests)
        return replace(self._claim, spec=replace(self._claim.spec, devices=devices))

    def _remedy(self, kind: str, text: str, changed: ResourceClaim, size: float) -> Remedy:
        return Remedy(kind, text, claim_patch(changed), size, claims=(changed,), of_claim=changed.key)


def _with_count(count: int, asked: Asked) -> Asked:
    return replace(asked, count=count)


def _with_tolerations(added: tuple[DeviceToleration, ...], asked: Asked) -> Asked:
    return replace(asked, tolerations=(*asked.tolerations, *added))


def _with_capacity(requests: dict[str, RawQuantity], asked: Asked) -> Asked:
    return replace(asked, capacity=CapacityRequirements(requests=requests))


def _with_selectors(number: int, part: str, asked: Asked) -> Asked:
    return replace(asked, selectors=_without_part(asked.selectors, number, part))


def _without_part(
    selectors: tuple[DeviceSelector, ...], number: int, part: str
) -> tuple[DeviceSelector, ...]:
    if number >= len(selectors) or selectors[number].cel is None:
        return selectors
    cel = selectors[number].cel
    assert cel is not None
    parts = expressions.conjuncts(cel.expression)
    if part not in parts:
        return selectors
    left = [one for one in parts if one != part]
    kept = (DeviceSelector(cel=CELDeviceSelector(expression=" && ".join(left))),) if left else ()
    return (*selectors[:number], *kept, *selectors[number + 1 :])


def _toleration(taint: DeviceTaint) -> DeviceToleration:
    return DeviceToleration(
        key=taint.key, operator="Equal" if taint.value else "Exists", value=taint.value, effect=taint.effect
    )


def claim_patch(claim: ResourceClaim) -> Mapping[str, Any]:
    """A patch of a claim; the lists in it are replaced as a whole."""
    devices = claim.spec.devices
    parts = {"requests": devices.requests, "constraints": devices.constraints}
    return {"spec": {"devices": msgspec.json.decode(msgspec.json.encode(parts))}}


def claim_in_words(pod: Pod, claim: ResourceClaim) -> str:
    """Object to change: the template if a claim is created from one."""
    template = template_of(pod, claim.name)
    return f"template {template}" if template else f"claim {claim.name}"


def template_of(pod: Pod, claim: str) -> str:
    """The template that a claim of a pod was made from; "" for one that exists by itself."""
    for status in pod.status.resource_claim_statuses:
        if status.resource_claim_name == claim:
            for asked in pod.spec.resource_claims:
                if asked.name == status.name and asked.resource_claim_template_name:
                    return asked.resource_claim_template_name
    return ""


def freed(
    diagnosis: Diagnosis, problem: DeviceProblem, holders: Holders, table: ClusterTable
) -> Iterator[Remedy]:
    """Pods that could end, and claims without pods that could go, with the devices they would give back.

    Those come first that have devices of the request that is in the way.
    """
    wanted = {one.ref.id for one in problem.verdicts if one.kind in (TAKEN, CAPACITY)}
    seen: set[str] = set()
    for ref in sorted(diagnosis.devices, key=lambda ref: ref.id not in wanted):
        for claim in holders.of(ref.id):
            users = claim.status.reserved_for
            whose = users[0].uid if len(users) == 1 else claim.metadata.uid if not users else ""
            if whose and whose not in seen:
                seen.add(whose)
                remedy = _ends(claim, whose, table)
                yield remedy if ref.id in wanted else remedy._replace(size=remedy.size + 0.5)


def _ends(claim: ResourceClaim, whose: str, table: ClusterTable) -> Remedy:
    claims = table.devices.claims
    if not claim.status.reserved_for:
        return Remedy(
            "freeClaim",
            f"claim {claim.key} is deleted, nobody uses it",
            {},
            -1.0,
            claims=(replace(claim, status=ResourceClaimStatus()),),
            action={"deleteClaim": claim.key},
        )
    info = table.pods.get(whose)
    key = f"{claim.namespace}/{claim.status.reserved_for[0].name}"
    released = tuple(_only_for(claims, whose))
    priority = 0 if info is None else info.priority
    return Remedy("freeDevices", f"{key} ends", {}, float(priority), claims=released, action={"delete": key})


def _only_for(claims: Claims, pod_uid: str) -> Iterator[ResourceClaim]:
    """The claims that only this pod uses, as they will be when it has ended."""
    for claim in claims.all():
        if [one.uid for one in claim.status.reserved_for] == [pod_uid]:
            yield replace(claim, status=ResourceClaimStatus())
