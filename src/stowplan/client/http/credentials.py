"""The Authorization of requests: fixed, read from a file again and again, printed by a command, or from an
OpenID Connect issuer."""

import asyncio
import base64
import binascii
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote_plus, urlencode

import msgspec

from stowplan.api.decode import UNDECODABLE, undecodable
from stowplan.api.meta import seconds_of
from stowplan.client.http.connection import HttpAnswer, LostError
from stowplan.client.http.dialer import Dialer, DialError
from stowplan.client.http.pool import ConnectionPool
from stowplan.client.http.requests import Common, Message
from stowplan.client.http.settings import AccessError, Address, ExecPlugin, Identity, OpenIdConnect, Trust
from stowplan.client.http.tls import Tls
from stowplan.runtime.clock import Clock


class CredentialsError(Exception):
    """Credentials that cannot be had now; one line that says why."""


class _Claims(msgspec.Struct):
    exp: float = 0.0


def bearer(token: str) -> str:
    """The header's value for a token. Raises CredentialsError for what would break a header."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsError("token: expected printable characters without blanks")
    return f"Bearer {token}"


def expiry_of(token: str) -> float:
    """When a JSON web token expires, in seconds since the epoch; 0 if it does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return 0.0
    try:
        text = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(text, type=_Claims, strict=False).exp
    except (binascii.Error, ValueError, RecursionError):
        return 0.0


PATIENCE: Final = 60.0
"""Seconds a command may take."""

_SHOWN: Final = 300
MOST_OUTPUT: Final = 1 << 20
"""Bytes that a command may print: a token and certificates are a few thousand."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds until a command runs again that gave nothing of use, at first and at the longest."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Printed(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class PluginCredentials:
    """Runs the command when it is needed: at first, after the expiry it told, and after a refusal.

    A command whose result is of no use (it fails, what it prints has expired or is refused) runs again only
    after a pause, longer each time: else each of many requests would start a process. Meanwhile requests
    are sent with what it gave last, as other clients do, or fail as the command did.
    """

    def __init__(self, plugin: ExecPlugin, clock: Clock, show: Callable[[bytes, bytes], None]) -> None:
        self._plugin = plugin
        self._clock = clock
        self._show = show
        self._value: str | None = None
        self._expires = float("inf")
        self._is_refused = False
        self._failure: CredentialsError | None = None
        self._pause = 0.0
        self._next_run = float("-inf")
        self._running: asyncio.Task[None] | None = None

    def header(self) -> str | None:
        is_good = not self._is_refused and self._clock.now() < self._expires
        is_all_there_is = self._failure is None and not self._may_run
        return self._value if is_good or is_all_there_is else None

    def refused(self, used: str) -> bool:
        if used == self._value:
            self._is_refused = True
        return self._may_run

    @property
    def _may_run(self) -> bool:
        return self._clock.monotonic() >= self._next_run

    async def renew(self) -> None:
        """Run the command once for all concurrent callers; it continues if one of them is cancelled."""
        if self._running is None:
            if self._failure is not None and not self._may_run:
                raise CredentialsError(str(self._failure))
            self._running = asyncio.create_task(self._run(), name="credential plugin")
            self._running.add_done_callback(self._done)
        await asyncio.shield(self._running)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._running = None
        if not task.cancelled():
            task.exception()

    async def _run(self) -> None:
        last = self._value
        try:
            await self._fetch()
        except CredentialsError as error:
            self._failure = error
            self._wait()
            raise
        self._failure = None
        is_same = self._is_refused and self._value == last
        self._is_refused = False
        if is_same or self._clock.now() >= self._expires:
            self._wait()
        else:
            self._pause, self._next_run = 0.0, float("-inf")

    def _wait(self) -> None:
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        self._next_run = self._clock.monotonic() + self._pause

    async def _fetch(self) -> None:
        printed = self._read(await self._output())
        found = printed.status
        if found is None or not (found.token or found.client_certificate_data):
            raise self._problem("expected a token or a certificate in `status`")
        if bool(found.client_certificate_data) != bool(found.client_key_data):
            raise self._problem("expected both clientCertificateData and clientKeyData in `status`, or none")
        if found.client_certificate_data:
            self._show(found.client_certificate_data.encode(), found.client_key_data.encode())
        self._expires = self._expiry(found.expiration_timestamp)
        self._value = bearer(found.token) if found.token else ""

    def _expiry(self, text: str | None) -> float:
        if not text:
            return float("inf")
        try:
            return seconds_of(text)
        except ValueError as error:
            raise self._problem(f"status.expirationTimestamp: {error}") from None

    def _read(self, output: bytes) -> _Printed:
        try:
            printed = msgspec.json.decode(output, type=_Printed)
        except UNDECODABLE as error:
            raise self._problem(f"expected an ExecCredential as JSON: {undecodable(error)}") from None
        if printed.kind != "ExecCredential" or printed.api_version != self._plugin.api_version:
            raise self._problem(
                f"expected an ExecCredential of {self._plugin.api_version}, "
                f"got kind {printed.kind!r} of {printed.api_version!r}"
            )
        return printed

    async def _output(self) -> bytes:
        plugin = self._plugin
        try:
            process = await asyncio.create_subprocess_exec(
                _command(plugin),
                *plugin.args,
                env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": _request(plugin)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
            raise self._problem(f"{(error.strerror or str(error)).lower()}{hint}") from None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE):
                output, complaints, _ = await asyncio.gather(
                    _taken(process.stdout), _taken(process.stderr), process.wait()
                )
        except BaseException as error:
            # With all that it has started, or that would keep our ends of the pipes open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, TimeoutError):
                raise self._problem(f"it took longer than {PATIENCE:.0f} s") from None
            if isinstance(error, _TooMuchError):
                raise self._problem(f"it printed more than {MOST_OUTPUT} bytes") from None
            raise
        if process.returncode:
            said = " ".join(complaints.decode("utf-8", "replace").split())[-_SHOWN:]
            raise self._problem(
                f"it failed with exit code {process.returncode}" + (f": {said}" if said else "")
            )
        return output

    def _problem(self, text: str) -> CredentialsError:
        return CredentialsError(f"exec: {self._plugin.command}: {text}")


class _TooMuchError(Exception):
    """A command prints more than can be used."""


async def _taken(stream: asyncio.StreamReader) -> bytes:
    """Everything that comes. Raises _TooMuchError."""
    taken = bytearray()
    while piece := await stream.read(1 << 16):
        taken += piece
        if len(taken) > MOST_OUTPUT:
            raise _TooMuchError
    return bytes(taken)


def _command(plugin: ExecPlugin) -> str:
    """The command to run: a relative path begins at the kubeconfig's folder, a bare name is looked for."""
    if os.sep in plugin.command and not Path(plugin.command).is_absolute():
        return str(Path(plugin.folder, plugin.command))
    return plugin.command


