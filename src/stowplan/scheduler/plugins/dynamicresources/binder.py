"""Writes of claims: allocation and reservation before a pod is bound, and taking them back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.api.catalogue import PODS, RESOURCE_CLAIMS
from stowplan.api.decode import DecodeError, convert
from stowplan.api.devices import (
    CLAIM_FINALIZER,
    EXTENDED_RESOURCE_CLAIM,
    ResourceClaim,
    ResourceClaimStatus,
)
from stowplan.api.meta import timestamp
from stowplan.api.pod import NodeAllocatableResourceClaimStatus, Pod
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.scheduler.framework import PodInfo, Services
from stowplan.scheduler.plugins.dynamicresources.conditions import (
    BindingFailedError,
    has_conditions,
    has_timed_out,
    is_ready,
)
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.plugins.dynamicresources.state import StateData, is_in_memory
from stowplan.scheduler.table.devices import Claims

Answer = TypeVar("Answer")

ATTEMPTS: Final = 5
"""How often a write is tried when the claim was changed meanwhile."""
RETRY_INTERVAL: Final = 0.01
POLL_INTERVAL: Final = 5.0
"""Seconds after which conditions are looked at again although no claim changed."""
LONGEST_PAUSE: Final = 5.0
"""Seconds between two tries of a request that has to be answered."""
ASSUME_TIMEOUT: Final = 120.0
"""How long the informer may take to tell of a claim that was just created."""


class ClaimWriteError(Exception):
    """Why claims could not be written or devices did not become ready; the pod is scheduled again."""


class BindingTimeoutError(ClaimWriteError):
    """Devices did not become ready in the time they get."""


class Placed(NamedTuple):
    """A pod that has a node; `extended_claim` is the claim for its extended resources that it names."""

    extended_claim: str


class ClaimBinder:
    """Writes claims, one after the other.

    A write without an answer may have taken effect. Devices allocated by it must not be allocated again, so
    the claim is read until its outcome is known; only then the attempt continues or fails.
    """

    def __init__(self, claims: Claims, services: Services, features: Features, timeout: float) -> None:
        self._claims = claims
        self._services = services
        self._client = services.client
        self._metrics = services.device_metrics
        self._features = features
        self._timeout = timeout
        self._settles_each = features.choices.in_flight_until == "written"
        has_overhead = features.choices.node_allocatable_fields == "mapping-and-overhead"
        self._no_statuses: list[Any] | None = [] if has_overhead else None
        self._may_be_gone = features.choices.missing_special_claim == "ignored"

    # Before the pod is bound

    async def bind(self, state: StateData, index: int, pod: PodInfo) -> ResourceClaim:
        """Write the allocation of a claim and reserve it for a pod; returns it as written.

        A claim for extended resources is created first, and then named in the pod's status. Raises
        ClaimWriteError.
        """
        claim, allocation = state.claims[index], state.allocations[index]
        is_extended = state.is_extended(index)
        if is_extended and allocation is None and not claim.spec.devices.requests:
            return claim
        uid = state.uids[index]
        written: ResourceClaim | None = None
        try:
            if is_extended and is_in_memory(claim):
                written = claim = state.claims[index] = await self._create(state)
            written = claim = await self._reserve(state, index, claim, pod)
            if is_extended:
                await self._name_in_status(state, claim, pod)
            return claim
        finally:
            if written is not None:
                await self._see(written, wait=is_extended)
            if allocation is not None and self._settles_each:
                self._claims.remove_pending(uid, force=written is not None and not is_extended)
            elif allocation is not None and written is not None:
                self._claims.settle(uid, written.key)

    async def _create(self, state: StateData) -> ResourceClaim:
        found = state.chosen
        if found is None or found.extended_claim is None:
            raise ClaimWriteError("extended resource claim not found for node")
        claim = found.extended_claim
        metadata = replace(claim.metadata, name="", uid="")
        body = replace(claim, metadata=metadata, status=ResourceClaimStatus())
        try:
            answer = await self._client.create(RESOURCE_CLAIMS, _body(body), namespace=claim.namespace)
        except ApiError as cause:
            made = await self._created(claim) if _is_uncertain(cause) else None
            self._metrics.claim_created(made is not None)
            if made is not None:
                return made
            raise ClaimWriteError(
                f"create claim for extended resources {claim.namespace}/: {cause}"
            ) from None
        self._metrics.claim_created(True)
        return _claim(answer)

    async def _created(self, wanted: ResourceClaim) -> ResourceClaim | None:
        """The claim that a request without an answer made; it has a generated name."""
        [owner] = wanted.metadata.owner_references
        listing = await self._known(
            lambda: self._client.list(RESOURCE_CLAIMS, ResourceClaim, namespace=wanted.namespace),
            f"list claims of {wanted.namespace}",
        )
        for claim in () if listing is None else listing.items:
            owned = any(one.uid == owner.uid for one in claim.metadata.owner_references)
            if owned and claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
                return claim
        return None

    async def _reserve(
        self, state: StateData, index: int, claim: ResourceClaim, pod: PodInfo
    ) -> ResourceClaim:
        """Write a claim; if it was changed meanwhile, read it and try again."""
        for attempt in range(1, ATTEMPTS + 1):
            if attempt > 1:
                await asyncio.sleep(RETRY_INTERVAL)
                claim = await self._read(claim)
            try:
                return await self._write(state, index, claim, pod)
            except _ConflictError as cause:
                if attempt == ATTEMPTS:
                    raise ClaimWriteError(str(cause)) from None
        raise AssertionError(claim.key)

    async def _read(self, claim: ResourceClaim) -> ResourceClaim:
        try:
            return _claim(await self._client.get(RESOURCE_CLAIMS, claim.namespace, claim.name))
        except ApiError as cause:
            raise ClaimWriteError(f"get updated claim {claim.key} after conflict: {cause}") from None

    async def _write(self, state: StateData, index: int, claim: ResourceClaim, pod: PodInfo) -> ResourceClaim:
        """The finalizer first, then allocation and reservation in one write of the status."""
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimWriteError(f"claim {claim.key} got deleted in the meantime")
        allocation = state.allocations[index]
        what = f"add reservation to claim {claim.key}"
        if allocation is not None:
            if claim.allocation is not None:
                raise ClaimWriteError(f"claim {claim.key} got allocated elsewhere in the meantime")
            if CLAIM_FINALIZER not in claim.metadata.finalizers:
                finalizers = (*claim.metadata.finalizers, CLAIM_FINALIZER)
                protected = replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))
                claim = await self._put(protected, f"add finalizer to claim {claim.key}")
            what = f"add allocation and reservation to claim {claim.key}"
        else:
            allocation = claim.allocation
        consumer = state.consumer(index)
        if self._features.binding_conditions:
            if allocation is None:
                raise ClaimWriteError(f"claim {claim.key} got deallocated elsewhere in the meantime")
            if allocation.allocation_timestamp is None:
                now = timestamp(self._services.clock.now())
                allocation = replace(allocation, allocation_timestamp=now)
        status = replace(
            claim.status, allocation=allocation, reserved_for=(*claim.status.reserved_for, consumer)
        )
        return await self._put(replace(claim, status=status), what, subresource="status")

    async def _put(self, claim: ResourceClaim, what: str, subresource: str = "") -> ResourceClaim:
        try:
            answer = await self._client.update(RESOURCE_CLAIMS, _body(claim), subresource=subresource)
            return _claim(answer)
        except ApiError as cause:
            stored = await self._stored(claim) if _is_uncertain(cause) else None
            if stored is not None and _has_effect(claim, stored):
                return stored
            problem = _ConflictError if cause.is_conflict else ClaimWriteError
            raise problem(f"{what}: {cause}") from None

    async def _stored(self, claim: ResourceClaim) -> ResourceClaim | None:
        """A claim as it is now; None if it is gone. Returns when the API server has said so."""
        answer = await self._known(
            lambda: self._client.get(RESOURCE_CLAIMS, claim.namespace, claim.name), f"get claim {claim.key}"
        )
        return None if answer is None else _claim(answer)

    async def _known(self, read: Callable[[], Awaitable[Answer]], what: str) -> Answer | None:
        """Result of a read after a write without an answer, retried until there is one; None if not found.

        Refusals (403 while permissions are changed, 401 while a token expires) are retried too: until the
        claim is read, it is unknown if its devices are taken.
        """
        pauses = _pauses()
        while True:
            try:
                return await _answered(read)
            except ApiError as cause:
                self._services.logger.error(f"{what} after a write without an answer", err=cause)
            await asyncio.sleep(next(pauses))

    async def _see(self, claim: ResourceClaim, *, wait: bool) -> None:
        """See a claim as it was written, once the informer knows it at all."""
        if self._claims.assume(claim) or not wait:
            return
        try:
            async with asyncio.timeout(ASSUME_TIMEOUT):
                if self._claims.get(claim.key) is None:
                    # It may be gone again by the time this continues: then no further event would come.
                    await self._claims.changed([claim.key])
        except TimeoutError:
            self._services.logger.error("Claim not stored in assume cache", claim=claim.key)
            return
        self._claims.assume(claim)

    async def _name_in_status(self, state: StateData, claim: ResourceClaim, pod: PodInfo) -> None:
        mappings = () if state.chosen is None else state.chosen.mappings
        if not mappings:
            raise ClaimWriteError(
                f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus"
            )
        named = {
            "requestMappings": [
                {
                    "containerName": one.container_name,
                    "resourceName": one.resource_name,
                    "requestName": one.request_name,
                }
                for one in mappings
            ],
            "resourceClaimName": claim.name,
        }
        try:
            await self._patch_pod(pod.pod, {"extendedResourceClaimStatus": named})
        except ApiError as cause:
            raise ClaimWriteError(f"update pod {pod.key} ExtendedResourceClaimStatus: {cause}") from None

    async def tell_pod(self, pod: PodInfo, statuses: Sequence[NodeAllocatableResourceClaimStatus]) -> None:
        """Write what claims take of the node's own resources, maybe nothing. Raises ClaimWriteError."""
        told = msgspec.json.decode(msgspec.json.encode(statuses)) or self._no_statuses
        how = PatchType.STRATEGIC if statuses or self._no_statuses is None else PatchType.MERGE
        try:
            await self._patch_pod(pod.pod, {"nodeAllocatableResourceClaimStatuses": told}, how)
        except ApiError as cause:
            raise ClaimWriteError(
                f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {cause}"
            ) from None

    async def _patch_pod(
        self, pod: Pod, status: dict[str, Any], how: PatchType = PatchType.STRATEGIC
    ) -> None:
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._client.patch(PODS, pod.namespace, pod.name, patch, how, subresource="status")

    async def wait_until_ready(self, state: StateData, pod: PodInfo, node: str) -> None:
        """Wait until the binding conditions of all devices are met.

        Raises BindingFailedError, ClaimWriteError.
        """
        if not any(map(has_conditions, state.claims)):
            return
        self._services.event(
            pod.pod,
            type="Normal",
            reason="BindingConditionsPending",
            action="Scheduling",
            note=f"waiting for binding conditions for device on node {node}",
        )
        began, outcome = self._services.clock.monotonic(), "error"
        try:
            async with asyncio.timeout(self._timeout):
                while not self._are_ready(state):
                    await self._changed(state)
            outcome = "success"
        except TimeoutError:
            outcome = "timeout"
            raise BindingTimeoutError("device binding timeout: context deadline exceeded") from None
        except BindingTimeoutError:
            outcome = "timeout"
            raise
        except BindingFailedError:
            outcome = "failure"
            raise
        finally:
            self._count(state, pod, outcome, self._services.clock.monotonic() - began)

    def _count(self, state: StateData, pod: PodInfo, outcome: str, seconds: float) -> None:
        """Count how waiting for devices ended, by driver."""
        profile = pod.spec.scheduler_name
        for claim in state.claims:
            for result in () if claim.allocation is None else claim.allocation.devices.results:
                self._metrics.waited(profile, result.driver, outcome, seconds)
                if result.binding_conditions:
                    self._metrics.allocated(profile, result.driver, outcome)

    def _are_ready(self, state: StateData) -> bool:
        for index, claim in enumerate(state.claims):
            if is_in_memory(claim):
                continue
            seen = self._claims.get(claim.key)
            if seen is None:
                raise ClaimWriteError(f'could not find ResourceClaim "{claim.key}"')
            state.claims[index] = seen
            if not is_ready(seen):
                if has_timed_out(seen, self._services.clock.now(), self._timeout):
                    raise BindingTimeoutError(f"device binding timeout: claim={seen.name}")
                return False
        return True

    async def _changed(self, state: StateData) -> None:
        try:
            async with asyncio.timeout(POLL_INTERVAL):
                await self._claims.changed([claim.key for claim in state.claims])
        except TimeoutError:
            return

    # Taking back

    async def placed(self, pod: Pod) -> Placed | None:
        """Placement of a pod that seems to have no node, None if it has none. Raises ApiError."""
        stored = await _answered(lambda: self._client.get(PODS, pod.namespace, pod.name))
        if stored is None or stored["metadata"]["uid"] != pod.metadata.uid:
            return None
        if not stored["spec"].get("nodeName"):
            return None
        named = stored.get("status", {}).get("extendedResourceClaimStatus") or {}
        return Placed(named.get("resourceClaimName", ""))

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take the devices from an unused claim. Raises ApiError, ClaimWriteError."""
        body = _body(replace(claim, status=ResourceClaimStatus()))
        await self._client.update(RESOURCE_CLAIMS, body, subresource="status")

    async def unreserve(self, claim: ResourceClaim, uid: str, *, patiently: bool = True) -> None:
        """Remove one pod or group from the reservations, regardless of the claim's resource version.

        `patiently`: it is retried until the API server has answered, as a reservation for a pod that is not
        placed would keep the devices from others. Raises ApiError, ClaimWriteError.
        """
        patch = {
            "metadata": {"uid": claim.metadata.uid},
            "status": {"reservedFor": [{"$patch": "delete", "uid": uid}]},
        }
        answer = await (_answered if patiently else _tried)(
            lambda: self._client.patch(
                RESOURCE_CLAIMS, claim.namespace, claim.name, patch, PatchType.STRATEGIC, subresource="status"
            )
        )
        if answer is not None:
            self._claims.assume(_claim(answer))

    async def delete(self, claim: ResourceClaim, *, patiently: bool = False) -> None:
        """Delete a claim that the scheduler made: first its finalizer. Raises ApiError, ClaimWriteError.

        `patiently`: it is tried until the API server has answered, as the claim keeps devices from others.
        """
        for attempt in range(1, ATTEMPTS + 1):
            if attempt > 1:
                await asyncio.sleep(RETRY_INTERVAL)
                stored = await self._stored(claim)
                if stored is None:
                    return
                claim = stored
            left = tuple(one for one in claim.metadata.finalizers if one != CLAIM_FINALIZER)
            body = _body(replace(claim, metadata=replace(claim.metadata, finalizers=left)))
            try:
                update = partial(self._client.update, RESOURCE_CLAIMS, body)
                if not patiently:
                    await update()
                elif await _answered(update) is None:
                    return
                break
            except ApiError as cause:
                if not cause.is_conflict or attempt == ATTEMPTS:
                    raise ClaimWriteError(f"update resourceclaim {claim.key}: {cause}") from None
        options = DeleteOptions(uid=claim.metadata.uid)
        tried = _answered if patiently else _tried if self._may_be_gone else _once
        await tried(lambda: self._client.delete(RESOURCE_CLAIMS, claim.namespace, claim.name, options))


class _ConflictError(Exception):
    """The claim was changed meanwhile."""


def _is_uncertain(cause: ApiError) -> bool:
    """True if a failed write may have taken effect."""
    return cause.is_unreachable or cause.code >= 500


def _is_passing(cause: ApiError) -> bool:
    """True if a request is worth retrying."""
    return _is_uncertain(cause) or cause.code == 429


def _has_effect(wanted: ResourceClaim, stored: ResourceClaim) -> bool:
    """True if a claim is as a write wanted it to be."""
    mine = wanted.status.reserved_for[-1].uid if wanted.status.reserved_for else ""
    return (
        wanted.metadata.uid == stored.metadata.uid
        and wanted.metadata.resource_version != stored.metadata.resource_version
        and set(wanted.metadata.finalizers) == set(stored.metadata.finalizers)
        and wanted.allocation == stored.allocation
        and (not mine or stored.is_reserved_for(mine))
    )


async def _once(request: Callable[[], Awaitable[Answer]]) -> Answer | None:
    """Answer of the API server. Raises ApiError, also if the object is gone."""
    return await request()


async def _tried(request: Callable[[], Awaitable[Answer]]) -> Answer | None:
    """Answer of the API server; None if the object is gone. Raises ApiError."""
    try:
        return await request()
    except ApiError as cause:
        if cause.is_not_found:
            return None
        raise


async def _answered(request: Callable[[], Awaitable[Answer]]) -> Answer | None:
    """Answer of the API server, retried until there is one; None if the object is gone.

    Raises ApiError for an answer that would be the same the next time.
    """
    pauses = _pauses()
    while True:
        try:
            return await _tried(request)
        except ApiError as cause:
            if not _is_passing(cause):
                raise
        await asyncio.sleep(next(pauses))


def _pauses() -> Iterator[float]:
    """Seconds between tries, twice as many each time."""
    pause = RETRY_INTERVAL
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _body(claim: ResourceClaim) -> Json:
    """A claim as it is sent; one from an informer names neither its kind nor its version."""
    named = replace(claim, api_version="resource.k8s.io/v1", kind="ResourceClaim")
    body: Json = msgspec.json.decode(msgspec.json.encode(named))
    return body


def _claim(answer: Json) -> ResourceClaim:
    try:
        return msgspec.convert(answer, ResourceClaim)
    except msgspec.ValidationError:
        """Maybe there are nulls, which count as absent."""
    try:
        return convert(answer, ResourceClaim)
    except DecodeError as cause:
        raise ClaimWriteError(str(cause)) from None
