"""Keeping the objects of one resource: list, watch, resume, list anew when the server has forgotten."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.meta import Object
from stowplan.api.requests import EVERY_OBJECT, Selection
from stowplan.api.status import ApiError
from stowplan.client.interface import ANY_VERSION, DELETED, Listing, Reader, Unreadable, Watch, WatchEvent
from stowplan.client.objectstore import KEYS, Handler, ObjectStore
from stowplan.runtime.clock import Clock
from stowplan.runtime.gc_tuning import leave_alone
from stowplan.runtime.sharding import ShardedDict

T = TypeVar("T", bound=Object)

BREATH: Final = 200
"""Number of objects in a row after which other tasks get a turn."""

SHORT_WATCH: Final = 1.0
"""A watch that ends within this number of seconds without an event counts as a failure."""

_BROKEN_STREAMS: Final = 2
"""Number of consecutive streams that broke before the end of the initial objects, after which one list is
used."""


class Reflector(Generic[T]):
    """Calls a handler for one resource's objects and their changes, for as long as it runs.

    It survives all failures of the server: a watch that ends is resumed from the last version seen; if that
    is forgotten (410) everything is listed again and compared; errors are retried with growing pauses. With
    `stream` existing objects are read from the watch itself; if the server refuses that, from a list.

    `without` names the functions that suffer while the server forbids or lacks the resource: that is reported
    once, and the reflector keeps trying. Empty means that nothing works without it, and every failure is
    reported. `transform` is applied to every object on arrival. `unreadable` is called for an object that
    cannot be read; without it `report` is.
    """

    def __init__(
        self,
        reader: Reader,
        resource: Resource,
        cls: type[T],
        handler: Handler[T],
        *,
        clock: Clock,
        rng: random.Random,
        report: Callable[[str], None],
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        stream: bool = False,
        without: str = "",
        inform: Callable[[str], None] = lambda text: None,
        transform: Callable[[T], T] | None = None,
        unreadable: Callable[[Resource, Unreadable], None] | None = None,
    ) -> None:
        self._reader = reader
        self._resource = resource
        self._cls = cls
        self._clock = clock
        self._retries = Retries(rng)
        self._report = report
        self._unreadable = unreadable
        self._namespace = namespace
        self._selection = selection
        self._stream = stream
        self._availability = WatchAvailability(resource.qualified, without, reader.pause, report, inform)
        self._store: ObjectStore[T] = ObjectStore(handler, self._report_unreadable, transform)
        self._version = ""
        self._is_current = False
        self._has_moved = False
        self._is_latest_wanted = False
        self._is_streaming = False
        self._is_listed_next = False
        self._broken_streams = 0
        self._since_breath = 0
        self._synced = asyncio.Event()
        self._is_gone_reported = False
        self.failures = 0

    @property
    def resource(self) -> Resource:
        """The reflected resource."""
        return self._resource

    @property
    def cls(self) -> type[T]:
        """The type of its objects."""
        return self._cls

    @property
    def objects(self) -> Mapping[str, T]:
        """The objects as last seen, by `namespace/name`."""
        return self._store.objects

    @property
    def store(self) -> ObjectStore[T]:
        """Where they are kept, for who replays what another reflector has seen."""
        return self._store

    @property
    def skipped(self) -> int:
        """Number of times an object had to be skipped because it could not be read."""
        return self._store.skipped

    @property
    def unreadable(self) -> Mapping[str, Unreadable]:
        """Objects whose present state cannot be read, by `namespace/name`."""
        return self._store.unreadable

    @property
    def resource_version(self) -> str:
        """The version up to which everything has been seen."""
        return self._version

    @property
    def has_synced(self) -> bool:
        """True once everything that existed at some moment has been seen."""
        return self._synced.is_set()

    @property
    def refusal(self) -> str:
        """Why the server does not give the resource at all, "" if it does."""
        return self._availability.refusal

    def add_handler(self, handler: Handler[T]) -> None:
        """Tell another handler of the objects too, beginning with those that are known."""
        self._store.add_handler(handler)

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def ask_again(self) -> None:
        """If the resource was refused, ask now. `wait_settled` waits for the answer."""
        self._availability.ask_again()

    async def wait_settled(self) -> None:
        """Wait until it has synced, or the server has refused the resource."""
        await self._availability.settled()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            began, seen = self._clock.monotonic(), self._version
            try:
                await self._follow()
            except ApiError as error:
                await self._recover(error)
            else:
                self._availability.granted()
                self._is_gone_reported = False
                if self._clock.monotonic() - began >= SHORT_WATCH:
                    self._retries.reset()
                elif self._version == seen:
                    await self._pause()

    async def _follow(self) -> None:
        """One watch, from its beginning to its end; before it a list, if there is nothing to resume."""
        listed, self._is_listed_next = self._is_listed_next or not self._stream, False
        self._is_streaming = not (self._is_current or listed)
        if not self._is_current and listed:
            await self._list()
        initial: _Initial[T] | None = None if self._is_current else _Initial(self._store)
        watch = self._reader.watch(
            self._resource,
            self._cls,
            namespace=self._namespace,
            selection=self._selection,
            since=self._version,
            initial_events=initial is not None,
        )
        async with aclosing(watch) as events:
            async for event in events:
                if initial is not None:
                    if not initial.see(event, watch):
                        await self._rest()
                        continue
                    await self._show(initial.finish(), initial.version)
                    further, initial = initial.further, None
                    self._see(further)
                else:
                    self._see((event,))
                    further = watch.ready(BREATH)
                    self._see(further)
                self._since_breath += len(further)
                await self._breathe()
        if initial is not None:
            raise status.unreachable("the watch ended before it had shown everything that exists")

    def _see(self, events: Sequence[WatchEvent[T]]) -> None:
        store, version = self._store, self._version
        for event in events:
            obj = event.object
            if event.problem:
                self._see_unreadable(event)
            elif event.type == DELETED:
                store.remove(event.key, obj)
            elif obj is not None:
                store.put(event.key, obj)
            version = event.resource_version or version
        self._version = version
        self._has_moved = True
        self._retries.reset()

    def _see_unreadable(self, event: WatchEvent[T]) -> None:
        if event.type == DELETED:
            self._store.remove(event.key)
        else:
            self._store.skip(Unreadable(event.key, event.problem, event.uid, event.resource_version))

    async def _list(self) -> None:
        parts = self._reader.parts(
            self._resource,
            self._cls,
            namespace=self._namespace,
            selection=self._selection,
            not_older_than="" if self._is_latest_wanted else self._version or ANY_VERSION,
        )
        initial: _Initial[T] = _Initial(self._store)
        version = ""
        async with aclosing(parts):
            async for part in parts:
                for _ in initial.take(part):
                    await self._rest()
                version = part.resource_version
        await self._show(initial.finish(), version)

    async def _show(self, steps: Iterator[None], version: str) -> None:
        for _ in steps:
            await self._breathe()
        self._version = version
        self._is_current = True
        self._has_moved = False
        self._is_latest_wanted = False
        self._is_streaming = False
        self._broken_streams = 0
        self._synced.set()
        self._availability.granted()

    async def _recover(self, error: ApiError) -> None:
        """Decide how to go on after a failure, and wait as long as that takes.

        A forgotten version is no failure if anything was seen since the last list.
        """
        if self._is_streaming and self._is_list_worth_trying(error):
            return
        if error.is_expired or error.is_version_too_large:
            moved, self._has_moved = self._has_moved, False
            if error.is_version_too_large or not self._is_current:
                self._version = ""
                self._is_latest_wanted = True
            self._is_current = False
            if moved and not error.is_unreachable:
                return
        self.failures += 1
        if not (error.is_unreachable and await self._is_known_to_be_gone()):
            self._availability.failed(error)
        await self._pause(error.retry_after or 0)

    async def _is_known_to_be_gone(self) -> bool:
        """True if the server is gone, which is logged once for all reflectors elsewhere.

        A server that has never been reached is reported here, too: once, with the request.
        """
        if await self._reader.is_reachable():
            self._is_gone_reported = False
            return False
        known, self._is_gone_reported = self.has_synced or self._is_gone_reported, True
        return known

    def _is_list_worth_trying(self, error: ApiError) -> bool:
        """True if a failed stream may work as a list: on a server that cannot stream, or not now."""
        if error.code in (400, 422):
            self._stream = False
            return True
        is_forgotten = error.is_expired and not error.is_unreachable
        if is_forgotten or error.is_version_too_large or error.retry_after is not None:
            return False
        self._broken_streams += error.is_unreachable
        self._is_listed_next = error.code >= 500 or self._broken_streams >= _BROKEN_STREAMS
        if self._is_listed_next:
            self._broken_streams = 0
        return self._is_listed_next

    async def _pause(self, at_least: float = 0) -> None:
        await self._availability.pause(max(self._retries.next_pause(), at_least))

    async def _breathe(self) -> None:
        self._since_breath += 1
        if self._since_breath >= BREATH:
            await self._rest()

    async def _rest(self) -> None:
        self._since_breath = 0
        await asyncio.sleep(0)

    def _report_unreadable(self, unreadable: Unreadable) -> None:
        if self._unreadable is not None:
            self._unreadable(self._resource, unreadable)
        else:
            self._report(f"{self._resource.qualified} {unreadable.key}: skipped: {unreadable.problem}")


class _Initial(Generic[T]):
    """Objects of a watch's initial events, until they are complete.

    An empty store gets objects as they arrive, some at a time, so that a list is processed while it arrives.
    For one that has some, only the end shows which of them are gone.
    """

    def __init__(self, store: ObjectStore[T]) -> None:
        self._store = store
        self._is_first = not store.objects
        self._everything: ShardedDict[T] = ShardedDict()
        self._objects: MutableMapping[str, T] = {} if self._is_first else self._everything
        self._unreadable: dict[str, Unreadable] = {}
        self.version = ""
        """The version as of which this is everything."""
        self.further: Sequence[WatchEvent[T]] = ()
        """Events after them."""

    def see(self, event: WatchEvent[T], watch: Watch[T]) -> bool:
        """Take in an event, and those that have come already; True when everything has been shown."""
        at_once = self._store.at_once
        events = [event, *watch.ready(at_once - 1)]
        objects, is_over = self._objects, False
        for number, one in enumerate(events):
            key, obj = one.key, one.object
            if obj is not None and one.type != DELETED:
                objects[key] = obj
                self._unreadable.pop(key, None)
            elif one.synced:
                self.version = one.resource_version
                self.further = events[number + 1 :]
                is_over = True
                break
            elif one.type == DELETED:
                objects.pop(key, None)
                self._unreadable.pop(key, None)
                if self._is_first:
                    self._store.remove(key, obj)
            elif one.problem:
                self._unreadable[key] = Unreadable(key, one.problem, one.uid, one.resource_version)
        if self._is_first and (is_over or len(objects) >= at_once):
            self._objects = {}
            self._store.put_all(objects)
            leave_alone()
            for unreadable in self._unreadable.values():
                self._store.skip(unreadable)
            self._unreadable = {}
        return is_over

    def take(self, part: Listing[T]) -> Iterator[None]:
        """Take in a part of a list, step by step."""
        if part.anew:
            self._is_first = False
            self._objects = self._everything = ShardedDict()
            self._unreadable = {}
        for one in part.unreadable:
            self._unreadable[one.key] = one
        if not self._is_first:
            for number, obj in enumerate(part.items, 1):
                self._everything[obj.key] = obj
                if not number % KEYS:
                    yield
            return
        at_once, items = self._store.at_once, part.items
        for begin in range(0, len(items), at_once):
            self._store.put_all({obj.key: obj for obj in items[begin : begin + at_once]})
            leave_alone()
            yield
        for one in self._unreadable.values():
            self._store.skip(one)
        self._unreadable = {}

    def finish(self) -> Iterator[None]:
        """Make this all there is, step by step."""
        if self._is_first:
            return iter(())
        return self._store.replace(self._everything, list(self._unreadable.values()))


_REFUSALS: Final = (403, 404, 405)
"""Answers that say that a resource is forbidden or not there, not that the server is in trouble."""


class WatchAvailability:
    """Availability of a resource's watch: not known yet, yes, or refused by the server.

    `without` names the functions that suffer while it is refused: that is reported once, with the reason.
    Empty means that nothing works without it; then every failure is reported.
    """

    def __init__(
        self,
        name: str,
        without: str,
        pause: Callable[[float], Awaitable[None]],
        report: Callable[[str], None],
        inform: Callable[[str], None],
    ) -> None:
        self._pause = pause
        self._name = name
        self._without = without
        self._report = report
        self._inform = inform
        self._settled = asyncio.Event()
        self._hurry = asyncio.Event()
        self.refusal = ""

    def failed(self, error: ApiError) -> None:
        """A request failed: tell of it, unless it has been told."""
        if error.code not in _REFUSALS:
            self._report(f"{self._name}: {error.message}")
            return
        if not (self._without and self.refusal):
            told = f"cannot watch {self._name}: {error.message}"
            self._report(f"{told}; {self._without}" if self._without else told)
        self.refusal = error.message or str(error.code)
        self._settled.set()

    def granted(self) -> None:
        """The server grants access."""
        if self.refusal:
            self.refusal = ""
            self._inform(f"{self._name} can be watched now")
        self._settled.set()

    def ask_again(self) -> None:
        """If it was refused, request again: that may have been too early. `settled` waits for the answer."""
        if self.refusal:
            self._settled.clear()
            self._hurry.set()

    async def settled(self) -> None:
        """Wait until it is there or refused."""
        await self._settled.wait()

    async def pause(self, seconds: float) -> None:
        """Wait before the next request; `ask_again` cuts it short."""
        if not self.refusal:
            await self._pause(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        self._hurry.clear()


class Retries:
    """Pauses that double up to a limit, with jitter; `reset` when things work again."""

    def __init__(self, rng: random.Random, *, first: float = 0.8, longest: float = 30.0) -> None:
        self._rng = rng
        self._first = first
        self._longest = longest
        self._base = first

    def next_pause(self) -> float:
        """Seconds to wait: between one and two times the present base."""
        base, self._base = self._base, min(2 * self._base, self._longest)
        return base * (1 + self._rng.random())

    def reset(self) -> None:
        self._base = self._first
