"""Small random clusters: few names, few values, so that things collide."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from stowplan.api.meta import LabelSelector, LabelSelectorRequirement, Namespace, ObjectMeta, OwnerReference
from stowplan.api.node import ContainerImage, Node, NodeCondition, NodeSpec, NodeStatus, Taint
from stowplan.api.pod import (
    Affinity,
    Container,
    ContainerPort,
    ContainerRestartRule,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from stowplan.api.workloads import ReplicaSet, Service, ServiceSpec, SetSpec

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
RACK = "rack"
GPU = "example.com/gpu"
FPGA = "example.com/fpga"
MIB = 1024 * 1024
AVOIDING = "scheduler.alpha.kubernetes.io/preferAvoidPods"
AVOIDED = '{"preferAvoidPods": [{"podSignature": {"podController": {"kind": "ReplicaSet"}}}]}'

NODE_NAMES = [f"n{i}" for i in range(8)]
NAMESPACES = ["default", "team-a", "team-b"]
IMAGES = {"web:1": 400 * MIB, "db:latest": 900 * MIB, "tiny:latest": 5 * MIB}


def maybe(strategy: SearchStrategy, otherwise: object = None, *, often: bool = False) -> SearchStrategy:
    """The strategy's value, or (mostly, unless `often`) nothing."""
    chances = [True, False] if often else [True, False, False, False]
    return st.sampled_from(chances).flatmap(lambda yes: strategy if yes else st.just(otherwise))


rarely = st.sampled_from([False] * 7 + [True])


def some_of(*values: object) -> SearchStrategy:
    return st.lists(st.sampled_from(values), unique=True, max_size=2).map(tuple)


# Nodes

TAINTS = (
    Taint(key="dedicated", value="gpu", effect="NoSchedule"),
    Taint(key="dedicated", value="gpu", effect="PreferNoSchedule"),
    Taint(key="noisy", effect="PreferNoSchedule"),
    Taint(key="down", effect="NoExecute"),
)

node_names = st.sampled_from(NODE_NAMES)


@st.composite
def node_labels(draw: st.DrawFn, name: str) -> dict[str, str]:
    found = {
        ZONE: draw(st.sampled_from(["za", "zb", "zc", "za", "zb", "", None])),
        HOSTNAME: draw(st.sampled_from([name, name, name, name, "n0", None])),
        RACK: draw(st.sampled_from(["r1", "r2", "r3", None, None])),
        "disk": draw(st.sampled_from(["ssd", "hdd", None])),
        "gen": draw(st.sampled_from(["3", "7", None])),
        BETA_ZONE: draw(st.sampled_from([None] * 7 + ["za", ""])),
    }
    return {key: value for key, value in found.items() if value is not None}


taints = some_of(*TAINTS)
images = some_of(*IMAGES).map(
    lambda names: tuple(ContainerImage(names=(name,), size_bytes=IMAGES[name]) for name in names)
)
features = some_of("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")
annotations = st.sampled_from([{}, {}, {"pick": "yes"}, {AVOIDING: AVOIDED}])
conditions = some_of(
    NodeCondition(type="Ready", status="True"),
    NodeCondition(type="Ready", status="Unknown"),
    NodeCondition(type="MemoryPressure", status="True"),
    NodeCondition(type="DiskPressure", status="True"),
    NodeCondition(type="PIDPressure", status="False"),
)


