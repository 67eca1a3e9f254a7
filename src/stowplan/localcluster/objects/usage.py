"""Pretend usage: how much CPU and memory simulated pods use.

A pod's annotations say it; else it is a part of what the pod requests. `kubectl top` shows these figures, and
horizontal pod autoscalers scale by them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from stowplan.api.catalogue import Resource
from stowplan.api.quantity import BINARY_SI, MILLI, Quantity, QuantityError, quantity_of
from stowplan.api.requests import Json

POD_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=("get", "list"))
NODE_METRICS: Final = Resource(
    "metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False, verbs=("get", "list")
)
CPU_USAGE: Final = "pretend.stowplan.io/cpu-usage"
"""CPU that a pod uses: an amount for all of it (`250m`), or a part of each container's request (`80%`)."""

MEMORY_USAGE: Final = "pretend.stowplan.io/memory-usage"
"""Memory that a pod uses, in the same two ways."""

WINDOW: Final = 15.0
"""Seconds over which usage is said to be measured."""

_UNREQUESTED: Final = {"cpu": 1, "memory": 10 * 2**20 * 1000}
"""Default usage of a container, in thousandths."""

_ANNOTATIONS: Final = {"cpu": CPU_USAGE, "memory": MEMORY_USAGE}


class ContainerUsage(NamedTuple):
    """Usage of a container, in thousandths of a CPU and of a byte."""

    name: str
    cpu: int
    memory: int


@dataclass(frozen=True, slots=True)
class PretendUsage:
    """Makes up usage. `factor`: the part of their requests that pods use if their annotations do not say."""

    factor: float = 0.5

    def of(self, pod: Json) -> list[ContainerUsage] | None:
        """Usage of the containers of a pod, None if it does not run."""
        if (pod.get("status") or {}).get("phase") != "Running":
            return None
        containers = list(_running_containers(pod))
        cpu, memory = (self._shares(pod, containers, resource) for resource in ("cpu", "memory"))
        return [
            ContainerUsage(one.get("name", ""), cpu[place], memory[place])
            for place, one in enumerate(containers)
        ]

    def _shares(self, pod: Json, containers: list[Json], resource: str) -> list[int]:
        requests = [_request(one, resource) for one in containers]
        told = (pod["metadata"].get("annotations") or {}).get(_ANNOTATIONS[resource], "")
        percent = _percent(told)
        if percent is not None:
            return [int(request * percent / 100) for request in requests]
        amount = _amount(told)
        if amount is None:
            return [int(request * self.factor) or _UNREQUESTED[resource] for request in requests]
        total = sum(requests)
        if not total:
            return [amount // len(containers)] * len(containers)
        return [amount * request // total for request in requests]


def usage_problem(annotations: Any) -> str:
    """Error of the usage annotations, "" if there is none."""
    for name in (CPU_USAGE, MEMORY_USAGE):
        told = (annotations or {}).get(name)
        if told and _percent(told) is None and _amount(told) is None:
            return f"{name}: expected an amount such as 250m or a percentage such as 80%, got {told!r}"
    return ""


def usage_list(cpu: int, memory: int) -> Json:
    """Usage as metrics.k8s.io writes it."""
    return {"cpu": str(Quantity(cpu, MILLI)), "memory": str(Quantity(-(-memory // 1000), 0, BINARY_SI))}


def _running_containers(pod: Json) -> Iterable[Json]:
    spec = pod.get("spec") or {}
    yield from spec.get("containers") or ()
    yield from (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")


def _request(container: Json, resource: str) -> int:
    requests = (container.get("resources") or {}).get("requests") or {}
    return _amount(requests.get(resource, 0)) or 0


def _percent(text: str) -> float | None:
    if not text.endswith("%"):
        return None
    try:
        found = float(text[:-1])
    except ValueError:
        return None
    return found if 0 <= found <= 100_000 else None


def _amount(raw: Any) -> int | None:
    if raw in ("", None):
        return None
    try:
        found = quantity_of(raw).milli_value()
    except (QuantityError, TypeError):
        return None
    return found if found >= 0 else None
