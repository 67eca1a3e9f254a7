"""Connections that are kept: taken for a request, given back after its answer, closed when idle.

Over HTTP/1.1 a request has its connection to itself. Over HTTP/2 all share one; there is another only if the
server takes no more requests over the first. Which of the two it is the server says when it is connected to.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from stowplan.client.http.body import Body
from stowplan.client.http.connection import (
    IDLE_SECONDS,
    SILENT,
    Connection,
    HttpAnswer,
    HttpStream,
    LostError,
)
from stowplan.client.http.dialer import Dialer, DialError
from stowplan.client.http.http2 import Http2Connection, UnprocessedError
from stowplan.client.http.requests import Message

MOST_CONNECTIONS: Final = 32
_GOOD: Final = 200
_CLOSED: Final = "the client is closed"
_AT_ONCE: Final = 3
"""How often a request that certainly was not done is sent without a pause."""
_SWEEP_EVERY: Final = 5.0
"""Seconds between two looks for overdue requests and idle connections, at most."""
_MOST_IN_VAIN: Final = 10
"""Connections that are made for a request and are of no use to it."""

_Kept = Connection | Http2Connection


class NotAllowedError(Exception):
    """A request that waited for a connection may not be sent any more."""


class ConnectionPool:
    """The connections to one server: a maximum for requests, and one for each stream in addition.

    An answer that is consumed while it arrives, as a long list, has a separate connection, too: over HTTP/1.1
    servers send it faster, and wait for a slow reader. `connected` is called for every new connection.
    """

    def __init__(
        self,
        dialer: Dialer,
        *,
        most: int = MOST_CONNECTIONS,
        timeout: float,
        connected: Callable[[], None] = lambda: None,
    ) -> None:
        self._dialer = dialer
        self._connected = connected
        self._most = most
        self._timeout = timeout
        self._open = 0
        """Connections for requests that exist or are being made."""
        self._idle: list[Connection] = []
        self._shared: list[Http2Connection] = []
        self._may_share = dialer.offers_http2
        """True to wait for a connection that is being made, as all may share it."""
        self._dialing: asyncio.Task[None] | None = None
        self._all: dict[_Kept, None] = {}
        self._streams: dict[Connection, None] = {}
        self._spare: list[Connection] = []
        """Of these, those over which nothing comes any more, for the next long answer."""
        self._waiting: deque[asyncio.Future[_Kept | None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def exchange(
        self, message: Message, body: Body | None = None, allowed: Callable[[], bool] | None = None
    ) -> HttpAnswer:
        """Send a request and give its answer. Raises LostError, or DialError if it certainly was not done.

        With a `body`, that of a good answer goes there while it comes; the answer is given when all has come.
        A request that had to wait for a connection is not sent if it is no longer `allowed`: NotAllowedError.
        """
        if body is not None and self._may_share:
            return await self._exchange_long(message, body)
        problem = ""
        for attempt in range(_AT_ONCE):
            connection = self._pick()
            has_waited = attempt > 0 or connection is None
            if connection is None:
                connection = await self._take()
            if has_waited and allowed is not None and not allowed():
                self._leave(connection)
                raise NotAllowedError
            if isinstance(connection, Connection):
                return await self._exchange_alone(connection, message, body)
            exchange = connection.send(message)
            try:
                return await exchange.answer
            except asyncio.CancelledError:
                connection.give_up(exchange)
                raise
            except UnprocessedError as error:
                problem = error.problem
            finally:
                if self._waiting:
                    self._pass_place(connection)
        raise LostError(_CLOSED) if self._closed else DialError(problem, again=True)

    def _leave(self, connection: _Kept) -> None:
        """Nothing is sent over a connection that was taken."""
        if isinstance(connection, Connection):
            self._give_back(connection)
        elif self._waiting:
            self._pass_place(connection)

    async def _exchange_alone(
        self, connection: Connection, message: Message, body: Body | None
    ) -> HttpAnswer:
        connection.deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            if body is None:
                return await connection.send(message)
            body.comes_from(connection, self._timeout)
            answer = await connection.send(message, body)
            if answer.status == _GOOD:
                await body.complete()
            return answer
        except asyncio.CancelledError:
            connection.abort()
            raise
        finally:
            if connection.is_usable and connection in self._streams:
                connection.deadline = asyncio.get_running_loop().time() + IDLE_SECONDS
                self._spare.append(connection)
            elif connection.is_usable:
                self._give_back(connection)

    async def _exchange_long(self, message: Message, body: Body) -> HttpAnswer:
        """Exchange over a connection that is not shared: the last page's, or a new one."""
        while self._spare:
            connection = self._spare.pop()
            if connection.is_usable:
                return await self._exchange_alone(connection, message, body)
        return await self._exchange_alone(await self._dial_alone(), message, body)

    async def stream(self, message: Message, stream: HttpStream) -> tuple[HttpAnswer, Connection]:
        """Send a request whose answer has no end, over a separate connection that the caller must abort."""
        connection = await self._dial_alone()
        try:
            answer = await connection.send(message, stream)
        except BaseException:
            connection.abort()
            raise
        connection.deadline = float("inf")
        return answer, connection

    async def _dial_alone(self) -> Connection:
        """A new connection that is not shared and speaks HTTP/1.1."""
        if self._closed:
            raise LostError(_CLOSED)
        connection = await self._dialer.dial(self._stream_lost)
        if self._closed:
            connection.abort(_CLOSED)
            raise LostError(_CLOSED)
        self._streams[connection] = None
        self._connected()
        connection.deadline = asyncio.get_running_loop().time() + self._timeout
        self._begin_sweeping()
        return connection

    @property
    def last_heard(self) -> float | None:
        """When the last byte came over any connection, by the loop's time; None if there are none."""
        return max((one.heard for one in (*self._all, *self._streams)), default=None)

    @property
    def expects_answer(self) -> bool:
        """True if a stream is open or a request under way."""
        return len(self._streams) > len(self._spare) or not self.only_streams

    @property
    def only_streams(self) -> bool:
        """True if no request is under way over a connection for requests."""
        return self._open <= len(self._idle) + sum(not one.load for one in self._shared)

    def end_silent(self, since: float, until: float) -> None:
        """End connections over which nothing came from one time to another, made before or in between.

        The same for attempts to make one.
        """
        self._dialer.cut_short(until)
        for connection in [*self._all, *self._streams]:
            is_unheard = connection.heard == connection.made
            if connection.heard < since or (is_unheard and connection.made < until):
                connection.abort(SILENT)

    def retire(self) -> None:
        """Send nothing more over what exists, as when another certificate is to be shown from now on."""
        for connection in [*self._all, *self._spare]:
            connection.retire()

    def close(self) -> None:
        """Close everything; requests under way fail."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in [*self._all, *self._streams]:
            connection.abort(_CLOSED)
        while self._waiting:
            _tell(self._waiting.popleft(), None)

    def _pick(self) -> _Kept | None:
        """A connection that takes a request now: of those for one, the one that was used last, so that those
        too many become idle.
        """
        if self._shared:
            usable: Http2Connection | None = None
            load = 0
            for shared in self._shared:
                load += shared.load
                if usable is None and shared.is_usable:
                    usable = shared
            if usable is not None and load < self._most:
                return usable
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    async def _take(self) -> _Kept:
        """A connection: a new one if there may be more, else the next place that is given back."""
        dialed = 0
        while True:
            if self._closed:
                raise LostError(_CLOSED)
            picked = self._pick()
            if picked is not None:
                return picked
            if self._open + sum(max(one.load - 1, 0) for one in self._shared) < self._most:
                if not self._may_share:
                    return await self._dial()
                if dialed >= _MOST_IN_VAIN:
                    raise DialError("the server ends every connection before it takes a request", again=True)
                dialed += 1
                await self._dial_for_all()
                continue
            turn: asyncio.Future[_Kept | None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                given = await turn
            except asyncio.CancelledError:
                self._pass_on(turn)
                raise
            if isinstance(given, Http2Connection):
                given.release()
            if given is not None and given.is_usable:
                return given

    def _pass_on(self, turn: "asyncio.Future[_Kept | None]") -> None:
        """A request whose turn had come was cancelled."""
        if turn.cancelled():
            return
        given = turn.result()
        if isinstance(given, Http2Connection):
            given.release()
            self._pass_place(given)
        elif given is not None and given.is_usable:
            self._give_back(given)
        else:
            self._wake(None)

    async def _dial(self) -> _Kept:
        self._open += 1
        try:
            connection = await self._dialer.dial_for_requests(self._lost)
        except BaseException:
            self._open -= 1
            self._wake(None)
            raise
        self._all[connection] = None
        if self._closed or not connection.is_usable:
            connection.abort()
            raise LostError(_CLOSED) if self._closed else DialError("EOF", again=True)
        if isinstance(connection, Http2Connection):
            connection.patience = self._timeout
            self._shared.append(connection)
        self._may_share = isinstance(connection, Http2Connection)
        self._connected()
        self._begin_sweeping()
        return connection

    async def _dial_for_all(self) -> None:
        """One attempt at a time, whose end all wait for: its connection may serve them all."""
        if self._dialing is None:
            self._dialing = asyncio.get_running_loop().create_task(self._dial_shared())
            self._dialing.add_done_callback(self._dialed)
        try:
            await asyncio.shield(self._dialing)
        except DialError as error:
            raise DialError(error.problem, again=error.again) from None
        except LostError as error:
            raise LostError(error.problem) from None

    async def _dial_shared(self) -> None:
        connection = await self._dial()
        if isinstance(connection, Connection):
            self._give_back(connection)

    def _dialed(self, task: "asyncio.Task[None]") -> None:
        self._dialing = None
        if not task.cancelled():
            task.exception()

    def _give_back(self, connection: Connection) -> None:
        if self._waiting and self._wake(connection):
            return
        connection.deadline = asyncio.get_running_loop().time() + IDLE_SECONDS
        self._idle.append(connection)

    def _pass_place(self, connection: Http2Connection) -> None:
        """A request has ended, so the next may begin; over another connection if this one takes no more."""
        if not connection.is_usable:
            self._wake(None)
            return
        connection.reserved += 1
        if not self._wake(connection):
            connection.release()

    def _wake(self, given: _Kept | None) -> bool:
        while self._waiting:
            if _tell(self._waiting.popleft(), given):
                return True
        return False

    def _lost(self, connection: _Kept) -> None:
        if self._all.pop(connection, connection) is None:
            self._open -= 1
            if isinstance(connection, Http2Connection):
                if connection in self._shared:
                    self._shared.remove(connection)
            elif connection in self._idle:
                self._idle.remove(connection)
            self._wake(None)

    def _stream_lost(self, connection: Connection) -> None:
        self._streams.pop(connection, None)
        if connection in self._spare:
            self._spare.remove(connection)

    def _begin_sweeping(self) -> None:
        if self._sweeping is None and not self._closed:
            pause = _SWEEP_EVERY if self.only_streams else min(_SWEEP_EVERY, self._timeout / 4)
            self._sweeping = asyncio.get_running_loop().call_later(pause, self._sweep)

    def _sweep(self) -> None:
        """End what is overdue: one timer for all is cheaper than one for each request."""
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        for connection in [*self._all, *self._streams]:
            connection.sweep(now)
        if self._all or self._streams:
            self._begin_sweeping()


def _tell(turn: "asyncio.Future[_Kept | None]", given: _Kept | None) -> bool:
    if turn.done():
        return False
    turn.set_result(given)
    return True
