"""Objects in one line.

    pod("p").labels(app="x").requests(cpu="100m").tolerates("gpu").obj()
    node("n").capacity(cpu="32", memory="256Gi").zone("a").taint("gpu").obj()

Builders never change: every method returns a new one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self
from uuid import UUID, uuid5

from msgspec import NODEFAULT, Struct, structs
from msgspec.structs import replace

from stowplan.api.meta import LabelSelector, ObjectMeta, OwnerReference
from stowplan.api.node import ContainerImage, Node, NodeStatus, Taint
from stowplan.api.pod import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    RawQuantity,
    ResourceList,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

_UIDS = UUID("5d0a7c0e-6e1c-4c55-9d0c-0d6a4e4f7c11")

Selects = Mapping[str, str] | LabelSelector
"""Which pods are meant: labels they all have, or a selector."""


def uid_of(kind: str, key: str) -> str:
    """A uid that depends on the object's name alone: unique, and the same in every run."""
    return str(uuid5(_UIDS, f"{kind}/{key}"))


def quantities(given: Mapping[str, RawQuantity], named: Mapping[str, RawQuantity]) -> ResourceList:
    """Quantities by resource. `ephemeral_storage` as a keyword stands for `ephemeral-storage`."""
    return {**given, **{name.replace("_", "-"): value for name, value in named.items()}}


def selector_of(selects: Selects) -> LabelSelector:
    return selects if isinstance(selects, LabelSelector) else LabelSelector(match_labels=dict(selects))


def with_node_term(
    had: Affinity | None, key: str, operator: str, values: Sequence[str], weight: int | None
) -> Affinity:
    """The affinity with one more requirement on nodes, or with a weight one more preference."""
    affinity = had or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=tuple(values))
    if weight is None:
        required = nodes.required_during_scheduling_ignored_during_execution
        before = required.node_selector_terms[0].match_expressions if required else ()
        term = NodeSelectorTerm(match_expressions=(*before, requirement))
        nodes = replace(
            nodes,
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=(term,)),
        )
    else:
        preference = PreferredSchedulingTerm(
            weight=weight, preference=NodeSelectorTerm(match_expressions=(requirement,))
        )
        preferred = nodes.preferred_during_scheduling_ignored_during_execution or ()
        nodes = replace(nodes, preferred_during_scheduling_ignored_during_execution=(*preferred, preference))
    return replace(affinity, node_affinity=nodes)


def with_pod_term(
    had: Affinity | None,
    side: Literal["pod_affinity", "pod_anti_affinity"],
    topology_key: str,
    selects: LabelSelector,
    weight: int | None,
    fields: Mapping[str, Any],
) -> Affinity:
    """The affinity with one more term about pods, required, or preferred with a weight."""
    affinity = had or Affinity()
    terms: PodAffinity = getattr(affinity, side) or PodAffinity()
    term = PodAffinityTerm(topology_key=topology_key, label_selector=selects, **fields)
    if weight is None:
        required = terms.required_during_scheduling_ignored_during_execution
        terms = replace(terms, required_during_scheduling_ignored_during_execution=(*required, term))
    else:
        preferred = terms.preferred_during_scheduling_ignored_during_execution
        wish = WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term)
        terms = replace(terms, preferred_during_scheduling_ignored_during_execution=(*preferred, wish))
    changes: dict[str, Any] = {side: terms}
    return replace(affinity, **changes)


HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
_ROOM: ResourceList = {"cpu": "4", "memory": "16Gi", "pods": 110}


@dataclass(frozen=True, slots=True)
class NodeBuilder:
    """A node in the making. Every method returns a new builder."""

    node: Node

    def obj(self) -> Node:
        """The finished node."""
        return self.node

    def capacity(self, resources: Mapping[str, RawQuantity] | None = None, /, **named: RawQuantity) -> Self:
        """Capacity and allocatable amounts of the node. Others keep their defaults: 4 CPU, 16Gi, 110 pods."""
        status = self.node.status
        more = quantities(resources or {}, named)
        return self._status(capacity={**status.capacity, **more}, allocatable={**status.allocatable, **more})

    def allocatable(
        self, resources: Mapping[str, RawQuantity] | None = None, /, **named: RawQuantity
    ) -> Self:
        """Part of its capacity that the node offers to pods."""
        return self._status(
            allocatable={**self.node.status.allocatable, **quantities(resources or {}, named)}
        )

    def labels(self, labels: Mapping[str, str] | None = None, /, **named: str) -> Self:
        """Labels besides the hostname label, which every node has."""
        return self._meta(labels={**self.node.metadata.labels, **(labels or {}), **named})

    def zone(self, name: str) -> Self:
        """The label that says which zone the node is in."""
        return self.labels({ZONE: name})

    def annotations(self, annotations: Mapping[str, str] | None = None, /, **named: str) -> Self:
        return self._meta(annotations={**self.node.metadata.annotations, **(annotations or {}), **named})

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """One more taint."""
        taints = (*self.node.spec.taints, Taint(key=key, value=value, effect=effect))
        return self._replace(spec=replace(self.node.spec, taints=taints))

    def unschedulable(self) -> Self:
        """The node is cordoned."""
        return self._replace(spec=replace(self.node.spec, unschedulable=True))

    def image(self, name: str, size_bytes: int) -> Self:
        """One more image that the node holds already."""
        image = ContainerImage(names=(name,), size_bytes=size_bytes)
        return self._status(images=(*self.node.status.images, image))

    def features(self, *names: str) -> Self:
        """Features the node declares."""
        return self._status(declared_features=(*self.node.status.declared_features, *names))

    def _meta(self, **changes: Any) -> Self:
        return self._replace(metadata=replace(self.node.metadata, **changes))

    def _status(self, **changes: Any) -> Self:
        return self._replace(status=replace(self.node.status, **changes))

    def _replace(self, **changes: Any) -> Self:
        return type(self)(replace(self.node, **changes))


