"""Recorded scenarios with devices: an API server for claims in memory, and what became of the claims.

Reserve and PreBind are run here; a driver is simulated as in the recordings: a device whose name contains
`flaky` fails, every other becomes ready at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from stowplan.api.catalogue import PODS, RESOURCE_CLAIMS, Resource
from stowplan.api.decode import convert
from stowplan.api.devices import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceCondition,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from stowplan.api.meta import Object, Struct
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.status import MODIFIED_MEANWHILE, conflict, not_found
from stowplan.runtime.clock import RealClock
from stowplan.runtime.logs import Logger
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.held_pods import AwaitedDeletions
from stowplan.scheduler.framework.interface import DeviceMetrics
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.plugins.dynamicresources import DynamicResources
from stowplan.scheduler.plugins.dynamicresources.state import StateData
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

EXTENDED = "<extended resources>"
"""How recordings call the claim that a scheduler makes for extended resources."""


class ClaimServer:
    """Claims as an API server keeps them; every write is visible in the table at once."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._version = max((_version(claim) for claim in table.devices.claims.all()), default=0) + 100_000
        self.deallocated: list[str] = []

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        return _data(self._claim(f"{namespace}/{name}"))

    async def create(self, resource: Resource, body: Json, *, namespace: str = "") -> Json:
        claim = convert(body, ResourceClaim)
        self._version += 1
        name = f"{claim.metadata.generate_name}{self._version}"
        uid = f"claim-{self._version}"
        created = replace(claim, metadata=replace(claim.metadata, name=name, uid=uid, namespace=namespace))
        return self._store(created)

    async def update(self, resource: Resource, body: Json, *, subresource: str = "") -> Json:
        claim = convert(body, ResourceClaim)
        known = self._claim(claim.key)
        if known.metadata.resource_version != claim.metadata.resource_version:
            raise conflict(resource, claim.name, MODIFIED_MEANWHILE)
        if subresource != "status":
            return self._store(replace(claim, status=known.status))
        if known.allocation is not None and claim.allocation is None:
            self.deallocated.append(_name_in_recording(known))
        return self._store(_driven(replace(known, status=claim.status)))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        kind: object = None,
        *,
        subresource: str = "",
    ) -> Json:
        """Pods: nothing is kept. Claims: consumers are taken off."""
        if resource == PODS:
            return {}
        claim = self._claim(f"{namespace}/{name}")
        gone = {one["uid"] for one in patch["status"]["reservedFor"]}
        left = tuple(one for one in claim.status.reserved_for if one.uid not in gone)
        return self._store(replace(claim, status=replace(claim.status, reserved_for=left)))

    async def delete(self, resource: Resource, namespace: str, name: str, options: object = None) -> None:
        self._table.discard(self._claim(f"{namespace}/{name}"))

    def _claim(self, key: str) -> ResourceClaim:
        found = self._table.devices.claims.get(key)
        if found is None:
            raise not_found(RESOURCE_CLAIMS, key.partition("/")[2])
        return found

    def _store(self, claim: ResourceClaim) -> Json:
        self._version += 1
        stored = replace(claim, metadata=replace(claim.metadata, resource_version=str(self._version)))
        self._table.put(stored)
        return _data(stored)


def _version(claim: ResourceClaim) -> int:
    return int(claim.metadata.resource_version or "0")


def _data(obj: Struct) -> Json:
    found: Json = _json(obj)
    return found


