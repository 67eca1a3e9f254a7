"""Nodes: what they offer, how they are labelled and tainted, what they hold already."""

from stowplan.api.meta import Object, Struct
from stowplan.api.pod import ResourceList


class Taint(Struct, frozen=True):
    """A taint, without the time it was added: two nodes tainted alike count as alike."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Struct, frozen=True):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeCondition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class NodeStatus(Struct, frozen=True):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