def node(name: str) -> NodeBuilder:
    """A node with 4 CPU, 16Gi, room for 110 pods and its hostname label."""
    return NodeBuilder(
        Node(
            api_version="v1",
            kind="Node",
            metadata=ObjectMeta(name=name, uid=uid_of("Node", name), labels={HOSTNAME: name}),
            status=NodeStatus(capacity=_ROOM, allocatable=_ROOM),
        )
    )


_DELETED_AT = "2025-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class PodBuilder:
    """A pod in the making. Every method returns a new builder.

    It has one container; `requests`, `limits`, `image` and the ports are about that one.
    """

    pod: Pod

    def obj(self) -> Pod:
        """The finished pod. Where no uid was given it gets one made of its namespace and name."""
        if self.pod.metadata.uid:
            return self.pod
        return self._meta(uid=uid_of("Pod", self.pod.key)).pod

    # Metadata

    def namespace(self, name: str) -> Self:
        return self._meta(namespace=name)

    def uid(self, uid: str) -> Self:
        return self._meta(uid=uid)

    def labels(self, labels: Mapping[str, str] | None = None, /, **named: str) -> Self:
        return self._meta(labels={**self.pod.metadata.labels, **(labels or {}), **named})

    def annotations(self, annotations: Mapping[str, str] | None = None, /, **named: str) -> Self:
        return self._meta(annotations={**self.pod.metadata.annotations, **(annotations or {}), **named})

    def owned_by(self, kind: str, name: str, api_version: str = "apps/v1") -> Self:
        """The pod is controlled by an object of its namespace."""
        uid = uid_of(kind, f"{self.pod.namespace}/{name}")
        owner = OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid, controller=True)
        return self._meta(owner_references=(*self.pod.metadata.owner_references, owner))

    def terminating(self) -> Self:
        """The pod is being deleted."""
        return self._meta(deletion_timestamp=_DELETED_AT)

    def priority(self, priority: int) -> Self:
        return self.spec(priority=priority)

    def scheduler(self, name: str) -> Self:
        """The scheduler (profile) that is to place the pod."""
        return self.spec(scheduler_name=name)

    def gates(self, *names: str) -> Self:
        """Scheduling gates that hold the pod back."""
        return self.spec(scheduling_gates=tuple(PodSchedulingGate(name=name) for name in names))

    def group(self, name: str) -> Self:
        """The PodGroup that the pod is a member of."""
        return self.spec(scheduling_group=PodSchedulingGroup(pod_group_name=name))

    # Resources

    def requests(self, resources: Mapping[str, RawQuantity] | None = None, /, **named: RawQuantity) -> Self:
        """`requests(cpu="100m", memory="1Gi")`; for other names `requests({"example.com/gpu": 1})`."""
        had = self._main.resources
        return self._container(
            resources=replace(had, requests={**had.requests, **quantities(resources or {}, named)})
        )

    def limits(self, resources: Mapping[str, RawQuantity] | None = None, /, **named: RawQuantity) -> Self:
        had = self._main.resources
        return self._container(
            resources=replace(had, limits={**had.limits, **quantities(resources or {}, named)})
        )

    def image(self, name: str) -> Self:
        return self._container(image=name)

    def port(self, container_port: int, host_port: int = 0, protocol: str = "TCP", host_ip: str = "") -> Self:
        """A port of the container, and of the node if `host_port` is given."""
        port = ContainerPort(
            container_port=container_port, host_port=host_port, protocol=protocol, host_ip=host_ip
        )
        return self._container(ports=(*self._main.ports, port))

    def init_container(
        self,
        resources: Mapping[str, RawQuantity] | None = None,
        /,
        *,
        sidecar: bool = False,
        **named: RawQuantity,
    ) -> Self:
        """Add an init container with these requests; a sidecar keeps running with the containers."""
        had = self.pod.spec.init_containers
        container = Container(
            name=f"init-{len(had)}",
            resources=ResourceRequirements(requests=quantities(resources or {}, named)),
            restart_policy="Always" if sidecar else None,
        )
        return self.spec(init_containers=(*had, container))

    # Where it may go

    def node_selector(self, labels: Mapping[str, str] | None = None, /, **named: str) -> Self:
        """Labels the node must have."""
        return self.spec(node_selector={**(self.pod.spec.node_selector or {}), **(labels or {}), **named})

    def node_affinity(self, key: str, operator: str, *values: str, weight: int | None = None) -> Self:
        """`node_affinity("disk", "In", "ssd")`: all required ones must hold; with a weight it is a wish."""
        return self.spec(affinity=with_node_term(self.pod.spec.affinity, key, operator, values, weight))

    def affinity(
        self, topology_key: str, selects: Selects | None = None, *, weight: int | None = None, **term: Any
    ) -> Self:
        """Near pods that `selects` chooses (None: pods with the labels this pod has so far).

        With a weight it is a wish. `term` sets further fields, such as `namespaces=("a",)`.
        """
        chosen = selector_of(self._own_labels if selects is None else selects)
        wish = with_pod_term(self.pod.spec.affinity, "pod_affinity", topology_key, chosen, weight, term)
        return self.spec(affinity=wish)

    def anti_affinity(
        self, topology_key: str, selects: Selects | None = None, *, weight: int | None = None, **term: Any
    ) -> Self:
        """Away from pods that `selects` chooses; otherwise like `affinity`."""
        chosen = selector_of(self._own_labels if selects is None else selects)
        wish = with_pod_term(self.pod.spec.affinity, "pod_anti_affinity", topology_key, chosen, weight, term)
        return self.spec(affinity=wish)

    def spread(
        self,
        topology_key: str,
        selects: Selects | None = None,
        *,
        max_skew: int = 1,
        when_unsatisfiable: str = "DoNotSchedule",
        **constraint: Any,
    ) -> Self:
        """Evenly over the values of a label, counting pods that `selects` chooses (None: as in `affinity`).

        `constraint` sets further fields, such as `min_domains=3`.
        """
        one = TopologySpreadConstraint(
            topology_key=topology_key,
            max_skew=max_skew,
            when_unsatisfiable=when_unsatisfiable,
            label_selector=selector_of(self._own_labels if selects is None else selects),
            **constraint,
        )
        return self.spec(topology_spread_constraints=(*self.pod.spec.topology_spread_constraints, one))

    def tolerates(self, key: str = "", value: str | None = None, effect: str = "") -> Self:
        """Tolerates a taint with this key (any, if empty), and any value if none is given."""
        operator = "Exists" if value is None else "Equal"
        toleration = Toleration(key=key, operator=operator, value=value or "", effect=effect)
        return self.spec(tolerations=(*self.pod.spec.tolerations, toleration))

    def on(self, node_name: str) -> Self:
        """The pod runs on this node."""
        return self.spec(node_name=node_name)._replace(status=replace(self.pod.status, phase="Running"))

    def nominated(self, node_name: str) -> Self:
        """The node that an earlier attempt made room on for the pod."""
        return self._replace(status=replace(self.pod.status, nominated_node_name=node_name))

    # Everything else

    def spec(self, **fields: Any) -> Self:
        """Any fields of the spec, by their Python names."""
        return self._replace(spec=replace(self.pod.spec, **fields))

    @property
    def _main(self) -> Container:
        return self.pod.spec.containers[0]

    @property
    def _own_labels(self) -> Mapping[str, str]:
        return self.pod.metadata.labels

    def _container(self, **changes: Any) -> Self:
        return self.spec(containers=(replace(self._main, **changes),))

    def _meta(self, **changes: Any) -> Self:
        return self._replace(metadata=replace(self.pod.metadata, **changes))

    def _replace(self, **changes: Any) -> Self:
        return type(self)(replace(self.pod, **changes))


