"""Records a running scheduler: every turn in its order, with what came from outside (scheduler/turns.py)."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from stowplan import __version__
from stowplan.api.catalogue import Resource
from stowplan.api.meta import Object
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions, Json
from stowplan.api.status import ApiError
from stowplan.api.writes import Binding
from stowplan.client import Client, Handler, Listing
from stowplan.client.interface import Watch
from stowplan.config.dump import dump_to_load_again
from stowplan.runtime.clock import Clock
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.cycle.failure_handler import Failure
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.recording.files import MICROSECONDS, OBJECTS, REST, EntryKind, Header
from stowplan.scheduler.recording.segments import Recording, SegmentWriter
from stowplan.scheduler.recording.state import Rest, in_parts, objects_of, rest_of
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.turns import ASIDE, on_behalf_of

T = TypeVar("T")
K = TypeVar("K", bound=Object)

FLUSH_EVERY: Final = 0.5
"""Seconds after which what was recorded is written: a crash loses no more than that."""

_BLOCK: Final = 1 << 18
"""Bytes of entries that make a block at once."""

_PARTS_AT_ONCE: Final = 4
_TIMELESS: Final = (EntryKind.STATE, EntryKind.STATE_COMPLETE)
_PLACE: Final = " #"
"""Entries that belong to the beginning of the file, regardless of their position."""
_JUMP: Final = 0.05
"""Seconds by which the date has to jump to be recorded."""


class TurnClock:
    """The time of a turn, in whole microseconds since the beginning."""

    def __init__(self, wall: float, monotonic: float) -> None:
        self.wall = wall
        self.began = monotonic
        self.ticks = 0

    def now(self) -> float:
        return self.wall + self.ticks / MICROSECONDS

    def monotonic(self) -> float:
        return self.began + self.ticks / MICROSECONDS


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scheduling cycle ended: on a node (of a group: on several), or with a failure."""

    node: str
    message: str = ""
    nominated: str = ""


def outcome_of(node: str, failure: Failure | None) -> Outcome:
    return Outcome(node) if failure is None else Outcome("", failure.message, failure.nominated_node or "")


