"""NodeResourcesFit and NodeResourcesBalancedAllocation: room for a pod, and how full nodes would be."""

from stowplan.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.plugins.noderesources.fit import NodeResourcesFit

__all__ = ["NodeResourcesBalancedAllocation", "NodeResourcesFit"]