def pod(name: str) -> PodBuilder:
    """A pending pod of namespace `default` with one container that requests nothing."""
    return PodBuilder(
        Pod(
            api_version="v1",
            kind="Pod",
            metadata=ObjectMeta(name=name, namespace="default"),
            spec=PodSpec(scheduler_name="default-scheduler", containers=(Container(name="main"),)),
            status=PodStatus(phase="Pending"),
        )
    )


# The way back: an object as the builder expression that makes it, for messages


def builder_text(obj: Node | Pod) -> str:
    """An object in one line of builders. Parts without a method are shown as `spec(...)` or a comment."""
    return _node_text(obj) if isinstance(obj, Node) else _pod_text(obj)


def _node_text(node: Node) -> str:
    meta, status = node.metadata, node.status
    labels = dict(meta.labels)
    comments = []
    if labels.get(HOSTNAME) == node.name:
        del labels[HOSTNAME]
    elif HOSTNAME not in labels:
        comments.append("no hostname label")
    zone = labels.pop(ZONE, None)
    room = {name: status.allocatable.get(name, 0) for name in {**_ROOM, **status.allocatable}}
    calls = [
        f'node("{node.name}")',
        "" if zone is None else f'zone("{zone}")',
        _call("labels", labels),
        _call("annotations", meta.annotations),
        _call("capacity", {name: value for name, value in room.items() if value != _ROOM.get(name)}),
        *(f"taint({_arguments(taint.key, taint.value, _effect(taint))})" for taint in node.spec.taints),
        "unschedulable()" if node.spec.unschedulable else "",
        *(f"image({_arguments(image.names[0], image.size_bytes)})" for image in status.images),
        f"features({_arguments(*status.declared_features)})" if status.declared_features else "",
    ]
    comments += [f"{condition.type}={condition.status}" for condition in status.conditions]
    return _joined(calls, comments)