class EntryWriter:
    """Entries in their order, written to the files of a recording.

    `report` is called if recording ends because a write failed. The scheduler continues.
    """

    def __init__(
        self, recording: Recording, header: Header, clock: Clock, report: Callable[[str], None]
    ) -> None:
        self.clock = TurnClock(header.wall, header.monotonic)
        self._recording = recording
        self._header = header
        self._real = clock
        self._monotonic = clock.monotonic
        self._report = report
        self._encode = msgspec.msgpack.Encoder().encode_into
        self._buffer = bytearray()
        self._count = 0
        self._before = 0
        self._writer: SegmentWriter | None = None
        self._parts: Iterator[tuple[str, list[Object]]] = iter(())
        self._owes_state = False
        """True while objects of the state that the file begins with are still to be written to it."""
        self._is_over = False

    def begin(self) -> None:
        """Begin the first file. Raises OSError."""
        self._writer = self._recording.next_file(self._header, self._report)

    def handler(self, resource: str, handler: Handler[Any]) -> Handler[Any]:
        """An event handler that records what it is called with."""
        self._header.resources.append(resource)
        return _RecordingHandler(self, len(self._header.resources) - 1, handler)

    async def run(self) -> None:
        """Write what was recorded, for as long as this runs."""
        try:
            while True:
                await asyncio.sleep(FLUSH_EVERY)
                self._check_date()
                if self._owes_state:
                    self._put_state()
                self._write()
        finally:
            self._write()
            if self._writer is not None:
                self._writer.close()

    def heard(self, resource: int, gone: bool, obj: Object) -> None:
        """A watch event is about to be handled."""
        self._tick()
        self._put(EntryKind.EVENT, resource, int(gone), obj)

    @property
    def is_full(self) -> bool:
        """True if it is time for a new file."""
        writer = self._writer
        return (
            writer is not None and not self._is_over and writer.size_after_state > self._recording.file_size
        )

    def go_on(self, objects: Mapping[str, list[Object]], rest: Rest | None) -> None:
        """Go on in a new file, which begins with the state."""
        assert self._writer is not None
        self._write()
        self._writer.close()
        self._header.wall, self._header.ticks, self._header.has_state = self.clock.wall, self._before, True
        try:
            self._writer = self._recording.next_file(self._header, self._report)
        except OSError as error:
            self._report(f"{self._recording.path}: {error.strerror}")
            self._is_over = True
            return
        self._put(EntryKind.STATE, REST, "", rest)
        self._parts = in_parts(objects)
        self._owes_state = True

    def _put_state(self) -> None:
        """Write some more of the objects that a file begins with."""
        some = list(islice(self._parts, _PARTS_AT_ONCE))
        for resource, objects in some:
            self._put(EntryKind.STATE, OBJECTS, resource, objects)
        if len(some) < _PARTS_AT_ONCE:
            self._write()
            self._put(EntryKind.STATE_COMPLETE, "", "", None)
            self._write(ends_state=True)
            self._owes_state = False

    def _tick(self) -> None:
        clock = self.clock
        clock.ticks = int((self._monotonic() - clock.began) * MICROSECONDS)

    def _put(self, kind: int, a: int | str, b: int | str, value: Any) -> None:
        if self._is_over:
            return
        ticks = self._before if kind in _TIMELESS else self.clock.ticks
        buffer = self._buffer
        self._encode((kind, ticks - self._before, a, b, value), buffer, len(buffer))
        self._before = ticks
        self._count += 1
        if len(buffer) > _BLOCK:
            self._write()

    def _write(self, *, ends_state: bool = False) -> None:
        if self._count and self._writer is not None:
            self._writer.put(bytes(self._buffer), self._count, ends_state=ends_state)
            self._buffer.clear()
            self._count = 0

    def _check_date(self) -> None:
        """Notice if the date was set."""
        since = self._real.monotonic() - self.clock.began
        wall = self._real.now() - since
        if abs(wall - self.clock.wall) > _JUMP:
            self.clock.wall = wall
            self._put(EntryKind.WALL_CLOCK, "", "", wall)


