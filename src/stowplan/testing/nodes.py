"""Nodes in one line: `node("n").capacity(cpu="32", memory="256Gi").zone("a").taint("gpu").obj()`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from msgspec.structs import replace

from stowplan.api.meta import ObjectMeta
from stowplan.api.node import ContainerImage, Node, NodeStatus, Taint
from stowplan.api.pod import RawQuantity, ResourceList
from stowplan.testing.values import amounts, uid_of

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
        """What the node has and offers. What is not mentioned stays: 4 CPU, 16Gi, 110 pods."""
        status = self.node.status
        more = amounts(resources or {}, named)
        return self._status(capacity={**status.capacity, **more}, allocatable={**status.allocatable, **more})

    def allocatable(
        self, resources: Mapping[str, RawQuantity] | None = None, /, **named: RawQuantity
    ) -> Self:
        """What of its capacity the node offers to pods."""
        return self._status(allocatable={**self.node.status.allocatable, **amounts(resources or {}, named)})

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