_SHOWN = frozenset(("containers", "node_name", "scheduler_name", "node_selector", "tolerations", "priority"))
"""Fields of a pod's spec that have their own words below."""


def _pod_text(pod: Pod) -> str:
    meta, spec = pod.metadata, pod.spec
    main = spec.containers[0] if spec.containers else Container(name="main")
    calls = [
        f'pod("{meta.name}")',
        f'namespace("{meta.namespace}")' if meta.namespace not in ("", "default") else "",
        _call("labels", meta.labels),
        _call("annotations", meta.annotations),
        *(f"owned_by({_arguments(owner.kind, owner.name)})" for owner in meta.owner_references),
        "terminating()" if meta.deletion_timestamp else "",
        f"priority({spec.priority})" if spec.priority is not None else "",
        _call("requests", main.resources.requests),
        _call("limits", main.resources.limits),
        f'image("{main.image}")' if main.image else "",
        *(f"port({port.container_port}, host_port={port.host_port})" for port in main.ports),
        _call("node_selector", spec.node_selector or {}),
        *(f"tolerates({_arguments(*_toleration(one))})" for one in spec.tolerations),
        *(
            f"spec({field.name}={_compact(value)})"
            for field in structs.fields(spec)
            if field.name not in _SHOWN and _is_set(value := getattr(spec, field.name), field)
        ),
        f'on("{spec.node_name}")' if spec.node_name else "",
    ]
    return _joined(calls, ["more containers"] if len(spec.containers) > 1 else [])


def _effect(taint: Taint) -> str:
    return "" if taint.effect == "NoSchedule" else taint.effect


def _toleration(toleration: Toleration) -> tuple[str | None, ...]:
    value = toleration.value if toleration.operator == "Equal" else None
    return (toleration.key, value, toleration.effect)


def _joined(calls: Sequence[str], comments: Sequence[str]) -> str:
    return ".".join(filter(None, calls)) + (f"  # {', '.join(comments)}" if comments else "")


def _arguments(*values: Any) -> str:
    """Positional arguments without the empty ones at the end."""
    shown = list(values)
    while len(shown) > 1 and not shown[-1]:
        shown.pop()
    return ", ".join(_literal(value) for value in shown)


def _call(method: str, values: Mapping[str, Any]) -> str:
    """`labels(app="a")`, or with a map where a name is no identifier; "" without values."""
    if not values:
        return ""
    if all(name.isidentifier() for name in values):
        return f"{method}({', '.join(f'{name}={_literal(value)}' for name, value in values.items())})"
    entries = ", ".join(f"{_literal(name)}: {_literal(value)}" for name, value in values.items())
    return f"{method}({{{entries}}})"


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _compact(value: Any) -> str:
    """The repr of a value with only those fields of structs that are set."""
    if isinstance(value, Struct):
        fields = [field for field in structs.fields(value) if _is_set(getattr(value, field.name), field)]
        inner = ", ".join(f"{field.name}={_compact(getattr(value, field.name))}" for field in fields)
        return f"{type(value).__name__}({inner})"
    if isinstance(value, tuple):
        inner = ", ".join(map(_compact, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return _literal(value)


def _is_set(value: Any, field: structs.FieldInfo) -> bool:
    """True if a field has an effect: an empty affinity does not."""
    default = field.default_factory() if field.default_factory is not NODEFAULT else field.default
    if value == default:
        return False
    empty = isinstance(value, Affinity | NodeAffinity | PodAffinity)
    return not empty or any(_is_set(getattr(value, part.name), part) for part in structs.fields(value))
