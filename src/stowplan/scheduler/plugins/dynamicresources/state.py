"""State of the claims of one pod during an attempt."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stowplan.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from stowplan.api.pod import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus
from stowplan.api.rules.nodeselector import CompiledNodeSelector
from stowplan.scheduler.framework import PodInfo, Status
from stowplan.scheduler.framework.advanced import Budget
from stowplan.scheduler.plugins.dynamicresources.allocation.allocator import Allocator, Found
from stowplan.scheduler.plugins.dynamicresources.extended import IN_MEMORY_NAME
from stowplan.scheduler.table.devices import with_allocation

OWN_REASON: Final = 100
"""From here on codes stand for what was said of a single node."""


class NodeAllocation(NamedTuple):
    """Devices found on one node for the claims that need some, in their order.

    `extended_claim` is the claim for extended resources as this node needs it.
    """

    found: list[Found]
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    """Resources of the node that the devices take."""


class StateData:
    """The claims of a pod, the one for extended resources last, and the devices found for them.

    `claims` are replaced by the API server's answers as they are written. `selectors` are those of allocated
    claims, None: any node. `allocations` are those of Reserve. `errors` are those of codes below zero.
    `nodes` are results on nodes, computed on request. `available` are the rows where allocated claims can be
    used, None: all. `writing` is the current or last write of a claim.

    For a member of a group: `consumers` are those that claims are reserved for, None: the pod. `pending` are
    the places of claims that an earlier member got devices for, which `allocations` has; `shared` are the
    uids of claims that other members plan to use.
    """

    __slots__ = (
        "allocations",
        "allocator",
        "available",
        "budget",
        "chosen",
        "claims",
        "codes",
        "consumers",
        "errors",
        "explaining",
        "extended_uid",
        "has_extended",
        "nodes",
        "pending",
        "pod",
        "reasons",
        "reserved_on",
        "selectors",
        "shared",
        "uids",
        "writing",
    )

    def __init__(self, pod: PodInfo, claims: list[ResourceClaim], extended: ResourceClaim | None) -> None:
        self.pod = pod
        self.claims = claims if extended is None else [*claims, extended]
        self.has_extended = extended is not None
        self.extended_uid = "" if extended is None else extended.metadata.uid
        self.uids = [claim.metadata.uid for claim in self.claims]
        """Keys of allocations in flight, regardless of later changes of `claims`: a claim may be gone when it
        is written, and another one have its name."""
        self.selectors: list[CompiledNodeSelector | None] = [None] * len(self.claims)
        self.allocations: list[AllocationResult | None] = [None] * len(self.claims)
        self.allocator: Allocator | None = None
        self.budget: Budget | None = None
        """How long the attempt may search."""
        self.explaining: Budget | None = None
        """How long all explanations of the attempt may search."""
        self.nodes: dict[str, NodeAllocation] = {}
        self.available: list[npt.NDArray[np.bool_] | None] = [None] * len(self.claims)
        self.chosen: NodeAllocation | None = None
        self.codes: npt.NDArray[np.int64] | None = None
        self.errors: list[str] = []
        self.reasons: list[Status] = []
        """Statuses of codes from `OWN_REASON` on."""
        self.writing: asyncio.Task[None] | None = None
        self.consumers: Sequence[ResourceClaimConsumerReference | None] = ()
        self.pending: set[int] = set()
        self.shared: frozenset[str] = frozenset()
        self.reserved_on = ""
        """The node that `allocations` are for."""

    @property
    def extended(self) -> ResourceClaim | None:
        return self.claims[-1] if self.has_extended else None

    @property
    def user_claims(self) -> list[ResourceClaim]:
        return self.claims[:-1] if self.has_extended else self.claims

    def is_extended(self, index: int) -> bool:
        return self.has_extended and index == len(self.claims) - 1

    def to_allocate(self) -> list[int]:
        """The places of the claims that have no devices yet."""
        return [index for index, claim in enumerate(self.claims) if claim.allocation is None]

    def to_find(self) -> list[int]:
        """The same, but for those that another member of the group has found devices for."""
        return [index for index in self.to_allocate() if index not in self.pending]

    def share(self, index: int, allocation: AllocationResult) -> None:
        """Use what another member of the group found for a claim."""
        self.pending.add(index)
        self.allocations[index] = allocation

    def seen_claim(self, index: int) -> ResourceClaim:
        """A claim, with the devices that another member of the group found."""
        claim, allocation = self.claims[index], self.allocations[index]
        return with_allocation(claim, allocation) if index in self.pending and allocation else claim

    def seen_user_claims(self) -> list[ResourceClaim]:
        if not self.pending:
            return self.user_claims
        return [self.seen_claim(index) for index in range(len(self.user_claims))]

    def consumer(self, index: int) -> ResourceClaimConsumerReference:
        """For whom a claim is to be reserved."""
        found = self.consumers[index] if index < len(self.consumers) else None
        if found is not None:
            return found
        return ResourceClaimConsumerReference(resource="pods", name=self.pod.name, uid=self.pod.uid)


def is_in_memory(claim: ResourceClaim) -> bool:
    return claim.name == IN_MEMORY_NAME
