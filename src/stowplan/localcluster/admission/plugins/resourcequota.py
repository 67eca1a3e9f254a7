"""ResourceQuota: what is created is charged to the quotas of its namespace, and refused beyond them."""

from collections.abc import Callable
from typing import Protocol

from stowplan.api.catalogue import RESOURCE_QUOTAS, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.admission.refusals import forbidden
from stowplan.localcluster.quota import ExceededError, charge, evaluator_for, is_quotable
from stowplan.localcluster.quota.evaluators import CREATE, UPDATE
from stowplan.localcluster.quota.usage import QuotaWrite

Commit = Callable[[], None]


class QuotaLookup(Protocol):
    """Where quotas are found, and kept when they are charged."""

    def within(self, resource: Resource, namespace: str) -> list[Json]: ...

    def rewrite(self, resource: Resource, old: Json, new: Json) -> None: ...


def charge_quotas(
    lookup: QuotaLookup, resource: Resource, old: Json | None, new: Json, subresource: str
) -> Commit | None:
    """Check a write against the quotas of its namespace; gives back how to charge them for it, if at all.

    Raises `ApiError` 403. The charge is separate because the write may still fail, by a name that is taken.
    """
    if not is_quotable(resource):
        return None
    quotas = lookup.within(RESOURCE_QUOTAS, new["metadata"].get("namespace", ""))
    if not quotas:
        return None
    evaluator = evaluator_for(resource)
    if not evaluator.handles(CREATE if old is None else UPDATE, subresource, old, new):
        return None
    write = QuotaWrite(evaluator, old, new)
    charged: list[tuple[Json, Json]] = []
    for quota in sorted(quotas, key=lambda found: str(found["metadata"]["name"])):
        try:
            after = charge(quota, write)
        except ExceededError as error:
            raise forbidden(resource, new["metadata"]["name"], str(error)) from None
        if after is not None:
            charged.append((quota, after))
    if not charged:
        return None

    def commit() -> None:
        for before, after in charged:
            lookup.rewrite(RESOURCE_QUOTAS, before, after)

    return commit
