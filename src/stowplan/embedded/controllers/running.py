"""Running control loops together."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from stowplan.embedded.controllers.controller import Context, Controller


class Crew:
    """Control loops at work with one context."""

    def __init__(self, context: Context, controllers: Sequence[Controller]) -> None:
        self.context = context
        self.controllers = controllers

    @property
    def idle(self) -> bool:
        """Whether nobody has anything to do at the moment."""
        return not any(len(controller.queue) for controller in self.controllers)

    async def run(self) -> None:
        """Work until cancelled."""
        async with self.running():
            await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Crew"]:
        """Work for as long as the block takes. Entered when everything that exists has been heard of."""
        failure: BaseException | None = None
        tasks: list[asyncio.Task[None]] = []
        try:
            async with asyncio.TaskGroup() as group:

                def start(work: Coroutine[Any, Any, None], name: str) -> None:
                    tasks.append(group.create_task(work, name=name))

                for informer in self.context.informers:
                    start(informer.reflector.run(), f"reflector {informer.resource.qualified}")
                await self.context.informers.synced()
                for controller in self.controllers:
                    for number in range(controller.workers):
                        start(controller.work(), f"{controller.name} {number}")
                    for beside in controller.tasks():
                        start(beside, controller.name)
                try:
                    yield self
                except BaseException as cause:  # noqa: BLE001 - raised again below, when all has ended
                    failure = cause
                for controller in self.controllers:
                    controller.queue.close()
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as several:
            raise _first(several) from None
        if failure is not None:
            raise failure


def _first(several: BaseExceptionGroup[Any]) -> BaseException:
    one: BaseException = several.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
