"""A whole cluster in virtual time, driven from synchronous tests."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from stowplan.localcluster.up import LocalCluster


@contextmanager
def running(runner: asyncio.Runner, cluster: LocalCluster) -> Iterator[None]:
    """The cluster runs while the block does; time passes only in what `runner` runs meanwhile."""
    entered, left = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with cluster.running(listen=False):
            entered.set()
            await left.wait()

    async def start() -> "asyncio.Task[None]":
        task = asyncio.create_task(live())
        await asyncio.wait({task, asyncio.create_task(entered.wait())}, return_when="FIRST_COMPLETED")
        if task.done():
            await task
        return task

    async def end(task: "asyncio.Task[None]") -> None:
        left.set()
        await task

    task = runner.run(start())
    try:
        yield
    finally:
        runner.run(end(task))