class Recorder(EntryWriter, Instrument):
    """The turns of one scheduler (scheduler/turns.py)."""

    def __init__(
        self,
        recording: Recording,
        settings: Settings,
        *,
        clock: Clock,
        seed: int,
        report: Callable[[str], None],
        source: str = "",
        extenders: bool = False,
    ) -> None:
        header = Header(
            recording="",
            number=0,
            session=recording.new_session(),
            wall=clock.now(),
            monotonic=clock.monotonic(),
            resources=[],
            seed=seed,
            release=settings.release.name,
            gates=dict(settings.gates),
            config=dump_to_load_again(settings.config.config),
            extenders=extenders,
            longest_wait=settings.longest_wait,
            has_writing=True,
            source=source,
            written_by=__version__,
        )
        super().__init__(recording, header, clock, report)
        self._scheduler: Scheduler | None = None
        self._popped = ""
        self._popped_at = 0
        self._is_begun = False
        self._node = ""
        self._failure: Failure | None = None

    def follow(self, scheduler: Scheduler) -> None:
        """Begin: the scheduler that was made with this recorder is about to watch. Raises OSError."""
        self._scheduler = scheduler
        known = in_tree_registry()
        used = {name for one in scheduler.context.profiles.values() for name in one.framework.plugins}
        self._header.plugins = sorted(name for name in used if known.get(name) is None)
        self.begin()

    def wrapped(self, client: Client) -> Client:
        return RecordingClient(client, self)

    def heard(self, resource: int, gone: bool, obj: Object) -> None:
        if self._popped:
            self._begin_cycle()
        self._tick()
        self._put(EntryKind.EVENT, resource, int(gone), obj)

    def popped(self, queued: QueuedPod) -> None:
        on_behalf_of.set(queued.uid)
        self._tick()
        self._popped_at, self._popped = self.clock.ticks, queued.uid
        self._node, self._failure, self._is_begun = "", None, False

    def assuming(self, pod: PodInfo, node: str) -> None:
        self._node = f"{self._node}, {node}" if self._node else node

    def failed(self, queued: QueuedPod, failure: Failure, seconds: float) -> None:
        # Members of a group, and pods that are being bound, fail during the cycles of others.
        if queued.uid == self._popped:
            self._failure = failure

    def put_aside(self, queued: QueuedPod) -> None:
        self._tick()
        self._put(EntryKind.TURN, ASIDE, self._popped, None)
        self._popped = ""

    def cycle_ended(self) -> None:
        on_behalf_of.set("")
        if not self._popped:
            return
        kind = EntryKind.CYCLE_ENDS if self._is_begun else EntryKind.CYCLE
        failure = self._failure
        if failure is None:
            self._put(kind, self._popped, self._node, None)
        else:
            self._put(kind, self._popped, "", (failure.message, failure.nominated_node or ""))
        self._popped = ""

    def flushing(self, what: int) -> None:
        if self._popped:
            self._begin_cycle()
        self._tick()
        self._put(EntryKind.FLUSH, what, "", None)

    async def take(self, what: str, uid: str, value: T) -> T:
        if self._popped:
            self._begin_cycle()
        self._tick()
        self._put(EntryKind.TURN, what, uid, value)
        return value

    def answered(self, request: str, code: int | str, answer: Any) -> None:
        """The API server has answered a plugin."""
        if self._popped:
            self._begin_cycle()
        self._tick()
        self._put(EntryKind.ANSWER, request, code, answer)

    @property
    def are_given(self) -> bool:
        return False

    @property
    def rest_wanted(self) -> bool:
        return self.is_full

    def rest(self) -> None:
        assert self._scheduler is not None
        self.go_on(objects_of(self._scheduler), rest_of(self._scheduler))

    def scheduling_ended(self) -> None:
        if self._popped:
            self._begin_cycle()
        self._tick()
        self._put(EntryKind.END, "", "", None)
        self._is_over = True

    def _begin_cycle(self) -> None:
        """Other things happen during the cycle: it is not recorded as one entry."""
        if not self._is_begun:
            self._is_begun = True
            ticks, self.clock.ticks = self.clock.ticks, self._popped_at
            self._put(EntryKind.CYCLE_BEGINS, self._popped, "", None)
            self.clock.ticks = ticks


def recorded_scheduler(
    recording: Recording | None,
    client: Client,
    settings: Settings,
    *,
    clock: Clock,
    seed: int,
    report: Callable[[str], None],
    source: str = "",
    **others: Any,
) -> Scheduler:
    """A scheduler that is recorded from its start on, or not if there is no recording. Raises OSError."""
    rng = Random(seed)
    if recording is None:
        return Scheduler(client, settings, clock=clock, rng=rng, **others)
    extenders = bool(others.get("extenders"))
    recorder = Recorder(
        recording, settings, clock=clock, seed=seed, report=report, source=source, extenders=extenders
    )
    scheduler = Scheduler(
        client, settings, clock=clock, rng=rng, replay_log=recorder, instruments=(recorder,), **others
    )
    recorder.follow(scheduler)
    return scheduler


class _RecordingHandler:
    """An event handler that records what it is called with."""

    def __init__(self, recorder: EntryWriter, resource: int, handler: Handler[Any]) -> None:
        self._heard = recorder.heard
        self._resource = resource
        self._handler = handler

    def added(self, new: Object) -> None:
        self._heard(self._resource, False, new)
        self._handler.added(new)

    def updated(self, old: Object, new: Object) -> None:
        self._heard(self._resource, False, new)
        self._handler.updated(old, new)

    def deleted(self, last: Object) -> None:
        self._heard(self._resource, True, last)
        self._handler.deleted(last)


