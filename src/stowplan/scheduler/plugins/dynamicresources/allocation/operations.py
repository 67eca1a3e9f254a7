"""Operations on the node that a device does not need (gate DRAOptionalNodeOperations).

A kubelet with this feature declares it on its node; others would call the driver to no effect.
"""

from typing import Final

from stowplan.api.devices import ResourceClaim, ResourceSlice
from stowplan.api.node import Node

OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"
"""Entry of such a node in status.declaredFeatures."""


def skips_operations(claim: ResourceClaim) -> bool:
    """True if some device of a claim was allocated without operations on the node."""
    allocation = claim.allocation
    return allocation is not None and any(one.skip_node_operations for one in allocation.devices.results)


def is_usable(slice: ResourceSlice, node: Node, *, enabled: bool) -> bool:
    """True if the devices of a slice can be allocated on a node; `enabled` is the gate."""
    if not slice.spec.skip_node_operations:
        return True
    return enabled and OPTIONAL_OPERATIONS in node.status.declared_features
