"""Requests to one server: limited in their rate, with credentials, sent again where that does no harm."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from stowplan.api import status
from stowplan.api.status import ApiError
from stowplan.client.http import errors
from stowplan.client.http.availability import ProbeError, ServerAvailability
from stowplan.client.http.body import Body
from stowplan.client.http.connection import SILENT, Connection, HttpAnswer, HttpStream, LostError
from stowplan.client.http.credentials import Credentials, CredentialsError, credentials_for
from stowplan.client.http.dialer import CONNECT_SECONDS, Dialer, DialError, proxy_for
from stowplan.client.http.pool import MOST_CONNECTIONS, ConnectionPool, NotAllowedError
from stowplan.client.http.requests import Common, Message, with_timeout
from stowplan.client.http.settings import Server
from stowplan.client.http.tls import Tls
from stowplan.client.reflector import Retries
from stowplan.runtime.clock import Clock

LOST = 0
"""The status of an answer that did not come."""


class Observer(Protocol):
    """Observes requests to one server. It is on the path of every write, so it has to be cheap."""

    @property
    def timer(self) -> Callable[[], float]:
        """Seconds that pass."""
        ...

    def answered(self, method: str, status: int, held: float, size: int, again: bool) -> None:
        """A request with a body of `size` bytes, held back for `held` seconds, was answered or `LOST`.

        `again`: it had been sent before.
        """
        ...

    def ended(self, method: str, seconds: float, size: int) -> None:
        """A call has its final answer, of `size` bytes, after any number of tries."""
        ...

    def streaming(self, status: int) -> None:
        """A watch was begun, refused or `LOST`."""
        ...


DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100
_UNSET_QPS: Final = 5.0
_UNSET_BURST: Final = 10


class RateLimit:
    """`burst` requests at once, then `qps` a second, in the order they were asked for.

    As in a scheduler's configuration, 0 stands for 5 a second (and 10 at once), and a negative rate for none.
    """

    def __init__(self, clock: Clock, qps: float = DEFAULT_QPS, burst: int = DEFAULT_BURST) -> None:
        self._clock = clock
        self._qps = qps or _UNSET_QPS
        self._burst = float(burst or _UNSET_BURST)
        self._tokens = self._burst
        self._filled = clock.monotonic()

    def reserve(self) -> float:
        """Take one token; gives the seconds to wait until it is there."""
        if self._qps < 0:
            return 0.0
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._qps)
        self._filled = now
        self._tokens -= 1
        return 0.0 if self._tokens >= 0 else -self._tokens / self._qps

    def give_back(self) -> None:
        """Return a token that was not used after all."""
        self._tokens += 1

    async def wait(self, seconds: float) -> None:
        """Wait for a reserved token; who gives up returns it."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.give_back()
            raise


ANSWER_SECONDS: Final = 75.0
"""A server gives up after a minute itself, and says so."""

JSON: Final = "application/json"
_GET: Final = "GET"
_PROBED: Final = "/readyz"
_BIDDEN: Final = 10
"""How often a request is sent again because the server asks for that."""
_UNBIDDEN: Final = 3
"""How often because nothing, or nothing good, came back."""


