"""Candidates in virtual time: a store, the way to it, and processes that can be held up or killed."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from stowplan.api.catalogue import LEASES, Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client.election import ElectionEvents, Elector, LeaseLostError, Timing, identity, lock_for
from stowplan.client.http.requests import collection_path, object_path
from stowplan.client.interface import Body
from stowplan.gocompat.durations import Duration
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import Clock, VirtualClock
from stowplan.runtime.logs import Logger

R = TypeVar("R")

NAMESPACE, NAME = "kube-system", "kube-scheduler"
LATENCY = 1 / 256


def timing(lease: str = "15s", renew: str = "10s", retry: str = "2s") -> Timing:
    return Timing(Duration.parse(lease), Duration.parse(renew), Duration.parse(retry))


class Request(NamedTuple):
    at: float
    method: str
    url: str
    body: Json | None
    code: int


class Watched(InProcessClient):
    """A client that notes all requests and takes a moment for each; with `hangs` it never answers."""

    def __init__(self, store: Store, clock: Clock, wire: list[Request]) -> None:
        super().__init__(store)
        self._clock = clock
        self.wire = wire
        self.hangs = False
        self.failure: ApiError | None = None

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        url = object_path(resource, namespace, name)
        return await self._noted(
            "GET", url, None, lambda: super(Watched, self).get(resource, namespace, name)
        )

    async def create(self, resource: Resource, body: Body, *, namespace: str = "") -> Json:
        url = collection_path(resource, namespace)
        return await self._noted(
            "POST", url, body, lambda: super(Watched, self).create(resource, body, namespace=namespace)
        )

    async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
        metadata = body["metadata"]  # type: ignore[index]
        url = object_path(resource, metadata["namespace"], metadata["name"])
        return await self._noted("PUT", url, body, lambda: super(Watched, self).update(resource, body))

    async def _noted(self, method: str, url: str, body: Any, send: Callable[[], Awaitable[Json]]) -> Json:
        at = self._clock.now()
        code = 200 + (method == "POST")
        try:
            await asyncio.sleep(LATENCY)
            if self.hangs:
                await asyncio.Event().wait()
            if self.failure is not None:
                raise self.failure
            return await send()
        except ApiError as error:
            code = error.code
            raise
        except asyncio.CancelledError:
            code = -1
            raise
        finally:
            self.wire.append(Request(at, method, url, body, code))


@dataclass
class World:
    clock: VirtualClock
    store: Store = field(init=False)
    wire: list[Request] = field(default_factory=list)
    lines: list[tuple[int, str, dict[str, object]]] = field(default_factory=list)
    made: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(self.clock, random.Random(1))

    def client(self) -> Watched:
        return Watched(self.store, self.clock, self.wire)

    def logger(self, verbosity: int = 4) -> Logger:
        return Logger(
            lambda level, message, values: self.lines.append((level, message, dict(values))), verbosity
        )

    def elector(self, client: Any = None, *, kind: str = "leases", **options: Any) -> Elector:
        self.made += 1
        rng = random.Random(self.made)
        client = self.client() if client is None else client
        lock = lock_for(kind, client, NAMESPACE, NAME, identity("vm", rng))
        given = {
            "clock": self.clock,
            "rng": rng,
            "logger": self.logger(),
            "events": ElectionEvents(
                client, "default-scheduler", clock=self.clock, rng=rng, logger=self.logger()
            ),
        }
        return Elector(lock, options.pop("timing", timing()), **{**given, **options})

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task

    def lease(self) -> Json:
        return self.store.get(LEASES, NAMESPACE, NAME)

    async def steal(self, holder: str = "somebody-else") -> None:
        """Put another holder's name into the lease."""
        lease = self.lease()
        await InProcessClient(self.store).update(
            LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": holder}}
        )

    def said(self, message: str) -> int:
        return sum(said == message for _, said, _ in self.lines)


async def lead(elector: Elector) -> None:
    """A process that leads whenever it can, and ends when it loses the lease."""
    await elector.acquire()
    try:
        await elector.renew()
    except LeaseLostError:
        await elector.release()


class Pauses:
    """Holds up a coroutine: what would wake it during a pause wakes it afterwards, and so do its timers."""

    def __init__(self) -> None:
        self.until = 0.0

    def __call__(self, coro: Coroutine[Any, Any, R]) -> Awaitable[R]:
        return _Held(coro, self)


class _Held(Awaitable[R]):
    def __init__(self, coro: Coroutine[Any, Any, R], pauses: Pauses) -> None:
        self._coro = coro
        self._pauses = pauses

    def __await__(self) -> Generator[Any, Any, R]:
        problem: BaseException | None = None
        while True:
            try:
                waited = self._coro.send(None) if problem is None else self._coro.throw(problem)
            except StopIteration as end:
                result: R = end.value
                return result
            problem = yield from _caught(_passed_on(waited))
            while (left := self._pauses.until - asyncio.get_running_loop().time()) > 0:
                problem = (yield from _caught(asyncio.sleep(left).__await__())) or problem


def _passed_on(waited: Any) -> Generator[Any, Any, None]:
    yield waited


def _caught(steps: Generator[Any, Any, None]) -> Generator[Any, Any, BaseException | None]:
    """The exception thrown in by the loop, a cancellation or a future's error, to be passed on later."""
    try:
        yield from steps
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001
        return error
    return None
