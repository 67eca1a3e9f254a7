"""Which parts of dynamic resource allocation the feature gates switch on, and by which rules they work."""

from typing import NamedTuple

from stowplan.api.releases import DEFAULT
from stowplan.api.releases.behaviour import DeviceBehaviour as Choices
from stowplan.scheduler.framework.advanced import FeatureGates


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
    optional_node_operations: bool = False
    """Drivers may say that nodes need not prepare their devices."""
    derived_attributes: bool = False
    """Requests may compute attributes of devices for constraints."""
    compatibility_groups: bool = False
    """Devices that draw from the same counters must have a group in common."""
    fractional_range: bool = False
    """Steps of capacity may be fractions."""
    choices: Choices = DEFAULT.behaviour.devices
    """The rules of the release where releases differ."""

    @property
    def heeds_skipped_operations(self) -> bool:
        """True if devices for which nodes shall skip operations are treated separately.

        Upstream's allocator does so with any of its alpha features, and allocates such devices without.
        """
        alpha = (
            self.list_attributes
            or self.optional_node_operations
            or self.derived_attributes
            or self.compatibility_groups
        )
        return alpha and self.choices.skip_node_operations

    @property
    def ignores_grouped_slices(self) -> bool:
        """True if slices with compatibility groups are left out, as the groups are not supported."""
        return self.choices.unknown_request_fields_fail and not self.compatibility_groups


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
        optional_node_operations=gates["DRAOptionalNodeOperations"],
        derived_attributes=gates["DRADerivedAttributes"],
        compatibility_groups=gates["DRADeviceCompatibilityGroups"],
        fractional_range=gates["DRAFractionalCapacityRange"],
        choices=gates.behaviour.devices,
    )


def has_binding_conditions(gates: FeatureGates) -> bool:
    return gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
