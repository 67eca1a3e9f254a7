"""NodeResourcesFit and NodeResourcesBalancedAllocation: room for a pod, and how full nodes would be."""

from stowplan.scheduler.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFit

__all__ = ["NodeResourcesBalancedAllocation", "NodeResourcesFit"]
