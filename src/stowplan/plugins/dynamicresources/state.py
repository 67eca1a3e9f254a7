"""What is known of the claims of one pod during an attempt."""

import asyncio
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stowplan.api.devices import AllocationResult, ResourceClaim
from stowplan.api.nodeselector import CompiledNodeSelector
from stowplan.api.pod import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus
from stowplan.framework import PodInfo, Status
from stowplan.plugins.dynamicresources.allocator import Allocator, Found
from stowplan.plugins.dynamicresources.extended import IN_MEMORY_NAME

OWN_REASON: Final = 100
"""From here on codes stand for what was said of a single node."""


class NodeAllocation(NamedTuple):
    """What was found on one node: devices for the claims that need some, in their order.

    `extended_claim` is the claim for extended resources as this node needs it.
    """

    found: list[Found]
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    """What the devices take of the node's own resources."""


class StateData:
    """The claims of a pod, the one for extended resources last, and what was found for them.

    `claims` are replaced by what the API server returns as they are written. `selectors` are those of claims
    that are allocated, None: any node. `allocations` are what Reserve chose. `errors` are told by codes below
    zero. `nodes` are what was found on nodes, as far as anybody asked. `available` are the rows where claims
    that are allocated can be used, None: all. `writing` is the write of a claim that is under way or was the
    last.
    """

    __slots__ = (
        "allocations",
        "allocator",
        "available",
        "chosen",
        "claims",
        "codes",
        "errors",
        "extended_uid",
        "has_extended",
        "nodes",
        "pod",
        "reasons",
        "selectors",
        "writing",
    )

    def __init__(self, pod: PodInfo, claims: list[ResourceClaim], extended: ResourceClaim | None) -> None:
        self.pod = pod
        self.claims = claims if extended is None else [*claims, extended]
        self.has_extended = extended is not None
        self.extended_uid = "" if extended is None else extended.metadata.uid
        self.selectors: list[CompiledNodeSelector | None] = [None] * len(self.claims)
        self.allocations: list[AllocationResult | None] = [None] * len(self.claims)
        self.allocator: Allocator | None = None
        self.nodes: dict[str, NodeAllocation] = {}
        self.available: list[npt.NDArray[np.bool_] | None] = [None] * len(self.claims)
        self.chosen: NodeAllocation | None = None
        self.codes: npt.NDArray[np.int64] | None = None
        self.errors: list[str] = []
        self.reasons: list[Status] = []
        """What codes from `OWN_REASON` on mean."""
        self.writing: asyncio.Task[None] | None = None

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


def is_in_memory(claim: ResourceClaim) -> bool:
    return claim.name == IN_MEMORY_NAME
