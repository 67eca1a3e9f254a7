"""Usage of a quota: charged for one object, or added up over all of them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.quota.amounts import (
    Amounts,
    amounts_of,
    as_text,
    exceeding,
    increase,
    only,
    plus,
    printed,
)
from stowplan.localcluster.quota.evaluators import Evaluator, evaluator_for, is_quotable


class ExceededError(Exception):
    """A quota that does not allow an object; the message says which and why."""


class QuotaWrite(NamedTuple):
    """A write that a quota may have to be charged for. `old` is None for a creation.

    `now` decides only about pods whose time to end has passed; at 0 they still count.
    """

    evaluator: Evaluator
    old: Json | None
    new: Json
    now: float = 0.0


def charge(quota: Json, write: QuotaWrite) -> Json | None:
    """The quota with the write counted, None if it does not count for it. Raises `ExceededError`."""
    status, evaluator = quota.get("status") or {}, write.evaluator
    hard, used = status.get("hard") or {}, status.get("used") or {}
    names = evaluator.counted(hard)
    if not names or not in_scopes(quota, evaluator, write.new):
        return None
    name = quota["metadata"]["name"]
    missing = evaluator.missing(names, write.new)
    if missing:
        raise ExceededError(f"failed quota: {name}: {missing}")
    if any(counted not in used for counted in names):
        raise ExceededError(f"status unknown for quota: {name}, resources: {','.join(names)}")
    requested = {
        key: amount for key, amount in only(_added(quota, write), hard).items() if not amount.is_zero
    }
    if not requested:
        return None
    limits, before = amounts_of(hard), amounts_of(used)
    after = plus(before, requested)
    over = exceeding(only(after, requested), limits)
    if over:
        raise ExceededError(
            f"exceeded quota: {name}, requested: {printed(only(requested, over))}, "
            f"used: {printed(only(before, over))}, limited: {printed(only(limits, over))}"
        )
    return {**quota, "status": {**status, "used": as_text(after)}}


def _added(quota: Json, write: QuotaWrite) -> Amounts:
    """Added usage of a write; all of it if the old object did not count for this quota."""
    usage = write.evaluator.usage(write.new, write.now)
    if write.old is None or not in_scopes(quota, write.evaluator, write.old):
        return usage
    return increase(usage, write.evaluator.usage(write.old, write.now))


def in_scopes(quota: Json, evaluator: Evaluator, obj: Json) -> bool:
    """True if a quota counts an object of that kind at all."""
    return all(evaluator.in_scope(obj, scope) for scope in scopes_of(quota))


def scopes_of(quota: Json) -> list[Json]:
    """All scopes of a quota, those without values too."""
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*scopes, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def total_usage(
    quota: Json,
    resources: Iterable[Resource],
    objects: Callable[[Resource], Iterable[Json]],
    now: float,
) -> dict[str, str]:
    """Usage of the limited resources (`spec.hard`) in a quota's namespace.

    `objects` returns the objects of a kind in that namespace; it is called only for kinds the quota counts.
    """
    hard = (quota.get("spec") or {}).get("hard") or {}
    total: Amounts = {}
    for resource in resources:
        if not is_quotable(resource):
            continue
        evaluator = evaluator_for(resource)
        names = evaluator.counted(hard)
        if not names:
            continue
        total = plus(total, amounts_of(dict.fromkeys(names, "0")))
        for obj in objects(resource):
            if in_scopes(quota, evaluator, obj):
                total = plus(total, only(evaluator.usage(obj, now), names))
    return as_text(total)
