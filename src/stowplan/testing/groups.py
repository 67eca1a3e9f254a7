"""PodGroups and CompositePodGroups in one line.

    pod_group("g", min_count=3)
    pod_group("g", parent="top", topology="example.com/rack", priority=100)
    composite_pod_group("top", min_group_count=2)

Without a minimum the policy is `basic`.
"""

from typing import Any

from stowplan.api.meta import ObjectMeta
from stowplan.api.pod_groups import (
    CompositePodGroup,
    DisruptionMode,
    Empty,
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingConstraints,
    SchedulingPolicy,
    TopologyConstraint,
    WorkloadReference,
)
from stowplan.testing.builders import uid_of


def pod_group(
    name: str, *, min_count: int | None = None, namespace: str = "default", **more: Any
) -> PodGroup:
    """A PodGroup; `more`: parent, topology, priority, preemption_policy, disrupted_together, created."""
    policy = None if min_count is None else GangPolicy(min_count=min_count)
    return PodGroup(
        api_version="scheduling.k8s.io/v1beta1",
        kind="PodGroup",
        metadata=_metadata("PodGroup", namespace, name, more),
        spec=_spec(policy, **more),
    )


def composite_pod_group(
    name: str, *, min_group_count: int | None = None, namespace: str = "default", **more: Any
) -> CompositePodGroup:
    """A CompositePodGroup; `more` as for `pod_group`."""
    policy = None if min_group_count is None else GangPolicy(min_group_count=min_group_count)
    return CompositePodGroup(
        api_version="scheduling.k8s.io/v1alpha3",
        kind="CompositePodGroup",
        metadata=_metadata("CompositePodGroup", namespace, name, more),
        spec=_spec(policy, **more),
    )


def _metadata(kind: str, namespace: str, name: str, more: dict[str, Any]) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid_of(kind, f"{namespace}/{name}"),
        creation_timestamp=more.pop("created", ""),
    )


def _spec(
    gang: GangPolicy | None,
    *,
    parent: str | None = None,
    topology: str = "",
    priority: int | None = None,
    preemption_policy: str | None = None,
    disrupted_together: bool = False,
) -> PodGroupSpec:
    return PodGroupSpec(
        parent_composite_pod_group_name=parent,
        workload_ref=WorkloadReference(workload_name="w", template_name="t") if parent else None,
        scheduling_policy=SchedulingPolicy(basic=Empty()) if gang is None else SchedulingPolicy(gang=gang),
        scheduling_constraints=SchedulingConstraints(topology=(TopologyConstraint(key=topology),))
        if topology
        else None,
        disruption_mode=DisruptionMode(all=Empty()) if disrupted_together else None,
        priority=priority,
        preemption_policy=preemption_policy,
    )
