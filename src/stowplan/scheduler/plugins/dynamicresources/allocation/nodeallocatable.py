"""Node-allocatable resources through devices: the cpu, memory and so on of a node that claims take.

Devices can be mapped to resources of their node. The pod's share of such devices counts as if its containers
had requested it; the pod's status lists the amounts, claim by claim.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from stowplan.api.devices import Device, NodeAllocatableResourceMapping, ResourceClaim
from stowplan.api.pod import NodeAllocatableResourceClaimStatus, Pod, ResourceList
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.api.rules.resources import incoming_requests, is_hugepages, pod_requests
from stowplan.scheduler.framework import Status, error, unresolvable, unschedulable
from stowplan.scheduler.plugins.dynamicresources.allocation.allocator import Found
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import Chosen
from stowplan.scheduler.plugins.dynamicresources.claims import ClaimError, claim_name
from stowplan.scheduler.table.table import ClusterTable

_CORE: Final = ("cpu", "memory", "ephemeral-storage")

Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]
FoundFor = Mapping[str, Found]
"""Devices found for claims that are not allocated, by key."""


class Footprint(NamedTuple):
    """Entries for the status of a pod, and the reason why the node will not do, None if it will."""

    statuses: Statuses
    problem: Status | None = None


def with_statuses(pod: Pod, statuses: Statuses) -> Pod:
    return replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=statuses))


class NodeAllocatable:
    """Looks at nodes for a pod whose claims may take of the nodes' own resources."""

    def __init__(self, table: ClusterTable, *, groups: bool = False) -> None:
        self._table = table
        self._for_groups = groups
        """True if claims can be reserved for groups."""
        self._version = -1
        self._is_mapped = False

    @property
    def is_mapped(self) -> bool:
        """True if any device is mapped to resources of its node."""
        slices = self._table.devices.slices
        if self._version != slices.version:
            self._version = slices.version
            self._is_mapped = any(
                self._concerns(device) for view in slices.all() for device in view.slice.spec.devices
            )
        return self._is_mapped

    @staticmethod
    def _concerns(device: Device) -> bool:
        return bool(device.node_allocatable_resource_mappings)

    def is_shared(
        self, pod: Pod, row: int, claims: Sequence[ResourceClaim], shared: Collection[str] = ()
    ) -> Status | None:
        """Why a claim cannot be used on a node: it takes of the node's resources for another pod already.

        `shared` are the uids of claims that other members of the pod's group are about to use.
        """
        users: dict[str, set[str]] = {}
        for info in self._table.pods_on[row].values():
            if info.namespace == pod.namespace:
                for status in info.pod.status.node_allocatable_resource_claim_statuses:
                    users.setdefault(status.resource_claim_name, set()).add(info.uid)
        for claim in claims:
            used_by = users.get(claim.name, set())
            if len(used_by) > 1:
                return unresolvable(f"node allocatable resource claim {claim.name} shared by multiple pods")
            if used_by and pod.metadata.uid not in used_by:
                return unresolvable(
                    f"node allocatable resource claim {claim.name} is already used by another pod"
                )
        return None

    def footprint(self, pod: Pod, row: int, claims: Sequence[ResourceClaim], found: FoundFor) -> Footprint:
        """Amounts that the devices found for claims take of a node, and the node's rejection if it lacks
        them."""
        statuses: list[NodeAllocatableResourceClaimStatus] = []
        for claim in claims:
            one = found.get(claim.key)
            if one is None:
                continue
            try:
                taken = _taken(claim, one.devices)
            except ValueError as cause:
                return Footprint((), error(str(cause)))
            if taken:
                resources: ResourceList = {name: str(amount) for name, amount in taken.items()}
                status = NodeAllocatableResourceClaimStatus(
                    resource_claim_name=claim.name,
                    containers=containers_using(pod, claim.name),
                    resources=resources,
                )
                statuses.append(status)
        if not statuses:
            return Footprint(())
        listed = tuple(sorted(statuses, key=lambda one: one.resource_claim_name))
        return Footprint(listed, self._problem(with_statuses(pod, listed), row))

    def _problem(self, pod: Pod, row: int) -> Status | None:
        for status in pod.status.node_allocatable_resource_claim_statuses:
            if not status.containers:
                return unresolvable(
                    f"claim {status.resource_claim_name}: node-allocatable resource claim not referenced by "
                    "any container within the pod"
                )
        return self._uncovered(pod) or self._lacking(pod, row)

    @staticmethod
    def _uncovered(pod: Pod) -> Status | None:
        """Rejection if the request of the whole pod leaves no room for the devices."""
        if pod.spec.resources is not None and pod.spec.resources.requests:
            total = pod_requests(pod, use_status=False, by_claims=True)
            inside = pod_requests(pod, use_status=False, pod_level=False, by_claims=True)
            for name, amount in sorted(inside.items()):
                if name in total and amount > total[name]:
                    return unresolvable(
                        f"pod level request for {name} is insufficient to cover the aggregated container and "
                        "node-allocatable DRA requests"
                    )
        return None

    def _lacking(self, pod: Pod, row: int) -> Status | None:
        """Resources a node has too little of; resolvable if it has enough of them for this pod alone."""
        table, wanted = self._table, incoming_requests(pod, by_claims=True)
        amounts: dict[str, int] = dict(
            zip(_CORE, (wanted.milli_cpu, wanted.memory, wanted.ephemeral_storage), strict=True)
        )
        amounts.update((name, wanted.scalars[name]) for name in sorted(filter(is_hugepages, wanted.scalars)))
        reasons, resolvable = [], True
        for name, amount in amounts.items():
            offered, used = table.allocatable_of(name).item(row), table.requested_of(name).item(row)
            if amount and amount > offered - used:
                reasons.append(f"Insufficient {name}")
                resolvable = resolvable and amount <= offered
        if not reasons:
            return None
        return unschedulable(*reasons) if resolvable else unresolvable(*reasons)


def _taken(claim: ResourceClaim, devices: Sequence[Chosen]) -> dict[str, Quantity]:
    """Amounts that devices take of resources of their node. Raises ValueError."""
    found: dict[str, Quantity] = {}
    for chosen in devices:
        for name, mapping in chosen.ref.device.node_allocatable_resource_mappings.items():
            amount = _amount(claim, chosen, name, mapping)
            if amount is not None:
                found[name] = found[name].add(amount) if name in found else amount
    return found


def _amount(
    claim: ResourceClaim, chosen: Chosen, name: str, mapping: NodeAllocatableResourceMapping
) -> Quantity | None:
    """Amount one device takes of one resource, None if the mapping does not apply to it. Raises
    ValueError."""
    factor = None if mapping.allocation_multiplier is None else quantity_of(mapping.allocation_multiplier)
    if not mapping.capacity_key:
        return quantity_of("0") if factor is None else factor
    if not chosen.is_share:
        raise ValueError(
            f"claim {claim.key}, device {chosen.ref.device.name}: ConsumedCapacity is nil, but Capacity key "
            f"'{mapping.capacity_key}' is set in NodeAllocatableResourceMappings for resource {name}"
        )
    consumed = chosen.consumed.get(mapping.capacity_key)
    if consumed is None or factor is None:
        return consumed
    return consumed.times(factor)


def containers_using(pod: Pod, claim: str) -> tuple[str, ...]:
    """The containers that use a claim, init containers first."""
    entries = set()
    for asked in pod.spec.resource_claims:
        try:
            if claim_name(pod, asked) == claim:
                entries.add(asked.name)
        except ClaimError:
            continue
    return tuple(
        container.name
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for used in container.resources.claims
        if used.name in entries
    )
