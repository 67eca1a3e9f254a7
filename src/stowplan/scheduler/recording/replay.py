"""The replay of a recording of our scheduler: the same turns in the same order, so the same decisions.

A scheduler is created like the recorded one, with its seed and configuration. There are no watches and no
waits: entry by entry the replay delivers watch events, runs scheduling cycles, and gives background work its
turn. The API server's answers come from the recording. Each decision is compared with the recorded one.
"""

import asyncio
import re
import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from stowplan.api.catalogue import Resource
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions, Json
from stowplan.api.status import ApiError, unreachable
from stowplan.api.writes import Binding
from stowplan.client import Client, Handler, Listing, Reflector
from stowplan.client.interface import Watch
from stowplan.runtime.clock.virtual import TICKS_PER_SECOND
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.cycle.failure_handler import Failure
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.recording.files import (
    MICROSECONDS,
    OBJECTS,
    EntryKind,
    Header,
    RecordingEntry,
    RecordingError,
    Session,
)
from stowplan.scheduler.recording.recorder import (
    Outcome,
    TurnClock,
    outcome_of,
    place_of,
    request_and_place,
    request_name,
)
from stowplan.scheduler.recording.state import Rest, objects_of, rest_of, restore
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.tasks import TimeSlice
from stowplan.scheduler.turns import ASIDE, BOUND, DELETED, FAIL, FOR, GOING_ON, VICTIM, WRITING, on_behalf_of

T = TypeVar("T")
K = TypeVar("K", bound=Object)

_INSTANT: Final = 1 / TICKS_PER_SECOND
_PATIENCE: Final = 60.0
"""Virtual seconds until work that was recorded is taken for something that does not happen in the replay."""

_NO_ANSWER_AFTER: Final = 300 * MICROSECONDS
"""Time after a watch event has confirmed a binding from which its answer is no longer taken as a failure."""

_RecordedFailure: Any = tuple[str, str] | None
"""The failure of a cycle: the message, and the node that was nominated."""
_TIMED_OUT: Final = re.compile(r"node (\S+): timed out trying to allocate")
_RecordedError: Any = list[Any]
"""An error of the API server without its code."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A scheduling cycle: as it was recorded, and as the replay had it."""

    number: int
    time: float
    """Seconds since 1970."""
    pod: Pod
    attempt: int
    recorded: Outcome
    replayed: Outcome

    @property
    def is_same(self) -> bool:
        return self.recorded == self.replayed


class DivergedError(RecordingError):
    """The replay does something else than what was recorded, before any decision differs."""


class ReplayTurns(Instrument):
    """The turns of a replayed scheduler: work in the background waits until its turn comes."""

    def __init__(self, header: Header, client: Client) -> None:
        self._client = client
        self.clock = TurnClock(header.wall, header.monotonic)
        self.clock.ticks = header.ticks
        self._waiting: dict[tuple[str, str], deque[asyncio.Future[Any]]] = defaultdict(deque)
        self._has_writing = header.has_writing
        self.rest_wanted = False
        self.are_given = True
        self.is_over = False
        self.node = ""
        self.failure: Failure | None = None
        self._popped = ""

    def wrapped(self, client: Client) -> Client:
        return self._client

    def handler(self, resource: str, handler: Handler[Any]) -> Handler[Any]:
        return handler

    async def run(self) -> None:
        await asyncio.Event().wait()

    def popped(self, queued: QueuedPod) -> None:
        on_behalf_of.set(queued.uid)
        self.node, self.failure = "", None
        self._popped = queued.uid

    def assuming(self, pod: PodInfo, node: str) -> None:
        self.node = f"{self.node}, {node}" if self.node else node

    def failed(self, queued: QueuedPod, failure: Failure, seconds: float) -> None:
        if queued.uid == self._popped:
            self.failure = failure

    def cycle_ended(self) -> None:
        on_behalf_of.set("")

    async def take(self, what: str, uid: str, value: T) -> T:
        if self.is_over or (what == WRITING and not self._has_writing):
            return value
        turn: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[what, uid].append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            self._take_out(what, uid, turn)
            raise

    def _take_out(self, what: str, uid: str, turn: "asyncio.Future[Any]") -> None:
        """The task that waited for a turn has given up."""
        turns = self._waiting.get((what, uid), deque())
        if turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[what, uid]

    def rest(self) -> None:
        """A replay never rests."""

    def is_waiting(self, what: str, uid: str) -> bool:
        return bool(self._waiting.get((what, uid)))

    def give(self, what: str, uid: str, value: Any) -> None:
        """Let work that waits for its turn go on."""
        turns = self._waiting[what, uid]
        turns.popleft().set_result(value)
        if not turns:
            del self._waiting[what, uid]
        if what == DELETED and not value:
            self._spare_victims(uid.partition(FOR)[2])

    def _spare_victims(self, preemptor: str) -> None:
        """A victim could not be deleted: those whose turn has not come until then stay.

        Victims are deleted side by side, and in a replay all of them wait for their turn at once. Where the
        API server refused the first one right away, the others had not begun.
        """
        for what, uid in [*self._waiting]:
            if what == VICTIM and uid.partition(FOR)[2] == preemptor:
                for turn in self._waiting.pop((what, uid)):
                    turn.set_result(None)


