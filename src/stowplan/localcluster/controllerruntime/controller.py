"""Common base of controllers: keys come in, `sync` reconciles one object, writes go out."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final

import msgspec

from stowplan.api.catalogue import PODS, Resource
from stowplan.api.meta import timestamp
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.localcluster.controllerruntime.events import (
    NORMAL,
    WARNING,
    ControllerEventRecorder,
    is_namespace_terminating,
)
from stowplan.localcluster.controllerruntime.informers import ControllerInformers, Informer
from stowplan.localcluster.controllerruntime.workqueue import WorkQueue
from stowplan.localcluster.objects.fields import key_of, name_of, uid_of
from stowplan.runtime.clock import Clock

REST_PER_OBJECT: Final = 150e-6
"""Seconds of rest for each object that was looked at: a set of 20,000 pods is not counted at every change."""

NO_REST_BELOW: Final = 100
"""Whoever looks at no more objects needs no rest."""

BACKGROUND: Final = DeleteOptions(propagation="Background")
"""How controllers delete what owns something: some kinds would orphan it if nothing is said."""

MAX_BURST: Final = 500
"""The most writes of one kind in one go."""


@dataclass(slots=True)
class ControllerContext:
    """Shared context of the controllers of one process."""

    client: Client
    clock: Clock
    rng: Random
    informers: ControllerInformers
    events: ControllerEventRecorder
    report: Callable[[str], None]

    @classmethod
    def of(
        cls, client: Client, clock: Clock, rng: Random, report: Callable[[str], None] = lambda text: None
    ) -> "ControllerContext":
        informers = ControllerInformers(client, clock=clock, rng=rng, report=report)
        return cls(client, clock, rng, informers, ControllerEventRecorder(client, clock, report), report)


class RetryLater(Exception):  # noqa: N818 - nothing went wrong here
    """A key that cannot be finished yet, and whose problem has been reported: it is retried."""


class Controller(ABC):
    """One control loop.

    It reads only the caches of its informers. A key is done when they show what was written for it, so no
    object is looked at in a state from before the controller's own writes.
    """

    name: ClassVar[str]
    workers: ClassVar[int] = 2
    event_source: ClassVar[str] = ""
    """Source of its events, if it is not its name."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.client = context.client
        self.queue = WorkQueue()
        self._written: dict[Resource, int] = {}

    @abstractmethod
    async def sync(self, key: str) -> None:
        """Bring one object closer to what it should be. May be called at any time, for what is gone too."""

    def tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Tasks besides the work on keys."""
        return ()

    # Event handlers

    def informer(self, resource: Resource) -> Informer:
        return self.context.informers.of(resource)

    def follow(self, resource: Resource) -> Informer:
        """Work on every object of a kind that changes."""
        informer = self.informer(resource)
        informer.add_handler(self._changed)
        return informer

    def follow_owned(self, resource: Resource, owner_kind: str, owners: Informer) -> Informer:
        """Work on the controller of every object of a kind that changes; on all that may want an orphan."""

        def orphaned(namespace: str) -> None:
            for key in owners.in_namespace[namespace]:
                self.queue.add(key)

        informer = self.informer(resource)
        informer.add_owner_handler(owner_kind, self.queue.add, orphaned)
        return informer

    def _changed(self, old: Json | None, new: Json | None) -> None:
        obj = new if new is not None else old
        assert obj is not None
        self.queue.add(key_of(obj))

    # Time

    def now(self) -> float:
        """The date, for what is written."""
        return self.context.clock.now()

    def monotonic(self) -> float:
        """Seconds that pass, for what is waited for."""
        return self.context.clock.monotonic()

    def stamp(self) -> str:
        return timestamp(self.now())

    def rest(self, key: str, looked_at: int) -> None:
        if looked_at > NO_REST_BELOW:
            self.queue.rest(key, looked_at * REST_PER_OBJECT)

    # Writing

    async def create(self, resource: Resource, body: Json, namespace: str = "") -> Json:
        return self.note(resource, await self.client.create(resource, body, namespace=namespace))

    async def change(
        self, resource: Resource, obj: Json, patch: Json, *, subresource: str = "", guarded: bool = True
    ) -> Json:
        """Change parts of an object; if guarded, only in the version that was looked at."""
        metadata = obj["metadata"]
        if guarded:
            mine = {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
            patch = {**patch, "metadata": {**patch.get("metadata", {}), **mine}}
        return self.note(
            resource,
            await self.client.patch(
                resource,
                metadata.get("namespace", ""),
                metadata["name"],
                patch,
                PatchType.MERGE,
                subresource=subresource,
            ),
        )

    async def set_status(self, resource: Resource, obj: Json, status: Json) -> Json:
        """Write what differs in the status of an object; fields that are None go, those not named stay."""
        old = obj.get("status") or {}
        wanted = {field: value for field, value in status.items() if value is not None}
        patch = merge_patch_of({field: old[field] for field in status if field in old}, wanted)
        if not patch:
            return obj
        return await self.change(resource, obj, {"status": patch}, subresource="status")

    async def delete(self, resource: Resource, obj: Json, options: DeleteOptions = ORDINARY_DELETION) -> None:
        """Delete exactly this object. That it has gone already is fine."""
        metadata = obj["metadata"]
        exact = msgspec.structs.replace(options, uid=uid_of(obj))
        try:
            await self.client.delete(resource, metadata.get("namespace", ""), name_of(obj), exact)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def record_event(self, about: Json, reason: str, note: str, type: str = NORMAL) -> None:
        await self.context.events.record(about, type, reason, note, by=self.event_source or self.name)

    async def create_pod(self, owner: Json, pod: Json) -> Json:
        """Create a pod of an owner, whose events say so."""
        try:
            made = await self.create(PODS, pod)
        except ApiError as error:
            if not is_namespace_terminating(error):
                await self.record_event(owner, "FailedCreate", f"Error creating: {error.message}", WARNING)
            raise
        await self.record_event(owner, "SuccessfulCreate", f"Created pod: {name_of(made)}")
        return made

    async def delete_pod(self, owner: Json, pod: Json) -> None:
        """Delete a pod of an owner, whose events say so."""
        try:
            await self.delete(PODS, pod)
        except ApiError as error:
            await self.record_event(owner, "FailedDelete", f"Error deleting: {error.message}", WARNING)
            raise
        await self.record_event(owner, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")

    def note(self, resource: Resource, written: Json) -> Json:
        version = written["metadata"].get("resourceVersion", "")
        if version.isdigit():
            self._written[resource] = max(self._written.get(resource, 0), int(version))
        return written

    # Running

    async def work(self) -> None:
        """Work on keys until cancelled."""
        while True:
            key = await self.queue.get()
            try:
                await self.sync(key)
            except ApiError as error:
                if not _is_expected(error):
                    self.context.report(f"{self.name}: {key}: {error}")
                self.queue.retry(key)
            except RetryLater:
                self.queue.retry(key)
            except Exception as error:  # noqa: BLE001 - one object that makes no sense must not stop the rest
                self.context.report(f"{self.name}: {key}: {type(error).__name__}: {error}")
                self.queue.retry(key)
            else:
                self.queue.forget(key)
            await self.wait_for_own_writes()
            self.queue.done(key)

    async def wait_for_own_writes(self) -> None:
        """Wait until the caches show what was written."""
        for resource, version in list(self._written.items()):
            informer = self.context.informers.known(resource)
            if informer is not None:
                await informer.reached(version)
            if self._written.get(resource) == version:
                del self._written[resource]


def _is_expected(error: ApiError) -> bool:
    """True if a failure is part of normal operation and not worth a message."""
    changed = error.is_conflict or error.is_not_found or _is_other_uid(error)
    if error.is_already_exists and error.message.startswith("object is being deleted"):
        return True
    # Events tell what a webhook refuses, as those of JobSet refuse pods until the first one is scheduled.
    return changed or is_namespace_terminating(error) or error.message.startswith("admission webhook ")


def _is_other_uid(error: ApiError) -> bool:
    """True if a patch was refused because its object has been replaced under the same name."""
    causes = error.details.get("causes") or ()
    return error.code == 422 and any(cause.get("field") == "metadata.uid" for cause in causes)


def merge_patch_of(old: Json, new: Json) -> Json:
    """The merge patch that makes one map out of another."""
    patch: Json = {field: None for field in old if field not in new}
    for field, value in new.items():
        before = old.get(field)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch_of(before, value)
            if inner:
                patch[field] = inner
        elif value != before:
            patch[field] = value
    return patch


async def slow_start_batch(count: int, write: Callable[[int], Awaitable[object]]) -> int:
    """Do `count` writes, one, then two, then four at once; stop after a batch with a failure.

    A server that refuses all of them gets one request, not a thousand. Raises the first failure.
    """
    done, size = 0, 1
    while done < count:
        batch = range(done, min(done + size, count))
        results = await asyncio.gather(*(write(number) for number in batch), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        done += len(batch)
        size *= 2
    return done


WRITES_AT_ONCE: Final = 10
"""Writes that are begun together. In one process each takes a millisecond or two of the loop, and those that
are begun together take it in one piece."""


async def gather_writes(writes: Iterable[Awaitable[object]]) -> None:
    """Wait for several writes, a few at a time; raises the first failure when all have been tried."""
    failure: BaseException | None = None
    remaining = iter(writes)
    while batch := list(itertools.islice(remaining, WRITES_AT_ONCE)):
        results = await asyncio.gather(*batch, return_exceptions=True)
        failed = (result for result in results if isinstance(result, BaseException))
        failure = failure or next(failed, None)
        await asyncio.sleep(0)
    if failure is not None:
        raise failure


class ControllerManager:
    """Controllers that run together, with one context."""

    def __init__(self, context: ControllerContext, controllers: Sequence[Controller]) -> None:
        self.context = context
        self.controllers = controllers

    @property
    def idle(self) -> bool:
        """True if no controller has work at the moment."""
        return not any(len(controller.queue) for controller in self.controllers)

    async def run(self) -> None:
        """Work until cancelled."""
        async with self.running():
            await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ControllerManager"]:
        """Work for as long as the block takes. Entered once the caches have synced."""
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
            raise _first_error(several) from None
        if failure is not None:
            raise failure


def _first_error(several: BaseExceptionGroup[Any]) -> BaseException:
    one: BaseException = several.exceptions[0]
    return _first_error(one) if isinstance(one, BaseExceptionGroup) else one
