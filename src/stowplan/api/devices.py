"""Devices: ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice, DeviceTaintRule.

The group is resource.k8s.io. Quantities stay as they stand in a document, text or number.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import field

from stowplan.api.meta import Object, ObjectMeta, Struct
from stowplan.api.pod import NodeSelector
from stowplan.api.pruning import DEEPEST, TEXT_FIELD, is_deep
from stowplan.api.requests import Json

DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""An extended resource with this prefix means the device class of that name."""

CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim from being deleted."""
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that the scheduler made for extended resources."""

EXACT_COUNT: Final = "ExactCount"
ALL_DEVICES: Final = "All"

MOST_RESULTS: Final = 32
"""Maximum number of devices of one claim."""
MOST_SUBREQUESTS: Final = 8
"""Maximum number of alternatives in a request."""

RawQuantity = str | int | float

_AS_TEXT: Final = " as text"
"""Ends names that no field of the API can have."""
_PARAMETERS_TEXT: Final = "parameters" + _AS_TEXT
_DATA_TEXT: Final = "data" + _AS_TEXT


def _check_depth(name: str, value: Any) -> None:
    """Raises ValueError, upon which JSON is decoded once more, with deep values as text."""
    if is_deep(value):
        raise ValueError(f"{name} nested more than {DEEPEST} levels deep")


# Requests


class CELDeviceSelector(Struct, frozen=True):
    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    cel: CELDeviceSelector | None = None


class DeviceToleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Struct, frozen=True):
    requests: dict[str, RawQuantity] = {}


class DeviceDerivedAttribute(Struct, frozen=True):
    """An attribute of devices that is computed for constraints."""

    name: str = ""
    expression: str = ""


class DeviceSubRequest(Struct, frozen=True):
    """One alternative of a request with `firstAvailable`."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class ExactDeviceRequest(Struct, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(Struct, frozen=True):
    """An exact request, or a list of alternatives."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True):
    """Attributes that devices of several requests must have in common, or must differ in. No requests means
    all."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Struct, frozen=True):
    """Parameters for a driver. Deep ones are kept as their JSON text; they are only passed on."""

    driver: str = ""
    parameters: Annotated[Any, msgspec.Meta(extra={TEXT_FIELD: _PARAMETERS_TEXT})] = None
    parameters_text: str | None = field(default=None, name=_PARAMETERS_TEXT)

    def __post_init__(self) -> None:
        _check_depth("parameters", self.parameters)


class DeviceClaimConfiguration(Struct, frozen=True):
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Struct, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    devices: DeviceClaim = DeviceClaim()


# Allocations


class DeviceRequestAllocationResult(Struct, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: dict[str, RawQuantity] = {}
    skip_node_operations: tuple[str, ...] = ()

    @property
    def id(self) -> "DeviceID":
        return (self.driver, self.pool, self.device)


DeviceID = tuple[str, str, str]
"""Driver, pool and name of a device."""


class DeviceAllocationConfiguration(Struct, frozen=True):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Struct, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Struct, frozen=True):
    """Devices and the nodes where they can be used; no selector means everywhere."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Struct, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(Struct, frozen=True):
    """A driver's status of a device it prepares."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[DeviceCondition, ...] = ()
    data: Annotated[Any, msgspec.Meta(extra={TEXT_FIELD: _DATA_TEXT})] = None
    data_text: str | None = field(default=None, name=_DATA_TEXT)
    network_data: Any = None

    def __post_init__(self) -> None:
        _check_depth("data", self.data)

    def condition(self, type: str) -> DeviceCondition | None:
        return next((one for one in self.conditions if one.type == type), None)


class ResourceClaimStatus(Struct, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Object, frozen=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def allocation(self) -> AllocationResult | None:
        return self.status.allocation

    def is_reserved_for(self, uid: str) -> bool:
        return any(one.uid == uid for one in self.status.reserved_for)


def with_deep_values(claim: bytes) -> bytes:
    """A claim's JSON as the API has it: values that are kept as text stand in their places, byte for byte."""
    if b'%b":' % _AS_TEXT.encode() not in claim:
        return claim
    body: Json = msgspec.json.decode(claim)
    for holder in _holders_of_text(body):
        for name, text_name in (("parameters", _PARAMETERS_TEXT), ("data", _DATA_TEXT)):
            text = holder.pop(text_name, None)
            if text is not None:
                holder[name] = msgspec.Raw(text.encode())
    return msgspec.json.encode(body)


def _holders_of_text(claim: Json) -> Iterator[Json]:
    status = claim.get("status", {})
    for about in (claim.get("spec", {}), status.get("allocation", {})):
        for config in about.get("devices", {}).get("config", ()):
            yield config.get("opaque", {})
    yield from status.get("devices", ())


class ResourceClaimTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


# Devices


class DeviceClassConfiguration(Struct, frozen=True):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Struct, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A class of devices. Pods can ask for one by an extended resource name."""

    spec: DeviceClassSpec = DeviceClassSpec()

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The extended resources that mean this class: the one implied by its name, and one given to it."""
        implied = DEVICE_CLASS_PREFIX + self.metadata.name
        given = self.spec.extended_resource_name
        return (implied,) if given is None else (implied, given)


class DeviceAttribute(Struct, frozen=True):
    """A value of one of four types, or a list of such values."""

    int_value: int | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string_value: str | None = field(default=None, name="string")
    version_value: str | None = field(default=None, name="version")
    int_values: tuple[int, ...] | None = field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = field(default=None, name="bools")
    string_values: tuple[str, ...] | None = field(default=None, name="strings")
    version_values: tuple[str, ...] | None = field(default=None, name="versions")


class CapacityRequestPolicyRange(Struct, frozen=True):
    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(Struct, frozen=True):
    default: RawQuantity | None = None
    valid_values: tuple[RawQuantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Struct, frozen=True):
    value: RawQuantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Struct, frozen=True):
    value: RawQuantity = "0"


class CounterSet(Struct, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Struct, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeAllocatableResourceMapping(Struct, frozen=True):
    """Amount a device takes of a resource of its node: per device, or by a consumed capacity."""

    capacity_key: str | None = None
    allocation_multiplier: RawQuantity | None = None


class NodeAllocatableMapping(Struct, frozen=True):
    """As NodeAllocatableResourceMapping, in the form of 1.37: a multiple of a capacity, or of devices."""

    capacity_key: str | None = None
    capacity_multiplier: RawQuantity | None = None
    device_multiplier: RawQuantity | None = None


class NodeAllocatableOverhead(Struct, frozen=True):
    """Amount a device takes in addition: once for a pod, and for each container that uses it."""

    per_pod: RawQuantity | None = None
    per_container: RawQuantity | None = None


class NodeAllocatableResource(Struct, frozen=True):
    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Struct, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = {}
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}


class ResourcePool(Struct, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(Object, frozen=True):
    """Some devices of a pool, or counters that its devices share."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Struct, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Object, frozen=True):
    """A taint for all devices that a selector names."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
