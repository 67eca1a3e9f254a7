"""Id tokens of OpenID Connect, renewed with a refresh token. What is renewed is kept in memory only."""

import asyncio
import base64
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import msgspec

from stowplan.client.http.connection import Answer, LostError
from stowplan.client.http.dialing import Dialer, DialError
from stowplan.client.http.pool import Pool
from stowplan.client.http.settings import Address, OpenIdConnect, Trust
from stowplan.client.http.tls import Tls
from stowplan.client.http.tokens import CredentialsError, bearer, expiry_of
from stowplan.clock import Clock

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
        """One request to the issuer, over a connection of its own."""
        try:
            address = Address.parse(url)
            tls = Tls(Trust(self._settings.authority, where="oidc")) if address.is_tls else None
            pool = Pool(Dialer(address, tls), most=1, timeout=_PATIENCE)
            try:
                answer = await pool.exchange(self._message(address, form))
            finally:
                pool.close()
            return _data(answer)
        except (DialError, LostError, ValueError) as error:
            raise CredentialsError(f"oidc: {url}: {error}") from None

    def _message(self, address: Address, form: bytes | None) -> bytes:
        method = "GET" if form is None else "POST"
        lines = [
            f"{method} {address.path} HTTP/1.1",
            f"Host: {address.authority}",
            "Accept: application/json",
        ]
        if form is not None:
            pair = f"{quote_plus(self._settings.client_id)}:{quote_plus(self._settings.client_secret)}"
            encoded = base64.b64encode(pair.encode()).decode()
            lines += [
                f"Authorization: Basic {encoded}",
                f"Content-Type: {_FORM}",
                f"Content-Length: {len(form)}",
            ]
        return "\r\n".join([*lines, "", ""]).encode() + (form or b"")


def _data(answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        raise ValueError(f"the issuer answered with code {answer.status}")
    found = msgspec.json.decode(answer.body)
    if not isinstance(found, dict):
        raise TypeError("expected a map")
    return found
