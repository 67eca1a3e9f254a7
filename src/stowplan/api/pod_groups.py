"""Groups of pods that are scheduled together: PodGroup, and CompositePodGroup as a group of groups.

The API group is scheduling.k8s.io. A pod names its PodGroup in `spec.schedulingGroup.podGroupName`. A group
names its parent, so groups form trees: the leaves are PodGroups, everything above them CompositePodGroups.
"""

from typing import Final

from stowplan.api.meta import Object, Struct
from stowplan.api.pod import Pod

GATES: Final = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "PodGroupPreemptionPolicy",
    "DRAWorkloadResourceClaims",
    "WorkloadWithJob",
)
"""All feature gates of pod groups."""

POD_GROUP_TYPE: Final = "podgroup"
COMPOSITE_POD_GROUP_TYPE: Final = "compositepodgroup"

MAX_TREE_DEPTH: Final = 4
"""Maximum number of levels of a tree of groups, the leaf included."""

PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""The condition that the scheduler writes: enough members got a node for the first time."""
REASON_SCHEDULED: Final = "Scheduled"
REASON_UNSCHEDULABLE: Final = "Unschedulable"
REASON_SCHEDULER_ERROR: Final = "SchedulerError"


class Empty(Struct, frozen=True):
    """The value of a union's member that has no fields, such as `basic: {}`."""


class GangPolicy(Struct, frozen=True):
    """All or nothing: the number of pods (of a PodGroup) or groups (of a CompositePodGroup) that must be
    placed."""

    min_count: int = 0
    min_group_count: int = 0


class SchedulingPolicy(Struct, frozen=True):
    """One of `basic` and `gang`."""

    basic: Empty | None = None
    gang: GangPolicy | None = None


class DisruptionMode(Struct, frozen=True):
    """Disruption of a group's pods: one by one (`single`, the default) or only `all` together."""

    single: Empty | None = None
    all: Empty | None = None


class TopologyConstraint(Struct, frozen=True):
    key: str = ""


class SchedulingConstraints(Struct, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WorkloadReference(Struct, frozen=True):
    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(Struct, frozen=True):
    """The spec of a PodGroup; that of a CompositePodGroup has the same fields except `resource_claims`."""

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None


class GroupCondition(Struct, frozen=True):
    """`metav1.Condition`."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodGroupResourceClaimStatus(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct, frozen=True):
    conditions: tuple[GroupCondition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class GroupObject(Object, frozen=True):
    """Common base of PodGroup and CompositePodGroup."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def is_gang(self) -> bool:
        return self.spec.scheduling_policy.gang is not None

    @property
    def minimum(self) -> int:
        """Number of children (pods or groups) that must be placed: one without a gang policy."""
        raise NotImplementedError

    @property
    def group_key(self) -> str:
        """`podgroup/namespace/name` or `compositepodgroup/namespace/name`."""
        raise NotImplementedError

    @property
    def parent(self) -> str | None:
        """The key (`compositepodgroup/namespace/name`) of the parent; None at the top.

        Without the gate CompositePodGroup there are no parents: `PodGroups` knows, so ask it.
        """
        name = self.spec.parent_composite_pod_group_name
        return composite_key(self.namespace, name) if name else None

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def preemption_policy(self) -> str:
        return self.spec.preemption_policy or PREEMPT_LOWER_PRIORITY

    @property
    def disrupted_together(self) -> bool:
        """True if `disruptionMode` is `all`."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def topology_key(self) -> str:
        """The node label whose value all pods of the group must share; "" for no constraint."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""


class PodGroup(GroupObject, frozen=True):
    """A group of pods."""

    @property
    def minimum(self) -> int:
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_count

    @property
    def group_key(self) -> str:
        return f"{POD_GROUP_TYPE}/{self.key}"


class CompositePodGroup(GroupObject, frozen=True):
    """A group of PodGroups or of other CompositePodGroups."""

    @property
    def minimum(self) -> int:
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_group_count

    @property
    def group_key(self) -> str:
        return f"{COMPOSITE_POD_GROUP_TYPE}/{self.key}"


def composite_key(namespace: str, name: str) -> str:
    return f"{COMPOSITE_POD_GROUP_TYPE}/{namespace}/{name}"


def group_key_of(pod: Pod) -> str | None:
    """The key (`podgroup/namespace/name`) of the PodGroup that a pod names; None if it names none.

    The gate GenericWorkload decides if pods are members at all: use `PodGroups.group_of` for that.
    """
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return None
    return f"{POD_GROUP_TYPE}/{pod.metadata.namespace}/{group.pod_group_name}"
