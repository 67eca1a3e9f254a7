"""Validation of `scheduling` of a Job: how its pods are scheduled as a group."""

from collections.abc import Iterator

from stowplan.api.fielderrors import FieldError, invalid
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.workloads.podgroups import (
    claims_errors,
    fixed_errors,
    presence_errors,
    topology_errors,
    union_errors,
)

Errors = Iterator[FieldError]


def scheduling_errors(spec: Json, path: str) -> Errors:
    """Errors of `scheduling` in the spec of a job."""
    scheduling, path = spec.get("scheduling"), f"{path}.scheduling"
    if scheduling is None:
        return
    policy, mode = scheduling.get("schedulingPolicy"), scheduling.get("disruptionMode")
    if policy is not None:
        yield from _policy_errors(policy, spec.get("parallelism"), f"{path}.schedulingPolicy")
    if scheduling.get("schedulingConstraints") is not None:
        yield from topology_errors(scheduling["schedulingConstraints"], f"{path}.schedulingConstraints")
    if mode is not None:
        yield from union_errors(mode, ("single", "all"), f"{path}.disruptionMode")
        if mode.get("all") is not None and (policy is None or policy.get("basic") is not None):
            text = "the disruptionMode `all` is not supported with the Basic scheduling policy"
            yield invalid(f"{path}.disruptionMode", "", text)
    yield from claims_errors(scheduling.get("resourceClaims") or (), f"{path}.resourceClaims")


def _policy_errors(policy: Json, parallelism: int | None, path: str) -> Errors:
    """A gang that does not say how many pods it needs needs all that run at a time."""
    yield from union_errors(policy, ("basic", "gang"), path)
    count, most = (policy.get("gang") or {}).get("minCount"), 1 if parallelism is None else parallelism
    if count is None:
        return
    if count < 1:
        yield invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1")
    elif count > most:
        text = f"must not be greater than parallelism ({most})"
        yield invalid(f"{path}.gang.minCount", count, text)


def scheduling_update_errors(old: Json, new: Json) -> Errors:
    """Only the number of pods that a gang needs may change."""
    yield from presence_errors(old, new, "scheduling", "spec")
    before, after, path = old.get("scheduling"), new.get("scheduling"), "spec.scheduling"
    if before is None or after is None:
        return
    yield from presence_errors(before, after, "schedulingPolicy", path)
    fixed = ("schedulingConstraints", "disruptionMode", "resourceClaims")
    yield from fixed_errors(before, after, fixed, path)
    policies = before.get("schedulingPolicy"), after.get("schedulingPolicy")
    if None in policies:
        return
    had, has = (policy.get("basic") is not None for policy in policies)
    if had != has:
        text = (
            "the basic/gang policy variant is immutable after creation; "
            "only schedulingPolicy.gang.minCount may be updated"
        )
        yield invalid(f"{path}.schedulingPolicy", None, text)