@st.composite
def allocatables(draw: st.DrawFn) -> dict[str, str | int | float]:
    found = {
        "cpu": draw(st.sampled_from(["2", "4", "4", "8", "8", None])),
        "memory": draw(st.sampled_from(["1Gi", "4Gi", "8Gi", "8Gi"])),
        "pods": draw(st.sampled_from(["2", "10", "10", "10", "10"])),
        GPU: draw(st.sampled_from(["1", "2", None, None])),
        FPGA: draw(st.sampled_from(["1", None, None, None])),
    }
    return {key: value for key, value in found.items() if value is not None}


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Mostly a node that can take most pods."""
    return Node(
        metadata=ObjectMeta(name=name, labels=draw(node_labels(name)), annotations=draw(annotations)),
        spec=NodeSpec(unschedulable=draw(rarely), taints=draw(maybe(taints, ()))),
        status=NodeStatus(
            allocatable=draw(allocatables()),
            images=draw(maybe(images, (), often=True)),
            declared_features=draw(maybe(features, (), often=True)),
            conditions=draw(maybe(conditions, ())),
        ),
    )


any_node = node_names.flatmap(nodes)


# Pods

SELECTORS = (
    LabelSelector(match_labels={"app": "a"}),
    LabelSelector(match_labels={"app": "a"}),
    LabelSelector(match_labels={"app": "b"}),
    LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="In", values=("a", "b")),)),
    LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="NotIn", values=("a",)),)),
    LabelSelector(match_expressions=(LabelSelectorRequirement(key="tier", operator="Exists"),)),
    LabelSelector(
        match_labels={"app": "a"},
        match_expressions=(LabelSelectorRequirement(key="tier", operator="DoesNotExist"),),
    ),
    LabelSelector(),
    None,
)
NAMESPACE_SELECTORS = (
    None,
    None,
    LabelSelector(),
    LabelSelector(match_labels={"env": "prod"}),
    LabelSelector(match_labels={"env": "prod"}),
    LabelSelector(
        match_expressions=(LabelSelectorRequirement(key="env", operator="NotIn", values=("prod",)),)
    ),
)
TOPOLOGY_KEYS = (ZONE, HOSTNAME, RACK)

selectors = st.sampled_from(SELECTORS)
topology_keys = st.sampled_from(TOPOLOGY_KEYS)
pod_labels = st.builds(
    lambda app, rest: {**app, **rest},
    st.sampled_from([{"app": "a"}, {"app": "a"}, {"app": "a"}, {"app": "b"}, {}]),
    st.sampled_from([{}, {}, {"tier": "x"}, {"version": "1"}, {"version": "2"}]),
)
policies = st.sampled_from([None, None, "Honor", "Ignore"])

spread_constraints = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 3),
    topology_key=topology_keys,
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=selectors,
    min_domains=st.sampled_from([None, None, 1, 2, 3]),
    node_affinity_policy=policies,
    node_taints_policy=policies,
    match_label_keys=st.sampled_from([(), (), ("version",), ("app", "tier")]),
)

affinity_terms = st.builds(
    PodAffinityTerm,
    topology_key=topology_keys,
    label_selector=selectors,
    namespaces=st.sampled_from([(), (), ("team-a",)]),
    namespace_selector=st.sampled_from(NAMESPACE_SELECTORS),
)
weighted_terms = st.builds(
    WeightedPodAffinityTerm, weight=st.sampled_from([1, 10, 50]), pod_affinity_term=affinity_terms
)

NODE_TERMS = (
    NodeSelectorTerm(
        match_expressions=(NodeSelectorRequirement(key="disk", operator="In", values=("ssd",)),)
    ),
    NodeSelectorTerm(
        match_expressions=(NodeSelectorRequirement(key=ZONE, operator="NotIn", values=("za",)),)
    ),
    NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="gen", operator="Gt", values=("5",)),)),
    NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=RACK, operator="DoesNotExist"),)),
    NodeSelectorTerm(
        match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=("n1",)),)
    ),
    NodeSelectorTerm(
        match_fields=(NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=("n1",)),)
    ),
    NodeSelectorTerm(),
)
node_terms = st.sampled_from(NODE_TERMS)
weighted_node_terms = st.builds(
    PreferredSchedulingTerm, weight=st.sampled_from([1, 7, 30]), preference=node_terms
)

TOLERATIONS = (
    Toleration(key="dedicated", operator="Equal", value="gpu"),
    Toleration(key="dedicated", operator="Exists", effect="NoSchedule"),
    Toleration(key="noisy", operator="Exists", effect="PreferNoSchedule"),
    Toleration(operator="Exists"),
    Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),
)

ports = st.builds(
    ContainerPort,
    host_port=st.sampled_from([80, 443]),
    host_ip=st.sampled_from(["", "", "10.0.0.1", "10.0.0.2"]),
    protocol=st.sampled_from(["", "UDP"]),
)


def tuples(strategy: SearchStrategy, min_size: int = 1, max_size: int = 2) -> SearchStrategy:
    return st.lists(strategy, min_size=min_size, max_size=max_size).map(tuple)


# Requests of a pod, one at a time. Affinities are put together below.
FEATURES: dict[str, SearchStrategy] = {
    "topology_spread_constraints": tuples(spread_constraints, max_size=3),
    "required_affinity": tuples(affinity_terms),
    "required_anti_affinity": tuples(affinity_terms),
    "preferred_affinity": tuples(weighted_terms),
    "preferred_anti_affinity": tuples(weighted_terms),
    "required_node_terms": tuples(node_terms, min_size=0),
    "preferred_node_terms": tuples(weighted_node_terms, min_size=0),
    "node_selector": st.sampled_from([{"disk": "ssd"}, {ZONE: "za"}, {}]),
    "tolerations": some_of(*TOLERATIONS),
    "ports": tuples(ports),
    "gpus": st.sampled_from(["1", "2"]),
    "fpgas": st.just("1"),
    "large": st.just("1500m"),
    "limit": st.sampled_from(["1", "3"]),
    "best_effort": st.just(True),
    "init": st.sampled_from(["1", "3"]),
    "restarts_all": st.just(True),
    "user_namespace": st.just(True),
}
ABOUT_OTHER_PODS = sorted(name for name in FEATURES if "ffinity" in name or "spread" in name)
feature_names = st.one_of(
    st.just("topology_spread_constraints"),
    st.sampled_from(ABOUT_OTHER_PODS),
    st.sampled_from(sorted(FEATURES)),
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod without name, uid or node: a template. It asks for a few things of many."""
    names = draw(st.lists(feature_names, max_size=3, unique=True))
    asks = {name: draw(FEATURES[name]) for name in names}
    return Pod(
        metadata=ObjectMeta(
            namespace=draw(st.sampled_from(["default", "default", "default", *NAMESPACES])),
            labels=draw(pod_labels),
            owner_references=draw(owners),
        ),
        spec=PodSpec(
            containers=(_container(asks, draw(image_names)),),
            init_containers=_init_containers(asks),
            affinity=_affinity(asks),
            node_selector=asks.get("node_selector"),
            tolerations=asks.get("tolerations", ()),
            topology_spread_constraints=asks.get("topology_spread_constraints", ()),
            priority=draw(st.sampled_from([None, None, 5])),
            host_network=asks.get("user_namespace", False),
            host_users=False if "user_namespace" in asks else None,
        ),
    )


