"""Which parts of dynamic resource allocation the feature gates switch on, and by which rules they work."""

from typing import NamedTuple

from stowplan.framework import FeatureGates
from stowplan.releases import DEFAULT
from stowplan.releases.behaviour import Devices as Choices


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
    fractional_range: bool = False
    """Steps of capacity may be fractions."""
    choices: Choices = DEFAULT.behaviour.devices
    """The rules of the release where releases differ."""


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
        fractional_range=gates["DRAFractionalCapacityRange"],
        choices=gates.behaviour.devices,
    )


def has_binding_conditions(gates: FeatureGates) -> bool:
    return gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