class _Tries:
    """Repetitions of one request, and the pauses before them."""

    def __init__(self, rng: random.Random, pause: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        self._retries = Retries(rng, first=0.1, longest=5.0)
        self._pause = pause
        self._bidden = 0
        self._unbidden = 0
        self.renewed = False

    async def asked(self, seconds: float) -> bool:
        """Wait as long as the server asks, within limits; True to try again."""
        self._bidden += 1
        if self._bidden > _BIDDEN:
            return False
        await self._pause(seconds)
        return True

    async def hopeful(self, *, at_once: bool = False) -> bool:
        """Wait for the next try, within limits; True to try again."""
        self._unbidden += 1
        if self._unbidden > _UNBIDDEN:
            return False
        if not at_once:
            await self._pause(self._retries.next_pause())
        return True


class _Prober:
    """The connection for probes of one client, separate from those for requests.

    A probe has the credentials of the last request, and is neither counted nor limited.
    """

    def __init__(self, dialer: Dialer, message: Callable[[], Message]) -> None:
        self._dialer = dialer
        self._message = message
        self._kept: Connection | None = None

    def kept_probe(self) -> Coroutine[Any, Any, None] | None:
        kept = self._kept
        return None if kept is None or not kept.is_usable else self._ask(kept)

    async def fresh_probe(self) -> None:
        try:
            connection = await self._dialer.dial(lambda lost: None)
        except DialError as error:
            raise ProbeError(error.problem) from None
        await self._ask(connection)
        if self._kept is not None and self._kept is not connection:
            self._kept.abort()
        self._kept = connection

    async def _ask(self, connection: Connection) -> None:
        answered = False
        try:
            answer = await connection.send(self._message())
            answered = True
        except LostError as lost:
            raise ProbeError(lost.problem, closed=lost.problem == "EOF") from None
        finally:
            if not answered:
                connection.abort()
        if answer.status >= 500:
            raise ProbeError(f"{_PROBED} answers with code {answer.status}")

    def close(self) -> None:
        if self._kept is not None:
            self._kept.abort()


_NOT_OURS: Final = "another process may lead by now"


class Transport:
    """Sends requests and gives the bodies of good answers. Every failure is an `ApiError`.

    A `patient` one holds what cannot be sent, or may be sent again, while the server is gone, and sends it
    when the server is back. Writes are sent only while `may_write` allows it, and refused otherwise.
    """

    def __init__(
        self,
        server: Server,
        *,
        clock: Clock,
        rng: random.Random,
        limit: RateLimit,
        user_agent: str,
        environ: Mapping[str, str],
        connections: int = MOST_CONNECTIONS,
        answer_seconds: float = ANSWER_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        announced: str = "",
        observer: Observer | None = None,
        availability: ServerAvailability,
        patient: bool = False,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        address = server.address
        self._availability = availability
        self._patient = patient
        self._may_write = may_write
        self._observer = observer
        self._announced = announced
        self._server = server
        self._rng = rng
        self._limit = limit
        self._tls = Tls(server.trust) if address.is_tls else None
        if self._tls is not None:
            self._tls.context()
        proxy = server.proxy or proxy_for(address, environ)
        dialer = Dialer(
            address,
            self._tls,
            proxy,
            seconds=connect_seconds,
            offers_http2=not environ.get("DISABLE_HTTP2"),
        )
        self._pool = ConnectionPool(
            dialer, most=connections, timeout=answer_seconds, connected=availability.begin_watching
        )
        self._prober = _Prober(dialer, lambda: self._composed(_GET, _PROBED, b"", ""))
        self._credentials: Credentials = credentials_for(server.identity, clock, self._show)
        self._prefix = dialer.target_prefix
        self._headers = [
            ("User-Agent", user_agent),
            ("Accept", f"{JSON}, */*"),
            *server.identity.headers,
            *dialer.extra_headers,
        ]
        self._authorization = ""
        self._common: dict[tuple[str, str], Common] = {}
        availability.add(self)

    @property
    def availability(self) -> ServerAvailability:
        return self._availability

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "",
        *,
        repeatable: bool = False,
        once: bool = False,
        taken: Body | None = None,
    ) -> HttpAnswer:
        """Send a request and return its successful answer.

        `repeatable`: a write that is idempotent. `once`: do not retry on a server in trouble, because the
        caller does. `taken`: receives the body of the successful answer while it arrives.
        """
        path = with_timeout(path, self._announced)
        tries: _Tries | None = None
        observer = self._observer
        began = 0.0 if observer is None else observer.timer()
        while True:
            seconds = self._limit.reserve()
            if seconds:
                await self._limit.wait(seconds)
            message = await self._message(method, path, body, content_type)
            allowed = None if method == _GET else self._may_write
            if allowed is not None and not allowed():
                raise self._not_ours(method, path)
            used = self._authorization
            lost: LostError | DialError | None = None
            answer: HttpAnswer | None = None
            if self._availability.is_dozing:
                self._availability.rouse()
            try:
                answer = await self._pool.exchange(message, taken, allowed)
            except (LostError, DialError) as failure:
                lost = failure
            except NotAllowedError:
                raise self._not_ours(method, path) from None
            if observer is not None:
                code = LOST if answer is None else answer.status
                observer.answered(method, code, seconds, len(body), tries is not None)
            if answer is not None and 200 <= answer.status < 300:
                size = answer.size if taken is None else taken.size
                self._tell_end(method, began, size)
                return answer
            if tries is None:
                tries = _Tries(self._rng, self._availability.pause)
            harmless = repeatable or method == _GET
            if lost is not None:
                self._availability.suspect()
                harmless = harmless or isinstance(lost, DialError)
                if taken is not None and not taken.begin_anew():
                    self._tell_end(method, began, taken.size)
                    raise errors.unreachable(method, self.url(path), lost.problem) from None
                if harmless and await self._held_until_back(method, once=once):
                    continue
                if not await _may_repeat_lost(harmless, lost, tries):
                    self._tell_end(method, began, 0)
                    raise errors.unreachable(method, self.url(path), lost.problem) from None
            elif answer is not None:
                error = errors.refused(method, answer)
                if answer.status >= 500 and harmless and await self._held_until_back(method, once=once):
                    continue
                hopeful = method == _GET and not once
                if not await self._may_repeat_refused(error, used, tries, hopeful=hopeful):
                    self._tell_end(method, began, answer.size)
                    raise error

    async def stream(self, path: str, stream: HttpStream) -> Connection:
        """Begin a stream; it is tried once, because the caller restarts streams anyway."""
        seconds = self._limit.reserve()
        if seconds:
            await self._limit.wait(seconds)
        renewed = False
        while True:
            message = await self._message(_GET, path, b"", "")
            used = self._authorization
            if self._availability.is_dozing:
                self._availability.rouse()
            try:
                answer, connection = await self._pool.stream(message, stream)
            except (LostError, DialError) as lost:
                self._tell_stream(LOST)
                if lost.problem == SILENT:
                    continue
                self._availability.suspect()
                raise errors.unreachable(_GET, self.url(path), lost.problem) from None
            self._tell_stream(answer.status)
            if answer.status == 200:
                return connection
            connection.abort()
            if answer.status >= 500:
                self._availability.suspect()
            if answer.status != 401 or renewed or not self._may_get_in_otherwise(used):
                raise errors.refused(_GET, answer)
            renewed = True

    def url(self, path: str) -> str:
        """A path as people know it."""
        return f"{self._server.address}{path}"

    def close(self) -> None:
        self._availability.remove(self)
        self._prober.close()
        self._pool.close()

    # Detecting an unreachable server

    @property
    def last_heard(self) -> float | None:
        return self._pool.last_heard

    @property
    def expects_answer(self) -> bool:
        return self._pool.expects_answer

    @property
    def only_watches(self) -> bool:
        return self._pool.only_streams

    def kept_probe(self) -> Coroutine[Any, Any, None] | None:
        return self._prober.kept_probe()

    async def fresh_probe(self) -> None:
        await self._prober.fresh_probe()

    def end_silent(self, since: float, until: float) -> None:
        self._pool.end_silent(since, until)

    async def _held_until_back(self, method: str, *, once: bool) -> bool:
        """After a failure: whether to send again, as the server was gone and is back now.

        Raises `ApiError` for a write that must not be done any more.
        """
        if once or not self._patient:
            self._availability.suspect()
            return False
        if await self._availability.check():
            return False
        await self._availability.back()
        if method != _GET and not self._may_write():
            raise status.unreachable("the request was held while the server was gone, and is given up now")
        return True

    def _not_ours(self, method: str, path: str) -> ApiError:
        return ApiError(403, "Forbidden", f"{method} {self.url(path)}: not sent: {_NOT_OURS}")

    def _tell_end(self, method: str, began: float, size: int) -> None:
        if self._observer is not None:
            self._observer.ended(method, self._observer.timer() - began, size)

    def _tell_stream(self, status: int) -> None:
        if self._observer is not None:
            self._observer.streaming(status)

    async def _may_repeat_refused(self, error: ApiError, used: str, tries: _Tries, *, hopeful: bool) -> bool:
        """True to send a refused request again, after the wait that takes.

        A request that is refused with a time to wait had no effect: servers refuse it before they do
        anything.
        """
        if error.code == 401 and not tries.renewed and self._may_get_in_otherwise(used):
            tries.renewed = True
            return True
        if error.is_version_too_large:
            return False
        if (error.code == 429 or error.code >= 500) and error.retry_after is not None:
            return await tries.asked(float(error.retry_after))
        if error.code == 429 or (hopeful and error.code >= 500):
            return await tries.hopeful()
        return False

    def _may_get_in_otherwise(self, used: str) -> bool:
        """After a refusal of who we are: whether there is, or can be had, something else to show.

        Another certificate takes another connection, so those that exist serve no more.
        """
        certified = self._tls is not None and self._tls.shows_certificate
        if certified:
            self._pool.retire()
        return self._credentials.refused(used) or certified

    async def _message(self, method: str, path: str, body: bytes, content_type: str) -> Message:
        value = self._credentials.header()
        if value is None:
            try:
                await self._credentials.renew()
                value = self._credentials.header() or ""
            except CredentialsError as error:
                problem = f"getting credentials: {error}"
                raise errors.unreachable(method, self.url(path), problem) from None
        if value != self._authorization:
            self._authorization = value
            self._common.clear()
        return self._composed(method, path, body, content_type)

    def _composed(self, method: str, path: str, body: bytes, content_type: str) -> Message:
        common = self._common.get((method, content_type))
        if common is None:
            common = self._common[method, content_type] = self._common_of(method, content_type)
        return Message(common, path, body)

    def _common_of(self, method: str, content_type: str) -> Common:
        headers = [*self._headers]
        if self._authorization:
            headers.append(("Authorization", self._authorization))
        if content_type:
            headers.append(("Content-Type", content_type))
        return Common(method, self._server.address, headers, self._prefix)

    def _show(self, certificate: bytes, key: bytes) -> None:
        if self._tls is not None and self._tls.show(certificate, key):
            self._pool.retire()


async def _may_repeat_lost(harmless: bool, lost: LostError | DialError, tries: _Tries) -> bool:
    """True to send a request again whose answer did not come.

    It may have been done, unless nothing was sent.
    """
    if isinstance(lost, DialError):
        return lost.again and await tries.hopeful()
    if not harmless:
        return False
    return await tries.hopeful(at_once=lost.reused and not lost.answered)
