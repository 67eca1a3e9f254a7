"""Small random clusters, each about one thing, so that what it is about happens often."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from stowplan.api.meta import LabelSelector, Namespace, Object, ObjectMeta
from stowplan.api.node import Node, NodeSpec, NodeStatus
from stowplan.api.pod import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Toleration,
    WeightedPodAffinityTerm,
)
from stowplan.api.workloads import ReplicaSet, Service
from stowplan.testing import cluster_strategies as some

NAMES = some.NODE_NAMES[:6]
ROOM = {"cpu": "64", "memory": "64Gi", "pods": "100"}
APPS: SearchStrategy[dict[str, str]] = st.sampled_from(
    [{"app": "a"}, {"app": "a"}, {"app": "a", "tier": "x"}, {"app": "a", "version": "1"}, {"app": "b"}, {}]
)
NAMESPACES = st.sampled_from(["default"] * 5 + ["team-a", "team-b"])


class AdmissionContext(NamedTuple):
    """Nodes, pods on them, what is around, and a pod that is to come."""

    nodes: list[Node]
    pods: list[Pod]
    around: Sequence[Object]
    pod: Pod

    @property
    def namespaces(self) -> dict[str, Mapping[str, str]]:
        return {obj.name: obj.metadata.labels for obj in self.around if isinstance(obj, Namespace)}

    @property
    def group_selectors(self) -> list[LabelSelector]:
        """The selectors of the services that select the pod, and of the ReplicaSet that owns it."""
        meta = self.pod.metadata
        last = {(type(obj), obj.key): obj for obj in self.around if obj.namespace == meta.namespace}
        found = []
        for obj in last.values():
            if isinstance(obj, Service):
                wanted = obj.spec.selector
                if wanted and all(meta.labels.get(key) == value for key, value in wanted.items()):
                    found.append(LabelSelector(match_labels=wanted))
            elif isinstance(obj, ReplicaSet) and obj.spec.selector is not None:
                found += [obj.spec.selector for owner in meta.owner_references if owner.name == obj.name]
        return found


def _pod(number: int, node: str, namespace: str, labels: Mapping[str, str], spec: PodSpec) -> Pod:
    meta = ObjectMeta(name=f"p{number}", uid=f"u{number}", namespace=namespace, labels=dict(labels))
    return Pod(metadata=meta, spec=replace(spec, node_name=node))


@st.composite
def _roomy_nodes(draw: st.DrawFn) -> list[Node]:
    """Nodes that differ in labels and, some of them, in taints."""
    found = []
    for name in NAMES[: draw(st.integers(2, len(NAMES)))]:
        labels = draw(some.node_labels(name))
        zone = draw(st.sampled_from(["za", "zb", "zb", "", None]))
        labels = {key: value for key, value in {**labels, some.ZONE: zone}.items() if value is not None}
        taints = draw(st.sampled_from([(), (), (), some.TAINTS[:1], some.TAINTS[3:]]))
        found.append(
            Node(
                metadata=ObjectMeta(name=name, labels=labels),
                spec=NodeSpec(taints=taints),
                status=NodeStatus(allocatable=dict(ROOM)),
            )
        )
    return found


PLAIN = PodSpec(containers=(Container(),))


@st.composite
def spreading(draw: st.DrawFn, *, own: bool) -> AdmissionContext:
    """About spread constraints: the pod's own, or those of a profile for the group it belongs to."""
    nodes = draw(_roomy_nodes())
    on = st.sampled_from([node.name for node in nodes])
    placed = draw(st.lists(st.tuples(on, NAMESPACES, APPS, some.rarely), max_size=9))
    pods = [_pod(number, on, space, app, PLAIN) for number, (on, space, app, _) in enumerate(placed)]
    pods = [
        replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
        if dying
        else pod
        for pod, (*_, dying) in zip(pods, placed, strict=True)
    ]
    constraints = draw(st.lists(some.spread_constraints, min_size=1, max_size=3)) if own else []
    spec = replace(
        PLAIN,
        topology_spread_constraints=tuple(constraints),
        node_selector=draw(st.sampled_from([None, None, {"disk": "ssd"}, {some.ZONE: "za"}])),
        tolerations=draw(st.sampled_from([(), (Toleration(operator="Exists"),), some.TOLERATIONS[:1]])),
    )
    pod = _pod(99, "", "default", draw(APPS), spec)
    pod = replace(pod, metadata=replace(pod.metadata, owner_references=draw(some.owners)))
    around: Sequence[Object] = (
        [] if own else draw(st.lists(st.one_of(some.services, some.replica_sets), max_size=4))
    )
    return AdmissionContext(nodes, pods, around, pod)


