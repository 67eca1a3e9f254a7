"""A node's shortfall for the claims of a pod, in words, and device by device for programs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from stowplan.api.devices import ALL_DEVICES, DeviceRequest, ResourceClaim
from stowplan.api.pod import Pod, PodResourceClaim
from stowplan.scheduler.framework.advanced import Shortfall
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool
from stowplan.scheduler.plugins.dynamicresources.allocation.requests import Request, requests_of
from stowplan.scheduler.plugins.dynamicresources.claims import ClaimError, claim_name
from stowplan.scheduler.plugins.dynamicresources.explanation.diagnosis import (
    FAILED,
    TAKEN,
    USABLE,
    DeviceProblem,
    Diagnosis,
    Verdict,
    held_by,
    values_seen,
)
from stowplan.scheduler.table.devices import Claims, Slices

MOST_CAUSES: Final = 6
"""Number of causes that are put into words; all are in the document."""


def shown_shortfall(diagnosis: Diagnosis, problem: DeviceProblem, slices: Slices, size: float) -> Shortfall:
    """A node's shortfall in words."""
    unusable = [text for pool in diagnosis.pools if (text := _unusable(pool, slices))]
    devices = tuple(_document(problem.claim, one) for one in problem.verdicts)
    if problem.constraint is not None:
        about, text = _constraint(problem)
    elif not diagnosis.devices:
        about = "pool not usable" if unusable else "no devices"
        text = "" if unusable else f"claim {problem.claim.name}: the node has no devices"
    else:
        assert problem.request is not None
        about, text = _request(problem, problem.request)
    return Shortfall(about, "; ".join([*([text] if text else []), *unusable]), size, devices)


def _request(problem: DeviceProblem, request: DeviceRequest) -> tuple[str, str]:
    parts, fewest = [], ""
    for option in requests_of(request):
        usable = len(problem.usable(option))
        verdicts = [one for one in problem.verdicts if one.request == option.full_name]
        wanted = _wanted(option, verdicts)
        fewest = fewest or f"{usable} of {wanted} devices for {request.name}"
        parts.append(_option(problem, option, verdicts, usable, wanted))
    return fewest, "; ".join(parts)


def shown_constraint(problem: DeviceProblem) -> str:
    """The constraint of a claim that the free devices of a node cannot meet, in one phrase."""
    constraint = problem.constraint
    assert constraint is not None
    same = constraint.match_attribute is not None
    attribute = constraint.match_attribute or constraint.distinct_attribute or ""
    need = "too few free devices with the same" if same else "too few free devices with different"
    return f"{need} {attribute} for claim {problem.claim.name}"


def shown_obstacle(problem: DeviceProblem, classes: str, *, holders: bool) -> str:
    """The devices that a request gets and asks for on a node, and why it gets no others, in one phrase.

    With `holders` the pods that hold devices are named: of several nodes those of one would mislead.
    """
    request = problem.request
    assert request is not None
    option = requests_of(request)[0]
    verdicts = [one for one in problem.verdicts if one.request == option.full_name]
    texts = [
        one.kind if one.kind == TAKEN and not holders else one.text for one in verdicts if one.kind != USABLE
    ]
    causes = counted(texts)
    text = f"{len(problem.usable(option))} of {_wanted(option, verdicts)} devices of class {classes} free"
    return f"{text} ({causes})" if causes else text


def _wanted(option: Request, verdicts: Sequence[Verdict]) -> int:
    """Number of devices a request needs: all selected ones, if it asks for all."""
    if option.mode != ALL_DEVICES:
        return option.count
    return max(sum(one.selector is None for one in verdicts), 1)


def _option(
    problem: DeviceProblem, option: Request, verdicts: Sequence[Verdict], usable: int, wanted: int
) -> str:
    total = len(verdicts)
    causes = counted(one.text for one in verdicts if one.kind != USABLE)
    text = f"request {option.full_name}: {usable} of {total} devices free"
    if causes:
        text += f", {causes}"
    if usable >= wanted:
        text += f"; {_together(problem, option)}"
    return text


def _together(problem: DeviceProblem, option: Request) -> str:
    """Why devices that could be used each on its own cannot be used all at once."""
    draws = any(one.ref.device.consumes_counters for one in problem.usable(option))
    if draws:
        return "their counters do not allow as many at once"
    names = [one.name for one in problem.claim.spec.devices.requests]
    before = names[: names.index(problem.request.name)] if problem.request is not None else []
    others = f"request {', '.join(before)}" if before else "the pod's other claims"
    return f"not as many are left next to {others}"


