"""Which parts of dynamic resource allocation the feature gates switch on."""

from typing import NamedTuple

from stowplan.framework import FeatureGates


class Features(NamedTuple):
    admin_access: bool = True
    prioritized_list: bool = True
    partitionable: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    list_attributes: bool = False
    extended_resources: bool = True
    filter_timeout: bool = True
    node_allocatable: bool = False
    workload_claims: bool = False
    """Claims may belong to a PodGroup."""


def features_of(gates: FeatureGates) -> Features:
    return Features(
        admin_access=gates["DRAAdminAccess"],
        prioritized_list=gates["DRAPrioritizedList"],
        partitionable=gates["DRAPartitionableDevices"],
        device_taints=gates["DRADeviceTaints"],
        binding_conditions=has_binding_conditions(gates),
        consumable_capacity=gates["DRAConsumableCapacity"],
        list_attributes=gates["DRAListTypeAttributes"],
        extended_resources=gates["DRAExtendedResource"],
        filter_timeout=gates["DRASchedulerFilterTimeout"],
        node_allocatable=gates["DRANodeAllocatableResources"],
        workload_claims=gates["DRAWorkloadResourceClaims"],
    )


def has_binding_conditions(gates: FeatureGates) -> bool:
    return gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
