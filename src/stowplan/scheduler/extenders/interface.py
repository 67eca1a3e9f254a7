"""The interface of an extender, and the part that follows from its configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.scheduler.extenders.requests import FindPod
from stowplan.scheduler.framework.interface import Victims


@dataclass(frozen=True, slots=True)
class Filtered:
    """The response to filter.

    `kept` has names in the order of the response. A node in none of the three was dropped without a reason.
    `nodes` are the objects in the response, None for an extender that uses names: kube-scheduler continues
    with those objects as if they were empty nodes.
    """

    kept: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[Node] | None = None


class Extender(Protocol):
    """An extender, remote or in this process."""

    @property
    def name(self) -> str:
        """Its URL, under which its scores are shown."""
        ...

    @property
    def weight(self) -> int: ...

    @property
    def is_ignorable(self) -> bool:
        """True if its errors are ignored."""
        ...

    @property
    def is_filter(self) -> bool: ...

    @property
    def is_prioritizer(self) -> bool: ...

    @property
    def is_binder(self) -> bool: ...

    @property
    def supports_preemption(self) -> bool: ...

    def is_interested(self, pod: Pod) -> bool:
        """True if it is called for a pod."""
        ...

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> Filtered:
        """The nodes that are feasible for a pod. Without the verb: all of them."""
        ...

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Scores from 0 to 10 by node name, without weight. Without the verb: 0 for every node."""
        ...

    async def bind(self, pod: Pod, node: str) -> None: ...

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], find: FindPod) -> Mapping[str, Victims]:
        """The remaining candidates with their victims; `find` gets a victim by its uid."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class ConfiguredExtender:
    """The part of an extender that follows from its configuration; subclasses add the calls."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config
        self._managed = frozenset(resource.name for resource in config.managed_resources)

    @property
    def name(self) -> str:
        return self.config.url_prefix

    @property
    def weight(self) -> int:
        return self.config.weight

    @property
    def is_ignorable(self) -> bool:
        return self.config.ignorable

    @property
    def is_filter(self) -> bool:
        return bool(self.config.filter_verb)

    @property
    def is_prioritizer(self) -> bool:
        return bool(self.config.prioritize_verb)

    @property
    def is_binder(self) -> bool:
        return bool(self.config.bind_verb)

    @property
    def supports_preemption(self) -> bool:
        return bool(self.config.preempt_verb)

    def is_interested(self, pod: Pod) -> bool:
        """True if a container names a managed resource; always without managed resources."""
        if not self._managed:
            return True
        spec = pod.spec
        return any(
            not self._managed.isdisjoint(amounts)
            for container in (*spec.containers, *spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
        )

    def url(self, verb: str) -> str:
        """The URL of a verb."""
        return f"{self.config.url_prefix.rstrip('/')}/{verb}"