class ReplayClient(Client):
    """The API server of a replay: it answers what it answered then, when it did.

    A binding is answered by the recorded failure, if there is one, even if a watch event has confirmed it.
    """

    def __init__(self) -> None:
        self._asked: dict[str, list[asyncio.Future[Any]]] = defaultdict(list)
        self._bindings: dict[str, asyncio.Future[None]] = {}

    async def bind(self, binding: Binding) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._bindings[binding.metadata.uid] = answer
        await answer

    def is_binding(self, uid: str) -> bool:
        return uid in self._bindings

    def bound(self, uid: str) -> None:
        answer = self._bindings.pop(uid, None)
        if answer is not None and not answer.done():
            answer.set_result(None)

    def not_bound(self, uid: str) -> None:
        answer = self._bindings.pop(uid, None)
        if answer is not None and not answer.done():
            answer.set_exception(unreachable("the answer was lost"))

    def has_asked(self, named: str) -> bool:
        request, place = request_and_place(named)
        return len(self._asked.get(request, ())) > place

    def answer(self, named: str, code: int | str, answer: Any) -> None:
        """Deliver the API server's answer to a plugin."""
        request, place = request_and_place(named)
        asked = self._asked[request].pop(place)
        if isinstance(code, int):
            asked.set_exception(ApiError(code, *answer))
        else:
            asked.set_result(answer)

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        answer: Json = await self._ask(request_name("get", resource, namespace, name))
        return answer

    async def create(self, resource: Resource, body: Any, *, namespace: str = "") -> Json:
        space, name = place_of(body)
        answer: Json = await self._ask(request_name("create", resource, namespace or space, name))
        return answer

    async def update(self, resource: Resource, body: Any, *, subresource: str = "") -> Json:
        answer: Json = await self._ask(request_name("update", resource, *place_of(body), subresource))
        return answer

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Any, *kind: Any, subresource: str = ""
    ) -> Json:
        answer: Json = await self._ask(request_name("patch", resource, namespace, name, subresource))
        return answer

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        await self._ask(request_name("delete", resource, namespace, name))

    async def list(
        self, resource: Resource, cls: type[K], *, namespace: str = "", **others: Any
    ) -> Listing[K]:
        version, items = await self._ask(request_name("list", resource, namespace, ""))
        return Listing(msgspec.convert(items, list[cls]), version)  # type: ignore[valid-type]

    def watch(self, resource: Resource, cls: type[K], **selection: Any) -> Watch[K]:
        raise NotImplementedError("nobody watches in a replay")

    async def _ask(self, request: str) -> Any:
        asked: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[request].append(asked)
        try:
            return await asked
        except asyncio.CancelledError:
            # Its answer was not recorded: the next one is for the next identical request.
            if asked in self._asked[request]:
                self._asked[request].remove(asked)
            raise


class _Nobody(ReplayClient):
    """Takes what the scheduler itself writes: what came of it is recorded as watch events and turns."""

    async def _ask(self, request: str) -> Any:
        return {}


class _HeldSlice(TimeSlice):
    """Lets a long search pause where other things happened during the recorded one."""

    def __init__(self) -> None:
        super().__init__()
        self.held: asyncio.Event | None = None
        self.puts_aside = False

    def another(self) -> TimeSlice:
        """For other work than the search: its turns come in the recorded order, so it need not pause."""
        return _HeldSlice()

    def begin(self) -> None:
        """Time does not matter."""

    @property
    def is_over(self) -> bool:
        return self.held is not None and not self.held.is_set()

    async def pause_if_over(self) -> None:
        if self.held is not None:
            await self.held.wait()

    @property
    def is_out_of_patience(self) -> bool:
        return self.puts_aside


