"""Reading feature gates as they stand on a command line: `Gate=true,Other=false`."""

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


_NEEDS: dict[str, tuple[str, ...]] = {
    "GangScheduling": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
}
"""Gates that make no sense without others."""
