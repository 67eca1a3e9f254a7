"""A client that sends the requests of a scheduler and decides nothing.

It is what an API server can take on a machine, as far as a scheduler is concerned: no scheduler that makes
these requests binds more pods a second. For a pod with victims they are those of a preemptor: its victims are
marked and deleted, it is nominated, and bound. Others are bound. There are no events.
"""

import asyncio
import random
from time import time
from typing import Final

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import AnyObject, ObjectMeta
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.runtime.clock import RealClock
from stowplan.scheduler.events.podstatus import UNSCHEDULABLE, failure_patch, patch_status, victim_patch

_AT_ONCE: Final = 64
"""Pods for which requests are under way, as in a scheduler."""


def main(kubeconfig: str, namespace: str, victims: int) -> None:
    """Bind all waiting pods of a namespace, and stay until the process is terminated.

    They go to one node after the other; `victims` pods that run on the node make room for each.
    """
    asyncio.run(_main(kubeconfig, namespace, victims))


async def _main(kubeconfig: str, namespace: str, victims: int) -> None:
    server, rng = load_kubeconfig(kubeconfig), random.Random(0)
    async with HttpClient(server, clock=RealClock(), rng=rng, qps=-1) as client:
        nodes = [node.name for node in (await client.list(NODES, AnyObject)).items]
        pods = (await client.list(PODS, Pod, namespace=namespace)).items
        running: dict[str, list[Pod]] = {node: [] for node in nodes}
        for pod in pods:
            running.get(pod.spec.node_name, []).append(pod)
        waiting = enumerate(pod for pod in pods if not pod.spec.node_name)

        async def worker() -> None:
            for number, pod in waiting:
                node = nodes[number % len(nodes)]
                chosen = [running[node].pop() for _ in range(min(victims, len(running[node])))]
                if chosen:
                    await asyncio.gather(*(_evict(client, victim, rng) for victim in chosen))
                    await _nominate(client, pod, node, rng)
                await client.bind(_binding(pod, node))

        await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))
        await asyncio.Event().wait()


async def _evict(client: HttpClient, victim: Pod, rng: random.Random) -> None:
    """Mark a pod as preempted, and delete it."""
    patch = victim_patch(victim, scheduler_name=victim.spec.scheduler_name, now=time())
    await patch_status(client, victim, patch, rng)
    await client.delete(PODS, victim.namespace, victim.name, DeleteOptions(uid=victim.metadata.uid))


async def _nominate(client: HttpClient, pod: Pod, node: str, rng: random.Random) -> None:
    """Say that a pod could not be scheduled, and which node is freed for it."""
    patch = failure_patch(pod, reason=UNSCHEDULABLE, message="preempting", now=time(), nominated_node=node)
    await patch_status(client, pod, patch, rng)


def _binding(pod: Pod, node: str) -> Binding:
    metadata = ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.metadata.uid)
    return Binding(metadata=metadata, target=ObjectReference(kind="Node", name=node))
