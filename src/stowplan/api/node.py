"""Nodes: what they offer, how they are labelled and tainted, what they hold already."""

from stowplan.api.meta import Object, Struct
from stowplan.api.pod import ResourceList


class Taint(Struct, frozen=True, eq=False):
    """A taint. Whenever they were added, two that are otherwise the same count as equal."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taint):
            return NotImplemented
        return self.key == other.key and self.value == other.value and self.effect == other.effect

    def __ne__(self, other: object) -> bool:
        # Without it the one of msgspec.Struct compares identities.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.key, self.value, self.effect))


class PodPreemptionPolicy(Struct, frozen=True):
    """Limits to the preemption of a node's pods. Names in `disable_resize_preemption`: no resize may
    preempt."""

    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_preemption_policy: PodPreemptionPolicy | None = None


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