def request_name(verb: str, resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    """Name of a request in a recording."""
    about = f"{verb} {resource.qualified} {namespace}/{name} {subresource}".rstrip()
    asking = on_behalf_of.get()
    return f"{about} for {asking}" if asking else about


def nth_request(name: str, place: int) -> str:
    """Name of a request with `place` unanswered requests of the same name before it."""
    return f"{name}{_PLACE}{place}" if place else name


def request_and_place(name: str) -> tuple[str, int]:
    """The other way round."""
    request, mark, place = name.rpartition(_PLACE)
    return (request, int(place)) if mark else (name, 0)


def place_of(body: Any) -> tuple[str, str]:
    """Namespace and name of an object that is sent."""
    plain = msgspec.to_builtins(body)
    metadata = plain.get("metadata") or {} if isinstance(plain, dict) else {}
    return metadata.get("namespace", ""), metadata.get("name") or metadata.get("generateName", "")


class RecordingClient(Client):
    """The client of plugins: it records the answers that they get, but for those to bindings."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._under_way: dict[str, list[Coroutine[Any, Any, Any]]] = {}
        """By name, the requests that were not answered yet, in the order in which they were sent."""

    def streams(self, resource: Resource) -> bool:
        return self._client.streams(resource)

    async def is_reachable(self) -> bool:
        return await self._client.is_reachable()

    async def pause(self, seconds: float) -> None:
        await self._client.pause(seconds)

    async def list(
        self, resource: Resource, cls: type[K], *, namespace: str = "", **others: Any
    ) -> Listing[K]:
        asked = self._client.list(resource, cls, namespace=namespace, **others)
        request = request_name("list", resource, namespace, "")
        listing: Listing[K] = await self._recorded(
            request, asked, lambda listing: [listing.resource_version, listing.items]
        )
        return listing

    def watch(self, resource: Resource, cls: type[K], **selection: Any) -> Watch[K]:
        return self._client.watch(resource, cls, **selection)

    async def bind(self, binding: Binding) -> None:
        await self._client.bind(binding)

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        await self._recorded(
            request_name("delete", resource, namespace, name),
            self._client.delete(resource, namespace, name, options),
        )

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        asked = self._client.get(resource, namespace, name)
        answer: Json = await self._recorded(request_name("get", resource, namespace, name), asked)
        return answer

    async def create(self, resource: Resource, body: Any, *, namespace: str = "") -> Json:
        asked = self._client.create(resource, body, namespace=namespace)
        space, name = place_of(body)
        request = request_name("create", resource, namespace or space, name)
        answer: Json = await self._recorded(request, asked)
        return answer

    async def update(self, resource: Resource, body: Any, *, subresource: str = "") -> Json:
        asked = self._client.update(resource, body, subresource=subresource)
        request = request_name("update", resource, *place_of(body), subresource)
        answer: Json = await self._recorded(request, asked)
        return answer

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Any, *kind: Any, subresource: str = ""
    ) -> Json:
        asked = self._client.patch(resource, namespace, name, patch, *kind, subresource=subresource)
        request = request_name("patch", resource, namespace, name, subresource)
        answer: Json = await self._recorded(request, asked)
        return answer

    async def _recorded(
        self,
        request: str,
        asked: Coroutine[Any, Any, Any],
        shown: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        under_way = self._under_way.setdefault(request, [])
        under_way.append(asked)
        try:
            answer = await asked
        except ApiError as error:
            named = nth_request(request, under_way.index(asked))
            self._recorder.answered(named, error.code, [error.reason, error.message])
            raise
        else:
            self._recorder.answered(nth_request(request, under_way.index(asked)), "", shown(answer))
            return answer
        finally:
            under_way.remove(asked)
            if not under_way:
                self._under_way.pop(request, None)
