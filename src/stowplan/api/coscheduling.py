"""Pod groups of scheduler-plugins: `scheduling.x-k8s.io/v1alpha1` PodGroup, a custom resource.

A pod belongs to one by the label `scheduling.x-k8s.io/pod-group`. Everything behind the API is that of the
built-in groups: such a group is read as a PodGroup with the policy `gang`, and its pods as if they named it
in `spec.schedulingGroup`.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from stowplan.api.catalogue import Resource
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import Pod, PodSchedulingGroup, ResourceList
from stowplan.api.pod_groups import PodGroup, PodGroupSpec

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
POD_GROUPS: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "", custom=True)


class CoschedulingSpec(PodGroupSpec, frozen=True):
    """Spec of scheduler-plugins' PodGroup; the fields of a built-in group are never set.

    `priority` is not part of it: a group has that of its pods, which is noted here when they are known.
    """

    min_member: int = 0
    min_resources: ResourceList = {}
    schedule_timeout_seconds: int | None = None


class CoschedulingPodGroup(PodGroup, frozen=True):
    """A PodGroup of scheduler-plugins."""

    spec: CoschedulingSpec = CoschedulingSpec()

    @property
    def is_gang(self) -> bool:
        return True

    @property
    def minimum(self) -> int:
        return max(self.spec.min_member, 1)

    def with_priority_of(self, pod: Pod) -> "CoschedulingPodGroup":
        """The group with the priority of its pods."""
        priority = pod.spec.priority or 0
        if self.spec.priority == priority:
            return self
        return replace(self, spec=replace(self.spec, priority=priority))


def as_member(pod: Pod) -> Pod:
    """A pod that is labelled as part of a group, as if it named that group; any other pod as it is."""
    name = pod.metadata.labels.get(POD_GROUP_LABEL)
    if not name or pod.spec.scheduling_group is not None:
        return pod
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name=name)))


def as_member_by_label(pod: Pod) -> Pod:
    """The same where there are no built-in groups: what a pod says of those does not count."""
    if pod.spec.scheduling_group is not None:
        pod = replace(pod, spec=replace(pod.spec, scheduling_group=None))
    return as_member(pod)


def see_pod(gates: FeatureGates) -> Callable[[Pod], Pod] | None:
    """How pods are seen where they may belong to groups by a label; None: as they are."""
    if not gates.coscheduling:
        return None
    return as_member if gates.built_in_pod_groups else as_member_by_label
