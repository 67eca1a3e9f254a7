"""The Authorization of requests: fixed, read from a file again and again, or fetched by somebody else."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from stowplan.client.http.execplugin import PluginCredentials
from stowplan.client.http.oidc import OidcCredentials
from stowplan.client.http.settings import AccessError, Identity
from stowplan.client.http.tokens import CredentialsError, bearer
from stowplan.clock import Clock

REREAD_SECONDS: Final = 60.0


class Credentials(Protocol):
    """Who we are, as a header's value."""

    def header(self) -> str | None:
        """What holds now, "" for nothing; None if it has to be renewed first."""
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
    """A token that somebody writes to a file, and writes anew before it expires.

    It is read every minute. While the file cannot be read the last token is used, or at first the one that
    was given beside it.
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