@st.composite
def _affinity(draw: st.DrawFn, most: int) -> Affinity | None:
    """Terms of the four kinds: required for and against, preferred for and against."""
    roles = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3]), max_size=most))
    required: tuple[list[PodAffinityTerm], ...] = ([], [])
    preferred: tuple[list[WeightedPodAffinityTerm], ...] = ([], [])
    for role in roles:
        if role >= 2:
            preferred[role - 2].append(draw(some.weighted_terms))
        else:
            required[role].append(draw(some.affinity_terms))
    sides = [
        PodAffinity(
            required_during_scheduling_ignored_during_execution=tuple(required[side]),
            preferred_during_scheduling_ignored_during_execution=tuple(preferred[side]),
        )
        for side in (0, 1)
    ]
    return Affinity(pod_affinity=sides[0], pod_anti_affinity=sides[1]) if roles else None


@st.composite
def neighbouring(draw: st.DrawFn) -> AdmissionContext:
    """About pods that want to be near each other or apart."""
    nodes = draw(_roomy_nodes())
    on = st.sampled_from([node.name for node in nodes])
    placed = draw(st.lists(st.tuples(on, NAMESPACES, APPS, _affinity(2)), max_size=6))
    pods = [
        _pod(number, name, namespace, labels, replace(PLAIN, affinity=affinity))
        for number, (name, namespace, labels, affinity) in enumerate(placed)
    ]
    spec = replace(PLAIN, affinity=draw(_affinity(3)), tolerations=(Toleration(operator="Exists"),))
    pod = _pod(99, "", draw(NAMESPACES), draw(APPS), spec)
    return AdmissionContext(nodes, pods, draw(st.lists(some.namespaces, max_size=3)), pod)


AMOUNTS = {
    "cpu": ("100m", "250m", "1", "3", "0"),
    "memory": ("100Mi", "512Mi", "1Gi", "3Gi"),
    "ephemeral-storage": ("1Gi", "2Gi"),
    some.GPU: ("1", "2", "3"),
    some.FPGA: ("1",),
}


@st.composite
def _requests(draw: st.DrawFn) -> ResourceRequirements:
    names = draw(st.lists(st.sampled_from(sorted(AMOUNTS)), max_size=4, unique=True))
    return ResourceRequirements(requests={name: draw(st.sampled_from(AMOUNTS[name])) for name in names})


_containers = st.lists(_requests().map(lambda found: Container(resources=found)), min_size=1, max_size=2)


@st.composite
def _spending(draw: st.DrawFn) -> PodSpec:
    inits = draw(st.sampled_from([False, False, True]))
    return PodSpec(
        containers=tuple(draw(_containers)), init_containers=tuple(draw(_containers)) if inits else ()
    )


@st.composite
def filling(draw: st.DrawFn) -> AdmissionContext:
    """About what pods take and nodes have."""
    nodes = []
    for name in NAMES[: draw(st.integers(2, 4))]:
        allocatable: dict[str, str | int | float] = {
            "cpu": draw(st.sampled_from(["2", "3", "7", "0"])),
            "memory": draw(st.sampled_from(["2Gi", "3Gi", "7Gi"])),
            "pods": draw(st.sampled_from(["3", "9", "9"])),
        }
        for resource, most in (("ephemeral-storage", "4Gi"), (some.GPU, "3"), (some.FPGA, "1")):
            if draw(st.booleans()):
                allocatable[resource] = most
        meta = ObjectMeta(name=name, labels={some.HOSTNAME: name, "disk": "ssd"})
        nodes.append(Node(metadata=meta, status=NodeStatus(allocatable=allocatable)))
    on = st.sampled_from([node.name for node in nodes])
    placed = draw(st.lists(st.tuples(on, _spending()), max_size=5))
    pods = [_pod(number, name, "default", {}, spec) for number, (name, spec) in enumerate(placed)]
    return AdmissionContext(nodes, pods, [], _pod(99, "", "default", {}, draw(_spending())))
