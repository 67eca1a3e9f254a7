"""allocResourceClaims: claims get devices on nodes chosen at random, without a pod that asked for them."""

import asyncio
from collections.abc import Iterable
from random import Random

import msgspec
import numpy as np

from stowplan.api.catalogue import RESOURCE_CLAIMS
from stowplan.api.devices import AllocationResult, ResourceClaim
from stowplan.api.requests import Json
from stowplan.client import Client
from stowplan.lab.bench.servers.http import BenchError
from stowplan.scheduler import Scheduler
from stowplan.scheduler.plugins.dynamicresources.allocation.results import allocation_result
from stowplan.scheduler.plugins.dynamicresources.features import features_of
from stowplan.scheduler.plugins.dynamicresources.verdicts import Verdicts


async def allocate_claims(client: Client, scheduler: Scheduler, namespace: str, rng: Random) -> None:
    """Allocate every claim of a namespace ("": of all) that has no devices yet. Raises BenchError."""
    table, gates = scheduler.context.cache.table, scheduler.settings.gates
    features = features_of(gates)
    verdicts = Verdicts(table, features, lambda: None)
    listing = await client.list(RESOURCE_CLAIMS, ResourceClaim, namespace=namespace)
    rows = np.flatnonzero(table.valid).tolist()
    for claim in listing.items:
        if claim.allocation is not None:
            continue
        rng.shuffle(rows)
        allocation = _allocation(verdicts, claim, rows, scheduler, rng)
        if allocation is None:
            raise BenchError(f"allocResourceClaims: no node has the devices for claim {claim.key}")
        status: Json = {"allocation": msgspec.to_builtins(allocation)}
        meta = claim.metadata
        await client.patch(
            RESOURCE_CLAIMS, meta.namespace, meta.name, {"status": status}, subresource="status"
        )
        await _seen(scheduler, claim.key)


def _allocation(
    verdicts: Verdicts, claim: ResourceClaim, rows: Iterable[int], scheduler: Scheduler, rng: Random
) -> AllocationResult | None:
    table, features = scheduler.context.cache.table, features_of(scheduler.settings.gates)
    allocator = verdicts.allocator()
    for row in rows:
        name = table.name_of(row)
        node = scheduler.informers.nodes.objects.get(name)
        if node is None:
            continue
        found = allocator.allocate(node, verdicts.pools_on(node, row), [claim])
        if found is not None:
            return allocation_result(claim, found[0], name, features, rng)
    return None


async def _seen(scheduler: Scheduler, key: str) -> None:
    """Wait until the scheduler knows of an allocation."""
    claims = scheduler.context.cache.table.devices.claims
    while True:
        known = claims.get(key)
        if known is not None and known.allocation is not None:
            return
        await asyncio.sleep(0)