def _json(value: Any) -> Any:
    """A value as it stands in a document."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _driven(claim: ResourceClaim) -> ResourceClaim:
    """Report of the simulated driver about newly allocated devices."""
    allocation = claim.allocation
    if allocation is None:
        return claim
    known = {(one.driver, one.pool, one.device) for one in claim.status.devices}
    new = [
        _reported(result)
        for result in allocation.devices.results
        if result.binding_conditions and result.id not in known
    ]
    return replace(claim, status=replace(claim.status, devices=(*claim.status.devices, *new)))


def _reported(result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus:
    fails = "flaky" in result.device
    types = result.binding_failure_conditions[:1] if fails else result.binding_conditions
    conditions = tuple(
        DeviceCondition(
            type=type,
            status="True",
            last_transition_time="2025-06-01T00:00:00Z",
            reason="SimulatedFailure" if fails else "SimulatedSuccess",
            message="device failed to attach" if fails else "device attached",
        )
        for type in types
    )
    return AllocatedDeviceStatus(
        driver=result.driver, pool=result.pool, device=result.device, conditions=conditions
    )


class ReplayServices:
    """Services for plugins while a scenario is replayed: the API server for claims, and time."""

    def __init__(self, table: ClusterTable) -> None:
        self.client: Any = ClaimServer(table)
        self.clock = RealClock()
        self.logger = Logger()

    @property
    def waiting(self) -> NoReturn:
        raise LookupError("no pod waits at Permit in a replay")

    def activate(self, pods: Iterable[Pod]) -> None:
        """There is no queue."""

    def pod(self, key: str) -> Pod | None:
        return None

    deletions = AwaitedDeletions()

    async def in_turn(self, pod: Pod) -> None:
        """No other tasks run."""

    def objects(self, kind: str) -> Mapping[str, Object]:
        raise LookupError(f"a replay has no informer of {kind}")

    def event(self, pod: Pod, *, type: str, reason: str, action: str, note: str) -> None:
        """Events are not compared."""

    device_metrics = DeviceMetrics()

    async def dispatch_binding(self, pod: Pod, send: Callable[[], Awaitable[None]]) -> None:
        await send()

    def count_volume_error(self, operation: str) -> None:
        """Nothing is counted."""


# One attempt


async def reserve_and_pre_bind(framework: Framework, cycle: Cycle, pod: PodInfo, node: str) -> Status:
    """Reserve and PreBind, and Unreserve if one of them fails."""
    lifecycle = Lifecycle(framework)
    status = lifecycle.reserve(cycle, pod, node)
    if status.is_success:
        status, plugins = lifecycle.pre_flight(cycle, pod, node)
        if status.is_success:
            status = await lifecycle.pre_bind(plugins, cycle, pod, node)
        elif status.code is Code.SKIP:
            status = Status(Code.SUCCESS)
    if not status.is_success:
        lifecycle.unreserve(cycle, pod, node)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others)
    return status


# Resulting claims, in the form of a recording


class ClaimFacts:
    """Reads what DynamicResources found for a pod."""

    def __init__(self, framework: Framework, cycle: Cycle, table: ClusterTable) -> None:
        found = framework.plugins.get("DynamicResources")
        self._plugin = found if isinstance(found, DynamicResources) else None
        state = None if self._plugin is None else cycle.read(self._plugin)
        self._state = state if isinstance(state, StateData) else None
        self._claims = table.devices.claims

    def by_node(self, nodes: Iterable[str]) -> dict[str, Any] | None:
        """By node, the allocations of claims that need one."""
        if self._state is None or self._plugin is None:
            return None
        found: dict[str, Any] = {}
        for node in nodes:
            allocations = self._plugin.allocations(self._state, node)
            if allocations:
                found[node] = {_name_in_recording(claim): _allocation(one) for claim, one in allocations}
        return found or None

    def after(self) -> list[ResourceClaim]:
        """The claims of the pod as they are now, as far as they exist."""
        if self._state is None:
            return []
        seen = [self._claims.get(claim.key) for claim in self._state.claims]
        return [claim for claim in seen if claim is not None]

    def devices(self) -> dict[str, Any] | None:
        """By claim, its devices."""
        found = {
            _name_in_recording(claim): [
                {"request": one.request, "driver": one.driver, "pool": one.pool, "device": one.device}
                for one in claim.allocation.devices.results
            ]
            for claim in self.after()
            if claim.allocation is not None
        }
        return found or None

    def statuses(self) -> dict[str, Any] | None:
        """By claim, its status."""
        found: dict[str, Any] = {}
        for claim in self.after():
            entry: dict[str, Any] = {"reservedFor": [one.name for one in claim.status.reserved_for]}
            if claim.allocation is not None:
                entry["allocation"] = _allocation(claim.allocation)
            if claim.status.devices:
                entry["devices"] = _json(claim.status.devices)
            found[_name_in_recording(claim)] = entry
        return found or None

    def extended(self, node: str) -> tuple[Any, Any]:
        """The requests of the claim for extended resources on a node, and what they stand for."""
        found = None if self._state is None else self._state.nodes.get(node)
        if found is None or found.extended_claim is None or not found.mappings:
            return None, None
        requests = found.extended_claim.spec.devices.requests
        return _json(requests), _json(found.mappings)


def _name_in_recording(claim: ResourceClaim) -> str:
    generated = "resource.kubernetes.io/extended-resource-claim" in claim.metadata.annotations
    return f"{claim.namespace}/{EXTENDED if generated else claim.name}"


def _allocation(allocation: AllocationResult) -> Any:
    """Random and time-dependent values are left out, as in recordings."""
    results = tuple(
        one if one.share_id is None else replace(one, share_id="<shareID>")
        for one in allocation.devices.results
    )
    devices = replace(allocation.devices, results=results)
    return _json(replace(allocation, devices=devices, allocation_timestamp=None))
