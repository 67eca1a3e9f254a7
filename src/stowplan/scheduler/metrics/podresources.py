"""Resource requests and limits of every pod, for /metrics/resources.

There are several series for each pod of the cluster, so the text is generated in chunks while it is sent, and
pods with the same resources are summed up once.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from stowplan.api.pod import Pod
from stowplan.api.rules.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Amounts,
    is_attachable_volumes,
    is_hugepages,
    pod_limits,
    pod_requests,
)
from stowplan.scheduler.metrics.exposition import escaped, help_and_type, number_text

LIMIT: Final = "kube_pod_resource_limit"
REQUEST: Final = "kube_pod_resource_request"

_HELP: Final = {
    LIMIT: "[STABLE] The most that a pod may use of a resource, in the unit that is given.",
    REQUEST: "[STABLE] What a pod asks for of a resource, in the unit that is given.",
}
_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE, "storage"})
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_AT_ONCE: Final = 200
"""Pods per chunk."""

_encode = msgspec.msgpack.Encoder().encode
Quantities = list[tuple[str, str, str]]
"""Resource, unit and amount."""


class PodResources:
    """The metrics of all pods in the scheduler's cache."""

    def __init__(self, pods: Callable[[], Iterable[Pod]]) -> None:
        self._pods = pods

    def pieces(self) -> Iterator[bytes]:
        """The text in chunks. Changes during the iteration may be seen or not."""
        pods = list(self._pods())
        yield from _family(LIMIT, pods, _limits)
        yield from _family(REQUEST, pods, _requests)


def _family(name: str, pods: Iterable[Pod], amounts: Callable[[Pod], Amounts]) -> Iterator[bytes]:
    known: dict[bytes, Quantities] = {}
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
    name: str, pod: Pod, amounts: Callable[[Pod], Amounts], known: dict[bytes, Quantities]
) -> Iterator[str]:
    spec = pod.spec
    if spec.node_name and pod.status.phase in _FINISHED:
        return
    key = _encode((spec.containers, spec.init_containers, spec.overhead, spec.resources))
    quantities = known.get(key)
    if quantities is None:
        quantities = known[key] = _quantities(amounts(pod))
    if not quantities:
        return
    priority = "" if spec.priority is None else spec.priority
    meta = pod.metadata
    where = (
        f'namespace="{escaped(meta.namespace)}",node="{escaped(spec.node_name)}",pod="{escaped(meta.name)}"'
    )
    scheduler = escaped(spec.scheduler_name)
    for resource, unit, amount in quantities:
        yield (
            f'{name}{{{where},priority="{priority}",resource="{escaped(resource)}",'
            f'scheduler="{scheduler}",unit="{unit}"}} {amount}\n'
        )


def _limits(pod: Pod) -> Amounts:
    return pod_limits(pod)


def _requests(pod: Pod) -> Amounts:
    return pod_requests(pod, use_status=False)


def _quantities(amounts: Amounts) -> Quantities:
    """Amounts other than zero, sorted by name."""
    return [
        (resource, _unit(resource), number_text(amount.approximate_float()))
        for resource, amount in sorted(amounts.items())
        if not amount.is_zero
    ]


def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in _BYTES or is_hugepages(resource):
        return "bytes"
    return "integer" if is_attachable_volumes(resource) else ""