def _request(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    request = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(request).decode()


_PATIENCE: Final = 30.0
_EARLY: Final = 10.0
"""Seconds before its expiry from which on a token is not used any more."""

_DISCOVERY: Final = "/.well-known/openid-configuration"
_FORM: Final = "application/x-www-form-urlencoded"


class OidcCredentials:
    """An id token as long as it holds, then another one from the issuer."""

    def __init__(self, settings: OpenIdConnect, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._refresh_token = settings.refresh_token
        self._lock = asyncio.Lock()
        self._token = ""
        self._expires = 0.0
        self._keep(settings.id_token)

    def header(self) -> str | None:
        if not self._token or self._clock.now() >= self._expires - _EARLY:
            return None
        return bearer(self._token)

    def refused(self, used: str) -> bool:
        if used == bearer(self._token):
            self._token = ""
        return bool(self._token or self._refresh_token)

    async def renew(self) -> None:
        async with self._lock:
            if self.header() is None:
                await self._refresh()

    def _keep(self, token: str) -> None:
        self._token = token
        self._expires = expiry_of(token) or float("inf")

    async def _refresh(self) -> None:
        settings = self._settings
        if not (self._refresh_token and settings.issuer):
            raise CredentialsError(
                "oidc: the id token has expired, and there is no refresh-token to get another"
            )
        about = await self._ask(settings.issuer.rstrip("/") + _DISCOVERY)
        endpoint = about.get("token_endpoint")
        if not isinstance(endpoint, str):
            raise CredentialsError(f"oidc: {settings.issuer}: expected a token_endpoint in its configuration")
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        answer = await self._ask(endpoint, urlencode(form).encode())
        token = answer.get("id_token")
        if not isinstance(token, str) or not token:
            raise CredentialsError(f"oidc: {endpoint}: expected an id_token in its answer")
        rotated = answer.get("refresh_token")
        self._refresh_token = rotated if isinstance(rotated, str) and rotated else self._refresh_token
        self._keep(token)

    async def _ask(self, url: str, form: bytes | None = None) -> dict[str, Any]:
        """One request to the issuer, over a separate connection."""
        try:
            address = Address.parse(url)
            tls = Tls(Trust(self._settings.authority, where="oidc")) if address.is_tls else None
            pool = ConnectionPool(Dialer(address, tls), most=1, timeout=_PATIENCE)
            try:
                answer = await pool.exchange(self._message(address, form))
            finally:
                pool.close()
            return _data(answer)
        except RecursionError:
            raise CredentialsError(f"oidc: {url}: its answer is nested too deeply") from None
        except (DialError, LostError, ValueError) as error:
            raise CredentialsError(f"oidc: {url}: {error}") from None

    def _message(self, address: Address, form: bytes | None) -> Message:
        headers = [("Accept", "application/json")]
        if form is None:
            return Message(Common("GET", address, headers), "")
        pair = f"{quote_plus(self._settings.client_id)}:{quote_plus(self._settings.client_secret)}"
        encoded = base64.b64encode(pair.encode()).decode()
        headers += [("Authorization", f"Basic {encoded}"), ("Content-Type", _FORM)]
        return Message(Common("POST", address, headers), "", form)


def _data(answer: HttpAnswer) -> dict[str, Any]:
    if answer.status != 200:
        raise ValueError(f"the issuer answered with code {answer.status}")
    found = msgspec.json.decode(answer.body)
    if not isinstance(found, dict):
        raise ValueError("expected a map")  # noqa: TRY004 (an answer, not an argument)
    return found


REREAD_SECONDS: Final = 60.0


class Credentials(Protocol):
    """Our identity, as a header's value."""

    def header(self) -> str | None:
        """Current value, "" for none; None if it has to be renewed first."""
        ...

    async def renew(self) -> None:
        """Raises CredentialsError."""
        ...

    def refused(self, used: str) -> bool:
        """The server does not accept what was used; tells if there is, or may be, something else."""
        ...


def credentials_for(identity: Identity, clock: Clock, show: Callable[[bytes, bytes], None]) -> Credentials:
    """Credentials as settings say. `show` is called with a certificate and its key that a plugin gives."""
    if identity.plugin is not None:
        return PluginCredentials(identity.plugin, clock, show)
    if identity.oidc is not None:
        return OidcCredentials(identity.oidc, clock)
    if identity.token_file:
        return TokenFile(Path(identity.token_file), clock, identity.token)
    if identity.token:
        return Fixed(bearer(identity.token))
    if identity.username:
        pair = f"{identity.username}:{identity.password}".encode()
        return Fixed(f"Basic {base64.b64encode(pair).decode()}")
    return Fixed("")


class Fixed:
    """Always the same."""

    def __init__(self, value: str) -> None:
        self._value = value

    def header(self) -> str | None:
        return self._value

    async def renew(self) -> None:
        return None

    def refused(self, used: str) -> bool:
        return False


class TokenFile:
    """A token in a file that is rewritten before the token expires.

    It is read every minute. While the file cannot be read the last token is used, or at first the one that
    was given with it.
    """

    def __init__(self, path: Path, clock: Clock, token: str = "") -> None:
        self._path = path
        self._clock = clock
        self._value = bearer(token) if token else ""
        self._read_at = float("-inf")

    def header(self) -> str | None:
        return None if self._clock.monotonic() - self._read_at >= REREAD_SECONDS else self._value

    async def renew(self) -> None:
        try:
            text = self._path.read_text("utf-8").strip()
            if not text:
                raise CredentialsError(f"{self._path}: expected a token, got an empty file")
            self._value = bearer(text)
        except (OSError, UnicodeDecodeError, CredentialsError, AccessError) as error:
            if not self._value:
                problem = error.strerror if isinstance(error, OSError) else str(error)
                raise CredentialsError(f"token file {self._path}: {problem}") from None
        self._read_at = self._clock.monotonic()

    def refused(self, used: str) -> bool:
        if used == self._value:
            self._read_at = float("-inf")
        return True
