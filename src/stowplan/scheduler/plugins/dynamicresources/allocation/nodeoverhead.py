"""Node-allocatable resources in the form of 1.37: what is mapped, and overhead for pods and containers.

Claims that were allocated before count like those that are allocated now. A claim with mapped devices is for
one pod; one with overhead alone can be shared.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from stowplan.api.devices import Device, DeviceID, NodeAllocatableMapping, ResourceClaim
from stowplan.api.node import Node
from stowplan.api.pod import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.api.rules.resources import is_hugepages, pod_requests
from stowplan.scheduler.framework import Status, error, unresolvable
from stowplan.scheduler.plugins.dynamicresources.allocation.nodeallocatable import (
    Footprint,
    FoundFor,
    NodeAllocatable,
    containers_using,
    with_statuses,
)
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import (
    PoolError,
    device_matches,
    node_matches,
)
from stowplan.scheduler.plugins.dynamicresources.claims import is_reserved_for

Amounts = dict[str, Quantity]


class _Given(NamedTuple):
    """A device that a claim has or gets, and what it consumes of its capacity, None if that is not shared."""

    device: Device
    consumed: Mapping[str, Quantity] | None


class NodeOverhead(NodeAllocatable):
    """Looks at nodes for a pod, by the rules of 1.37."""

    @staticmethod
    def _concerns(device: Device) -> bool:
        return bool(device.node_allocatable_resources)

    def is_shared(
        self, pod: Pod, row: int, claims: Sequence[ResourceClaim], shared: Collection[str] = ()
    ) -> Status | None:
        for claim in claims:
            if claim.allocation is None:
                continue
            by_others = claim.metadata.uid in shared or (
                bool(claim.status.reserved_for) and not is_reserved_for(claim, pod, groups=self._for_groups)
            )
            if by_others and self._is_for_one(claim):
                return unresolvable(
                    f"node allocatable resource claim {claim.name} has a mapped device and cannot be shared "
                    "across pods"
                )
        return None

    def _is_for_one(self, claim: ResourceClaim) -> bool:
        return any(
            resource.mapping is not None
            for given in self._allocated(claim, None)
            for resource in given.device.node_allocatable_resources.values()
        )

    def footprint(self, pod: Pod, row: int, claims: Sequence[ResourceClaim], found: FoundFor) -> Footprint:
        node = self._table.nodes[row]
        statuses: list[NodeAllocatableResourceClaimStatus] = []
        for claim in claims:
            one = found.get(claim.key)
            devices = (
                [*self._allocated(claim, node)]
                if one is None
                else [_Given(c.ref.device, c.consumed if c.is_share else None) for c in one.devices]
            )
            try:
                status = _status(pod, claim, devices)
            except ValueError as cause:
                return Footprint((), error(str(cause)))
            if status is not None:
                statuses.append(status)
        if not statuses:
            return Footprint(())
        listed = tuple(sorted(statuses, key=lambda one: one.resource_claim_name))
        told = with_statuses(pod, listed)
        problem = self._uncovered(told) or _beyond_limits(told) or self._lacking(told, row)
        return Footprint(listed, problem)

    def _allocated(self, claim: ResourceClaim, node: Node | None) -> Iterator[_Given]:
        """The devices of a claim that slices for a node have; None: any slices."""
        for result in () if claim.allocation is None else claim.allocation.devices.results:
            device = self._device(result.id, node)
            if device is not None:
                consumed = {name: quantity_of(raw) for name, raw in result.consumed_capacity.items()}
                yield _Given(device, consumed or None)

    def _device(self, id: DeviceID, node: Node | None) -> Device | None:
        for view in self._table.devices.slices.of_pool(id[:2]):
            spec = view.slice.spec
            for device in spec.devices:
                if device.name != id[2]:
                    continue
                try:
                    if node is None:
                        return device
                    if spec.per_device_node_selection:
                        return device if device_matches(node, device) else None
                    if node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector):
                        return device
                except PoolError:
                    continue
        return None


def _status(
    pod: Pod, claim: ResourceClaim, devices: Sequence[_Given]
) -> NodeAllocatableResourceClaimStatus | None:
    """Amounts that the devices of a claim take, None if there are none. Raises ValueError."""
    mapped: Amounts = {}
    per_pod: Amounts = {}
    per_container: Amounts = {}
    for given in devices:
        for name, resource in given.device.node_allocatable_resources.items():
            if resource.mapping is not None:
                _add(mapped, name, _mapped(claim, given, name, resource.mapping))
            if resource.overhead is not None:
                _add(per_pod, name, _amount(resource.overhead.per_pod))
                _add(per_container, name, _amount(resource.overhead.per_container))
    if not (mapped or per_pod or per_container):
        return None
    return NodeAllocatableResourceClaimStatus(
        resource_claim_name=claim.name,
        containers=containers_using(pod, claim.name),
        mapping=tuple(
            NodeAllocatableMappedResources(name=name, quantity=str(mapped[name])) for name in sorted(mapped)
        ),
        overhead=tuple(
            NodeAllocatableOverheadResources(
                name=name, per_pod=_text(per_pod.get(name)), per_container=_text(per_container.get(name))
            )
            for name in sorted({*per_pod, *per_container})
        ),
    )


def _mapped(
    claim: ResourceClaim, given: _Given, name: str, mapping: NodeAllocatableMapping
) -> Quantity | None:
    """Amount one device takes of one resource, None if the mapping does not apply to it. Raises
    ValueError."""
    if not mapping.capacity_key:
        return _amount(mapping.device_multiplier)
    if given.consumed is None:
        raise ValueError(
            f"claim {claim.key}, device {given.device.name}: ConsumedCapacity is nil, but Capacity key "
            f"'{mapping.capacity_key}' is set in NodeAllocatableResources for resource {name}"
        )
    consumed, factor = given.consumed.get(mapping.capacity_key), _amount(mapping.capacity_multiplier)
    return consumed if consumed is None or factor is None else consumed.times(factor)


def _beyond_limits(pod: Pod) -> Status | None:
    """Rejection if limits of the whole pod are exceeded: huge pages of all, other resources of a
    container."""
    limits = {} if pod.spec.resources is None else pod.spec.resources.limits or {}
    inside = pod_requests(pod, use_status=False, pod_level=False, by_claims=True)
    for name in sorted(filter(is_hugepages, limits)):
        if name in inside and inside[name] > quantity_of(limits[name]):
            return unresolvable(
                f"pod level limit for {name} is insufficient to cover the aggregated container and "
                "node-allocatable DRA limits"
            )
    for container in pod.spec.containers:
        taken = _taken_by(pod, container.name)
        for name, raw in sorted((container.resources.limits or {}).items()):
            if is_hugepages(name) or name not in limits:
                continue
            limit = quantity_of(raw)
            if (limit.add(taken[name]) if name in taken else limit) > quantity_of(limits[name]):
                return unresolvable(
                    f"pod level limit for {name} is insufficient to cover the limit and DRA overhead for "
                    f"container {container.name}"
                )
    return None


def _taken_by(pod: Pod, container: str) -> Amounts:
    """Amounts that claims give one container."""
    found: Amounts = {}
    for status in pod.status.node_allocatable_resource_claim_statuses:
        if container in status.containers:
            for mapped in status.mapping:
                _add(found, mapped.name, _amount(mapped.quantity))
            for overhead in status.overhead:
                _add(found, overhead.name, _amount(overhead.per_pod))
                _add(found, overhead.name, _amount(overhead.per_container))
    return found


def _add(amounts: Amounts, name: str, amount: Quantity | None) -> None:
    if amount is not None:
        amounts[name] = amounts[name].add(amount) if name in amounts else amount


def _amount(raw: str | int | float | None) -> Quantity | None:
    return None if raw is None else quantity_of(raw)


def _text(amount: Quantity | None) -> str | None:
    return None if amount is None else str(amount)
