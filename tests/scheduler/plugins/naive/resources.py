"""Resource fit and resource scores, one node and one resource at a time."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from stowplan.api.node import Node
from stowplan.api.pod import Container, Pod

Amounts = Mapping[str, int]
Shape = Sequence[tuple[int, int]]
"""Utilization and score of each point, in order."""

_UNITS = {"m": Fraction(1, 1000), "Ki": Fraction(1024), "Mi": Fraction(1024**2), "Gi": Fraction(1024**3)}
DEFAULTS = {"cpu": 100, "memory": 200 * 1024**2}
NATIVE = ("cpu", "memory", "ephemeral-storage")


def amount(name: str, text: str | int | float) -> int:
    """cpu in thousandths, everything else in its unit; rounded up."""
    written = str(text)
    unit = next((suffix for suffix in _UNITS if written.endswith(suffix)), "")
    value = Fraction(written.removesuffix(unit)) * _UNITS.get(unit, Fraction(1))
    return math.ceil(value * 1000 if name == "cpu" else value)


def requested(pod: Pod, name: str, *, with_defaults: bool = False) -> int:
    """Containers together or the largest init container, whichever is more."""

    def asked(container: Container) -> int:
        requests = container.resources.requests
        if name in requests:
            return amount(name, requests[name])
        return DEFAULTS.get(name, 0) if with_defaults else 0

    together = sum(asked(container) for container in pod.spec.containers)
    return max([together, *(asked(container) for container in pod.spec.init_containers)])


def allocatable(node: Node, name: str) -> int:
    return amount(name, node.status.allocatable.get(name, 0))


class Filling:
    """One node, the pods on it, and a pod that might come."""

    def __init__(self, node: Node, pods: Sequence[Pod], pod: Pod) -> None:
        self.node = node
        self.on_node = [other for other in pods if other.spec.node_name == node.name]
        self.pod = pod

    def _used(self, name: str, with_defaults: bool) -> int:
        return sum(requested(other, name, with_defaults=with_defaults) for other in self.on_node)

    def _figures(self, names: Sequence[str], with_defaults: bool) -> list[tuple[str, int, int, int]]:
        """Name, allocatable, used without and with the pod, of the resources that count on this node."""
        found = []
        for name in names:
            here, wanted = (
                allocatable(self.node, name),
                requested(self.pod, name, with_defaults=with_defaults),
            )
            if here and (wanted or name in NATIVE):
                used = self._used(name, with_defaults)
                found.append((name, here, used, used + wanted))
        return found

    def reasons(self, names: Sequence[str]) -> tuple[list[str], bool]:
        """Why the pod does not fit, and whether it would not even fit an empty node."""
        found, hopeless = [], False
        if len(self.on_node) + 1 > allocatable(self.node, "pods"):
            found.append("Too many pods")
        for name in names:
            wanted, here = requested(self.pod, name), allocatable(self.node, name)
            if wanted and wanted > here - self._used(name, False):
                found.append(f"Insufficient {name}")
                hopeless = hopeless or wanted > here
        return found, hopeless

    def least_allocated(self, weights: Mapping[str, int]) -> int:
        return self._mean(weights, lambda total, here: 0 if total > here else (here - total) * 100 // here)

    def most_allocated(self, weights: Mapping[str, int]) -> int:
        return self._mean(weights, lambda total, here: min(total, here) * 100 // here)

    def _mean(self, weights: Mapping[str, int], share: Callable[[int, int], int]) -> int:
        figures = self._figures(list(weights), True)
        weight = sum(weights[name] for name, *_ in figures)
        return sum(share(total, here) * weights[name] for name, here, _, total in figures) // max(weight, 1)

    def by_shape(self, weights: Mapping[str, int], shape: Shape) -> int:
        score = weight = 0
        for name, here, _, total in self._figures(list(weights), True):
            points = on_shape(shape, 100 if total > here else total * 100 // here)
            if points > 0:
                score += points * weights[name]
                weight += weights[name]
        return math.floor(score / weight + 0.5) if weight else 0

    def balanced(self, names: Sequence[str]) -> int:
        figures = self._figures(names, False)
        before = _balance([min(1.0, used / here) for _, here, used, _ in figures])
        after = _balance([min(1.0, total / here) for _, here, _, total in figures])
        return 50 + (50 + after - before) // 2


def on_shape(shape: Shape, percent: int) -> int:
    """Straight lines between the points, whose scores are 0 to 10 for 0 to 100."""
    last = None
    for utilization, score in shape:
        if percent <= utilization:
            if last is None:
                return score * 10
            rise = (score - last[1]) * 10 * (percent - last[0])
            return last[1] * 10 + int(Fraction(rise, utilization - last[0]))
        last = (utilization, score)
    assert last is not None
    return last[1] * 10


def _balance(fractions: Sequence[float]) -> int:
    count = len(fractions)
    deviation = 0.0
    if count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif count > 2:
        mean = sum(fractions) / count
        deviation = math.sqrt(sum((fraction - mean) * (fraction - mean) for fraction in fractions) / count)
    return int((1 - deviation) * 100)