def _constraint(problem: DeviceProblem) -> tuple[str, str]:
    constraint = problem.constraint
    assert constraint is not None
    attribute = constraint.match_attribute or constraint.distinct_attribute or ""
    kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
    named = frozenset(constraint.requests)
    wanted = sum(
        request.exactly.count
        for request in problem.claim.spec.devices.requests
        if request.exactly is not None and (not named or request.name in named)
    )
    seen = values_seen(problem, attribute, lists=True)
    values = ", ".join(f"{count} with {value}" for value, count in seen.most_common(MOST_CAUSES))
    need = "one value" if kind == "matchAttribute" else "different values"
    devices = f"{wanted} devices" if wanted > 1 else "its devices"
    text = f"claim {problem.claim.name}: {kind} {attribute} wants {need} for {devices}; free are "
    text += values or "none"
    first = {one.ref.id: one for one in reversed(problem.verdicts)}
    causes = counted(one.text for one in first.values() if one.kind != USABLE)
    return "constraint", f"{text}; {causes}" if causes else text


def _unusable(pool: Pool, slices: Slices) -> str:
    if pool.is_invalid:
        return f"pool {pool.text} is invalid: names of devices or counters are not unique, or not known"
    if not pool.is_incomplete:
        return ""
    there = [view.slice.spec.pool for view in slices.of_pool(pool.id)]
    newest = max((one.generation for one in there), default=0)
    current = [one for one in there if one.generation == newest]
    expected = current[0].resource_slice_count if current else 0
    return f"pool {pool.text} is incomplete: {len(current)} of {expected} slices"


def counted(texts: Iterable[str]) -> str:
    """The causes with their numbers, the most frequent first: `3 taken by a, 1 tainted b`."""
    found = Counter(texts).most_common()
    parts = [f"{count} {_about(text)}" for text, count in found[:MOST_CAUSES]]
    more = sum(count for _, count in found[MOST_CAUSES:])
    return ", ".join([*parts, *([f"{more} for other reasons"] if more else [])])


def _about(text: str) -> str:
    """A cause as it follows a number."""
    plain = ("taken", "tainted ", "for other", "without ")
    return text if text.startswith(plain) else f"where {text}"


def _document(claim: ResourceClaim, verdict: Verdict) -> dict[str, Any]:
    found = {
        "device": verdict.name,
        "claim": claim.key,
        "request": verdict.request,
        "cause": verdict.kind,
    }
    return {**found, "detail": verdict.text} if verdict.text else found


def failing_device(diagnosis: Diagnosis) -> str:
    """The device that an expression fails for, in words; "" if none does."""
    for claim in diagnosis.claims:
        for request in claim.spec.devices.requests:
            for verdict in diagnosis.verdicts(claim, request):
                if verdict.kind == FAILED:
                    return f"device {verdict.name}, request {verdict.request}"
    return ""


def claim_text(pod: Pod, asked: PodResourceClaim, claims: Claims) -> str:
    """State of a pod's claim in words."""
    try:
        name = claim_name(pod, asked)
    except ClaimError as cause:
        if asked.resource_claim_template_name is not None:
            return f"not made yet from template {asked.resource_claim_template_name}"
        return str(cause)
    if name is None:
        return "not needed"
    claim = claims.get(f"{pod.namespace}/{name}")
    if claim is None:
        return f"{name} does not exist"
    if claim.metadata.deletion_timestamp is not None:
        return f"{name} is being deleted"
    if claim.allocation is None:
        wanted = ", ".join(map(_asked, claim.spec.devices.requests))
        return f"{name} is not allocated, asks for {wanted}"
    devices = ", ".join("/".join(one.id[1:]) for one in claim.allocation.devices.results)
    reserved = f", reserved for {held_by([claim])}" if claim.status.reserved_for else ""
    return f"{name} has {devices}{reserved}"


def _asked(request: DeviceRequest) -> str:
    shown = []
    for option in requests_of(request):
        count = "all" if option.mode == ALL_DEVICES else str(option.count)
        shown.append(f"{count} of class {option.class_name}")
    return f"{' or '.join(shown)} ({request.name})"
