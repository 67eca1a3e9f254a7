"""Pods: the parts of spec and status that decide where a pod may run, and the host ports it takes there."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import field

from stowplan.api.meta import LabelSelector, Object, Struct

# A quantity as it stands in an object: usually text ("100m", "1Gi"), in YAML also a plain number.
RawQuantity = str | int | float
ResourceList = dict[str, RawQuantity]


class ResourceClaimUse(Struct, frozen=True):
    """A container's use of one of the pod's resource claims."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerPort(Struct, frozen=True):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = ""


class ContainerRestartRule(Struct, frozen=True):
    action: str = ""


class VolumeMount(Struct, frozen=True):
    bind_mount_options: tuple[str, ...] = ()


class Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class NodeSelectorRequirement(Struct, frozen=True):
    """`key operator values`, operator one of In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """Expressions over labels and over fields, all ANDed. An empty term matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    """Terms that are ORed."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] | None = None


class PodAffinityTerm(Struct, frozen=True):
    """Pods chosen by labels and namespaces, seen from nodes that share a topology value."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """Both podAffinity and podAntiAffinity have this shape."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Struct, frozen=True):
    name: str = ""


class PodResourceClaim(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Struct, frozen=True):
    pod_group_name: str = ""


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Struct, frozen=True):
    """A claim made from a template for this pod alone; its name is `<pod>-<volume>`."""


class GCEPersistentDisk(Struct, frozen=True):
    pd_name: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStore(Struct, frozen=True):
    volume_id: str = field(name="volumeID", default="")
    partition: int = 0
    read_only: bool = False


class ISCSI(Struct, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class RBD(Struct, frozen=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class AzureDisk(Struct, frozen=True):
    disk_name: str = ""
    disk_uri: str = field(name="diskURI", default="")
    kind: str | None = None
    read_only: bool | None = None


class AzureFile(Struct, frozen=True):
    """In a persistent volume the secret may be in another namespace."""

    secret_name: str = ""
    share_name: str = ""
    secret_namespace: str | None = None


class VsphereVirtualDisk(Struct, frozen=True):
    volume_path: str = ""


class PortworxVolume(Struct, frozen=True):
    volume_id: str = field(name="volumeID", default="")


class Cinder(Struct, frozen=True):
    volume_id: str = field(name="volumeID", default="")
    read_only: bool = False


class CSIVolume(Struct, frozen=True):
    """An inline CSI volume."""

    driver: str = ""
    read_only: bool | None = None


class ImageVolume(Struct, frozen=True):
    reference: str = ""


class Volume(Struct, frozen=True):
    """One volume of a pod. Sources that no scheduling rule reads (config maps, tokens, …) are not kept."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    azure_file: AzureFile | None = None
    vsphere_volume: VsphereVirtualDisk | None = None
    portworx_volume: PortworxVolume | None = None
    csi: CSIVolume | None = None
    image: ImageVolume | None = None


class PodSpec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    priority: int | None = None
    priority_class_name: str = ""
    runtime_class_name: str | None = None
    preemption_policy: str | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None


class PodCondition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class ContainerWaiting(Struct, frozen=True):
    """Reason why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerTerminated(Struct, frozen=True):
    """End of a container."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Struct, frozen=True):
    """State of a container; a running one has neither."""

    waiting: ContainerWaiting | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct, frozen=True):
    """Status of a container: in-place resize accounting reads the resources, explanations the rest."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    """Which request of a claim stands for an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    """The claim that was made for the extended resources a pod gets as devices."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class NodeAllocatableMappedResources(Struct, frozen=True):
    name: str = ""
    quantity: RawQuantity | None = None


class NodeAllocatableOverheadResources(Struct, frozen=True):
    name: str = ""
    per_pod: RawQuantity | None = None
    per_container: RawQuantity | None = None


class NodeAllocatableResourceClaimStatus(Struct, frozen=True):
    """Amounts of the node's resources, such as cpu and memory, that a claim takes, and its containers.

    `resources` is the form of 1.36, `mapping` and `overhead` are that of 1.37.
    """

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = {}
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()


class PodStatus(Struct, frozen=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(Object, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def priority(self) -> int:
        """`spec.priority`, 0 where admission set none."""
        return self.spec.priority or 0

    @property
    def is_placed(self) -> bool:
        """On a node, or nominated to one: room has to be left for it."""
        return bool(self.spec.node_name or self.status.nominated_node_name)

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Succeeded or failed: it uses nothing any more and no scheduler ever sees it."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def resource_claim_keys(self) -> list[str]:
        """The ResourceClaims it refers to by name or through a template, as far as they are known yet."""
        asked = self.spec.resource_claims
        if not asked:
            return []
        names = {one.resource_claim_name for one in asked}
        names.update(one.resource_claim_name for one in self.status.resource_claim_statuses)
        return [f"{self.metadata.namespace}/{name}" for name in names if name]


ANY_ADDRESS: Final = "0.0.0.0"
DEFAULT_PROTOCOL: Final = "TCP"


class HostPort(NamedTuple):
    """A port on a node's address. `0.0.0.0` is every address; `::` is an address like any other."""

    protocol: str
    ip: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """True if the two cannot be open on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip)


def host_port(protocol: str, ip: str, port: int) -> HostPort | None:
    """A host port with defaults (TCP, every address) filled in, None without a port."""
    return HostPort(protocol or DEFAULT_PROTOCOL, ip or ANY_ADDRESS, port) if port > 0 else None


def declared_host_ports(pod: Pod) -> Iterator[ContainerPort]:
    """The ports a pod holds on its node while it runs, as declared: sidecars' first, then containers'."""
    spec = pod.spec
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    for container in (*sidecars, *spec.containers):
        for declared in container.ports:
            if declared.host_port > 0:
                yield declared


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The ports a pod holds on its node while it runs, with defaults filled in."""
    return tuple(
        HostPort(declared.protocol or DEFAULT_PROTOCOL, declared.host_ip or ANY_ADDRESS, declared.host_port)
        for declared in declared_host_ports(pod)
    )


def conflicts(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """True if any wanted port conflicts with a used one."""
    taken = tuple(used)
    return any(port.conflicts(other) for port in wanted for other in taken)