image_names = st.sampled_from(["web:1", "db", "tiny", "elsewhere:1"])
owners = maybe(
    st.sampled_from(["rs0", "rs1"]).map(
        lambda name: (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=name, controller=True),)
    ),
    (),
)


def _container(asks: dict[str, Any], image: str) -> Container:
    requests = {"cpu": asks.get("large", "200m"), GPU: asks.get("gpus"), FPGA: asks.get("fpgas")}
    if "large" not in asks:
        requests["memory"] = "100Mi"
    if "best_effort" in asks:
        requests = {}
    limits = {"cpu": asks["limit"]} if "limit" in asks else {}
    rules = (ContainerRestartRule(action="RestartAllContainers"),) if "restarts_all" in asks else ()
    return Container(
        image=image,
        ports=asks.get("ports", ()),
        resources=ResourceRequirements(
            requests={name: value for name, value in requests.items() if value}, limits=limits
        ),
        restart_policy_rules=rules,
    )


def _init_containers(asks: dict[str, Any]) -> tuple[Container, ...]:
    if "init" not in asks:
        return ()
    return (Container(image="db", resources=ResourceRequirements(requests={"cpu": asks["init"]})),)


def _affinity(asks: dict[str, Any]) -> Affinity | None:
    required, preferred = asks.get("required_node_terms"), asks.get("preferred_node_terms")
    toward = PodAffinity(
        required_during_scheduling_ignored_during_execution=asks.get("required_affinity", ()),
        preferred_during_scheduling_ignored_during_execution=asks.get("preferred_affinity", ()),
    )
    away = PodAffinity(
        required_during_scheduling_ignored_during_execution=asks.get("required_anti_affinity", ()),
        preferred_during_scheduling_ignored_during_execution=asks.get("preferred_anti_affinity", ()),
    )
    selector = None if required is None else NodeSelector(node_selector_terms=required)
    return Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=selector,
            preferred_during_scheduling_ignored_during_execution=preferred,
        ),
        pod_affinity=toward if toward != PodAffinity() else None,
        pod_anti_affinity=away if away != PodAffinity() else None,
    )


# Objects around pods

namespaces = st.builds(
    lambda name, labels: Namespace(metadata=ObjectMeta(name=name, labels=labels)),
    st.sampled_from(NAMESPACES),
    st.sampled_from([{}, {"env": "prod"}, {"env": "test"}]),
)
services = st.builds(
    lambda name, namespace, selector: Service(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(selector=selector)
    ),
    st.sampled_from(["s0", "s1"]),
    st.sampled_from(["default", "default", "team-a"]),
    st.sampled_from([None, {"app": "a"}, {"app": "a"}, {"tier": "x"}]),
)
replica_sets = st.builds(
    lambda name, namespace, selector: ReplicaSet(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=SetSpec(selector=selector)
    ),
    st.sampled_from(["rs0", "rs1"]),
    st.sampled_from(["default", "default", "team-a"]),
    selectors,
)
around = st.one_of(namespaces, namespaces, services, replica_sets)
