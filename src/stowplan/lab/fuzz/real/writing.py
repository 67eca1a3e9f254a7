"""Writes of a case to a real API server, and everything back as it was afterwards."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import aiohttp
import msgspec

from stowplan.api.catalogue import NAMESPACES, Resource
from stowplan.api.requests import PatchType
from stowplan.lab.fuzz.cases import FuzzCase, FuzzStep, base
from stowplan.lab.fuzz.extremes import Json
from stowplan.lab.fuzz.real.controlplane import RealApiServer, Reply

Place = tuple[Resource, str, str]
"""Which object: its kind, namespace and name."""

AT_ONCE: Final = 16
"""Requests under way at a time."""

CLEARED_WITHIN: Final = 300.0
_AT_ONCE_DELETION: Final = b'{"gracePeriodSeconds":0,"propagationPolicy":"Background"}'


def collection(resource: Resource, namespace: str) -> str:
    """The path of a collection."""
    if resource.namespaced:
        return f"{resource.prefix}/namespaces/{namespace}/{resource.plural}"
    return f"{resource.prefix}/{resource.plural}"


class RealWorld:
    """The objects of a run on an API server: those that are always there, and those of cases."""

    def __init__(self, api: RealApiServer, nodes: int) -> None:
        self._api = api
        self._base: dict[Place, FuzzStep] = {}
        for resource, body in base(nodes):
            step = FuzzStep("create", resource, body)
            self._base[resource, *step.key] = step
        self.admitted = 0
        self.refusals: Counter[str] = Counter()

    async def create_base(self) -> None:
        """Create the nodes and what else is always there. Raises RuntimeError if that is refused."""
        for step in self._base.values():
            reply = await self._create(step)
            if not reply.is_ok and reply.code != 409:
                raise RuntimeError(f"{step}: {reply.message}")

    async def play(self, case: FuzzCase) -> None:
        """The writes of a case, in order; objects of one kind that are created in a row, at once."""
        self.admitted, self.refusals = 0, Counter()
        for (verb, _), steps in groupby(case.steps, key=lambda step: (step.verb, step.resource)):
            at_once = AT_ONCE if verb == "create" else 1
            await _in_parallel([self._write(step) for step in steps if step.verb != "wait"], at_once)

    async def _write(self, step: FuzzStep) -> None:
        try:
            reply = await self._perform(step)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.refusals[f"no answer: {type(error).__name__}"] += 1
            return
        if reply.is_ok:
            self.admitted += 1
        else:
            self.refusals[reply.message[:160]] += 1

    async def _perform(self, step: FuzzStep) -> Reply:
        path = self._path((step.resource, *step.key))
        if step.verb == "patch":
            return await self._api.request(
                "PATCH", path, msgspec.json.encode(step.body), PatchType.MERGE.value
            )
        if step.verb == "status":
            status = msgspec.json.encode({"status": step.body["status"]})
            return await self._api.request("PATCH", f"{path}/status", status, PatchType.MERGE.value)
        if step.verb != "create":
            reply = await self._api.request("DELETE", path, _AT_ONCE_DELETION)
            if step.verb == "delete":
                return reply
        return await self._create(step)

    async def _create(self, step: FuzzStep) -> Reply:
        return await self._api.request("POST", collection(step.resource, step.key[0]), step.sent)

    def _path(self, place: Place) -> str:
        resource, namespace, name = place
        return f"{collection(resource, namespace)}/{name}"

    # Everything back as it was

    async def clear(self, case: FuzzCase) -> list[str]:
        """Delete what a case has created and restore what it has changed; which objects did not go."""
        written = {(step.resource, *step.key) for step in case.steps if step.verb != "wait"}
        places = [place for place in written if place not in self._base]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CLEARED_WITHIN
        while places and loop.time() < deadline:
            gone: set[Place] = set()
            await _in_parallel([self._delete(place, gone) for place in places], AT_ONCE)
            places = [place for place in places if place not in gone]
        for place in written & self._base.keys():
            await self._delete(place)
            await self._create(self._base[place])
        return [self._path(place) for place in places]

    async def _delete(self, place: Place, gone: set[Place] | None = None) -> None:
        """Delete an object at once; if there is none any more it is added to `gone`.

        Nobody will remove its finalizers, so they are removed here. Answers are not decoded: they may be
        deeper than a decoder goes.
        """
        path = self._path(place)
        reply = await self._api.request("DELETE", path, _AT_ONCE_DELETION)
        if reply.code == 404 and gone is not None:
            gone.add(place)
        elif place[0] == NAMESPACES:
            body = msgspec.json.encode({"metadata": {"name": place[2]}, "spec": {"finalizers": []}})
            await self._api.request("PUT", f"{path}/finalize", body)
        elif b'"finalizers"' in reply.text:
            body = b'{"metadata":{"finalizers":null}}'
            await self._api.request("PATCH", path, body, PatchType.MERGE.value)

    # Ordinary pods

    async def create(self, resource: Resource, body: Json) -> Reply:
        return await self._create(FuzzStep("create", resource, body))

    async def node_of(self, resource: Resource, key: tuple[str, str]) -> str:
        """The node that a pod is bound to, "" for none."""
        reply = await self._api.request("GET", self._path((resource, *key)))
        found: Any = reply.json()
        return str(found.get("spec", {}).get("nodeName", "")) if reply.is_ok else ""

    async def delete(self, resource: Resource, key: tuple[str, str]) -> None:
        await self._delete((resource, *key))


async def _in_parallel(writes: Sequence[Any], at_once: int) -> None:
    """Run coroutines in order, at most `most` at a time."""
    waiting = iter(writes)

    async def work() -> None:
        for write in waiting:
            await write

    await asyncio.gather(*(work() for _ in range(min(at_once, len(writes)))))
