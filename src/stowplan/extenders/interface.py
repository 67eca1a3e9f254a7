"""What the scheduler knows of an extender. Every failure is an `ExtenderError`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.framework.postfilter import Victims

FindPod = Callable[[str, str], Pod | None]
"""The pod with a uid on a named node, None if it is not there. Raises LookupError for an unknown node."""


class ExtenderError(Exception):
    """An extender that could not be asked, or whose answer is an error or makes no sense."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """What is left of the nodes an extender was asked about.

    `kept` has names in the order they came back. A node that is in none of the three was left out without
    a word. `nodes` are the objects an extender gave back that is sent whole nodes, None if it deals in names:
    kube-scheduler goes on with those objects as if no pod were on them.
    """

    kept: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[Node] | None = None


class Extender(Protocol):
    """A service that takes part in scheduling. Calls are coroutines, whether or not they go over a wire."""

    @property
    def name(self) -> str:
        """Its address, under which its scores are shown."""
        ...

    @property
    def weight(self) -> int: ...

    @property
    def is_ignorable(self) -> bool:
        """Whether scheduling goes on without it when it fails."""
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
        """Whether it wants to be asked about a pod at all."""
        ...

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> Filtered:
        """Which nodes may take a pod. Without the verb: all of them."""
        ...

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Scores from 0 to 10 by node name, not weighted. Without the verb: 0 for every node."""
        ...

    async def bind(self, pod: Pod, node: str) -> None: ...

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], find: FindPod) -> Mapping[str, Victims]:
        """The candidates that are left, with the victims the extender wants, found by their uids."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
