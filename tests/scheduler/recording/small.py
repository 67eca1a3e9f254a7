"""A small cluster in virtual time, recorded."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

from stowplan.api.catalogue import NODES, PODS
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Settings
from stowplan.scheduler.recording import Recording, recorded_scheduler


def node(name: str, cpu: str = "4") -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(name: str, cpu: str = "500m") -> dict[str, object]:
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "schedulerName": "default-scheduler"},
    }


def record_small(
    path: Path, report: Callable[[str], None] = print, size: int = 1 << 30, pods: int = 20
) -> Store:
    """Pods arrive on three nodes, one a second; some do not fit until a fourth node is added."""

    async def main(clock: VirtualClock) -> Store:
        store = Store(clock, Random(1))
        for number in range(3):
            store.create(NODES, node(f"n{number}"))
        scheduler = recorded_scheduler(
            Recording(path, size=size, in_background=False),
            InProcessClient(store),
            Settings.of(),
            clock=clock,
            seed=7,
            report=report,
        )
        async with scheduler.running():
            for number in range(pods):
                store.create(PODS, pod(f"p{number}", "4" if number % 5 == 4 else "500m"))
                await asyncio.sleep(1)
            store.create(NODES, node("n3"))
            await asyncio.sleep(20)
            await scheduler.end_scheduling(1)
        return store

    return run(main)
