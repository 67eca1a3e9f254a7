"""Pods in one line: `pod("p").labels(app="x").requests(cpu="100m").tolerates("gpu").obj()`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from msgspec.structs import replace

from stowplan.api.meta import ObjectMeta, OwnerReference
from stowplan.api.pod import (
    Container,
    ContainerPort,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    RawQuantity,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from stowplan.testing.affinities import with_node_wish, with_pod_wish
from stowplan.testing.values import Selects, amounts, selector_of, uid_of

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

    # What it is

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

    # What it takes

    def requests(self, resources: Mapping[str, RawQuantity] | None = None, /, **named: RawQuantity) -> Self:
        """`requests(cpu="100m", memory="1Gi")`; for other names `requests({"example.com/gpu": 1})`."""
        had = self._main.resources
        return self._container(
            resources=replace(had, requests={**had.requests, **amounts(resources or {}, named)})
        )

    def limits(self, resources: Mapping[str, RawQuantity] | None = None, /, **named: RawQuantity) -> Self:
        had = self._main.resources
        return self._container(
            resources=replace(had, limits={**had.limits, **amounts(resources or {}, named)})
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
        """One more init container with these requests; a sidecar keeps running beside the others."""
        had = self.pod.spec.init_containers
        container = Container(
            name=f"init-{len(had)}",
            resources=ResourceRequirements(requests=amounts(resources or {}, named)),
            restart_policy="Always" if sidecar else None,
        )
        return self.spec(init_containers=(*had, container))

    # Where it may go

    def node_selector(self, labels: Mapping[str, str] | None = None, /, **named: str) -> Self:
        """Labels the node must have."""
        return self.spec(node_selector={**(self.pod.spec.node_selector or {}), **(labels or {}), **named})

    def node_affinity(self, key: str, operator: str, *values: str, weight: int | None = None) -> Self:
        """`node_affinity("disk", "In", "ssd")`: all required ones must hold; with a weight it is a wish."""
        return self.spec(affinity=with_node_wish(self.pod.spec.affinity, key, operator, values, weight))

    def affinity(
        self, topology_key: str, selects: Selects | None = None, *, weight: int | None = None, **term: Any
    ) -> Self:
        """Near pods that `selects` chooses (None: pods with the labels this pod has so far).

        With a weight it is a wish. `term` sets further fields, such as `namespaces=("a",)`.
        """
        chosen = selector_of(self._own_labels if selects is None else selects)
        wish = with_pod_wish(self.pod.spec.affinity, "pod_affinity", topology_key, chosen, weight, term)
        return self.spec(affinity=wish)

    def anti_affinity(
        self, topology_key: str, selects: Selects | None = None, *, weight: int | None = None, **term: Any
    ) -> Self:
        """Away from pods that `selects` chooses; otherwise like `affinity`."""
        chosen = selector_of(self._own_labels if selects is None else selects)
        wish = with_pod_wish(self.pod.spec.affinity, "pod_anti_affinity", topology_key, chosen, weight, term)
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
        """Tolerates a taint with this key (any, if empty), whatever its value if none is given."""
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
