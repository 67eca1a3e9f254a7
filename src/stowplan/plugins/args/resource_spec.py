"""Which resources count in a score, and how much."""

from collections.abc import Iterable

from stowplan.api.meta import Struct


class ResourceSpec(Struct, frozen=True):
    """A resource and its weight; 0 stands for 1."""

    name: str = ""
    weight: int = 0


CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))
"""What is looked at where nothing else is said."""


def complete_resources(resources: Iterable[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """The resources with missing weights filled in; cpu and memory where there are none."""
    completed = tuple(ResourceSpec(name=spec.name, weight=spec.weight or 1) for spec in resources)
    return completed or CPU_AND_MEMORY
