"""Cost of the store and a watch of it for one pod, from its creation to its end.

The pods are those of the basic workload, handed over as JSON data. A reflector follows with the scheduler's
own selection and decodes every change. Garbage collection is on, with all earlier objects frozen. Measured is
CPU time: nothing here waits.
"""

import asyncio
import gc
import random
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Final

import msgspec

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, Selection
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.client import Reflector
from stowplan.lab.bench.engine.workloads import WORKLOADS, node
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock, VirtualClock, run

UNFINISHED: Final = Selection.parse("", "status.phase!=Succeeded,status.phase!=Failed")
BURST: Final = 100
"""Writes between two turns of the watchers."""


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """CPU microseconds per pod for each kind of write, watching and decoding included."""

    create_us: float
    bind_us: float
    run_us: float
    delete_us: float

    @property
    def create_and_bind_us(self) -> float:
        return round(self.create_us + self.bind_us, 1)


class _Counting:
    """A handler that only counts."""

    def __init__(self) -> None:
        self.count = 0

    def added(self, new: Pod) -> None:
        self.count += 1

    def updated(self, old: Pod, new: Pod) -> None:
        self.count += 1

    def deleted(self, last: Pod) -> None:
        self.count += 1


def measure_store(pods: int = 10_000, nodes: int = 100) -> StoreFigures:
    """Create, bind, start and delete pods while a reflector follows."""

    async def main(clock: VirtualClock) -> StoreFigures:
        return await _measure(clock, pods, nodes)

    return run(main)


async def _measure(clock: VirtualClock, pods: int, nodes: int) -> StoreFigures:
    store = Store(RealClock(), random.Random(0))
    for number in range(nodes):
        store.create(NODES, node(number))
    node_names = [node(number).name for number in range(nodes)]
    bodies = [msgspec.json.decode(msgspec.json.encode(WORKLOADS["basic"].pod(i))) for i in range(pods)]
    handler = _Counting()
    reflector = Reflector(
        InProcessClient(store),
        PODS,
        Pod,
        handler,
        clock=clock,
        rng=random.Random(0),
        report=print,
        selection=UNFINISHED,
    )
    following = asyncio.create_task(reflector.run())
    await reflector.wait_synced()
    gc.collect()
    gc.freeze()
    try:
        namespace, name = bodies[0]["metadata"]["namespace"], [body["metadata"]["name"] for body in bodies]
        create = await _timed(pods, lambda i: store.create(PODS, bodies[i]))
        bind = await _timed(
            pods,
            lambda i: store.bind(namespace, name[i], _binding(namespace, name[i], node_names[i % nodes])),
        )
        running = {"status": {"phase": "Running"}}
        start = await _timed(
            pods, lambda i: store.patch(PODS, namespace, name[i], running, subresource="status")
        )
        delete = await _timed(pods, lambda i: store.delete(PODS, namespace, name[i], DeleteOptions(0)))
    finally:
        gc.unfreeze()
    following.cancel()
    if handler.count != 5 * pods or reflector.objects:
        raise RuntimeError(f"expected {5 * pods} changes of {pods} pods to be seen, got {handler.count}")
    return StoreFigures(create, bind, start, delete)


def _binding(namespace: str, name: str, target: str) -> Binding:
    return Binding(
        metadata=ObjectMeta(namespace=namespace, name=name),
        target=ObjectReference(kind="Node", name=target),
    )


async def _timed(count: int, write: Callable[[int], object]) -> float:
    """CPU microseconds a write takes with everything it sets off."""
    began = process_time()
    for i in range(count):
        write(i)
        if i % BURST == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return round((process_time() - began) / count * 1e6, 1)
