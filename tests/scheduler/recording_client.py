"""A client that takes down everything the scheduler writes, and that can be made to answer otherwise."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

import msgspec

from stowplan.api.catalogue import PODS, Resource
from stowplan.api.meta import Object
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.api.writes import Binding
from stowplan.client.interface import Body, GeneratorWatch, WatchEvent
from stowplan.localcluster.client import InProcessClient, InProcessWatch
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import Clock

T = TypeVar("T", bound=Object)

Answer = ApiError | Callable[[], object] | None
"""An error in place of the server's answer, something done before the server acts, or None for neither."""


class Write(NamedTuple):
    """A request that changes something, with the time it was sent at and the code of its answer."""

    at: float
    method: str
    path: str
    content_type: str
    body: Any
    code: int

    @property
    def short(self) -> str:
        """Method and the end of the path; an event by its reason and pod."""
        if self.path.endswith("/events"):
            return f"{self.body['reason']} {self.body['regarding']['name']}"
        return f"{self.method} {self.path.partition('/namespaces/')[2].partition('/')[2]}"


class Wire(InProcessClient):
    """A client of a store. A request takes `seconds`: half of them before the server acts, half after.

    `instead` has answers to the next requests by method and end of the path, such as `POST pods/p/binding`;
    `always` has those that never change. Events of deletions arrive `late` by that many seconds, and later
    events with them.
    """

    def __init__(self, store: Store, clock: Clock, seconds: float = 0.0) -> None:
        super().__init__(store)
        self._clock = clock
        self.seconds = seconds
        self.writes: list[Write] = []
        self.instead: defaultdict[str, deque[Answer]] = defaultdict(deque)
        self.always: dict[str, Answer] = {}
        self.late = 0.0

    def watch(self, resource: Resource, cls: type[T], **about: Any) -> Any:
        return GeneratorWatch(self._late_news(super().watch(resource, cls, **about)))

    async def _late_news(self, watch: InProcessWatch[T]) -> AsyncGenerator[WatchEvent[T], None]:
        async with aclosing(watch) as events:
            async for event in events:
                if self.late and event.type == "DELETED":
                    await asyncio.sleep(self.late)
                yield event

    @property
    def shorts(self) -> list[str]:
        return [write.short for write in self.writes]

    def answer(self, request: str, *answers: Answer) -> None:
        self.instead[request].extend(answers)

    async def create(self, resource: Resource, body: Body, *, namespace: str = "") -> Json:
        path = _path(resource, namespace)
        made: Json = await self._sent(
            "POST", path, "", body, lambda: self._store.create(resource, body, namespace)
        )
        return made

    async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
        data: Any = msgspec.to_builtins(body)
        path = _path(resource, data["metadata"].get("namespace", ""), data["metadata"]["name"], subresource)
        made: Json = await self._sent(
            "PUT", path, "", body, lambda: self._store.update(resource, body, subresource=subresource)
        )
        return made

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Body | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> Json:
        def act() -> Json:
            return self._store.patch(resource, namespace, name, patch, kind, subresource=subresource)

        made: Json = await self._sent(
            "PATCH", _path(resource, namespace, name, subresource), kind.value, patch, act
        )
        return made

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        said = {} if options == ORDINARY_DELETION else msgspec.to_builtins(options)
        path = _path(resource, namespace, name)
        await self._sent(
            "DELETE", path, "", said, lambda: self._store.delete(resource, namespace, name, options)
        )

    async def bind(self, binding: Binding) -> None:
        path = _path(PODS, binding.namespace, binding.name, "binding")
        await self._sent(
            "POST", path, "", binding, lambda: self._store.bind(binding.namespace, binding.name, binding)
        )

    async def _sent(
        self, method: str, path: str, content_type: str, body: Any, act: Callable[[], Any]
    ) -> Any:
        at = self._clock.now()
        number = len(self.writes)
        self.writes.append(Write(at, method, path, content_type, msgspec.to_builtins(body), 0))
        code = 0
        try:
            await self._pause()
            self._instead(f"{method} {path.partition('/namespaces/')[2].partition('/')[2]}")
            result = act()
            code = {"POST": 201}.get(method, 200)
            await self._pause()
        except ApiError as refusal:
            code = refusal.code
            await self._pause()
            raise
        finally:
            self.writes[number] = self.writes[number]._replace(code=code)
        return result

    def _instead(self, request: str) -> None:
        waiting = self.instead.get(request)
        answer = waiting.popleft() if waiting else self.always.get(request)
        if isinstance(answer, ApiError):
            raise answer
        if answer is not None:
            answer()

    async def _pause(self) -> None:
        if self.seconds:
            await asyncio.sleep(self.seconds / 2)


def _path(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    inside = f"/namespaces/{namespace}" if namespace else ""
    return (
        resource.prefix
        + inside
        + "".join(f"/{part}" for part in (resource.plural, name, subresource) if part)
    )
