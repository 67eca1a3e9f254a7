"""What every pod asks for and may use at most, for /metrics/resources.

There are several series for each pod of the cluster, so the text is made piece by piece while it is sent, and
pods alike in what they ask for are added up once.
"""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Final

import msgspec

from stowplan.api.pod import Pod
from stowplan.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Amounts,
    is_attachable_volumes,
    is_hugepages,
    pod_limits,
    pod_requests,
)
from stowplan.metrics.exposition import escaped, help_and_type
from stowplan.metrics.figures import number_text

LIMIT: Final = "kube_pod_resource_limit"
REQUEST: Final = "kube_pod_resource_request"

_HELP: Final = {
    LIMIT: "[STABLE] The most that a pod may use of a resource, in the unit that is given.",
    REQUEST: "[STABLE] What a pod asks for of a resource, in the unit that is given.",
}
_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE, "storage"})
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_AT_ONCE: Final = 200
"""Pods for which text is made before others get a turn."""

_encode = msgspec.msgpack.Encoder().encode
Figures = list[tuple[str, str, str]]
"""Resource, unit and amount."""


class PodResources:
    """The text of what all pods ask for. `pods` are those the scheduler knows at that moment."""

    def __init__(self, pods: Callable[[], Iterable[Pod]]) -> None:
        self._pods = pods

    def pieces(self) -> Iterator[bytes]:
        """The text in pieces that take little time each. What changes meanwhile may be told or not."""
        pods = list(self._pods())
        yield from _family(LIMIT, pods, _limits)
        yield from _family(REQUEST, pods, _requests)


def _family(name: str, pods: Iterable[Pod], amounts: Callable[[Pod], Amounts]) -> Iterator[bytes]:
    known: dict[bytes, Figures] = {}
    head = help_and_type(name, _HELP[name], "gauge")
    remaining = iter(pods)
    while some := list(islice(remaining, _AT_ONCE)):
        text = "".join(line for pod in some for line in _lines(name, pod, amounts, known))
        if text:
            yield (head + text).encode()
            head = ""
        else:
            yield b""


def _lines(
    name: str, pod: Pod, amounts: Callable[[Pod], Amounts], known: dict[bytes, Figures]
) -> Iterator[str]:
    spec = pod.spec
    if spec.node_name and pod.status.phase in _FINISHED:
        return
    key = _encode((spec.containers, spec.init_containers, spec.overhead, spec.resources))
    figures = known.get(key)
    if figures is None:
        figures = known[key] = _figures(amounts(pod))
    if not figures:
        return
    priority = "" if spec.priority is None else spec.priority
    where = f'namespace="{pod.metadata.namespace}",node="{spec.node_name}",pod="{pod.metadata.name}"'
    scheduler = escaped(spec.scheduler_name)
    for resource, unit, amount in figures:
        yield (
            f'{name}{{{where},priority="{priority}",resource="{escaped(resource)}",'
            f'scheduler="{scheduler}",unit="{unit}"}} {amount}\n'
        )


def _limits(pod: Pod) -> Amounts:
    return pod_limits(pod)


def _requests(pod: Pod) -> Amounts:
    return pod_requests(pod, use_status=False)


def _figures(amounts: Amounts) -> Figures:
    """Amounts that are not zero, in the order of their names."""
    return [
        (resource, _unit(resource), number_text(float(Decimal(amount.mantissa).scaleb(amount.scale))))
        for resource, amount in sorted(amounts.items())
        if not amount.is_zero
    ]


def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in _BYTES or is_hugepages(resource):
        return "bytes"
    return "integer" if is_attachable_volumes(resource) else ""
