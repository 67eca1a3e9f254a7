"""The state of a scheduler, recorded when nothing is under way, so that a replay can begin there.

It has what decisions depend on and cannot be had from the objects alone: rows in their order, which ties are
broken by; pods in their order; assumed pods; the queue with attempts and backoffs; nominations; the state of
random number generators.
"""

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan.api.meta import Object, ObjectMeta
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler import Scheduler
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod

AT_ONCE: Final = 500
"""Number of objects that are encoded at a time."""


class Waiting(msgspec.Struct, array_like=True):
    """A pod in the queue."""

    place: str
    pod: Pod
    timestamp: float
    attempts: int
    unschedulable_count: int
    consecutive_errors: int
    backoff_until: int | None
    first_attempt: float | None
    unschedulable_plugins: list[str]
    pending_plugins: list[str]
    gating_plugin: str
    flushed: bool
    flushed_at: float | None


class Rest(msgspec.Struct):
    """Everything but objects. `assumed` has pods and nodes, `pods` the uids of all pods on nodes."""

    rows: list[str]
    free_rows: list[int]
    sampled: list[str]
    next_start: int
    pods: list[str]
    assumed: list[tuple[Pod, str]]
    queue: list[Waiting]
    nominated: list[tuple[str, str]]
    chances: list[tuple[int, list[int], float | None]]
    cycle: int
    groups: int
    """Groups of pods that waited: they are not part of the state."""
    under_way: int
    """Pods that were being bound: what becomes of them cannot be replayed."""


def objects_of(scheduler: Scheduler) -> dict[str, list[Object]]:
    """All objects by resource. They never change, so they can be encoded later."""
    return {one.resource.dotted: list(one.objects.values()) for one in scheduler.informers.all}


def in_parts(objects: Mapping[str, list[Object]]) -> Iterator[tuple[str, list[Object]]]:
    """Some objects of one resource at a time."""
    for resource, some in objects.items():
        for first in range(0, len(some), AT_ONCE):
            yield resource, some[first : first + AT_ONCE]


def rest_of(scheduler: Scheduler) -> Rest:
    """Everything but the objects."""
    context = scheduler.context
    table, cache, queue = context.cache.table, context.cache, context.queue
    infos = table.pods
    return Rest(
        rows=[name if table.nodes[row] is not None else "" for row, name in enumerate(table.names)],
        free_rows=list(table.free_rows),
        sampled=list(cache.sampler.names),
        next_start=cache.sampler.next_start,
        pods=list(infos),
        assumed=[(infos[uid].pod, node) for uid, node in cache.assumed.items()],
        queue=[
            _waiting(queue.place_of(queued.key) or "", queued)
            for queued in queue
            if not isinstance(queued, QueuedGroup)
        ],
        groups=sum(isinstance(queued, QueuedGroup) for queued in queue),
        nominated=[(uid, node) for node, pods in queue.nominator.by_node.items() for uid in pods],
        chances=[_state(rng) for rng in _rngs(scheduler)],
        cycle=queue.cycle,
        under_way=len(context.waiting) + len(cache.assumed),
    )


def restore(scheduler: Scheduler, objects: Mapping[str, list[Object]], rest: Rest) -> None:
    """Give a new scheduler a recorded state."""
    context = scheduler.context
    cache, queue, table = context.cache, context.queue, context.cache.table
    nodes: dict[str, Node] = {}
    pods: dict[str, Pod] = {}
    for reflector in scheduler.informers.all:
        known = objects.get(reflector.resource.dotted, [])
        reflector.store.restore(known)
        for obj in known:
            if isinstance(obj, Node):
                nodes[obj.name] = obj
            elif isinstance(obj, Pod):
                pods[obj.metadata.uid] = obj
            else:
                cache.put(obj)
    _restore_nodes(scheduler, nodes, rest)
    assumed = {pod.metadata.uid: (pod, node) for pod, node in rest.assumed}
    for uid in rest.pods:
        if uid in assumed:
            pod, node = assumed[uid]
            cache.assume(table.info(pod), node)
        elif uid in pods:
            cache.put_pod(pods[uid])
    for waiting in rest.queue:
        queue.restore(_queued(scheduler, waiting), waiting.place)
    for uid, node in rest.nominated:
        if uid in pods:
            queue.nominator.add(table.info(pods[uid]), node)
    for rng, (version, numbers, gauss) in zip(_rngs(scheduler), rest.chances, strict=True):
        rng.setstate((version, tuple(numbers), gauss))
    queue.cycle = rest.cycle


def _restore_nodes(scheduler: Scheduler, nodes: Mapping[str, Node], rest: Rest) -> None:
    """Nodes in the rows that they were in, rows without a node free in the same order."""
    cache, table = scheduler.context.cache, scheduler.context.cache.table
    nobody = Node(metadata=ObjectMeta(name=""))
    for row, name in enumerate(rest.rows):
        table.put_node(nodes[name] if name else _named(nobody, row))
    for row in rest.free_rows:
        table.remove_node(f"free-row-{row}")
    for name in rest.sampled:
        if name in nodes:
            cache.sampler.put(nodes[name])
    cache.sampler.next_start = rest.next_start


def _named(node: Node, row: int) -> Node:
    return replace(node, metadata=replace(node.metadata, name=f"free-row-{row}"))


def _rngs(scheduler: Scheduler) -> Iterable[Random]:
    """The random numbers that decisions depend on."""
    return (scheduler.rngs.node_finder, *scheduler.rngs.frameworks)


def _state(rng: Random) -> tuple[int, list[int], float | None]:
    version, numbers, gauss = rng.getstate()
    return version, list(numbers), gauss


_COPIED: Final = (
    "timestamp",
    "attempts",
    "unschedulable_count",
    "consecutive_errors",
    "backoff_until",
    "first_attempt",
    "gating_plugin",
    "flushed",
    "flushed_at",
)


def _waiting(place: str, queued: QueuedPod) -> Waiting:
    copied: dict[str, Any] = {name: getattr(queued, name) for name in _COPIED}
    return Waiting(
        place,
        queued.pod.pod,
        unschedulable_plugins=sorted(queued.unschedulable_plugins),
        pending_plugins=sorted(queued.pending_plugins),
        **copied,
    )


def _queued(scheduler: Scheduler, waiting: Waiting) -> QueuedPod:
    queued = QueuedPod(scheduler.context.cache.table.info(waiting.pod), waiting.timestamp)
    for name in _COPIED:
        setattr(queued, name, getattr(waiting, name))
    queued.unschedulable_plugins = frozenset(waiting.unschedulable_plugins)
    queued.pending_plugins = frozenset(waiting.pending_plugins)
    return queued
