"""Connections that are kept: taken for a request, given back after its answer, closed when idle."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from stowplan.client.http.body import Body
from stowplan.client.http.connection import SILENT, Answer, Connection, LostError, Stream
from stowplan.client.http.dialer import Dialer

MOST_CONNECTIONS: Final = 32
IDLE_SECONDS: Final = 30.0
"""Servers and what stands before them close what is idle, but hardly so soon: we are first."""

_GOOD: Final = 200
_CLOSED: Final = "the client is closed"


class Pool:
    """The connections to one server: at most so many for requests, and one for each stream besides.

    `connected` is told of every new connection.
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
        self._all: dict[Connection, None] = {}
        self._streams: dict[Connection, None] = {}
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def exchange(self, message: bytes, body: Body | None = None) -> Answer:
        """Send a request and give its answer. Raises LostError, or DialError if nothing was sent.

        With a `body`, that of a good answer goes there while it comes; the answer is given when all has come.
        """
        connection = self._pick() or await self._take()
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
            if connection.is_usable:
                self._give_back(connection)

    async def stream(self, message: bytes, stream: Stream) -> tuple[Answer, Connection]:
        """Send a request whose answer has no end, over a connection of its own that its owner must abort."""
        if self._closed:
            raise LostError(_CLOSED)
        connection = await self._dialer.dial(self._stream_lost)
        self._streams[connection] = None
        self._connected()
        connection.deadline = asyncio.get_running_loop().time() + self._timeout
        self._begin_sweeping()
        try:
            answer = await connection.send(message, stream)
        except BaseException:
            connection.abort()
            raise
        connection.deadline = float("inf")
        return answer, connection

    @property
    def last_heard(self) -> float | None:
        """When the last byte came over any connection, by the loop's time; None if there are none."""
        return max((one.heard for one in (*self._all, *self._streams)), default=None)

    @property
    def expects_answer(self) -> bool:
        """Whether a stream is open or a request under way."""
        return bool(self._streams) or self._open > len(self._idle)

    def end_silent(self, since: float, until: float) -> None:
        """End connections over which nothing came from one time to another, made before or in between.

        The same for attempts to make one. That is no failure of a watch: whoever follows it resumes.
        """
        self._dialer.cut_short(until)
        for connection in [*self._all, *self._streams]:
            is_unheard = connection.heard == connection.made
            if connection.heard < since or (is_unheard and connection.made < until):
                connection.abort(SILENT, is_stream_over=True)

    def retire(self) -> None:
        """Send nothing more over what exists, as when another certificate is to be shown from now on."""
        for connection in list(self._idle):
            connection.abort()
        for connection in self._all:
            connection.is_last = True

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

    def _pick(self) -> Connection | None:
        """The connection that was used last, so that those too many become idle."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    async def _take(self) -> Connection:
        """A connection: a new one if there may be more, else the next that is given back."""
        while True:
            if self._closed:
                raise LostError(_CLOSED)
            if self._open < self._most:
                return await self._dial()
            turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                given = await turn
            except asyncio.CancelledError:
                self._pass_on(turn)
                raise
            if given is not None and given.is_usable:
                return given

    def _pass_on(self, turn: "asyncio.Future[Connection | None]") -> None:
        """Somebody whose turn had come does not want it any more."""
        if turn.cancelled():
            return
        given = turn.result()
        if given is not None and given.is_usable:
            self._give_back(given)
        else:
            self._wake(None)

    async def _dial(self) -> Connection:
        self._open += 1
        try:
            connection = await self._dialer.dial(self._lost)
        except BaseException:
            self._open -= 1
            self._wake(None)
            raise
        if self._closed or not connection.is_usable:
            self._all[connection] = None
            connection.abort()
            raise LostError(_CLOSED if self._closed else "EOF")
        self._all[connection] = None
        self._connected()
        self._begin_sweeping()
        return connection

    def _give_back(self, connection: Connection) -> None:
        if self._waiting and self._wake(connection):
            return
        connection.deadline = asyncio.get_running_loop().time() + IDLE_SECONDS
        self._idle.append(connection)

    def _wake(self, given: Connection | None) -> bool:
        while self._waiting:
            if _tell(self._waiting.popleft(), given):
                return True
        return False

    def _lost(self, connection: Connection) -> None:
        if self._all.pop(connection, connection) is None:
            self._open -= 1
            if connection in self._idle:
                self._idle.remove(connection)
            self._wake(None)

    def _stream_lost(self, connection: Connection) -> None:
        self._streams.pop(connection, None)

    def _begin_sweeping(self) -> None:
        if self._sweeping is None and not self._closed:
            pause = min(5.0, self._timeout / 4)
            self._sweeping = asyncio.get_running_loop().call_later(pause, self._sweep)

    def _sweep(self) -> None:
        """End what is overdue: one timer for all is cheaper than one for each request."""
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        for connection in [*self._all, *self._streams]:
            if connection.deadline <= now:
                connection.abort(connection.overdue)
        if self._all or self._streams:
            self._begin_sweeping()


def _tell(turn: "asyncio.Future[Connection | None]", given: Connection | None) -> bool:
    if turn.done():
        return False
    turn.set_result(given)
    return True