Evaluate = Callable[[Scheduler, QueuedPod], None]
"""Called before every scheduling cycle, on the state that it decides by."""


class Replay:
    """One session of a recording, replayed within a virtual-time loop."""

    def __init__(self, session: Session, settings: Settings, before: Evaluate | None = None) -> None:
        header = session.header
        if header.seed is None:
            raise RecordingError(
                f"{session.segments[0].path}: recorded by an observer: it has no decisions to repeat"
            )
        if header.extenders:
            raise RecordingError(
                f"{session.segments[0].path}: the scheduler had extenders, whose answers are not recorded"
            )
        self.session = session
        self.client = ReplayClient()
        self.turns = ReplayTurns(header, self.client)
        self.scheduler = Scheduler(
            _Nobody(),
            settings,
            clock=self.turns.clock,
            rng=Random(header.seed),
            timer=lambda: 0.0,
            replay_log=self.turns,
            instruments=(self.turns,),
        )
        self.scheduler.binding.most_workers = sys.maxsize
        self._before = before
        self._slice = self.scheduler.context.slice = _HeldSlice()
        self._reflectors = _by_number(header, self.scheduler)
        self._began = header.ticks
        self._cycle: asyncio.Task[None] | None = None
        self._queued: QueuedPod | None = None
        self._decided = 0
        self._is_answering = False
        """True while the receiver of the last answer has not continued yet."""
        self.capture_at = 0
        """The number of the decision before which the state is kept."""
        self.captured: tuple[dict[str, list[Object]], Rest] | None = None
        self._confirmed: deque[tuple[int, str]] = deque()
        self.notes: list[str] = []

    async def decisions(self) -> AsyncIterator[Decision]:
        """Replay entry by entry. Raises DivergedError where the replay cannot follow the recording."""
        async with self.scheduler.driven():
            try:
                async for entry in self._in_effective_order(self._after_state()):
                    decision = await self._play(entry)
                    if decision is not None:
                        yield decision
                    if entry.kind == EntryKind.END:
                        break
            finally:
                self.turns.is_over = True
                if self._cycle is not None:
                    self._cycle.cancel()

    async def _play(self, entry: RecordingEntry) -> Decision | None:
        kind = entry.kind
        if self._is_answering:
            self._is_answering = False
            if (
                kind == EntryKind.TURN
                and entry.a == GOING_ON
                and self.turns.is_waiting(GOING_ON, str(entry.b))
            ):
                # It continued before the answer could stop it.
                self.turns.clock.ticks += entry.ticks
                self.turns.give(GOING_ON, str(entry.b), None)
                await self._settle()
                return None
            # The receiver of the answer continues at the time of the answer, which may be written somewhere.
            await self._settle()
        self.turns.clock.ticks += entry.ticks
        if kind == EntryKind.EVENT:
            self._hear(entry)
        elif kind == EntryKind.CYCLE:
            return self._run_cycle(entry)
        elif kind == EntryKind.CYCLE_BEGINS:
            await self._begin_cycle(str(entry.a))
        elif kind == EntryKind.CYCLE_ENDS:
            return await self._end_cycle(entry)
        elif kind == EntryKind.TURN and entry.a == ASIDE:
            await self._put_aside(str(entry.b))
        elif kind == EntryKind.TURN:
            await self._give(str(entry.a), str(entry.b), self.session.decode(entry.raw, object))
        elif kind == EntryKind.ANSWER:
            await self._answer(entry)
        elif kind == EntryKind.FLUSH:
            self._end_bindings()
            await self._catch_up()
            self.scheduler.flush(int(entry.a))
        elif kind == EntryKind.WALL_CLOCK:
            self.turns.clock.wall = self.session.moment(entry.raw)
        return None

    # The state at the beginning

    async def _after_state(self) -> AsyncIterator[RecordingEntry]:
        """The entries after the state that the first file begins with, if it does."""
        entries = self.session.entries()
        kept: list[RecordingEntry] = []
        objects: dict[str, list[Object]] = defaultdict(list)
        rest: Rest | None = None
        for entry in entries if self.session.header.has_state else ():
            if entry.kind == EntryKind.STATE:
                if entry.a == OBJECTS:
                    resource = str(entry.b)
                    objects[resource] += self._decoded(resource, entry.raw)
                else:
                    rest = self.session.decode(entry.raw, Rest)
            elif entry.kind != EntryKind.STATE_COMPLETE:
                kept.append(entry)
            elif rest is not None:
                try:
                    restore(self.scheduler, objects, rest)
                except (LookupError, ValueError, TypeError, OverflowError) as error:
                    problem = f"the state that it begins with cannot be restored: {error!r}"
                    raise self.session.damaged(problem) from error
                if rest.under_way:
                    self.notes.append(
                        f"{rest.under_way} pods were being bound when the recording begins: what they come "
                        "to is not part of it"
                    )
                if rest.groups:
                    self.notes.append(
                        f"{rest.groups} groups of pods waited when the recording begins: they are left out"
                    )
                break
        else:
            if self.session.header.has_state:
                raise RecordingError(
                    f"{self.session.segments[0].path}: cut off within the state that it begins with"
                )
        for entry in kept:
            yield entry
        for entry in entries:
            yield entry

    def _decoded(self, resource: str, raw: msgspec.Raw) -> list[Object]:
        cls = next((one.cls for one in self._reflectors if one and one.resource.dotted == resource), None)
        if cls is None:
            return []
        found: list[Object] = self.session.decode(raw, list[cls])  # type: ignore[valid-type]
        return found

    # Turns

    def _hear(self, entry: RecordingEntry) -> None:
        reflector = self._reflectors[int(entry.a)]
        if reflector is None:
            return
        obj = self.session.decode(entry.raw, reflector.cls)
        if entry.b:
            reflector.store.remove(obj.key, obj)
        else:
            reflector.store.put(obj.key, obj)
        if isinstance(obj, Pod) and (entry.b or obj.spec.node_name):
            self._confirmed.append((self.turns.clock.ticks, obj.metadata.uid))

    def _end_bindings(self) -> None:
        """Bindings that were confirmed long ago have not failed."""
        while self._confirmed and self._confirmed[0][0] < self.turns.clock.ticks - _NO_ANSWER_AFTER:
            self.client.bound(self._confirmed.popleft()[1])

    def _popped(self, uid: str) -> Coroutine[Any, Any, None]:
        """Pop the pod of a cycle; returns the cycle, to be run."""
        scheduler = self.scheduler
        if self._decided + 1 == self.capture_at:
            self.captured = objects_of(scheduler), rest_of(scheduler)
        queued = scheduler.cycle.searches.taken_up(uid) or scheduler.context.queue.pop()
        if queued is None or queued.uid != uid:
            found = "no pod is ready" if queued is None else f"{queued.key} comes first"
            raise DivergedError(
                f"decision {self._decided + 1}: recorded for the pod of uid {uid}, but {found}"
            )
        self._queued = queued
        self.turns.popped(queued)
        if self._before is not None:
            self._before(scheduler, queued)
        return scheduler.schedule_one(queued)

    async def _begin_cycle(self, uid: str) -> None:
        await self._catch_up()
        self._slice.held = asyncio.Event()
        self._cycle = asyncio.get_running_loop().create_task(self._popped(uid))
        self.turns.cycle_ended()
        await self._settle()

    async def _put_aside(self, uid: str) -> None:
        """Have the cycle of a pod given up that was put aside."""
        if self._cycle is None:
            await self._begin_cycle(uid)
        assert self._cycle is not None
        assert self._slice.held is not None
        self._slice.puts_aside = True
        self._slice.held.set()
        await asyncio.wait({self._cycle}, timeout=_PATIENCE)
        self._slice.puts_aside, self._cycle = False, None
        if not self.scheduler.cycle.searches.has(uid):
            raise DivergedError(
                f"after decision {self._decided}: {uid} was put aside and does not search long"
            )

    def _run_cycle(self, entry: RecordingEntry) -> Decision:
        """A cycle that was not interrupted runs at a stretch here, too."""
        self._slice.held = None
        self.scheduler.cycle.searches.ends_at = self._timed_out_at(entry)
        cycle = self._popped(str(entry.a))
        try:
            cycle.send(None)
        except StopIteration:
            return self._decision(entry)
        cycle.close()
        raise DivergedError(
            f"decision {self._decided + 1}: its scheduling cycle waits; the recorded one did not"
        )

    async def _end_cycle(self, entry: RecordingEntry) -> Decision:
        assert self._cycle is not None
        if self._slice.held is not None:
            self._slice.held.set()
        done, _ = await asyncio.wait({self._cycle}, timeout=_PATIENCE)
        if not done:
            raise DivergedError(f"decision {self._decided + 1}: its scheduling cycle does not end")
        self._cycle.result()
        self._cycle = None
        return self._decision(entry)

    def _decision(self, entry: RecordingEntry) -> Decision:
        assert self._queued is not None
        self.turns.cycle_ended()
        self._decided += 1
        failure = self.session.decode(entry.raw, _RecordedFailure)
        recorded = Outcome(str(entry.b)) if failure is None else Outcome("", *failure)
        replayed = outcome_of(self.turns.node, self.turns.failure)
        queued = self._queued
        return Decision(
            self._decided, self.turns.clock.now(), queued.pod.pod, queued.attempts, recorded, replayed
        )

    async def _give(self, what: str, uid: str, value: Any) -> None:
        await self._catch_up()
        if what in (FAIL, BOUND):
            came = f"{what} of {uid}"
            await self._until(lambda: self.turns.is_waiting(what, uid) or self.client.is_binding(uid), came)
            (self.client.not_bound if what == FAIL else self.client.bound)(uid)
        await self._until(lambda: self.turns.is_waiting(what, uid), f"{what} of {uid}")
        self.turns.give(what, uid, value)
        await self._settle()

    async def _answer(self, entry: RecordingEntry) -> None:
        await self._catch_up()
        request = str(entry.a)
        await self._until(lambda: self.client.has_asked(request), f"request {request}")
        answer: Any = self.session.decode(entry.raw, object if isinstance(entry.b, str) else _RecordedError)
        self.client.answer(request, entry.b, answer)
        self._is_answering = True

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        """Let the background run until it comes to what was recorded."""
        if holds():
            return
        await self._settle()
        if self._slice.held is not None and not holds():
            self._slice.held.set()
            await self._settle()
        waited = 0.0
        while not holds():
            if waited >= _PATIENCE:
                raise DivergedError(
                    f"after decision {self._decided}: {what} was recorded and does not happen"
                )
            await asyncio.sleep(0.5)
            waited += 0.5

    async def _catch_up(self) -> None:
        """Let timers end that had ended by now."""
        now = (self.turns.clock.ticks - self._began) / MICROSECONDS
        await asyncio.sleep(max(now - asyncio.get_running_loop().time(), _INSTANT))

    async def _settle(self) -> None:
        """Let the background run until everything in it waits."""
        await asyncio.sleep(_INSTANT)

    def _timed_out_at(self, entry: RecordingEntry) -> str | None:
        """The node at which the searches of a recorded cycle took too long: the time is not replayed."""
        failure = self.session.decode(entry.raw, _RecordedFailure)
        found = None if failure is None else _TIMED_OUT.search(failure[0])
        return None if found is None else found[1]

    async def _in_effective_order(
        self, entries: AsyncIterator[RecordingEntry]
    ) -> AsyncIterator[RecordingEntry]:
        """Entries, except that a victim in PreBind that continued once more before it gave up continues
        first.

        A task that is cancelled stops where it waits next, and in a replay it waits for its turn.
        """
        told: RecordingEntry | None = None
        async for entry in entries:
            if told is not None:
                goes_on = entry.kind == EntryKind.TURN and entry.a == GOING_ON
                if goes_on and str(told.b).partition(FOR)[0] == entry.b:
                    yield msgspec.structs.replace(entry, ticks=told.ticks + entry.ticks)
                    entry, told = msgspec.structs.replace(told, ticks=0), None
                else:
                    yield told
                    told = None
            if (
                entry.kind == EntryKind.TURN
                and entry.a == VICTIM
                and told is None
                and self.session.decode(entry.raw, object)
            ):
                told = entry
            else:
                yield entry
        if told is not None:
            yield told


def _by_number(header: Header, scheduler: Scheduler) -> list[Reflector[Any] | None]:
    """The reflectors by the numbers that the recording has for their resources."""
    known = {one.resource.dotted: one for one in scheduler.informers.all}
    return [known.get(resource) for resource in header.resources]
